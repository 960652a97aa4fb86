package main

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "edgepod"

// wall is a direction of dependency that the architecture forbids. Packages are named by import path, "/..." standing for
// all below; those of ours without the module's name.
type wall struct {
	name   string
	from   []string
	except []string
	// to may not be imported by from; with reach, not even through others.
	to     []string
	unless []string
	reach  bool
}

var walls = []wall{
	{name: "the scheduler is a library", from: []string{"sched/..."}, to: []string{module + "/..."}, unless: []string{"sched/..."}},
	{name: "the runtime is a library", from: []string{"wasmrt/..."}, to: []string{module + "/..."}, unless: []string{"wasmrt/..."}},
	{name: "the runtime knows nothing of Kubernetes", from: []string{"wasmrt/..."}, to: []string{"k8s.io/...", "sigs.k8s.io/..."}, reach: true},
	{name: "the seam is made of plain words", from: []string{"wasmrt/sandbox"}, to: []string{module + "/...", "github.com/...", "golang.org/...", "k8s.io/..."}, reach: true},
	{name: "no guest code in the server or the agent", from: []string{"server/..."}, to: []string{"github.com/tetratelabs/wazero/..."}, reach: true},
	{name: "agent and engine meet in the seam alone", from: []string{"server/..."}, to: []string{"wasmrt/..."}, unless: []string{"wasmrt/sandbox/..."}},
	{name: "upstream's internals have one door", from: []string{module + "/..."}, except: []string{"server/registry/upstream"}, to: []string{"k8s.io/kubernetes/..."}},
	{name: "echo has one home", from: []string{module + "/..."}, except: []string{"server/api/..."}, to: []string{"github.com/labstack/echo/..."}},
	{name: "the databases have one home", from: []string{module + "/..."}, except: []string{"server/store/..."}, to: []string{"go.etcd.io/..."}},
	{name: "wazero has one home", from: []string{module + "/..."}, except: []string{"wasmrt/engine/wazero"}, to: []string{"github.com/tetratelabs/wazero/..."}},
	{name: "the second engine is for tests", from: []string{module + "/..."}, except: []string{"wasmrt/engine/wazy"}, to: []string{"github.com/samyfodil/wazy/..."}, reach: true},
	{name: "cgroups have one home", from: []string{module + "/..."}, except: []string{"wasmrt/cgroup"}, to: []string{"github.com/containerd/cgroups/..."}},
	{name: "cobra is the command line's", from: []string{module + "/..."}, except: []string{module}, to: []string{"github.com/spf13/cobra/..."}},
	{name: "the typed clientset stays out", from: []string{module + "/..."}, to: []string{"k8s.io/client-go/kubernetes"}},
	{name: "kustomize stays out", from: []string{module + "/..."}, to: []string{"sigs.k8s.io/kustomize/..."}, reach: true},
}

func TestImportsStayBehindTheWalls(t *testing.T) {
	imports := packageImports(t)
	for _, w := range walls {
		t.Run(w.name, func(t *testing.T) {
			matched := false
			for from := range imports {
				if !matches(from, w.from) || matches(from, w.except) {
					continue
				}
				matched = true
				if path := breach(imports, from, w); path != nil {
					t.Errorf("forbidden: %s", strings.Join(path, " imports "))
				}
			}
			if !matched {
				t.Errorf("no package matches %v: the wall stands in the void", w.from)
			}
		})
	}
}

// breach returns the chain of imports by which from breaks the wall, nil where it does not.
func breach(imports map[string][]string, from string, w wall) []string {
	came := map[string]string{from: ""}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		for _, to := range imports[queue[0]] {
			if _, seen := came[to]; seen {
				continue
			}
			came[to] = queue[0]
			if matches(to, w.to) && !matches(to, w.unless) {
				chain := []string{to}
				for at := queue[0]; at != ""; at = came[at] {
					chain = append(chain, at)
				}
				slices.Reverse(chain)
				return chain
			}
			if w.reach {
				queue = append(queue, to)
			}
		}
	}
	return nil
}

// matches tells whether a package is one of the patterns.
func matches(pkg string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		if !strings.Contains(strings.Split(pattern, "/")[0], ".") && pattern != module && pattern != module+"/..." {
			pattern = module + "/" + pattern
		}
		prefix, below := strings.CutSuffix(pattern, "/...")
		return pkg == prefix || below && strings.HasPrefix(pkg, prefix+"/")
	})
}

// packageImports returns what each package imports that edgepod is made of, the programs that only build it left out.
func packageImports(t *testing.T) map[string][]string {
	t.Helper()
	cmd := exec.Command("go", "list", "-tags", "grpcnotrace", "-deps", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v", cmd, describeExit(err))
	}
	imports := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if !strings.HasSuffix(fields[0], "/generate") {
			imports[fields[0]] = fields[1:]
		}
	}
	return imports
}

func describeExit(err error) error {
	if exit, ok := err.(*exec.ExitError); ok {
		return fmt.Errorf("%w\n%s", err, exit.Stderr)
	}
	return err
}
