package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// BenchmarkCluster measures a cluster of one node as users meet it, with clients on the same machine, and prints a table
// beside the budgets. It runs bin/edgepod: see `make bench`.
func BenchmarkCluster(b *testing.B) {
	if b.N > 1 {
		return // one run says it all
	}
	m := &measurement{B: b, dir: b.TempDir()}
	m.buildGuests()
	m.startEmpty()
	m.podsOneByOne()
	m.podsAtOnce(50)
	m.podsAtOnce(100)
	m.calls()
	m.lists(2000)
	m.watchers(100)
	m.stop()
	m.startFull(10_000)
	m.stop()
	m.print()
}

// measurement collects figures from one cluster.
type measurement struct {
	*testing.B
	dir     string
	process *os.Process
	ended   chan error
	config  *rest.Config
	core    rest.Interface
	rows    []row
}

type row struct{ what, value, budget string }

func (m *measurement) add(what, budget, format string, args ...any) {
	m.rows = append(m.rows, row{what, fmt.Sprintf(format, args...), budget})
}

func (m *measurement) print() {
	w := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "\nMEASURED\tVALUE\tBUDGET")
	for _, r := range m.rows {
		fmt.Fprintf(w, "%s\t%s\t%s\n", r.what, r.value, r.budget)
	}
	if err := w.Flush(); err != nil {
		m.Error(err)
	}
}

func (m *measurement) check(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

// buildGuests makes a small C module that ends, and Go modules that end and stay.
func (m *measurement) buildGuests() {
	m.check(os.WriteFile(filepath.Join(m.dir, "hello.c"), []byte("#include <stdio.h>\nint main(void) { return puts(\"hello\") < 0; }\n"), 0o644))
	m.check(os.WriteFile(filepath.Join(m.dir, "stay.go"), []byte("package main\n\nimport \"time\"\n\nfunc main() { time.Sleep(time.Hour) }\n"), 0o644))
	for _, args := range [][]string{
		{"clang", "--target=wasm32-wasi", "--sysroot=/usr", "-Os", "-Wl,--strip-all", "-o", "hello-c.wasm", "hello.c"},
		{"env", "GOOS=wasip1", "GOARCH=wasm", "go", "build", "-ldflags=-s -w", "-o", "stay-go.wasm", "stay.go"},
	} {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir = m.dir
		if out, err := cmd.CombinedOutput(); err != nil {
			m.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
}

// start starts edgepod on the data folder and returns how long it took until it said that the node is Ready.
func (m *measurement) start() time.Duration {
	examples, err := filepath.Abs("examples")
	m.check(err)
	cmd := exec.Command("bin/edgepod", "up", "--data-dir", filepath.Join(m.dir, "data"), "--listen", "127.0.0.1:0", "--image-dir", m.dir, "--image-dir", examples)
	out, err := cmd.StdoutPipe()
	m.check(err)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	began := time.Now()
	m.check(cmd.Start())
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	took := time.Since(began)
	if err != nil || !strings.Contains(line, "is up") {
		m.Fatalf("edgepod is not up: %q %v\n%s", line, err, complaints.String())
	}
	m.process, m.ended = cmd.Process, make(chan error, 1)
	go func() {
		_, _ = io.Copy(io.Discard, lines)
		m.ended <- cmd.Wait()
	}()
	m.config, err = clientcmd.BuildConfigFromFlags("", filepath.Join(m.dir, "data", "kubeconfig"))
	m.check(err)
	m.core, err = coreClient(m.config)
	m.check(err)
	return took
}

func (m *measurement) stop() {
	m.check(m.process.Signal(syscall.SIGINT))
	m.check(<-m.ended)
}

func (m *measurement) startEmpty() {
	m.add("start until the node is Ready, first start", "1 s", "%v", m.start().Round(time.Millisecond))
	m.stop()
	var took []time.Duration
	for range 5 {
		if took != nil {
			m.stop()
		}
		took = append(took, m.start())
	}
	m.add("start until the node is Ready, empty store, p50", "1 s", "%v", percentile(took, 50).Round(time.Millisecond))
	select {
	case err := <-m.ended:
		m.Fatal(err)
	case <-time.After(5 * time.Second):
	}
	m.add("server and agent idle, RSS", "60 MB", "%.1f MB", m.status("VmRSS:")/1000)
}

// startFull fills the store and measures the start over it.
func (m *measurement) startFull(objects int) {
	m.start()
	m.eachOf(objects, 32, func(ctx context.Context, i int) error {
		return m.core.Post().Namespace("default").Resource("configmaps").
			Body(&corev1.ConfigMap{ObjectMeta: named(fmt.Sprintf("full-%d", i)), Data: map[string]string{"a": strings.Repeat("x", 500)}}).Do(ctx).Error()
	})
	m.stop()
	m.add(fmt.Sprintf("start until the node is Ready, %d objects", objects), "1 s", "%v", m.start().Round(time.Millisecond))
	m.add(fmt.Sprintf("RSS after that start, %d objects", objects), "", "%.1f MB", m.status("VmRSS:")/1000)
	m.add("of it not pages of the program's and the store's files", "", "%.1f MB", m.status("RssAnon:")/1000)
}

// status reads a figure in kB of the server's process.
func (m *measurement) status(key string) float64 {
	return procFigure(m.B, fmt.Sprintf("/proc/%d/status", m.process.Pid), key)
}

func procFigure(b *testing.B, path, key string) float64 {
	b.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, key); ok {
			kb, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			if err != nil {
				b.Fatal(err)
			}
			return kb
		}
	}
	b.Fatalf("%s has no %s", path, key)
	return 0
}

// cpu is the processor time that the server's process has used.
func (m *measurement) cpu() time.Duration {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", m.process.Pid))
	m.check(err)
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	var ticks int64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		m.check(err)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

func percentile(all []time.Duration, p int) time.Duration {
	all = slices.Sorted(slices.Values(all))
	return all[min(len(all)-1, len(all)*p/100)]
}
