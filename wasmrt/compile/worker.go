package compile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tetratelabs/wazero"

	"edgepod/wasmrt/harden"
	"edgepod/wasmrt/sandbox"
)

// Work compiles a module in this process, which is hardened before it looks at the module and good for nothing else
// afterwards. It returns which layers of hardening held.
func Work(ctx context.Context, job Job) (Result, []sandbox.Layer, error) {
	wasm, err := os.ReadFile(job.Module)
	if err != nil {
		return Result{}, nil, fmt.Errorf("read module: %w", err)
	}
	if sum := sha256.Sum256(wasm); hex.EncodeToString(sum[:]) != job.Sum {
		return Result{}, nil, errors.New("the stored module is damaged: its checksum is not what it was")
	}
	layers := harden.Apply(harden.Options{
		UID: job.UID, GID: job.GID, UserNamespace: job.UserNamespace,
		Writable: []string{job.Out}, Jail: job.Out, Files: 64, CPU: job.CPU, Data: job.Memory, Code: true, OOMScore: 1000,
	})
	out := job.Out
	for _, l := range layers {
		if l.Name == harden.LayerJail && l.Held {
			out = "/"
		}
	}
	res, err := work(ctx, wasm, out)
	return res, layers, err
}

func work(ctx context.Context, wasm []byte, out string) (Result, error) {
	cache, err := wazero.NewCompilationCacheWithDir(out)
	if err != nil {
		return Result{}, fmt.Errorf("make code folder: %w", err)
	}
	rt := wazero.NewRuntimeWithConfig(ctx, EngineConfig(cache))
	if _, err := rt.CompileModule(ctx, wasm); err != nil {
		return Result{Error: Explain(err)}, nil
	}
	code, err := findEntry(out)
	if err != nil {
		return Result{}, err
	}
	return Result{Code: code}, nil
}

// findEntry returns the one file that the engine wrote.
func findEntry(out string) (Code, error) {
	var code Code
	err := filepath.WalkDir(out, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(out, p)
		if err != nil {
			return err
		}
		if code.Entry != "" {
			return fmt.Errorf("the engine wrote more than one file: %s and %s", code.Entry, rel)
		}
		code.Entry = rel
		code.Sum, code.Size, err = SumFile(p)
		return err
	})
	if err == nil && code.Entry == "" {
		err = errors.New("the engine wrote no code")
	}
	return code, err
}

// SumFile returns the SHA-256 of a file in hexadecimal, and its size.
func SumFile(path string) (sum string, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	h := sha256.New()
	size, err = io.CopyBuffer(h, onlyReader{f}, make([]byte, 1<<17))
	return hex.EncodeToString(h.Sum(nil)), size, errors.Join(err, f.Close())
}

// onlyReader hides a file's other methods, so that the buffer given is used.
type onlyReader struct{ io.Reader }
