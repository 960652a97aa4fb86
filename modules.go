package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
)

// moduleAge is how old a copy of `run` must be to be removed, which `run` makes before the pod that names it.
const moduleAge = 24 * time.Hour

// tidyModules removes the copies of modules that no pod names any more, now and once a day, until ctx ends.
func tidyModules(ctx context.Context, core rest.Interface, folder string, log *slog.Logger) {
	tick := time.NewTicker(moduleAge)
	defer tick.Stop()
	for {
		if err := removeOldModules(ctx, core, folder, time.Now()); err != nil && ctx.Err() == nil {
			log.Warn("old copies of modules were not removed", "folder", folder, "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// removeOldModules asks for the pods only where there is something that might be removed.
func removeOldModules(ctx context.Context, core rest.Interface, folder string, now time.Time) error {
	old, err := oldModules(folder, now)
	if err != nil || len(old) == 0 {
		return err
	}
	if err := spareNamed(ctx, core, old); err != nil {
		return err
	}
	var errs []error
	for name := range old {
		if err := os.Remove(filepath.Join(folder, name)); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// oldModules returns the names of the copies, whole and half, that are older than moduleAge.
func oldModules(folder string, now time.Time) (map[string]bool, error) {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	old := map[string]bool{}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || !info.Mode().IsRegular() {
			continue // gone, or none of ours
		}
		ours := filepath.Ext(info.Name()) == ".wasm" || strings.HasPrefix(info.Name(), importPrefix)
		if ours && now.Sub(info.ModTime()) > moduleAge {
			old[info.Name()] = true
		}
	}
	return old, err
}

// spareNamed takes the files that pods name as images out of the set, in whatever way a path leads to them: their names are
// digests.
func spareNamed(ctx context.Context, core rest.Interface, names map[string]bool) error {
	for next := ""; ; {
		pods := &corev1.PodList{}
		if err := core.Get().Resource("pods").Param("limit", "500").Param("continue", next).Do(ctx).Into(pods); err != nil {
			return err
		}
		for i := range pods.Items {
			spec := &pods.Items[i].Spec
			for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
				for _, c := range containers {
					delete(names, filepath.Base(c.Image))
				}
			}
		}
		if next = pods.Continue; next == "" {
			return nil
		}
	}
}
