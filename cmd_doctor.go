package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"edgepod/wasmrt/process"
	"edgepod/wasmrt/sandbox"
)

func doctorCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Say what this machine can enforce and what not, with a fix for each",
		Args:  noArguments,
		RunE: func(*cobra.Command, []string) error {
			layers, err := machineLayers()
			if err != nil {
				return err
			}
			layers = append(layers, dataDirLayer(a.dataDir))
			return printLayers(a.out, layers)
		},
	}
}

// machineLayers tries on a runtime of its own, in a temporary folder, what holds on this machine.
func machineLayers() ([]sandbox.Layer, error) {
	dir, err := os.MkdirTemp("", "edgepod-doctor-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	runtime, err := newRuntime(dir, process.Config{})
	if err != nil {
		return nil, err
	}
	defer runtime.Close()
	return runtime.Layers(), nil
}

// dataDirLayer tells whether a cluster could start in the data folder.
func dataDirLayer(dir string) sandbox.Layer {
	layer := sandbox.Layer{Name: "data-folder", Fix: "choose another folder with --data-dir"}
	if !exists(dir) {
		layer.Held = true
		return layer
	}
	file, err := os.CreateTemp(dir, ".doctor-")
	if err != nil {
		layer.Reason = err.Error()
		return layer
	}
	file.Close()
	layer.Held = os.Remove(file.Name()) == nil
	return layer
}

func printLayers(out io.Writer, layers []sandbox.Layer) error {
	missing := 0
	for _, l := range layers {
		mark, reason := "ok", ""
		if !l.Held {
			missing++
			mark, reason = "no", ": "+strings.TrimSpace(l.Reason)
		}
		if _, err := fmt.Fprintf(out, "%s  %s%s\n", mark, l.Name, reason); err != nil {
			return err
		}
		if l.Fix != "" && !l.Held {
			fmt.Fprintf(out, "    fix: %s\n", l.Fix)
		}
	}
	verdict := "Everything holds."
	if missing > 0 {
		verdict = fmt.Sprintf("%d of %d do not hold; edgepod runs without them, and says so in the node's conditions.", missing, len(layers))
	}
	_, err := fmt.Fprintln(out, "\n"+verdict)
	return err
}
