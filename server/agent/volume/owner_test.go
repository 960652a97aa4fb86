//go:build unix

package volume_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"edgepod/server/agent/podvalue"
	"edgepod/server/agent/volume"
	"edgepod/wasmrt/sandbox"
)

// nobody is a user that exists everywhere and owns nothing here.
var nobody = sandbox.Owner{UID: 65534, GID: 65534}

func ownerOf(t *testing.T, path string) uint32 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Uid
}

func TestContentBelongsToTheOwner(t *testing.T) {
	owner := sandbox.Owner{UID: os.Geteuid(), GID: os.Getegid()}
	if os.Geteuid() == 0 {
		owner = nobody // only root may give files away
	}
	uid := uint32(owner.UID)
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	pod := readPod(t, `
spec:
  volumes: [{name: e, emptyDir: {}}, {name: s, secret: {secretName: sec, defaultMode: 0o400, items: [{key: k, path: deep/er/k}]}}]
  containers: [{name: c, volumeMounts: [{name: e, mountPath: /e, subPath: new}]}]
`)
	f := volume.Folder{Dir: t.TempDir()}
	values := podvalue.Context{Pod: pod, Sources: sources{"secret/sec": {"k": "v"}}}
	if err := f.Prepare(values); err != nil { // nobody's yet
		t.Fatal(err)
	}
	f.Owner = &owner
	if err := f.Prepare(values); err != nil {
		t.Fatal(err)
	}
	mounts, err := f.Mounts(pod, &pod.Spec.Containers[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"e": "drwxrwxrwx", "e/new": "drwxrwxrwx", "s/deep/er/k": "-r--------", "s/deep/er": "drwxr-xr-x", "s/deep": "drwxr-xr-x", "s/..data/": "drwxr-xr-x",
	} {
		full := filepath.Join(f.Dir, path)
		info, err := os.Stat(full)
		if err != nil || info.Mode().String() != want {
			t.Errorf("%s: %v, %v; want mode %s", path, info.Mode(), err, want)
		}
		if given := strings.HasPrefix(path, "e") || !info.IsDir(); given != (ownerOf(t, full) == uid) && os.Geteuid() == 0 {
			t.Errorf("%s belongs to %d; the owner's: %v", path, ownerOf(t, full), given)
		}
	}
	if mounts[0].Source != filepath.Join(f.Dir, "e/new") {
		t.Errorf("mounts: %+v", mounts)
	}
}

func TestHostPathsThatTheOwnerMayNotUseAreNamed(t *testing.T) {
	base := t.TempDir()
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"shared": 0o777, "shown": 0o755, "closed": 0o700, "mixed": 0o755} {
		dir := filepath.Join(base, name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "file")
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(base, "mixed", "file"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		path     string
		readOnly bool
		want     bool
	}{
		{"shared", false, false},
		{"shared", true, false},
		{"shown", false, true},
		{"shown", true, false},
		{"closed", false, true},
		{"closed", true, true},
		{"mixed", true, true},
		{"shown/file", false, true},
		{"shown/file", true, false},
		{"made", false, true},
	} {
		kind := ""
		if tt.path == "made" {
			kind = "DirectoryOrCreate"
		}
		pod := readPod(t, fmt.Sprintf(`
spec:
  volumes: [{name: h, hostPath: {path: %q, type: %q}}, {name: unused, hostPath: {path: %q}}, {name: e, emptyDir: {}}]
  containers: [{name: c, volumeMounts: [{name: h, mountPath: /h, readOnly: %v}, {name: e, mountPath: /e}]}]
`, filepath.Join(base, tt.path), kind, filepath.Join(base, "closed"), tt.readOnly))
		f := volume.Folder{Dir: t.TempDir(), HostPaths: []string{base}, Owner: &sandbox.Owner{UID: os.Geteuid() + 1, GID: 1}}
		own, err := f.RootsOwn(pod)
		if err != nil || (len(own) == 1 && own[0].Name == "h") != tt.want || len(own) > 1 {
			t.Errorf("%s, read-only %v: %v, %v; named is wanted: %v", tt.path, tt.readOnly, own, err, tt.want)
		}
		f.Owner = nil
		if own, err := f.RootsOwn(pod); err != nil || len(own) > 0 {
			t.Errorf("%s without an owner: %v, %v", tt.path, own, err)
		}
	}
	pod := readPod(t, `{spec: {volumes: [{name: h, hostPath: {path: /}}], containers: [{name: c, volumeMounts: [{name: h, mountPath: /h}]}]}}`)
	f := volume.Folder{Dir: t.TempDir(), Owner: &nobody}
	if _, err := f.RootsOwn(pod); err == nil || !strings.HasPrefix(err.Error(), `MountVolume.SetUp failed for volume "h" : hostPath "/" is not allowed`) {
		t.Errorf("hostPath / on a node that allows none: %v", err)
	}
}
