//go:build linux

package wasi

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"edgepod/wasmrt/fs"
)

// TestDescriptorsAgainstAModel does random calls on descriptors of a guest and on a model of them over the host's own files
// in a second folder: both answer the same, and leave the same files behind.
func TestDescriptorsAgainstAModel(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 11))
		ours, theirs := folder(t, "a", "b"), folder(t, "a", "b")
		g := newGuest(t, Config{MaxFiles: 12}, ours)
		m := &fdModel{dir: theirs, files: make([]*modelFile, 4, 12)}
		start := g.next
		for i := range 300 {
			g.next = start
			op := randomFDOp(rng)
			got, want := op.onGuest(g), op.onModel(m)
			if got != want {
				t.Fatalf("seed %d, call %d, %+v: got %s, want %s", seed, i, op, got, want)
			}
		}
		m.closeAll()
		if diff := cmp.Diff(contents(t, theirs), contents(t, ours)); diff != "" {
			t.Errorf("seed %d: %s", seed, diff)
		}
	}
}

// contents reads the files of a folder.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = string(b)
	}
	return all
}

// fdOp is one call; what its numbers mean depends on the call.
type fdOp struct {
	what   string
	fd, to uint64
	offset int64
	n      int
	name   string
	flags  uint64
	rights rights
}

func randomFDOp(rng *rand.Rand) fdOp {
	whats := []string{
		"open", "open", "close", "renumber", "read", "read", "write", "write", "pread", "pwrite", "seek", "tell", "size", "allocate", "stat",
		"append",
	}
	both := rightFDSeek | rightFDTell | rightFDFdstatSetFlags | rightFDFilestatGet | rightFDFilestatSetSize | rightFDAllocate
	return fdOp{
		what: whats[rng.IntN(len(whats))], fd: uint64(4 + rng.IntN(6)), to: uint64(4 + rng.IntN(6)), offset: int64(rng.IntN(40) - 5),
		n: rng.IntN(20), name: []string{"a", "b", "c"}[rng.IntN(3)], flags: uint64(rng.IntN(8)),
		rights: both | []rights{rightFDRead, rightFDWrite, rightFDRead | rightFDWrite}[rng.IntN(3)],
	}
}

// text is what an operation writes.
func (op fdOp) text() string { return fmt.Sprintf("%020d", op.offset+int64(op.fd)*1000)[:op.n] }

// openFlags are oflags and whether to append.
func (op fdOp) openFlags() (oflags uint64, appending bool) {
	return map[uint64]uint64{0: 0, 1: oflagCreat, 2: oflagTrunc, 3: oflagCreat | oflagExcl}[op.flags%4], op.flags >= 4
}

func (op fdOp) onGuest(g *guest) string {
	list, buf := g.iovs(op.n)
	out := g.alloc(64)
	copy(g.mem[buf:], op.text())
	answer := func(errno fs.Errno, value any) string {
		if errno != 0 {
			return fmt.Sprint("errno ", uint16(errno))
		}
		return fmt.Sprint(value)
	}
	switch op.what {
	case "open":
		oflags, appending := op.openFlags()
		fdflags := uint64(0)
		if appending {
			fdflags = uint64(flagAppend)
		}
		fd, errno := g.tryOpen(3, op.name, 0, oflags, uint64(op.rights), 0, fdflags)
		return answer(errno, fd)
	case "close":
		return answer(g.call("fd_close", op.fd), "")
	case "renumber":
		return answer(g.call("fd_renumber", op.fd, op.to), "")
	case "read":
		g.put32(out, 0)
		errno := g.call("fd_read", op.fd, list, 1, out)
		return answer(errno, string(g.mem[buf:buf+uint64(g.u32(out))]))
	case "pread":
		g.put32(out, 0)
		errno := g.call("fd_pread", op.fd, list, 1, uint64(op.offset), out)
		return answer(errno, string(g.mem[buf:buf+uint64(g.u32(out))]))
	case "write":
		errno := g.call("fd_write", op.fd, list, 1, out)
		return answer(errno, g.u32(out))
	case "pwrite":
		errno := g.call("fd_pwrite", op.fd, list, 1, uint64(op.offset), out)
		return answer(errno, g.u32(out))
	case "seek":
		errno := g.call("fd_seek", op.fd, uint64(op.offset), op.flags%3, out)
		return answer(errno, g.u64(out))
	case "tell":
		errno := g.call("fd_tell", op.fd, out)
		return answer(errno, g.u64(out))
	case "size":
		return answer(g.call("fd_filestat_set_size", op.fd, uint64(op.n)), "")
	case "allocate":
		return answer(g.call("fd_allocate", op.fd, uint64(max(op.offset, 0)), uint64(op.n)), "")
	case "append":
		return answer(g.call("fd_fdstat_set_flags", op.fd, op.flags%2), "")
	}
	errno := g.call("fd_filestat_get", op.fd, out)
	return answer(errno, g.u64(out+32))
}

// fdModel is a guest's descriptors over the host's.
type fdModel struct {
	dir   string
	files []*modelFile
}

// modelFile is an open file. Appending is done here, as the host would append at an offset, too.
type modelFile struct {
	*os.File
	read, write, appending bool
}

func (m *fdModel) closeAll() {
	for _, f := range m.files {
		if f != nil {
			_ = f.Close()
		}
	}
}

// open finds the lowest free number.
func (m *fdModel) open(op fdOp) string {
	fd := 4
	for fd < len(m.files) && m.files[fd] != nil {
		fd++
	}
	if fd == cap(m.files) {
		return fmt.Sprint("errno ", uint16(fs.MFile))
	}
	f := &modelFile{read: op.rights&rightFDRead != 0, write: op.rights&rightFDWrite != 0}
	oflags, appending := op.openFlags()
	flags := unix.O_RDONLY
	switch {
	case f.write && f.read || oflags&oflagTrunc != 0 && f.read:
		flags = unix.O_RDWR
	case f.write || oflags&oflagTrunc != 0:
		flags = unix.O_WRONLY
	}
	for o, flag := range map[uint64]int{oflagCreat: unix.O_CREAT, oflagTrunc: unix.O_TRUNC, oflagExcl: unix.O_EXCL} {
		if oflags&o != 0 {
			flags |= flag
		}
	}
	file, err := os.OpenFile(filepath.Join(m.dir, op.name), flags, 0o644)
	if err != nil {
		return fmt.Sprint("errno ", uint16(fs.ErrnoOf(err)))
	}
	f.File, f.appending = file, appending
	if fd == len(m.files) {
		m.files = append(m.files, nil)
	}
	m.files[fd] = f
	return fmt.Sprint(fd)
}

func (op fdOp) onModel(m *fdModel) string {
	if op.what == "open" {
		return m.open(op)
	}
	value, err := op.model(m)
	if err != nil {
		return fmt.Sprint("errno ", uint16(fs.ErrnoOf(err)))
	}
	return fmt.Sprint(value)
}

// model does what is done with an open descriptor.
func (op fdOp) model(m *fdModel) (any, error) {
	if op.fd >= uint64(len(m.files)) || m.files[op.fd] == nil {
		return nil, fs.BadF
	}
	f := m.files[op.fd]
	fd := int(f.Fd())
	switch op.what {
	case "close":
		m.files[op.fd] = nil
		return "", f.Close()
	case "renumber":
		if op.to >= uint64(len(m.files)) || m.files[op.to] == nil {
			return nil, fs.BadF
		}
		if op.fd == op.to {
			return "", nil
		}
		old := m.files[op.to]
		m.files[op.to], m.files[op.fd] = f, nil
		return "", old.Close()
	case "seek":
		return unix.Seek(fd, op.offset, int(op.flags%3))
	case "tell":
		return unix.Seek(fd, 0, unix.SEEK_CUR)
	case "append":
		f.appending = op.flags%2 != 0
		return "", nil
	case "stat":
		st, err := f.Stat()
		return st.Size(), err
	case "read", "pread":
		return op.modelRead(f, fd)
	}
	if !f.write {
		return nil, fs.BadF
	}
	return op.modelChange(f, fd)
}

func (op fdOp) modelRead(f *modelFile, fd int) (any, error) {
	if !f.read {
		return nil, fs.BadF
	}
	buf, n := make([]byte, op.n), 0
	var err error
	if op.what == "read" {
		n, err = unix.Read(fd, buf)
	} else {
		n, err = unix.Pread(fd, buf, op.offset)
	}
	return string(buf[:max(n, 0)]), err
}

func (op fdOp) modelChange(f *modelFile, fd int) (any, error) {
	switch op.what {
	case "write":
		if f.appending && op.n > 0 {
			if _, err := unix.Seek(fd, 0, unix.SEEK_END); err != nil {
				return nil, err
			}
		}
		return unix.Write(fd, []byte(op.text()))
	case "pwrite":
		return unix.Pwrite(fd, []byte(op.text()), op.offset)
	case "size":
		return "", unix.Ftruncate(fd, int64(op.n))
	}
	return "", unix.Fallocate(fd, 0, max(op.offset, 0), int64(op.n))
}
