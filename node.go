package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"edgepod/wasmrt/guest"
	"edgepod/wasmrt/process"
	"edgepod/wasmrt/sandbox"
)

// stopGrace is how long containers get to end when edgepod stops them with itself.
const stopGrace = 10 * time.Second

// runtimePath is where a node keeps its images and sandboxes.
func runtimePath(dataDir string) string { return filepath.Join(dataDir, "runtime") }

// newRuntime opens the runtime of the node in a data folder, with what else the configuration says. Modules given to `run`
// are images of every node on the machine that shares the folder.
func newRuntime(dataDir string, config process.Config) (sandbox.Runtime, error) {
	config.Dir, config.Builtins = runtimePath(dataDir), guest.Modules()
	config.ImageDirs = append([]string{modulesPath(dataDir)}, config.ImageDirs...)
	return process.New(config)
}

// runtimeConfig returns the settings of the node's runtime, which reaches the cluster's registry of images by the transport.
func (o *clusterOptions) runtimeConfig(images http.RoundTripper, log *slog.Logger) process.Config {
	return process.Config{
		Cluster:   images,
		ImageDirs: o.images.dirs, Registries: o.images.found, NoAliases: !o.images.aliases, MaxImageSize: int64(o.images.maxSize),
		CompileCPU: o.images.compileCPU, CompileMemory: int64(o.images.compileMemory), CodeCacheSize: int64(o.images.codeSize), Log: log,
	}
}

// stopPods ends every container of the runtime within the grace, each pod beside the others, and removes the sandboxes.
// The pods themselves stay in the store. When ctx ends, what still runs is killed.
func stopPods(ctx context.Context, runtime sandbox.Runtime, grace time.Duration) error {
	sandboxes, err := runtime.List(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	errs := make([]error, len(sandboxes))
	var wait sync.WaitGroup
	for i, s := range sandboxes {
		wait.Go(func() {
			if err := stopPod(ctx, s, grace); err != nil {
				spec := s.Spec()
				errs[i] = fmt.Errorf("stop pod %s/%s: %w", spec.Namespace, spec.Name, err)
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

func stopPod(ctx context.Context, s sandbox.Sandbox, grace time.Duration) error {
	background := context.WithoutCancel(ctx)
	attempts, err := s.Status(background)
	if err != nil {
		return err
	}
	var wait sync.WaitGroup
	for _, attempt := range attempts {
		if attempt.State == sandbox.StateExited {
			continue
		}
		wait.Go(func() {
			// Whatever does not stop is killed by Remove, whose error is the one that counts.
			_ = s.Stop(ctx, attempt.ID, grace)
		})
	}
	wait.Wait()
	return s.Remove(background)
}
