package compile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"

	"edgepod/wasmrt/engine"
	"edgepod/wasmrt/engine/wazero"
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
		return Result{Damaged: true}, nil, nil
	}
	var debug []byte
	if job.Debug != "" {
		if debug, err = os.ReadFile(job.Debug); err != nil && !errors.Is(err, os.ErrNotExist) {
			return Result{}, nil, fmt.Errorf("read what a debugger needs of the module: %w", err)
		}
	}
	layers := harden.Apply(harden.Options{
		UID: job.UID, GID: job.GID, UserNamespace: job.UserNamespace,
		Writable: []string{job.Out}, Jail: job.Out, Files: 64, CPU: job.CPU, Data: job.Memory, Code: true, OOMScore: 1000,
	})
	// Its folder is the working directory, whether the jail holds or not.
	res, err := work(ctx, wasm, debug, ".")
	return res, layers, err
}

func work(ctx context.Context, wasm, debug []byte, out string) (Result, error) {
	err := wazero.Save(ctx, wasm, debug, out)
	if refused := (*engine.RefusedError)(nil); errors.As(err, &refused) {
		return Result{Error: refused.Error()}, nil
	}
	return Result{}, err
}
