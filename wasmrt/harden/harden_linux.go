package harden

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
	"kernel.org/pub/linux/libs/security/libcap/psx"

	"edgepod/wasmrt/sandbox"
)

const newerKernel = "use a newer kernel, or one built with this feature"

// Apply gives everything up that o does not keep, for all threads and for good, and tells which layers hold.
func Apply(o Options) []sandbox.Layer { return append(Confine(o), Seal(o)) }

// Confine does what Apply does but for the filter of system calls, which is left to Seal: between the two, a process can
// make sockets and executable memory as the user that it has become. The order matters: each step still needs what a later
// one takes away.
func Confine(o Options) []sandbox.Layer {
	// A score that cannot be set leaves the kernel's own choice, which is no layer of defence.
	_ = os.WriteFile("/proc/self/oom_score_adj", strconv.AppendInt(nil, int64(o.OOMScore), 10), 0)
	return []sandbox.Layer{
		outcome(LayerLimits, limits(o), "raise the limits of the node's own process"),
		outcome(LayerLandlock, restrictPaths(o), newerKernel),
		outcome(LayerJail, jail(o), "build with CGO_ENABLED=0, and run the node as root or allow user namespaces (sysctl user.max_user_namespaces)"),
		outcome(LayerUser, becomeUser(o), "make the pod's hostPath volumes accessible to others (mode 0777), or run the node as an ordinary user"),
		outcome(LayerCapabilities, dropCapabilities(), newerKernel),
	}
}

// Seal installs the filter of system calls, the last of the layers.
func Seal(o Options) sandbox.Layer { return outcome(LayerSeccomp, filterCalls(o), newerKernel) }

func limits(o Options) error {
	// grace is how much later the kernel kills, after the signal by which a process can say that it was over its limit.
	const grace = 2
	set := func(what string, resource int, n uint64) error {
		if n == 0 && resource != unix.RLIMIT_CORE {
			return nil
		}
		var now unix.Rlimit
		if err := unix.Getrlimit(resource, &now); err != nil {
			return fmt.Errorf("limit of %s: %w", what, err)
		}
		hard := n
		if resource == unix.RLIMIT_CPU {
			hard += grace
		}
		hard = min(hard, now.Max)
		if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: min(n, hard), Max: hard}); err != nil {
			return fmt.Errorf("limit of %s: %w", what, err)
		}
		return nil
	}
	err := errors.Join(
		set("core files", unix.RLIMIT_CORE, 0),
		set("open files", unix.RLIMIT_NOFILE, o.Files),
		set("memory", unix.RLIMIT_DATA, o.Data),
		set("processor time", unix.RLIMIT_CPU, o.CPU),
	)
	// Others must not read this process's memory, nor attach to it.
	if e := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); e != nil {
		err = errors.Join(err, fmt.Errorf("forbid memory dumps: %w", e))
	}
	return err
}

func jail(o Options) error {
	if o.Jail == "" {
		return errors.New("no folder was given")
	}
	if err := os.Chdir(o.Jail); err != nil {
		return fmt.Errorf("change working directory: %w", err)
	}
	if CGO {
		return errors.New("this program was built with cgo")
	}
	if err := unix.Chroot("."); err != nil {
		return fmt.Errorf("change root folder: %w", err)
	}
	return nil
}

func becomeUser(o Options) error {
	if unix.Getuid() != 0 || o.UserNamespace {
		return nil
	}
	if o.UID == 0 {
		return errors.New("a hostPath volume of the pod is accessible to root alone")
	}
	for _, step := range []struct {
		what string
		call func() unix.Errno
	}{
		{"groups", func() unix.Errno { _, _, e := psx.Syscall3(unix.SYS_SETGROUPS, 0, 0, 0); return e }},
		{"group", func() unix.Errno { return setres(unix.SYS_SETRESGID, o.GID) }},
		{"user", func() unix.Errno { return setres(unix.SYS_SETRESUID, o.UID) }},
	} {
		if e := step.call(); e != 0 {
			return fmt.Errorf("change %s: %w", step.what, e)
		}
	}
	return nil
}

func setres(call uintptr, id int) unix.Errno {
	_, _, e := psx.Syscall3(call, uintptr(id), uintptr(id), uintptr(id))
	return e
}

func dropCapabilities() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	_, _, e := psx.Syscall3(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&none[0])), 0)
	if e != 0 {
		return fmt.Errorf("drop capabilities: %w", e)
	}
	return nil
}
