package process

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"edgepod/wasmrt/container"
	"edgepod/wasmrt/harden"
)

// launcher starts child processes.
type launcher struct {
	program string
	// flags is found out once: the namespaces that this user may make.
	once  sync.Once
	flags uintptr
}

// namespaces are tried from the fullest set to none. An ordinary user needs a user namespace to make the others.
func (l *launcher) namespaces() []uintptr {
	all := uintptr(syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS | syscall.CLONE_NEWPID)
	if l.program == self && harden.CGO {
		all &^= syscall.CLONE_NEWPID
	}
	if os.Geteuid() == 0 {
		return []uintptr{all, syscall.CLONE_NEWNET, 0}
	}
	return []uintptr{syscall.CLONE_NEWUSER | all, syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET, syscall.CLONE_NEWUSER, 0}
}

// cloneFlags returns the fullest set of namespaces in which a process could be started.
func (l *launcher) cloneFlags() uintptr {
	l.once.Do(func() {
		for _, l.flags = range l.namespaces() {
			c, err := l.clone(l.flags, container.JobProbe, nil, nil)
			if err != nil {
				continue
			}
			c.abandon()
			return
		}
	})
	return l.flags
}

// inUserNamespace tells whether children are root of a namespace only.
func (l *launcher) inUserNamespace() bool { return l.cloneFlags()&syscall.CLONE_NEWUSER != 0 }

// inNetworkNamespace tells whether children are born with a network of their own.
func (l *launcher) inNetworkNamespace() bool { return l.cloneFlags()&syscall.CLONE_NEWNET != 0 }

// child is a process that has been started and waits for its request.
type child struct {
	proc    *proc
	request *os.File
	answer  *os.File
}

// start starts a process on a job, in the cgroup behind group if that is not nil; stderr may be nil.
func (l *launcher) start(job string, stderr, group *os.File) (*child, error) {
	return l.clone(l.cloneFlags(), job, stderr, group)
}

// startFrom starts a process in the groups of these files, by a thread that joins them before.
func (l *launcher) startFrom(files []string, job string, stderr *os.File) (c *child, err error) {
	onThreadOfItsOwn(func() {
		for _, name := range files {
			if err = os.WriteFile(name, []byte("0"), 0); err != nil {
				err = fmt.Errorf("join cgroup: %w", err)
				return
			}
		}
		c, err = l.start(job, stderr, nil)
	})
	return c, err
}

// onThreadOfItsOwn runs do on a thread that does nothing else and ends afterwards. The process's first thread can't be
// that: it would stay.
func onThreadOfItsOwn(do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // without an Unlock, the thread ends with the goroutine
		if unix.Gettid() == unix.Getpid() {
			onThreadOfItsOwn(do)
			runtime.UnlockOSThread()
			return
		}
		do()
	}()
	<-done
}

func (l *launcher) clone(flags uintptr, job string, stderr, group *os.File) (*child, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = null.Close() }()
	if stderr == nil {
		stderr = null
	}
	requestR, requestW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	answerR, answerW, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, requestR.Close(), requestW.Close())
	}
	pidfd := -1
	attr := &os.ProcAttr{
		Env:   container.Environ(),
		Files: []*os.File{null, null, stderr, requestR, answerW},
		Sys:   sysProcAttr(flags, &pidfd, group),
	}
	p, err := os.StartProcess(l.program, []string{childName, job}, attr)
	closeErr := errors.Join(requestR.Close(), answerW.Close())
	if err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start process: %w", err), requestW.Close(), answerR.Close())
	}
	c := &child{request: requestW, answer: answerR}
	if c.proc, err = ownProc(p.Pid, pidfd); err != nil {
		return nil, errors.Join(err, p.Kill(), requestW.Close(), answerR.Close())
	}
	return c, p.Release()
}

func sysProcAttr(flags uintptr, pidfd *int, group *os.File) *syscall.SysProcAttr {
	sys := &syscall.SysProcAttr{Cloneflags: flags, Setsid: true, PidFD: pidfd}
	if flags&syscall.CLONE_NEWUSER != 0 {
		sys.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		sys.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	if group != nil {
		sys.UseCgroupFD, sys.CgroupFD = true, int(group.Fd())
	}
	return sys
}

// ask sends the request and waits for the answer, the process's end (io.EOF) or ctx.
func (c *child) ask(ctx context.Context, request any) (container.Answer, error) {
	var a container.Answer
	data, err := json.Marshal(request)
	if err != nil {
		return a, err
	}
	stop := context.AfterFunc(ctx, func() {
		past := time.Unix(1, 0)
		// Both may have been closed by then.
		_ = c.request.SetWriteDeadline(past)
		_ = c.answer.SetReadDeadline(past)
	})
	defer stop()
	_, err = c.request.Write(data)
	if err = errors.Join(err, c.request.Close()); err == nil {
		const most = 1 << 20
		var line []byte
		line, err = bufio.NewReader(io.LimitReader(c.answer, most)).ReadBytes('\n')
		if err == nil {
			err = json.Unmarshal(line, &a)
		}
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return a, errors.Join(err, c.answer.Close())
}

// abandon kills the process and waits for its end.
func (c *child) abandon() {
	_ = c.request.Close() // perhaps closed already
	_ = c.answer.Close()
	_ = c.proc.signal(syscall.SIGKILL)
	_ = c.proc.wait() // it is ours and open
	c.proc.reap()
	c.proc.close()
}
