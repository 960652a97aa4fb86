package main

import (
	"errors"
	"os"
	"path/filepath"

	"edgepod/server/api"
	"edgepod/server/registry"
	"edgepod/server/store"
)

// served lists what the API serves, which a registry over an empty store knows.
func served() (resources []*registry.Resource, err error) {
	dir, err := os.MkdirTemp("", "edgepod-generate-*")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := store.Open(store.Config{Path: filepath.Join(dir, "db")})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	r, err := registry.New(registry.Config{Store: s})
	if err != nil {
		return nil, err
	}
	return api.Resources(r.Resources()), nil
}
