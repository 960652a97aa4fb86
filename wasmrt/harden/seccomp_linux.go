package harden

import (
	"fmt"
	"os"

	"github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/sys/unix"
)

// allowed are the system calls that the Go runtime, a guest's files and the log need. Names that a machine's architecture
// lacks are left out. There is none to make a socket, start a program, or look at another process.
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

// filterCalls installs the filter in all threads, with no_new_privs.
func filterCalls(o Options) error {
	info, err := arch.GetInfo("")
	if err != nil {
		return fmt.Errorf("filter system calls: %w", err)
	}
	group := seccomp.SyscallGroup{Action: seccomp.ActionAllow}
	for _, name := range allowed {
		if _, ok := info.SyscallNames[name]; ok {
			group.Names = append(group.Names, name)
		}
	}
	when := func(name string, arg uint32, op seccomp.Operation, value uint64) {
		group.NamesWithCondtions = append(group.NamesWithCondtions, seccomp.NameWithConditions{
			Name: name, Conditions: seccomp.ArgumentConditions{{Argument: arg, Operation: op, Value: value}},
		})
	}
	when("clone", 0, seccomp.BitsSet, unix.CLONE_THREAD)
	when("tgkill", 0, seccomp.Equal, uint64(os.Getpid()))
	when("prlimit64", 2, seccomp.Equal, 0)
	when("ioctl", 1, seccomp.Equal, unix.TIOCINQ) // FIONREAD: how much a stream holds
	if o.Code {
		group.Names = append(group.Names, "mmap", "mprotect")
	} else {
		when("mmap", 2, seccomp.BitsNotSet, unix.PROT_EXEC)
		when("mprotect", 2, seccomp.BitsNotSet, unix.PROT_EXEC)
	}
	filter := seccomp.Filter{
		NoNewPrivs: true,
		Flag:       seccomp.FilterFlagTSync,
		Policy: seccomp.Policy{
			DefaultAction: seccomp.ActionErrno,
			Syscalls: []seccomp.SyscallGroup{
				group,
				// The C library asks for the newer call first and takes the older one only after this error.
				{Action: seccomp.Action(uint32(seccomp.ActionErrno)&^0xffff | uint32(unix.ENOSYS)), Names: []string{"clone3"}},
			},
		},
	}
	if err := seccomp.LoadFilter(filter); err != nil {
		return fmt.Errorf("filter system calls: %w", err)
	}
	return nil
}
