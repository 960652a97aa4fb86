package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"edgepod/wasmrt/cgroup"
	"edgepod/wasmrt/compile"
	"edgepod/wasmrt/container"
	"edgepod/wasmrt/sandbox"
)

// compileWorker is compile.Config.Work: it runs the job in a process of its own.
func (r *Runtime) compileWorker(ctx context.Context, job compile.Job) (compile.Result, error) {
	job.UserNamespace = r.launch.inUserNamespace()
	ref := r.groups.Root().Child(fmt.Sprintf("compile-%d", time.Now().UnixNano()))
	if err := r.groups.Create(ref, sandbox.Limits{Memory: int64(job.Memory), PIDs: 256}); err != nil {
		r.log.Warn("compile worker runs without cgroup", "err", err)
		ref = nil
	}
	defer func() {
		if err := r.groups.Remove(ref); err != nil {
			r.log.Warn("remove cgroup of compile worker", "err", err)
		}
	}()
	complaints, err := memoryFile()
	if err != nil {
		return compile.Result{}, err
	}
	defer func() { _ = complaints.Close() }()
	c, err := r.startIn(ref, container.JobCompile, complaints)
	if err != nil {
		return compile.Result{}, err
	}
	defer c.abandon()
	a, err := c.ask(ctx, job)
	if err != nil {
		return r.workerDied(ref, complaints)
	}
	if a.Compiled == nil {
		return compile.Result{}, errors.New("the worker did not answer")
	}
	return *a.Compiled, nil
}

// memoryFile is a file without a name.
func memoryFile() (*os.File, error) {
	fd, err := unix.MemfdCreate("stderr", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a file in memory: %w", err)
	}
	return os.NewFile(uintptr(fd), "stderr"), nil
}

// workerDied says why there is no answer, from what the worker wrote to its standard error and what became of its cgroup.
func (r *Runtime) workerDied(ref cgroup.Ref, complaints *os.File) (compile.Result, error) {
	text := make([]byte, 1024)
	n, _ := complaints.ReadAt(text, 0) // ends with EOF, as a rule
	said := strings.ToValidUTF8(strings.TrimSpace(string(text[:n])), "")
	kills, err := r.groups.OOMKills(ref)
	switch {
	case err == nil && kills > 0, lackedMemory(said):
		return compile.Result{Limit: compile.LimitMemory}, nil
	case said == "":
		return compile.Result{}, errors.New("the worker was killed")
	}
	return compile.Result{}, errors.New(said)
}

// startIn starts a child in the cgroup, where it waits for its request.
func (r *Runtime) startIn(ref cgroup.Ref, job string, stderr *os.File) (*child, error) {
	folder, err := r.groups.Folder(ref)
	if err != nil {
		return nil, fmt.Errorf("open cgroup: %w", err)
	}
	if folder != nil {
		defer func() { _ = folder.Close() }()
		return r.launch.start(job, stderr, folder)
	}
	c, err := r.launch.start(job, stderr, nil)
	if err != nil {
		return nil, err
	}
	if err := r.groups.Add(ref, c.proc.pid); err != nil {
		c.abandon()
		return nil, fmt.Errorf("move process to its cgroup: %w", err)
	}
	return c, nil
}
