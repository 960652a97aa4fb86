package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestMachinesNamesBecomeNamesOfNodes(t *testing.T) {
	for hostname, want := range map[string]string{
		"vm": "vm", "My_Host": "my-host", "Edge.Example.ORG": "edge.example.org", "-a-.--._b_": "a.b", "": "node", "___": "node",
		"größe": "gr--e", "a..b": "a.b", "Host (2)": "host--2",
		strings.Repeat("x", 70): strings.Repeat("x", 63), strings.Repeat("x", 62) + ".y": strings.Repeat("x", 62),
	} {
		got := nodeNameOf(hostname)
		if got != want {
			t.Errorf("nodeNameOf(%q) = %q, want %q", hostname, got, want)
		}
		if err := checkNodeName("--node-name", got); err != nil {
			t.Error(err)
		}
	}
}

func FuzzMachinesNamesBecomeNamesOfNodes(f *testing.F) {
	f.Add("My_Host.-ß")
	f.Fuzz(func(t *testing.T, hostname string) {
		if err := checkNodeName("--node-name", nodeNameOf(hostname)); err != nil {
			t.Errorf("of %q: %v", hostname, err)
		}
	})
}

func TestWhatANodeCannotHaveIsRefused(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	good := clusterOptions{nodeName: "a", nodeIP: "fd00::1", hostPaths: []string{dir}, images: imageOptions{dirs: []string{"."}, high: 85, low: 80}}
	if err := good.checkNode(); err != nil || good.images.dirs[0] != dir {
		t.Errorf("good options: got folder %s, %v", good.images.dirs[0], err)
	}
	for _, test := range []struct {
		o    clusterOptions
		want string
	}{
		{clusterOptions{}, `--node-name ""`},
		{clusterOptions{nodeName: "My_Host"}, `--node-name "My_Host"`},
		{clusterOptions{nodeName: strings.Repeat("x", 64)}, "--node-name"},
		{clusterOptions{nodeName: "a", nodeIP: "1.2"}, "--node-ip"},
		{clusterOptions{nodeName: "a", images: imageOptions{dirs: []string{dir, "none"}}}, `--image-dir "none"`},
		{clusterOptions{nodeName: "a", hostPaths: []string{file}}, "is not a folder"},
	} {
		if err := test.o.checkNode(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: got %v, want %s", test.o, err, test.want)
		}
	}
	for host, good := range map[string]bool{"edge.example.org": true, "192.0.2.1": true, "fd00::1": true, "Edge": true, "!!": false, "a:6443": false, "": false} {
		o := clusterOptions{hosts: []string{host}}
		if err := o.checkServer(); (err == nil) != good {
			t.Errorf("--host %q: got %v", host, err)
		}
	}
}

// TestMissingDocumentsAreMadeAgain asks make what it would do where the list of documents is newer than its sources.
func TestMissingDocumentsAreMadeAgain(t *testing.T) {
	dir := t.TempDir()
	list, document := filepath.Join(dir, "list"), filepath.Join(dir, "v3", "a.json.gz")
	if err := os.MkdirAll(filepath.Dir(document), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{document, list} {
		if err := os.WriteFile(path, []byte(document+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	would := func() string {
		out, err := exec.Command("make", "-n", "OPENAPI="+list, "OPENAPI_DATA="+dir, list).CombinedOutput()
		if err != nil {
			t.Fatalf("make -n: %v\n%s", err, out)
		}
		return string(out)
	}
	if out := would(); strings.Contains(out, "openapi/generate") {
		t.Errorf("documents that are there are made again: %s", out)
	}
	if err := os.Remove(document); err != nil {
		t.Fatal(err)
	}
	if out := would(); !strings.Contains(out, "openapi/generate") {
		t.Errorf("a document is missing, and make would only do: %s", out)
	}
}
