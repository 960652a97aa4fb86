package harden

import (
	"fmt"
	"os"
	"runtime"
	"slices"

	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/sys/unix"
)

// allowed are the system calls that the Go runtime, a guest's files and the log need. Names that a machine's architecture
// lacks are left out. There is none to start a program, or to look at another process.
var allowed = []string{
	// memory and threads; clone, mmap, mprotect and ioctl have conditions below
	"munmap", "mremap", "madvise", "mincore", "brk", "membarrier", "futex", "futex_time64", "set_robust_list", "rseq",
	"sched_yield", "sched_getaffinity", "getcpu", "gettid", "getpid", "arch_prctl", "exit", "exit_group", "restart_syscall",
	// signals
	"rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "rt_sigpending", "rt_sigtimedwait", "sigaltstack",
	// clocks and chance
	"clock_gettime", "clock_getres", "clock_nanosleep", "nanosleep", "gettimeofday", "time", "getrandom",
	"timer_create", "timer_settime", "timer_delete", "setitimer",
	// waiting
	"epoll_create", "epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait", "epoll_pwait2", "poll", "ppoll", "select", "pselect6",
	"eventfd", "eventfd2", "pipe", "pipe2",
	// descriptors
	"read", "write", "readv", "writev", "pread64", "pwrite64", "preadv", "pwritev", "preadv2", "pwritev2", "lseek", "close", "close_range",
	"dup", "dup2", "dup3", "fcntl", "fstat", "fstatfs", "fsync", "fdatasync", "ftruncate", "fallocate", "fadvise64", "sync_file_range",
	"copy_file_range", "sendfile", "splice",
	// paths beneath descriptors; Landlock bounds which
	"open", "openat", "openat2", "stat", "lstat", "newfstatat", "fstatat", "statx", "access", "faccessat", "faccessat2",
	"getdents64", "readlinkat", "mkdirat", "unlinkat", "renameat", "renameat2", "linkat", "symlinkat", "utimensat", "fchmod", "fchmodat",
	"getcwd",
	// identity, to read
	"getuid", "geteuid", "getgid", "getegid", "getresuid", "getresgid", "capget",
}

// socketCalls are what Unix sockets need besides; socket itself has a condition below.
var socketCalls = []string{
	"bind", "connect", "listen", "accept4", "shutdown", "sendto", "recvfrom", "sendmsg", "recvmsg",
	"getsockopt", "setsockopt", "getsockname", "getpeername", "timerfd_create", "timerfd_settime",
}

// filterCalls installs the filter in all threads, with no_new_privs.
func filterCalls(o Options) error {
	f, err := newFilter(o)
	if err != nil {
		return fmt.Errorf("filter system calls: %w", err)
	}
	return runOnOneThread(f.install)
}

// runOnOneThread runs do without being moved to another thread meanwhile.
func runOnOneThread(do func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return do()
}

// newFilter makes the program that allows what o keeps, and answers EPERM to all else.
func newFilter(o Options) (*filter, error) {
	info, err := arch.GetInfo("")
	if err != nil {
		return nil, err
	}
	f := &filter{}
	f.begin(info)
	names := allowed
	if o.Sockets {
		names = slices.Concat(allowed, socketCalls)
	}
	if o.Code {
		names = slices.Concat(names, []string{"mmap", "mprotect"})
	}
	for _, name := range names {
		if number, ok := info.SyscallNames[name]; ok {
			f.decide(number, unix.SECCOMP_RET_ALLOW)
		}
	}
	for _, c := range conditions(o) {
		if number, ok := info.SyscallNames[c.name]; ok {
			f.decideBy(number, c.tests)
		}
	}
	// The C library asks for the newer call first and takes the older one only after this error.
	if number, ok := info.SyscallNames["clone3"]; ok {
		f.decide(number, deny(unix.ENOSYS))
	}
	f.answer(deny(unix.EPERM))
	return f, nil
}

// conditions are the calls that are allowed with some arguments only.
func conditions(o Options) []condition {
	equal := func(arg int, values ...uint64) (out []test) {
		for _, v := range values {
			out = append(out, test{arg: arg, equal: v})
		}
		return out
	}
	all := []condition{
		{"clone", []test{{arg: 0, mask: unix.CLONE_THREAD, set: true}}},
		{"tgkill", equal(0, uint64(os.Getpid()))},
		{"prlimit64", equal(2, 0)},
	}
	stream := []uint64{unix.TIOCINQ} // FIONREAD: how much a stream holds
	if o.Sockets {
		stream = append(stream, unix.SIOCOUTQ) // how much a peer has not read
		all = append(all, condition{"socket", equal(0, unix.AF_UNIX)})
	}
	all = append(all, condition{"ioctl", equal(1, stream...)})
	if !o.Code {
		notExecutable := []test{{arg: 2, mask: unix.PROT_EXEC}}
		all = append(all, condition{"mmap", notExecutable}, condition{"mprotect", notExecutable})
	}
	return all
}
