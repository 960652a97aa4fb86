package process

import (
	"bufio"
	"bytes"
	"fmt"
	"hash/fnv"
	"os"

	"edgepod/wasmrt/sandbox"
)

const (
	// firstUID begins the range from which pods' users are taken; nobody's is used where the range isn't mapped.
	firstUID = 0x70000000
	rangeUID = 1 << 24
	nobody   = 65534
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

// Owner implements sandbox.Runtime.
func (*Runtime) Owner(id string) (sandbox.Owner, bool) {
	user := podIdentity(id)
	return sandbox.Owner{UID: user.uid, GID: user.gid}, user.uid != 0
}

// identity is the user of the pod's containers.
func (p *pod) identity() identity {
	if p.stored.Spec.AsRoot {
		return identity{}
	}
	return podIdentity(p.stored.Spec.ID)
}
