// Package openapi holds the OpenAPI documents of what the API serves, made at build time and embedded compressed.
package openapi

import (
	"embed"
	"io/fs"
	"strings"
)

// The folder is empty but for its README where the generator has not run.
//
//go:embed data
var data embed.FS

// Document is one document as JSON (or protobuf), compressed with gzip.
type Document struct {
	// Path of what it describes, as in "api/v1" and "apis/apps/v1".
	Path string
	GZ   []byte
}

// V3 returns the documents of version 3, ordered by path; none where the generator has not run.
func V3() ([]Document, error) {
	names, err := fs.Glob(data, "data/v3/*.json.gz")
	if err != nil {
		return nil, err
	}
	var documents []Document
	for _, name := range names {
		gz, err := data.ReadFile(name)
		if err != nil {
			return nil, err
		}
		path := strings.TrimSuffix(strings.TrimPrefix(name, "data/v3/"), ".json.gz")
		documents = append(documents, Document{Path: strings.ReplaceAll(path, "__", "/"), GZ: gz})
	}
	return documents, nil
}

// V2 returns the document of version 2 as JSON and as protobuf, nil where the generator has not run.
func V2() (json, protobuf []byte) {
	return read("data/v2.json.gz"), read("data/v2.pb.gz")
}

func read(name string) []byte {
	content, err := data.ReadFile(name)
	if err != nil {
		return nil
	}
	return content
}
