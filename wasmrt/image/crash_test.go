package image

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"edgepod/wasmrt/sandbox"
)

// pullVariable makes this test binary a process that pulls an image into a store, over and over: FOLDER REFERENCE.
const pullVariable = "EDGEPOD_TEST_PULL"

func TestMain(m *testing.M) {
	dir, ref, ok := strings.Cut(os.Getenv(pullVariable), " ")
	if !ok {
		os.Exit(m.Run())
	}
	for {
		s, err := Open(Config{Dir: dir, Offered: offers})
		if err != nil {
			fmt.Println("open:", err)
			os.Exit(1)
		}
		e, err := s.Resolve(context.Background(), sandbox.PullRequest{Ref: ref, Policy: sandbox.PullAlways})
		if err == nil {
			_, err = s.Collect(context.Background(), sandbox.CollectRequest{Free: 1 << 40}, func(string) bool { return false })
		}
		fmt.Println("pulled", e.Digest, err)
	}
}

// TestKilledPullsLeaveASoundStore kills a process that pulls and collects at any point, and finds that the next one has all
// that it needs and nothing that is left over.
func TestKilledPullsLeaveASoundStore(t *testing.T) {
	h := newHub(t)
	wasm := command(custom("name", "\x01\x04\x01\x00\x01f"), custom("v", strings.Repeat("x", 200_000)))
	d := h.picture("app", "v1", picture{config: v1.ConfigFile{OS: "wasi", Architecture: "wasm"}, layers: [][]byte{
		gzipped(t, tarOf(t, map[string]string{"m.wasm": string(wasm), "data": "x"})), gzipped(t, tarOf(t, map[string]string{"more": "y"})),
	}})
	dir := t.TempDir()
	for i := range 24 {
		var asked atomic.Int64
		kill := make(chan struct{})
		h.set(func(_ http.ResponseWriter, r *http.Request) bool {
			if asked.Add(1) == int64(i%8+1) {
				close(kill)
				<-r.Context().Done() // answered to nobody
			}
			return false
		})
		if i >= 16 {
			h.set(nil) // killed in between
		}
		pull(t, dir, h.ref("app:v1"), kill, time.Duration(i%8)*3*time.Millisecond)
		h.set(nil)
		s, err := Open(Config{Dir: dir, Offered: offers})
		if err != nil {
			t.Fatal(err)
		}
		e, err := resolve(t, s, h.ref("app:v1"), sandbox.PullIfNotPresent)
		if err != nil || e.Digest != d.Digest.String() {
			t.Fatalf("after kill %d: %+v, %v", i, e, err)
		}
		if got := filesOf(t, e.Root); len(got) != 3 {
			t.Errorf("after kill %d the image has the files %v", i, got)
		}
		if data, err := os.ReadFile(e.Path); err != nil || string(data) != string(command()) {
			t.Errorf("after kill %d the module has %d bytes, %v", i, len(data), err)
		}
		if staging, err := listNames(s.path(stagingDir)); err != nil || len(staging) != 1 {
			t.Errorf("after kill %d: %v, %v in staging, want one user's folder", i, staging, err)
		}
		collect(t, s, sandbox.CollectRequest{Free: 1 << 40})
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// pull runs the process, and kills it when kill is closed, or so long after its second pull.
func pull(t *testing.T, dir, ref string, kill <-chan struct{}, later time.Duration) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), pullVariable+"="+dir+" "+ref)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	second := make(chan struct{})
	go func() {
		defer close(second)
		lines := bufio.NewScanner(out)
		for n := 0; n < 2 && lines.Scan(); n++ {
			if !strings.HasSuffix(lines.Text(), "<nil>") {
				t.Errorf("the process says %q", lines.Text())
			}
		}
	}()
	select {
	case <-kill:
	case <-second:
		<-time.After(later)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // it was killed
	<-second
}
