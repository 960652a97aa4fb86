package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// scriptTimeout is the longest that any one program of a script may take to start or stop.
const scriptTimeout = 90 * time.Second

// TestExamples runs each example as its README tells, with kubectl against a cluster of its own.
func TestExamples(t *testing.T) { runScripts(t, "examples/*/*.txtar") }

// TestCommandLine runs the scripts about edgepod's own commands, restarts, several nodes and bad input.
func TestCommandLine(t *testing.T) { runScripts(t, "testdata/*.txtar") }

func runScripts(t *testing.T, pattern string) {
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts match %s (%v)", pattern, err)
	}
	built := buildPrograms(t)
	// What this process catches has its default action in the programs that it starts, also where the tests run under nohup.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(hangups) })
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		if name == "test" {
			name = filepath.Base(filepath.Dir(file))
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testscript.Run(t, testscript.Params{
				Files:               []string{file},
				RequireExplicitExec: true,
				Setup:               built.setup,
				Cmds: map[string]func(*testscript.TestScript, bool, []string){
					"kubectl":  runProgram(built.kubectl),
					"edgepod":  runProgram(built.edgepod),
					"cluster":  built.cluster,
					"start":    built.start,
					"halt":     stopProgram,
					"wasm":     buildGuest,
					"expand":   expandFile,
					"registry": runRegistry,
				},
			})
		})
	}
}

// programs are what scripts run.
type programs struct{ edgepod, kubectl, root, goCache string }

// buildPrograms builds edgepod, the guests of the examples and kubectl, which is quick where nothing has changed.
func buildPrograms(t *testing.T) *programs {
	t.Helper()
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	target := "test-programs"
	if raceEnabled {
		target += " RACE=-race"
	}
	made := exec.Command("make", append([]string{"--no-print-directory", "-s"}, strings.Fields(target)...)...)
	if out, err := made.CombinedOutput(); err != nil {
		t.Fatalf("make %s: %v\n%s", target, err, out)
	}
	goCache, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	cache := filepath.Join(root, ".cache")
	return &programs{
		edgepod: filepath.Join(cache, "test", "edgepod"), kubectl: filepath.Join(cache, "kubectl"),
		root: root, goCache: strings.TrimSpace(string(goCache)),
	}
}

// setup gives each script a home of its own, so that nothing of the user's is read or written.
func (p *programs) setup(env *testscript.Env) error {
	env.Setenv("HOME", env.WorkDir)
	env.Setenv("XDG_DATA_HOME", filepath.Join(env.WorkDir, "data"))
	env.Setenv("KUBECACHEDIR", filepath.Join(env.WorkDir, ".kubecache"))
	env.Setenv("EXAMPLES", filepath.Join(p.root, "examples"))
	env.Setenv("MODULES", filepath.Join(p.root, ".cache", "modules"))
	env.Setenv("EDGEPOD", p.edgepod)
	env.Setenv("GOCACHE", p.goCache)
	env.Values[running{}] = map[string]*program{}
	env.Values[registries{}] = map[string]*scriptRegistry{}
	return nil
}

// runProgram makes a script command of a program: its output is for the script's stdout, stderr and cmp.
func runProgram(path string) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		err := ts.Exec(path, args...)
		switch {
		case neg && err == nil:
			ts.Fatalf("%s succeeded, and should not have", filepath.Base(path))
		case !neg && err != nil:
			ts.Fatalf("%s: %v", filepath.Base(path), err)
		}
	}
}

// buildGuest makes a module of a Go file or of WebAssembly text:
//
//	wasm SOURCE MODULE
func buildGuest(ts *testscript.TestScript, neg bool, args []string) {
	source, module := ts.MkAbs(args[0]), ts.MkAbs(args[1])
	if filepath.Ext(source) == ".wat" {
		ts.Check(ts.Exec("wat2wasm", source, "-o", module))
		return
	}
	ts.Check(ts.Exec("env", "GOOS=wasip1", "GOARCH=wasm", "go", "build", "-o", module, source))
}

// expandFile replaces $NAME in a file by the script's variables:
//
//	expand FILE
func expandFile(ts *testscript.TestScript, neg bool, args []string) {
	path := ts.MkAbs(args[0])
	ts.Check(os.WriteFile(path, []byte(os.Expand(ts.ReadFile(args[0]), ts.Getenv)), 0o644))
}

// running is the key of a script's started programs.
type running struct{}

// program is one that runs beside the script.
type program struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	output *transcript
	exited chan error
}

// cluster starts a throw-away cluster whose nodes may run the examples' images, for the rest of the script:
//
//	cluster [flags of up]
func (p *programs) cluster(ts *testscript.TestScript, neg bool, args []string) {
	if modules := ts.Getenv("MODULES"); slices.Contains(args, modules) {
		ts.Check(fetchedModules(modules))
	}
	dir := filepath.Join(ts.Getenv("WORK"), "tmp")
	ts.Check(os.MkdirAll(dir, 0o700))
	args = append([]string{"up", "--ephemeral", "--image-dir", ts.Getenv("EXAMPLES")}, args...)
	args = append(args, "--", "sh", "-c", "echo cluster is up: $KUBECONFIG $EDGEPOD_DATA_DIR; cat")
	line := p.launch(ts, "cluster", args, "TMPDIR="+dir)
	fields := strings.Fields(line)
	ts.Setenv("KUBECONFIG", fields[len(fields)-2])
	ts.Setenv("EDGEPOD_DATA_DIR", fields[len(fields)-1])
	ts.Defer(func() {
		stopProgram(ts, false, []string{"cluster"})
		if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 {
			ts.Fatalf("the ephemeral cluster left behind %v", left)
		}
	})
}

// fetchedModules tells whether the modules of others are here.
func fetchedModules(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "fetched")); err != nil {
		return fmt.Errorf("modules that others have made are not here: run `make modules`, which fetches them with npm (%w)", err)
	}
	return nil
}

// start starts edgepod beside the script, until halt or the script's end, and returns when it says that it is up:
//
//	start NAME ARGS...
func (p *programs) start(ts *testscript.TestScript, neg bool, args []string) {
	name := args[0]
	p.launch(ts, name, args[1:])
	ts.Defer(func() {
		if _, ok := ts.Value(running{}).(map[string]*program)[name]; ok {
			stopProgram(ts, false, []string{name, "-INT"})
		}
	})
}

// launch starts edgepod and returns the line that contains "is up".
func (p *programs) launch(ts *testscript.TestScript, name string, args []string, env ...string) string {
	cmd := exec.Command(p.edgepod, args...)
	cmd.Dir = ts.Getenv("WORK")
	cmd.Env = append(os.Environ(), "HOME="+ts.Getenv("HOME"), "XDG_DATA_HOME="+ts.Getenv("XDG_DATA_HOME"))
	cmd.Env = append(cmd.Env, env...)
	up := make(chan string, 1)
	output := &transcript{found: up, wanted: "is up"}
	stdin, err := cmd.StdinPipe()
	ts.Check(err)
	cmd.Stdout, cmd.Stderr = output, output
	ts.Check(cmd.Start())
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	ts.Value(running{}).(map[string]*program)[name] = &program{cmd, stdin, output, exited}
	select {
	case line := <-up:
		return line
	case err := <-exited:
		ts.Fatalf("%s ended before it was up: %v\n%s", name, err, output)
	case <-time.After(scriptTimeout):
		cmd.Process.Kill()
		ts.Fatalf("%s was not up in time\n%s", name, output)
	}
	return ""
}

// stopProgram ends a started program, by closing its standard input and by the signal where one is given, waits, and leaves
// what it wrote in the file NAME.out:
//
//	halt NAME [-INT|-TERM|-KILL|-HUP]
func stopProgram(ts *testscript.TestScript, neg bool, args []string) {
	all := ts.Value(running{}).(map[string]*program)
	p, ok := all[args[0]]
	if !ok {
		ts.Fatalf("%s was not started", args[0])
	}
	delete(all, args[0])
	defer func() { ts.Check(os.WriteFile(ts.MkAbs(args[0]+".out"), []byte(p.output.String()), 0o644)) }()
	p.stdin.Close()
	if len(args) > 1 {
		signals := map[string]syscall.Signal{"-INT": syscall.SIGINT, "-TERM": syscall.SIGTERM, "-KILL": syscall.SIGKILL, "-HUP": syscall.SIGHUP}
		ts.Check(p.cmd.Process.Signal(signals[args[1]]))
	}
	select {
	case err := <-p.exited:
		ts.Logf("[%s]\n%s", args[0], p.output)
		if strings.Contains(p.output.String(), "DATA RACE") || strings.Contains(p.output.String(), "panic:") {
			ts.Fatalf("%s is broken", args[0])
		}
		if err != nil && (len(args) < 2 || args[1] != "-KILL") {
			ts.Fatalf("%s: %v", args[0], err)
		}
	case <-time.After(scriptTimeout):
		p.cmd.Process.Kill()
		ts.Fatalf("%s did not stop in time\n%s", args[0], p.output)
	}
}

// transcript keeps what a program writes, and sends the first line that contains the wanted text.
type transcript struct {
	mu     sync.Mutex
	text   strings.Builder
	wanted string
	found  chan string
}

func (t *transcript) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text.Write(p)
	lines := strings.SplitAfter(t.text.String(), "\n")
	for _, line := range lines {
		if t.wanted != "" && strings.HasSuffix(line, "\n") && strings.Contains(line, t.wanted) {
			t.wanted = ""
			t.found <- strings.TrimSpace(line)
		}
	}
	return len(p), nil
}

func (t *transcript) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}
