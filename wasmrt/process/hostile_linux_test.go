package process_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"edgepod/wasmrt/process"
	"edgepod/wasmrt/sandbox"
)

func TestHostileGuestsEndAloneAndSayWhy(t *testing.T) {
	r := open(t, t.TempDir())
	s := create(t, r, "pod1")
	for _, tt := range []struct {
		name, module string
		args         []string
		memory       int64
		want         sandbox.Exit
		message      string
	}{
		{
			name: "memory.grow to the limit", module: "guest.wasm", args: []string{"grow"}, memory: 64 << 20,
			want: sandbox.Exit{Reason: sandbox.ReasonCompleted},
		},
		{
			name: "malloc until nothing is left", module: "guest.wasm", args: []string{"touch"}, memory: 64 << 20,
			want: sandbox.Exit{Code: 3, Reason: sandbox.ReasonError},
		},
		{
			name: "trap", module: "names.wasm", args: []string{"trap"}, memory: 64 << 20,
			want: sandbox.Exit{Code: 134, Reason: sandbox.ReasonError}, message: "wasm trap: unreachable",
		},
		{
			name: "recursion without end", module: "recurse.wasm", memory: 1 << 30,
			want: sandbox.Exit{Code: 134, Reason: sandbox.ReasonError}, message: "call stack exhausted",
		},
		{
			name: "recursion in little memory", module: "recurse.wasm", memory: 32 << 20,
			want: sandbox.Exit{Code: 137, Signal: 9, Reason: sandbox.ReasonOOMKilled}, message: "more memory than its limit",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			id := strings.ReplaceAll(tt.name, " ", "-")
			c := spec(t, r, id, tt.module, tt.args...)
			c.Limits.Memory = tt.memory
			start(t, s, c)
			got := await(t, s, id)
			if got.Code != tt.want.Code || got.Reason != tt.want.Reason || got.Signal != tt.want.Signal || !strings.Contains(got.Message, tt.message) {
				t.Errorf("exit: %+v, want %+v and a message with %q", got, tt.want, tt.message)
			}
		})
	}
}

func TestGuestWhoseMemoryIsTooSmallToLoadItIsToldSo(t *testing.T) {
	r := open(t, t.TempDir())
	s := create(t, r, "pod1")
	refused := 0
	for mib := int64(3); mib <= 12; mib++ {
		id := "c" + itoa(int(mib))
		c := spec(t, r, id, "guest.wasm", "exit", "0")
		c.Limits.Memory = mib << 20
		_, err := s.Start(t.Context(), c)
		if err == nil {
			await(t, s, id)
			continue
		}
		refused++
		var wrong *sandbox.StartError
		if !errors.As(err, &wrong) || !strings.Contains(wrong.Message, "memory limit") {
			t.Errorf("with %d MiB: %v, want a word about the limit", mib, err)
		}
	}
	if refused == 0 {
		t.Error("every limit was enough")
	}
}

func TestTrapNamesItsFunctions(t *testing.T) {
	r := open(t, t.TempDir())
	s := create(t, r, "pod1")
	c := spec(t, r, "c", "names.wasm", "trap")
	start(t, s, c)
	exit := await(t, s, "c")
	if !strings.Contains(exit.Message, "wasm trap: unreachable\n  0: ") || !strings.Contains(exit.Message, "main") || strings.Contains(exit.Message, "function ") {
		t.Errorf("message %q, want function names", exit.Message)
	}
	if got := logged(t, c.Log.Path); !strings.Contains(got, exit.Message) {
		t.Errorf("log %q, want the trap as in the message", got)
	}
}

func TestTrapTellsWhereInTheSourceItIs(t *testing.T) {
	r := open(t, t.TempDir())
	s := create(t, r, "pod1")
	start(t, s, spec(t, r, "c", "lines.wasm"))
	exit := await(t, s, "c")
	want := []string{"wasm trap: integer divide by zero", "0: divide", "trap.c:5:", "1: twice", "trap.c:9:", "main", "trap.c:13:"}
	rest := exit.Message
	for _, w := range want {
		_, after, ok := strings.Cut(rest, w)
		if !ok {
			t.Fatalf("message %q, want %q in this order", exit.Message, want)
		}
		rest = after
	}
}

func TestTableThatGrowsWithoutEndStaysSmall(t *testing.T) {
	r := open(t, t.TempDir())
	s := create(t, r, "pod1")
	c := spec(t, r, "c", "table.wasm")
	c.Limits.Memory = 96 << 20
	start(t, s, c)
	// Its table is bounded, so it goes round for ever; it must be alive within its memory, and stoppable.
	stats, err := s.Stats(t.Context(), "c")
	if err != nil || stats.Memory > c.Limits.Memory || stats.PIDs == 0 {
		t.Errorf("stats: %+v, %v", stats, err)
	}
	if err := s.Stop(t.Context(), "c", 2*time.Second); err != nil {
		t.Fatal(err)
	}
	if exit := await(t, s, "c"); exit.Code != 143 && exit.Code != 137 || exit.Reason != sandbox.ReasonError {
		t.Errorf("exit after stop: %+v", exit)
	}
}

func TestCompileBombIsRefused(t *testing.T) {
	r := open(t, t.TempDir(), func(c *process.Config) { c.CompileCPU = time.Second })
	_, err := r.Pull(t.Context(), sandbox.PullRequest{Ref: "./compile.wasm", Policy: sandbox.PullIfNotPresent})
	var img *sandbox.ImageError
	if !errors.As(err, &img) || img.Reason != sandbox.ReasonErrImagePull || !strings.Contains(img.Message, "more than the limit of 1s of processor time") {
		t.Errorf("pull: %v, want an image error that names the limits", err)
	}
	if _, err := r.Pull(t.Context(), sandbox.PullRequest{Ref: "./guest.wasm", Policy: sandbox.PullIfNotPresent}); err != nil {
		t.Errorf("pull of another module afterwards: %v", err)
	}
}

func TestFloodIsRotated(t *testing.T) {
	r := open(t, t.TempDir())
	s := create(t, r, "pod1")
	c := spec(t, r, "c", "guest.wasm", "flood", "20000")
	c.Log.MaxBytes, c.Log.MaxFiles = 100_000, 3
	start(t, s, c)
	if exit := await(t, s, "c"); exit.Code != 0 {
		t.Fatalf("exit: %+v", exit)
	}
	files, err := filepath.Glob(c.Log.Path + "*")
	if err != nil || len(files) != 3 {
		t.Fatalf("log files: %v, %v; want 3", files, err)
	}
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil || info.Size() > c.Log.MaxBytes {
			t.Errorf("%s: %v, %v; want at most %d bytes", f, info.Size(), err, c.Log.MaxBytes)
		}
	}
	if got := logged(t, c.Log.Path); !strings.HasSuffix(got, "line 19999 of a flood that fills the log and more\n") {
		t.Errorf("log ends %q", got[max(0, len(got)-100):])
	}
}

func TestVolumesAreShownAndNothingElse(t *testing.T) {
	r := open(t, t.TempDir())
	s := create(t, r, "pod1")
	secret := filepath.Join(t.TempDir(), "secret")
	volume := t.TempDir()
	if err := os.Chmod(volume, 0o777); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{secret: "host secret", filepath.Join(volume, "in"): "from the host"} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(secret, filepath.Join(volume, "planted")); err != nil {
		t.Fatal(err)
	}
	run := func(id string, readOnly bool, args ...string) (sandbox.Exit, string) {
		t.Helper()
		c := spec(t, r, id, "guest.wasm", args...)
		c.Mounts = []sandbox.Mount{{Source: volume, Target: "/data", ReadOnly: readOnly}}
		start(t, s, c)
		exit := await(t, s, id)
		return exit, logged(t, c.Log.Path)
	}
	if exit, out := run("read", true, "cat", "/data/in"); exit.Code != 0 || out != "from the host" {
		t.Errorf("read a volume: %+v, %q", exit, out)
	}
	if exit, out := run("write", false, "put", "/data/out", "from the guest"); exit.Code != 0 {
		t.Errorf("write a volume: %+v, %q", exit, out)
	}
	if data, err := os.ReadFile(filepath.Join(volume, "out")); err != nil || string(data) != "from the guest" {
		t.Errorf("volume on the host: %q, %v", data, err)
	}
	if exit, _ := run("ro", true, "put", "/data/no", "x"); exit.Code == 0 {
		t.Error("a read-only volume was written")
	}
	for id, args := range map[string][]string{
		"planted":  {"cat", "/data/planted"},
		"relative": {"link", "../../../../../../.." + secret, "/data/mine"},
		"absolute": {"link", secret, "/data/mine2"},
		"host":     {"cat", "/etc/hostname"},
	} {
		if exit, out := run(id, false, args...); exit.Code == 0 || strings.Contains(out, "host secret") {
			t.Errorf("%s: %+v, %q; want an error", id, exit, out)
		}
	}
}

// TestVolumesAreUsedAsTheirOwner gives a container files that its user alone may use, and one that is root's.
func TestVolumesAreUsedAsTheirOwner(t *testing.T) {
	r := open(t, t.TempDir())
	owner, ok := r.Owner("pod1")
	if root := os.Geteuid() == 0; ok != root || ok && owner == (sandbox.Owner{}) {
		t.Fatalf("owner %+v, %v; a user of its own is wanted where this process is root (%v)", owner, ok, root)
	}
	volume := t.TempDir()
	secret := filepath.Join(volume, "secret")
	if err := errors.Join(os.WriteFile(secret, []byte("for the pod"), 0o400), os.Chmod(volume, 0o700)); err != nil {
		t.Fatal(err)
	}
	run := func(pod, id string, args ...string) (sandbox.Exit, string) {
		s, err := r.Create(t.Context(), sandbox.Spec{ID: pod, AsRoot: pod == "root"})
		if err != nil {
			t.Fatal(err)
		}
		c := spec(t, r, id, "guest.wasm", args...)
		c.Mounts = []sandbox.Mount{{Source: volume, Target: "/data"}}
		start(t, s, c)
		exit := await(t, s, id)
		return exit, logged(t, c.Log.Path)
	}
	if exit, out := run("root", "read", "cat", "/data/secret"); exit.Code != 0 || out != "for the pod" {
		t.Errorf("root's file as root: %+v, %q", exit, out)
	}
	if !ok {
		return
	}
	if exit, out := run("pod1", "before", "cat", "/data/secret"); exit.Code == 0 {
		t.Errorf("root's file as the pod's user: %+v, %q", exit, out)
	}
	if err := errors.Join(os.Chown(volume, owner.UID, owner.GID), os.Chown(secret, owner.UID, owner.GID)); err != nil {
		t.Fatal(err)
	}
	if exit, out := run("pod1", "read", "cat", "/data/secret"); exit.Code != 0 || out != "for the pod" {
		t.Errorf("its own file: %+v, %q", exit, out)
	}
	if exit, out := run("pod1", "write", "put", "/data/new", "x"); exit.Code != 0 {
		t.Errorf("write to its own folder: %+v, %q", exit, out)
	}
	if exit, out := run("pod2", "read", "cat", "/data/secret"); exit.Code == 0 {
		t.Errorf("another pod's file: %+v, %q", exit, out)
	}
}

func TestTerminationMessage(t *testing.T) {
	r := open(t, t.TempDir())
	s := create(t, r, "pod1")
	c := spec(t, r, "file", "guest.wasm", "put", "/dev/termination-log", "bye")
	c.TerminationMessagePath = "/dev/termination-log"
	start(t, s, c)
	if exit := await(t, s, "file"); exit.Message != "bye" {
		t.Errorf("message from the file: %+v", exit)
	}
	c = spec(t, r, "log", "guest.wasm", "cat", "/nowhere")
	c.TerminationMessagePath, c.FallbackToLogs = "/dev/termination-log", true
	start(t, s, c)
	if exit := await(t, s, "log"); exit.Code != 1 || !strings.Contains(exit.Message, "/nowhere") {
		t.Errorf("message from the log: %+v", exit)
	}
}

func TestMemoryThatTheModuleNeedsAtOnceIsNamed(t *testing.T) {
	r := open(t, t.TempDir())
	s := create(t, r, "pod1")
	c := spec(t, r, "c", "guest.wasm")
	c.Limits.Memory = 1 << 20
	_, err := s.Start(t.Context(), c)
	var start *sandbox.StartError
	if !errors.As(err, &start) || !strings.Contains(start.Message, "memory") {
		t.Errorf("start with 1 MiB: %v, want a start error that names the memory", err)
	}
	if all, err := s.Status(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("status after a failed start: %+v, %v", all, err)
	}
}
