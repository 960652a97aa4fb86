package process_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"edgepod/wasmrt/process"
	"edgepod/wasmrt/sandbox"
)

// goGuest builds a guest in Go.
var goGuest = sync.OnceValues(func() (string, error) {
	dir, err := buildGuests()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "go.wasm")
	cmd := exec.Command("go", "build", "-o", path, "./testdata/goguest")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", &buildError{out: out, err: err}
	}
	return path, nil
})

func buildGoGuest(t testing.TB) {
	t.Helper()
	if _, err := goGuest(); err != nil {
		t.Fatalf("build the Go guest: %v", err)
	}
}

// kilobytes reads a figure of a process's memory, such as "Pss", from its smaps_rollup.
func kilobytes(t testing.TB, pid int, key string) int {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "smaps_rollup"))
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for line := range bytes.Lines(data) {
		if f := strings.Fields(string(line)); len(f) >= 2 && f[0] == key+":" {
			n, err := strconv.Atoi(f[1])
			if err != nil {
				t.Fatal(err)
			}
			total += n
		}
	}
	return total
}

// BenchmarkStart measures from Start to the guest's beginning, with code cached, and reports the memory of the process.
func BenchmarkStart(b *testing.B) {
	buildGoGuest(b)
	for _, guest := range []string{"guest.wasm", "go.wasm"} {
		for name, path := range map[string]string{"embedded": child(b), "self": "/proc/self/exe"} {
			b.Run(guest+"/"+name, func(b *testing.B) {
				r := open(b, b.TempDir(), func(c *process.Config) { c.ChildPath = path })
				s := create(b, r, "pod1")
				c := spec(b, r, "warm", guest, "sleep")
				start(b, s, c)
				var pss, private int
				b.ResetTimer()
				for i := range b.N {
					c.ID = "c-" + strconv.Itoa(i)
					st := start(b, s, c)
					b.StopTimer()
					pss += kilobytes(b, st.PID, "Pss")
					private += kilobytes(b, st.PID, "Private_Dirty") + kilobytes(b, st.PID, "Private_Clean")
					if err := s.Stop(b.Context(), c.ID, 0); err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
				}
				b.ReportMetric(float64(pss)/float64(b.N), "KB-PSS")
				b.ReportMetric(float64(private)/float64(b.N), "KB-private")
			})
		}
	}
}

// BenchmarkMain measures from Start to the end of a guest that ends at the beginning of its main function, with code
// cached: what it takes to run a program.
func BenchmarkMain(b *testing.B) {
	buildGoGuest(b)
	for _, guest := range []string{"guest.wasm", "go.wasm"} {
		b.Run(guest, func(b *testing.B) {
			r := open(b, b.TempDir())
			s := create(b, r, "pod1")
			c := spec(b, r, "warm", guest, "exit", "0")
			start(b, s, c)
			await(b, s, c.ID)
			var took []time.Duration
			for i := range b.N {
				c.ID = "c-" + strconv.Itoa(i)
				began := time.Now()
				start(b, s, c)
				took = append(took, await(b, s, c.ID).FinishedAt.Sub(began))
			}
			slices.Sort(took)
			b.ReportMetric(took[len(took)/2].Seconds()*1000, "ms-p50")
			b.ReportMetric(took[0].Seconds()*1000, "ms-min")
		})
	}
}

// BenchmarkPod measures a whole pod: created, run to its end, removed.
func BenchmarkPod(b *testing.B) {
	r := open(b, b.TempDir())
	c := spec(b, r, "c", "guest.wasm", "exit", "0")
	for i := range b.N {
		s, err := r.Create(b.Context(), sandbox.Spec{ID: "pod-" + strconv.Itoa(i)})
		if err != nil {
			b.Fatal(err)
		}
		start(b, s, c)
		await(b, s, "c")
		if err := s.Remove(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
