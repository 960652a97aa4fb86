package container

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"

	"golang.org/x/sys/unix"

	"edgepod/wasmrt/compile"
	"edgepod/wasmrt/harden"
)

// Environ is what a child is started with. Two threads run Go code at once in a container: one for the guest, and one to
// hear stop requests. That the number is set before the start spares the runtime a look at the cgroup's limits, at the
// beginning and from time to time.
func Environ() []string { return []string{"GOMAXPROCS=2"} }

// Main is the whole life of a child process; it does not return. args[0] is the job.
func Main(args []string) {
	if err := closeInherited(); err != nil {
		fmt.Fprintln(os.Stderr, "edgepod container process:", err)
		os.Exit(1)
	}
	// While loading there is nothing to gain from collecting; later it would stall behind the guest (see quiet).
	debug.SetGCPercent(-1)
	job := ""
	if len(args) > 0 {
		job = args[0]
	}
	var err error
	switch job {
	case JobRun:
		err = serve(run)
	case JobCompile:
		err = serve(compileModule)
	case JobProbe:
		err = serve(probe)
	default:
		err = fmt.Errorf("unknown job %q: this program is started by edgepod itself", job)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "edgepod container process:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// closeInherited closes what the parent itself was started with: descriptors that are not closed by an exec, unlike those
// that this process has opened since.
func closeInherited() error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("list descriptors: %w", err)
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd <= FDAnswer {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			if err := unix.Close(fd); err != nil {
				return fmt.Errorf("close descriptor %d: %w", fd, err)
			}
		}
	}
	return nil
}

// serve reads the request, once the parent has put this process where it belongs, and does the job.
func serve[T any](do func(T, *os.File) error) error {
	in, out := os.NewFile(FDRequest, "request"), os.NewFile(FDAnswer, "answer")
	if in == nil || out == nil {
		return errors.New("descriptors 3 and 4 are missing: this program is started by edgepod itself")
	}
	data, err := io.ReadAll(in)
	if err != nil {
		return fmt.Errorf("read request: %w", err)
	}
	if err := in.Close(); err != nil {
		return err
	}
	var req T
	if err := json.Unmarshal(data, &req); err != nil {
		// Also where the parent died before it had written all: nothing has been begun.
		return fmt.Errorf("read request: %w", err)
	}
	return do(req, out)
}

// answer writes a and closes the descriptor: the parent may be gone, which is no concern here.
func answer(out *os.File, a Answer) {
	data, err := json.Marshal(a)
	if err == nil {
		_, _ = out.Write(append(data, '\n'))
	}
	_ = out.Close()
}

func compileModule(job compile.Job, out *os.File) error {
	debug.SetGCPercent(100)
	exceeded := make(chan os.Signal, 1)
	signal.Notify(exceeded, unix.SIGXCPU)
	go func() { // until the process ends, by this or by the answer below
		<-exceeded
		answer(out, Answer{Compiled: &compile.Result{Limit: compile.LimitCPU}})
		os.Exit(0)
	}()
	res, layers, err := compile.Work(context.Background(), job)
	if err != nil {
		return err
	}
	answer(out, Answer{Compiled: &res, Layers: layers})
	return nil
}

// probe hardens this process as a container's would be, to see what holds on this machine.
func probe(req Request, out *os.File) error {
	layers := harden.Apply(hardening(req))
	answer(out, Answer{Layers: layers})
	return nil
}
