package harden_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"edgepod/wasmrt/harden"
)

const (
	jobVar    = "EDGEPOD_TEST_HARDEN"
	folderVar = "EDGEPOD_TEST_FOLDER"
	uid       = 1879048193
)

// report is what a hardened process found out.
type report struct {
	Missing []string          // layers that do not hold
	Tried   map[string]string // error of each attempt, "" where it succeeded
}

// TestMain is also the process that hardens itself and tries what it must not.
func TestMain(m *testing.M) {
	if os.Getenv(jobVar) == "" {
		os.Exit(m.Run())
	}
	data, err := json.Marshal(try(os.Getenv(folderVar)))
	if err != nil {
		panic(err)
	}
	_, _ = os.Stdout.Write(data) // the test sees what is missing
	os.Exit(0)
}

func try(folder string) report {
	own, err := os.OpenRoot(filepath.Join(folder, "own"))
	if err != nil {
		panic(err)
	}
	other, err := os.OpenRoot(filepath.Join(folder, "other"))
	if err != nil {
		panic(err)
	}
	stream, _, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	r := report{Tried: map[string]string{}}
	for _, l := range harden.Apply(harden.Options{
		UID: uid, GID: uid, Writable: []string{filepath.Join(folder, "own")}, Jail: filepath.Join(folder, "jail"), Files: 100, OOMScore: 500,
	}) {
		if !l.Held {
			r.Missing = append(r.Missing, l.Name+": "+l.Reason)
		}
	}
	note := func(what string, err error) {
		r.Tried[what] = ""
		if err != nil {
			r.Tried[what] = err.Error()
		}
	}
	f, err := own.Create("file")
	note("allowed: write its own folder", err)
	if err == nil {
		_, err = f.WriteString("x")
		note("allowed: write its own file", errors.Join(err, f.Close()))
	}
	_, err = unix.IoctlGetInt(int(stream.Fd()), unix.TIOCINQ)
	note("allowed: ask how much a stream holds", err)
	const fionbio = 0x5421
	note("change a descriptor by ioctl", unix.IoctlSetPointerInt(int(stream.Fd()), fionbio, 0))
	_, err = other.Open("secret")
	note("open another folder through a descriptor", err)
	_, err = os.ReadFile("/etc/passwd")
	note("read a file of the host", err)
	_, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	note("make a socket", err)
	note("send a signal to its parent", syscall.Kill(os.Getppid(), syscall.SIGTERM))
	note("become root", syscall.Setuid(0))
	note("start a program", syscall.Exec("/bin/true", []string{"true"}, nil))
	_, err = unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANON)
	note("make memory executable", err)
	note("leave its namespaces", unix.Unshare(unix.CLONE_NEWUSER))
	var lim unix.Rlimit
	note("raise its limits", func() error {
		lim = unix.Rlimit{Cur: 1 << 20, Max: 1 << 20}
		return unix.Setrlimit(unix.RLIMIT_NOFILE, &lim)
	}())
	return r
}

func TestHardenedProcessKeepsItsFolderAndNothingElse(t *testing.T) {
	folder := t.TempDir()
	for _, dir := range []string{"own", "other", "jail"} {
		if err := os.Mkdir(filepath.Join(folder, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(folder, "other", "secret"), []byte("s"), 0o644); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(filepath.Join(folder, "own"), uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{jobVar + "=1", folderVar + "=" + folder}
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, m := range r.Missing {
		t.Log("layer missing:", m)
	}
	for what, got := range r.Tried {
		if allowed := strings.HasPrefix(what, "allowed"); allowed != (got == "") {
			t.Errorf("%s: error %q", what, got)
		}
	}
}
