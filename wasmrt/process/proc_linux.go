package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"edgepod/wasmrt/sandbox"
)

// proc is a process held by a pidfd: whatever becomes of its pid, this is the one.
type proc struct {
	pid       int
	startTick uint64
	pidfd     *os.File
	raw       syscall.RawConn
}

// errGone tells that the process that a record names is no more.
var errGone = errors.New("the process has ended")

// ownProc takes over the pidfd of a child.
func ownProc(pid, pidfd int) (*proc, error) {
	if pidfd < 0 {
		return nil, errors.New("this kernel has no pidfd: Linux 5.4 or newer is needed")
	}
	p, err := newProc(pid, pidfd)
	if err != nil {
		return nil, err
	}
	if p.startTick, err = startTick(pid); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// adoptProc finds the process that started at tick under pid, errGone if it isn't there any more.
func adoptProc(pid int, tick uint64) (*proc, error) {
	if pid <= 1 {
		return nil, errGone
	}
	pidfd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
		return nil, errGone
	}
	if err != nil {
		return nil, fmt.Errorf("open process %d: %w", pid, err)
	}
	p, err := newProc(pid, pidfd)
	if err != nil {
		return nil, err
	}
	// The pid cannot be reused while it is looked at: the pidfd was opened first, and if it names another, so does the tick.
	p.startTick, err = startTick(pid)
	if err != nil || p.startTick != tick {
		p.close()
		return nil, errGone
	}
	return p, nil
}

func newProc(pid, pidfd int) (*proc, error) {
	unix.CloseOnExec(pidfd)
	if err := unix.SetNonblock(pidfd, true); err != nil {
		return nil, errors.Join(err, unix.Close(pidfd))
	}
	f := os.NewFile(uintptr(pidfd), "pidfd")
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &proc{pid: pid, pidfd: f, raw: raw}, nil
}

func (p *proc) close() { _ = p.pidfd.Close() }

// wait returns nil when the process has ended, and an error when the proc was closed before.
func (p *proc) wait() error {
	return p.raw.Read(func(fd uintptr) bool {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 0)
		return err == nil && n > 0
	})
}

// signal sends sig; a process that has ended is no error, nor is a proc that was closed.
func (p *proc) signal(sig syscall.Signal) error {
	var err error
	if p.raw.Control(func(fd uintptr) { err = unix.PidfdSendSignal(int(fd), sig, nil, 0) }) != nil {
		return nil
	}
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("send %s to process %d: %w", sig, p.pid, err)
	}
	return nil
}

// ended is how a process ended, as its parent learns it.
type ended struct {
	code   int32
	signal int32
}

// reap takes the ended process out of the kernel's table. It is not known how it ended where it was no child of this
// process, or was reaped before.
func (p *proc) reap() (ended, bool) {
	// siginfo is the part of siginfo_t that is used, for 64-bit systems.
	type siginfo struct {
		signo, errno, code, _ int32
		pid                   int32
		uid                   uint32
		status                int32
	}
	var info unix.Siginfo
	var err error
	if e := p.raw.Control(func(fd uintptr) {
		err = unix.Waitid(unix.P_PIDFD, int(fd), &info, unix.WEXITED|unix.WNOHANG, nil)
	}); e != nil || err != nil {
		return ended{}, false
	}
	in := (*siginfo)(unsafe.Pointer(&info))
	const exited = 1 // CLD_EXITED
	switch {
	case in.pid == 0:
		return ended{}, false
	case in.code == exited:
		return ended{code: in.status}, true
	default:
		return ended{code: 128 + in.status, signal: in.status}, true
	}
}

// startTick reads when a process was started, in clock ticks since boot.
func startTick(pid int) (uint64, error) {
	fields, err := statFields(pid)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

// statFields returns the fields of /proc/PID/stat from the third on, the state.
func statFields(pid int) ([]string, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	_, rest, ok := bytes.Cut(data[bytes.LastIndexByte(data, ')')+1:], []byte(" "))
	fields := strings.Fields(string(rest))
	if !ok || len(fields) < 22 {
		return nil, fmt.Errorf("/proc/%d/stat is malformed", pid)
	}
	return fields, nil
}

// usage reads a process's figures where it has no cgroup of its own.
func (p *proc) usage() (sandbox.Stats, error) {
	fields, err := statFields(p.pid)
	if err != nil {
		return sandbox.Stats{}, errGone
	}
	number := func(i int) int64 { n, _ := strconv.ParseInt(fields[i], 10, 64); return n }
	const ticksPerSecond = 100
	return sandbox.Stats{
		CPU:    time.Duration(number(11)+number(12)) * time.Second / ticksPerSecond,
		PIDs:   number(17),
		Memory: number(21) * int64(os.Getpagesize()),
	}, nil
}

// bootID names the machine's present run.
var bootID = sync.OnceValue(func() string {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
})
