package process_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestWorksForAnOrdinaryUser runs the other tests again as nobody, where this process is root.
func TestWorksForAnOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		return // then the other tests have shown it
	}
	child(t)
	if err := os.Chmod(guests(t), 0o755); err != nil {
		t.Fatal(err)
	}
	const nobody = 65534
	// Not below t.TempDir, whose parents are closed to others.
	home, err := os.MkdirTemp("", "edgepod-user")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(home); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chown(home, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=Suite|Hostile|Table|Volumes|Outlive|Guest|NoZombies|CompileBomb", "-test.v", "-test.timeout=120s")
	cmd.Dir = home
	cmd.Env = []string{"TMPDIR=" + home, "HOME=" + home, "PATH=" + os.Getenv("PATH"), builtGuests + "=" + guests(t)}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "PASS") {
		t.Errorf("as an ordinary user: %v\n%s", err, out)
	}
	left, err := filepath.Glob(filepath.Join(home, "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
