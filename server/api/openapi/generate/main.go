// Command generate writes the OpenAPI documents of what the registry serves into server/api/openapi/data: Kubernetes' own
// published documents, as its module carries them, without the paths, verbs and types that are not served here.
//
// Run it from the root of the repository: go run -tags grpcnotrace ./server/api/openapi/generate
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"edgepod/server/registry"
)

func main() {
	out := flag.String("out", "server/api/openapi/data", "the folder to write to")
	flag.Parse()
	if err := run(*out); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func run(out string) error {
	source, err := upstreamDocuments()
	if err != nil {
		return err
	}
	resources, err := served()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(out, "v3"), 0o755); err != nil {
		return err
	}
	done := map[schema.GroupVersion]bool{}
	for _, res := range resources {
		gv := res.Kind.GroupVersion()
		if done[gv] {
			continue
		}
		done[gv] = true
		if err := writeV3(source, out, gv, resources); err != nil {
			return fmt.Errorf("document of %s: %w", gv, err)
		}
	}
	return writeV2(source, out, resources)
}

// upstreamDocuments finds the folder with the published documents in the module of Kubernetes.
func upstreamDocuments() (string, error) {
	cmd := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes")
	cmd.Stderr = os.Stderr
	dir, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("find the module k8s.io/kubernetes: %w", err)
	}
	return filepath.Join(strings.TrimSpace(string(dir)), "api", "openapi-spec"), nil
}

// name of a group's document: in the module with the ending _openapi.json, in the program's data .json.gz.
func nameOf(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "api__" + gv.Version
	}
	return "apis__" + gv.Group + "__" + gv.Version
}

func writeV3(source, out string, gv schema.GroupVersion, resources []*registry.Resource) error {
	document, err := load(filepath.Join(source, "v3", nameOf(gv)+"_openapi.json"))
	if err != nil {
		return err
	}
	keep(document, resources)
	components := document["components"].(map[string]any)
	components["schemas"] = reachable(document["paths"], components["schemas"].(map[string]any), "#/components/schemas/")
	return writeJSON(filepath.Join(out, "v3", nameOf(gv)+".json.gz"), document)
}

func writeV2(source, out string, resources []*registry.Resource) error {
	document, err := load(filepath.Join(source, "swagger.json"))
	if err != nil {
		return err
	}
	keep(document, resources)
	document["definitions"] = reachable(document["paths"], document["definitions"].(map[string]any), "#/definitions/")
	if err := writeJSON(filepath.Join(out, "v2.json.gz"), document); err != nil {
		return err
	}
	text, err := json.Marshal(document)
	if err != nil {
		return err
	}
	parsed, err := openapi_v2.ParseDocument(text)
	if err != nil {
		return err
	}
	encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(parsed)
	if err != nil {
		return err
	}
	return writeGZ(filepath.Join(out, "v2.pb.gz"), encoded)
}

func load(path string) (map[string]any, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	document := map[string]any{}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return document, decoder.Decode(&document)
}

func writeJSON(path string, document any) error {
	text, err := json.Marshal(document)
	if err != nil {
		return err
	}
	return writeGZ(path, text)
}

func writeGZ(path string, content []byte) error {
	var buf bytes.Buffer
	z, err := gzip.NewWriterLevel(&buf, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := z.Write(content); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return os.WriteFile(path, buf.Bytes(), 0o644)
}
