package wazero_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"edgepod/wasmrt/engine"
	"edgepod/wasmrt/engine/enginetest"
	"edgepod/wasmrt/engine/wazero"
)

// saving makes an engine that saves each module and loads it again.
type saving struct {
	t     *testing.T
	cfg   engine.Config
	loads []engine.Engine
}

func (s *saving) Compile(ctx context.Context, wasm []byte) (engine.Module, error) {
	dir := s.t.TempDir()
	if err := wazero.Save(ctx, wasm, nil, dir); err != nil {
		return nil, err
	}
	e, m, err := wazero.Load(ctx, s.cfg, dir)
	if err == nil {
		s.loads = append(s.loads, e)
	}
	return m, err
}

func (s *saving) Close(ctx context.Context) (err error) {
	for _, e := range s.loads {
		err = errors.Join(err, e.Close(ctx))
	}
	return err
}

func TestSavedModulesPassTheSuite(t *testing.T) {
	enginetest.Run(t, func(_ context.Context, cfg engine.Config) engine.Engine { return &saving{t: t, cfg: cfg} })
}

// TestShellNeverRuns loads modules whose code is missing or damaged: their shells, which are valid modules, must not be
// compiled in its place.
func TestShellNeverRuns(t *testing.T) {
	wasm := enginetest.Assemble(t, `(module (func (export "_start")))`)
	for name, damage := range map[string]func(path string) error{
		"missing": os.Remove,
		"empty":   func(path string) error { return os.Truncate(path, 0) },
		"cut off": func(path string) error { return os.Truncate(path, 40) },
		"changed": func(path string) error {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			data[len(data)/2] ^= 1
			return os.WriteFile(path, data, 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := wazero.Save(t.Context(), wasm, nil, dir); err != nil {
				t.Fatal(err)
			}
			files, err := filepath.Glob(filepath.Join(dir, "code", "wazero-*", "*"))
			if err != nil || len(files) != 1 {
				t.Fatalf("files of code: %v, %v; want one", files, err)
			}
			if err := damage(files[0]); err != nil {
				t.Fatal(err)
			}
			if _, _, err := wazero.Load(t.Context(), engine.Config{}, dir); err == nil {
				t.Error("a module without its code was loaded")
			}
		})
	}
}

func TestSavedModuleHasItsPagesBounded(t *testing.T) {
	dir := t.TempDir()
	if err := wazero.Save(t.Context(), enginetest.Assemble(t, `(module (memory 20))`), nil, dir); err != nil {
		t.Fatal(err)
	}
	if _, _, err := wazero.Load(t.Context(), engine.Config{Pages: 10}, dir); err == nil || !strings.Contains(err.Error(), "memory") {
		t.Errorf("load with less memory than the module begins with: %v", err)
	}
}

func TestModulesThatNeedMoreAreRefusedByTheProposalsName(t *testing.T) {
	for proposal, wasm := range enginetest.Proposals(t) {
		var refused *engine.RefusedError
		err := wazero.Save(t.Context(), wasm, nil, t.TempDir())
		if !errors.As(err, &refused) || refused.Proposal != proposal {
			t.Errorf("got %v, want a refusal for %q", err, proposal)
		}
	}
}
