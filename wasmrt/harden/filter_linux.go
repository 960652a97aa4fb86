package harden

import (
	"fmt"
	"runtime"
	"unsafe"

	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/sys/unix"
)

// test is a condition on an argument of a system call.
type test struct {
	arg int
	// equal is what all 64 bits of the argument must be, unless mask is set; then mask's bits must be set, or clear.
	equal uint64
	mask  uint32
	set   bool
}

// condition is a system call that is allowed where an argument passes one of the tests.
type condition struct {
	name  string
	tests []test
}

// filter is a program that decides on system calls, in the kernel's classic BPF.
//
// The number of the call stays in the accumulator until a call that has a condition is recognised; that call is decided
// then and there. So no argument is ever taken for a number.
type filter struct{ code []unix.SockFilter }

// Offsets in struct seccomp_data.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArgs   = 16
)

func (f *filter) add(code uint16, k uint32) {
	f.code = append(f.code, unix.SockFilter{Code: code, K: k})
}

func (f *filter) load(offset uint32) { f.add(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offset) }

func (f *filter) answer(action uint32) { f.add(unix.BPF_RET|unix.BPF_K, action) }

// unless skips the next n instructions where the comparison fails.
func (f *filter) unless(comparison uint16, k uint32, n uint8) {
	f.code = append(f.code, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_K | comparison, K: k, Jf: n})
}

func deny(errno unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(errno) }

// begin refuses calls of other architectures and of the 32-bit interface, and loads the number.
func (f *filter) begin(a *arch.Info) {
	f.load(offsetArch)
	f.unless(unix.BPF_JEQ, uint32(a.ID), 1)
	f.add(unix.BPF_JMP|unix.BPF_JA, 1)
	f.answer(deny(unix.EPERM))
	f.load(offsetNumber)
	if a.ID == arch.X86_64.ID {
		f.unless(unix.BPF_JGE, uint32(arch.X32.SeccompMask), 1)
		f.answer(deny(unix.ENOSYS))
	}
}

// decide answers for one call.
func (f *filter) decide(number int, action uint32) {
	f.unless(unix.BPF_JEQ, uint32(number), 1)
	f.answer(action)
}

// decideBy allows one call if it passes one of the tests, and refuses it otherwise.
func (f *filter) decideBy(number int, tests []test) {
	var inner filter
	for _, t := range tests {
		inner.pass(t)
	}
	inner.answer(deny(unix.EPERM))
	f.unless(unix.BPF_JEQ, uint32(number), uint8(len(inner.code)))
	f.code = append(f.code, inner.code...)
}

// pass allows the call if it passes the test, and goes on otherwise. Arguments are little-endian, as on every architecture
// that edgepod runs on.
func (f *filter) pass(t test) {
	low := uint32(offsetArgs + 8*t.arg)
	switch {
	case t.mask == 0:
		f.load(low + 4)
		f.unless(unix.BPF_JEQ, uint32(t.equal>>32), 3)
		f.load(low)
		f.unless(unix.BPF_JEQ, uint32(t.equal), 1)
	case t.set:
		f.load(low)
		f.unless(unix.BPF_JSET, t.mask, 1)
	default:
		f.load(low)
		f.unless(unix.BPF_JSET, t.mask, 1)
		f.add(unix.BPF_JMP|unix.BPF_JA, 1)
	}
	f.answer(unix.SECCOMP_RET_ALLOW)
}

// install puts the filter on all threads, for good; the kernel asks for no_new_privs before.
func (f *filter) install() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("give up new privileges: %w", err)
	}
	program := unix.SockFprog{Len: uint16(len(f.code)), Filter: &f.code[0]}
	thread, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&program)))
	runtime.KeepAlive(f)
	if e != 0 {
		return fmt.Errorf("filter system calls: %w", e)
	}
	if thread != 0 {
		return fmt.Errorf("filter system calls: thread %d has a filter of its own", thread)
	}
	return nil
}
