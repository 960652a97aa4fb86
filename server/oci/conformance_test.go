package oci_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestConformsToTheDistributionSpecification runs the specification's own suite, with all that its version 1.1 asks for and
// may be asked for.
func TestConformsToTheDistributionSpecification(t *testing.T) {
	program := filepath.Join(t.TempDir(), "conformance")
	build := exec.Command("go", "build", "-C", "testdata/conformance", "-o", program, "github.com/opencontainers/distribution-spec/conformance")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build, err, out)
	}
	dir := t.TempDir()
	c := start(t, dir, nil)
	c.namespace("conformance")
	suite := exec.CommandContext(t.Context(), program)
	suite.Env = append(os.Environ(),
		"SSL_CERT_FILE="+filepath.Join(dir, "pki", "ca.crt"), "OCI_REGISTRY="+c.host, "OCI_TLS=enabled", "OCI_VERSION=1.1",
		"OCI_REPO1=conformance/repo1", "OCI_REPO2=conformance/repo2", "OCI_USERNAME=whoever", "OCI_PASSWORD="+c.token, "OCI_RESULTS_DIR="+t.TempDir(),
		"OCI_API_BLOBS_DIGEST_HEADER=true", "OCI_API_BLOBS_UPLOAD_CANCEL=true", "OCI_API_MANIFESTS_DIGEST_HEADER=true",
	)
	out, err := suite.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	_, result, ok := strings.Cut(string(out), "OCI Conformance Result: ")
	if !ok || !strings.HasPrefix(result, "Pass") {
		t.Errorf("result: %s", result)
	}
	for _, line := range strings.Split(result, "\n") {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "..")
		if value = strings.TrimLeft(value, ".: "); (name == "FAIL" || name == "Skip" || name == "Error") && value != "0" {
			t.Errorf("%s: %s", name, value)
		}
	}
}
