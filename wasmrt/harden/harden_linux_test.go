package harden_test

import (
	"encoding/json"
	"errors"
	"net"
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
	// socketsVar tells that the process keeps Unix sockets.
	socketsVar = "EDGEPOD_TEST_SOCKETS"
	uid        = 1879048193
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
		Sockets: os.Getenv(socketsVar) != "",
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
	for family, name := range families() {
		_, err = unix.Socket(family, unix.SOCK_STREAM, 0)
		note("make a socket of family "+name, err)
		_, err = unix.Socket(family, unix.SOCK_DGRAM, 0)
		note("make a datagram socket of family "+name, err)
	}
	if os.Getenv(socketsVar) == "" {
		_, err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		note("make a Unix socket", err)
	} else {
		trySockets(folder, note)
	}
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

// families are all those of this system's sockets but Unix sockets, as far as they have a name here.
func families() map[int]string {
	return map[int]string{
		unix.AF_INET: "INET", unix.AF_INET6: "INET6", unix.AF_NETLINK: "NETLINK", unix.AF_PACKET: "PACKET", unix.AF_VSOCK: "VSOCK",
		unix.AF_ALG: "ALG", unix.AF_BLUETOOTH: "BLUETOOTH", unix.AF_CAN: "CAN", unix.AF_KEY: "KEY", unix.AF_RDS: "RDS",
		unix.AF_TIPC: "TIPC", unix.AF_XDP: "XDP", unix.AF_NFC: "NFC", unix.AF_QIPCRTR: "QIPCRTR", unix.AF_SMC: "SMC",
		unix.AF_UNSPEC: "UNSPEC", unix.AF_UNIX | 1<<8: "beyond all",
	}
}

// trySockets makes sockets in the jail, and reaches for those that lie elsewhere.
func trySockets(folder string, note func(string, error)) {
	listen := func(addr unix.Sockaddr) error {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		return errors.Join(err, unix.Bind(fd, addr), unix.Listen(fd, 1))
	}
	connect := func(addr unix.Sockaddr) error {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
		return errors.Join(err, unix.Connect(fd, addr))
	}
	note("allowed: listen in the jail", listen(&unix.SockaddrUnix{Name: "listener"}))
	note("allowed: connect in the jail", connect(&unix.SockaddrUnix{Name: "listener"}))
	note("allowed: remove a socket of the jail", unix.Unlink("listener"))
	note("allowed: connect to an abstract name of its own", errors.Join(
		listen(&unix.SockaddrUnix{Name: "@" + folder + "/mine"}), connect(&unix.SockaddrUnix{Name: "@" + folder + "/mine"})))
	note("listen outside of the jail", listen(&unix.SockaddrUnix{Name: filepath.Join(folder, "new")}))
	note("connect outside of the jail", connect(&unix.SockaddrUnix{Name: filepath.Join(folder, outside)}))
	note("connect outside of the jail by ..", connect(&unix.SockaddrUnix{Name: "../" + outside}))
	note("connect through a link of the jail", errors.Join(
		os.Symlink("../"+outside, "link"), connect(&unix.SockaddrUnix{Name: "link"})))
	note("connect to an abstract name of another process", connect(&unix.SockaddrUnix{Name: "@" + folder + "/abstract"}))
}

// The names of the sockets that a hardened process must not reach.
const outside = "outside.sock"

func TestHardenedProcessKeepsItsFolderAndNothingElse(t *testing.T) { testHardened(t, false) }

func TestHardenedProcessWithSocketsReachesThoseOfItsJailAlone(t *testing.T) { testHardened(t, true) }

func testHardened(t *testing.T, sockets bool) {
	folder, err := os.MkdirTemp("", "harden") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	if err := os.Chmod(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"own", "other", "jail"} {
		if err := os.Mkdir(filepath.Join(folder, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(folder, "other", "secret"), []byte("s"), 0o644); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		for _, dir := range []string{"own", "jail"} {
			if err := os.Chown(filepath.Join(folder, dir), uid, uid); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, name := range []string{filepath.Join(folder, outside), "@" + folder + "/abstract"} {
		l, err := net.Listen("unix", name)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		if name[0] != '@' {
			if err := os.Chmod(name, 0o777); err != nil {
				t.Fatal(err)
			}
		}
	}
	cmd := exec.Command(withoutCGO(t))
	cmd.Env = []string{jobVar + "=1", folderVar + "=" + folder}
	if sockets {
		cmd.Env = append(cmd.Env, socketsVar+"=1")
	}
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

// withoutCGO returns this test's program, built as containers' processes are: only so can it be jailed.
func withoutCGO(t *testing.T) string {
	t.Helper()
	if !harden.CGO {
		return "/proc/self/exe"
	}
	path := filepath.Join(t.TempDir(), "harden.test")
	cmd := exec.Command("go", "test", "-c", "-o", path, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build this test without cgo: %v\n%s", err, out)
	}
	return path
}
