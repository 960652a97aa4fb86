package process

import (
	"bufio"
	"bytes"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"edgepod/wasmrt/sandbox"
)

const (
	// firstUID begins the range from which pods' users are taken; nobody's is used where the range isn't mapped.
	firstUID = 0x70000000
	rangeUID = 1 << 24
	nobody   = 65534
	// mostFiles is how many files of a read-only volume are looked at.
	mostFiles = 256
)

// identity is the user that a container's process becomes.
type identity struct{ uid, gid int }

// podIdentity returns the unprivileged user of a sandbox, always the same for the same id. It is root where this process
// is not, or may not become another.
func podIdentity(id string) identity {
	if os.Geteuid() != 0 {
		return identity{}
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(id)) // never fails
	uid := firstUID + int(h.Sum32()%rangeUID)
	switch {
	case mappedUID(uid):
	case mappedUID(nobody):
		uid = nobody
	default:
		return identity{}
	}
	return identity{uid: uid, gid: uid}
}

// mappedUID tells whether a user exists in this process's user namespace.
func mappedUID(uid int) bool {
	data, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return false
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		var inside, outside, size int
		if _, err := fmt.Sscan(lines.Text(), &inside, &outside, &size); err == nil && uid >= inside && uid-inside < size {
			return true
		}
	}
	return false
}

// canUse tells whether the user may use every mount as it is meant. Where not, the container runs as root without
// capabilities, who may use what root owns: a volume that works matters more than one layer of several.
func (u identity) canUse(mounts []sandbox.Mount) bool {
	for _, m := range mounts {
		if !u.canUseMount(m) {
			return false
		}
	}
	return true
}

func (u identity) canUseMount(m sandbox.Mount) bool {
	info, err := os.Stat(m.Source)
	if err != nil {
		return true // whoever opens it will say what is wrong
	}
	if !m.ReadOnly {
		return u.allows(info, 0o6)
	}
	seen, ok := 0, true
	err = filepath.WalkDir(m.Source, func(p string, d fs.DirEntry, err error) error {
		if seen++; err != nil || seen > mostFiles || !ok {
			return fs.SkipAll
		}
		if d.Type()&fs.ModeSymlink != 0 {
			return nil
		}
		info, err := d.Info()
		ok = err != nil || u.allows(info, 0o4)
		return nil
	})
	return ok && err == nil
}

// allows tells whether the mode gives the user the rights in want, and in a folder the right to look up names.
func (u identity) allows(info fs.FileInfo, want fs.FileMode) bool {
	if info.IsDir() {
		want |= 0o1
	}
	have := info.Mode().Perm()
	if uid, ok := ownerOf(info); ok && uid == u.uid {
		have >>= 6
	}
	return have&want == want
}

// ownerOf returns the user that owns a file.
func ownerOf(info fs.FileInfo) (int, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(st.Uid), true
}
