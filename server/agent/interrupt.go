package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"edgepod/wasmrt/sandbox"
)

// Interrupt notes in the data folder of an agent that does not run that the node ends what still runs of its pods: the next
// agent starts them again, whatever their restart policy, as after StopPods. It stops nothing itself.
func Interrupt(dataDir string) error {
	folders, err := filepath.Glob(filepath.Join(dataDir, "pods", "*_*_*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, path := range folders {
		if err := interrupt(podFolder(path)); err != nil {
			errs = append(errs, fmt.Errorf("interrupt the pod in %s: %w", path, err))
		}
	}
	return errors.Join(errs...)
}

func interrupt(folder podFolder) error {
	c, err := folder.load()
	if err != nil || c == nil {
		return err
	}
	for _, s := range c.Observed.Containers {
		if s.State == sandbox.StateRunning {
			s.Interrupted = true
		}
	}
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return folder.save(data)
}
