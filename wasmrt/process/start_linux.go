package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"edgepod/wasmrt/atomicfile"
	"edgepod/wasmrt/compile"
	"edgepod/wasmrt/container"
	"edgepod/wasmrt/image"
	"edgepod/wasmrt/sandbox"
	"edgepod/wasmrt/sandbox/guestfiles"
)

// The files and folders of an attempt.
const (
	specFile   = "spec.json"
	statusFile = "status.json"
	exitFile   = "exit.json"
	stderrFile = "stderr"
	outDir     = "out"
	rootDir    = "root"
)

// storedSpec is the content of spec.json.
type storedSpec struct {
	Spec    sandbox.ContainerSpec `json:"spec"`
	Created time.Time             `json:"created"`
}

// storedStatus is the content of status.json.
type storedStatus struct {
	PID       int    `json:"pid"`
	StartTick uint64 `json:"startTick"`
	Boot      string `json:"boot"`
}

// startTimeout is how long a process may take until its guest begins. The limits of memory hold meanwhile.
const startTimeout = 2 * time.Minute

// Start implements sandbox.Sandbox.
func (p *pod) Start(ctx context.Context, spec sandbox.ContainerSpec) (sandbox.Status, error) {
	if err := ctx.Err(); err != nil {
		return sandbox.Status{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	a, err := p.reserve(spec)
	if err != nil {
		return sandbox.Status{}, err
	}
	st, err := a.start(ctx)
	if err == nil {
		return st, nil
	}
	err = errors.Join(err, a.discard())
	var shaped *sandbox.StartError
	var img *sandbox.ImageError
	if errors.As(err, &shaped) || errors.As(err, &img) || ctx.Err() != nil {
		return sandbox.Status{}, err
	}
	return sandbox.Status{}, &sandbox.StartError{Reason: sandbox.ReasonCreateContainerError, Message: err.Error()}
}

// reserve puts the attempt on the list, in state created.
func (p *pod) reserve(spec sandbox.ContainerSpec) (*attempt, error) {
	refuse := func(why string) error {
		return &sandbox.StartError{Reason: sandbox.ReasonCreateContainerConfigError, Message: why}
	}
	switch {
	case !validID(spec.ID) || spec.Name == "":
		return nil, refuse(fmt.Sprintf("the container has no name or an id that cannot be used: %q", spec.ID))
	case spec.Limits.Memory < 0 || spec.Limits.CPUMilli < 0:
		return nil, refuse("a limit is negative")
	}
	if memory := p.rt.memoryLimit(spec.Limits, p.stored.Spec.Limits); memory < leastMemory {
		return nil, &sandbox.StartError{
			Reason: sandbox.ReasonRunContainerError,
			Message: fmt.Sprintf("the memory limit of %d KiB is less than the %d MiB that a container takes with the smallest of modules: raise limits.memory",
				memory>>10, leastMemory>>20),
		}
	}
	a := p.newAttempt(spec)
	if len(a.spec.Args) == 0 {
		a.spec.Args = []string{spec.Name}
	}
	if a.spec.Log.Path == "" {
		a.spec.Log.Path = filepath.Join(a.dir, outDir, "log")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.removed {
		return nil, fmt.Errorf("sandbox %s is removed", p.stored.Spec.ID)
	}
	if p.find(spec.ID) != nil {
		return nil, &sandbox.StartError{
			Reason: sandbox.ReasonCreateContainerError, Message: fmt.Sprintf("container %s exists already", spec.ID),
		}
	}
	p.attempts = append(p.attempts, a)
	return a, nil
}

// discard undoes what a failed start has made.
func (a *attempt) discard() error {
	a.pod.mu.Lock()
	a.pod.drop(a)
	a.status.State = sandbox.StateExited
	close(a.done)
	a.pod.mu.Unlock()
	defer close(a.cleared)
	return errors.Join(a.pod.rt.groups.Remove(a.group), guestfiles.Remove(a.dir))
}

// start makes the attempt's files and its process, and returns when its guest is about to run.
func (a *attempt) start(ctx context.Context) (sandbox.Status, error) {
	r := a.pod.rt
	entry, ok := r.images.Get(a.spec.Digest)
	if !ok {
		return sandbox.Status{}, &sandbox.ImageError{
			Reason: sandbox.ReasonErrImagePull, Ref: a.spec.Image,
			Message: fmt.Sprintf("the image (%s) is not on this node any more: it has to be pulled again", a.spec.Digest),
		}
	}
	code, _, err := r.compile(ctx, entry, sandbox.PullRequest{Ref: a.spec.Image, Policy: sandbox.PullIfNotPresent})
	if err != nil {
		return sandbox.Status{}, err
	}
	defer code.Release() // the process holds it then
	if err := os.MkdirAll(a.dir, 0o755); err != nil {
		return sandbox.Status{}, err
	}
	stderr, err := os.OpenFile(filepath.Join(a.dir, stderrFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return sandbox.Status{}, err
	}
	defer func() { _ = stderr.Close() }()
	c, err := a.spawn(stderr)
	if err != nil {
		return sandbox.Status{}, err
	}
	req, err := a.prepare(ctx, entry, code) // while the process begins
	if err != nil {
		c.abandon()
		return sandbox.Status{}, err
	}
	answer, err := a.converse(ctx, c, req)
	if err == nil && answer.Failure == "" {
		return a.running(c.proc, answer)
	}
	a.hold(nil)
	c.abandon()
	if err != nil {
		return sandbox.Status{}, a.diedEarly(ctx, err)
	}
	return sandbox.Status{}, &sandbox.StartError{Reason: sandbox.ReasonRunContainerError, Message: answer.Failure}
}

// spawn makes the attempt's cgroup and starts its process there.
func (a *attempt) spawn(stderr *os.File) (*child, error) {
	r, limits := a.pod.rt, a.spec.Limits
	limits.Memory = r.memoryLimit(limits, a.pod.stored.Spec.Limits)
	if err := r.groups.Create(a.group, limits); err != nil {
		return nil, err
	}
	if join := r.groups.Join(a.group); len(join.Starter)+len(join.All) > 0 {
		return r.launch.startFrom(join.Starter, container.JobRun, stderr)
	}
	return r.startIn(a.group, container.JobRun, stderr)
}

// converse records the process before it is told anything, so that none that runs a guest is ever unknown.
func (a *attempt) converse(ctx context.Context, c *child, req container.Request) (container.Answer, error) {
	record := storedStatus{PID: c.proc.pid, StartTick: c.proc.startTick, Boot: bootID()}
	if err := atomicfile.WriteJSON(filepath.Join(a.dir, statusFile), record, false); err != nil {
		return container.Answer{}, err
	}
	if a.hold(c.proc) {
		return container.Answer{}, errStopped
	}
	return c.ask(ctx, req)
}

var errStopped = errors.New("it was stopped before its guest began")

// hold makes the process known to Stop and Remove, while its guest has not begun, and tells whether they came before.
func (a *attempt) hold(proc *proc) (doomed bool) {
	a.pod.mu.Lock()
	defer a.pod.mu.Unlock()
	a.proc = proc
	if proc != nil {
		a.status.PID, a.status.StartTick = proc.pid, proc.startTick
	}
	return a.doomed
}

// running takes over the process, whose guest begins.
func (a *attempt) running(proc *proc, answer container.Answer) (sandbox.Status, error) {
	r, p := a.pod.rt, a.pod
	if err := r.groups.SetCPU(a.group, a.spec.Limits.CPUMilli); err != nil {
		r.log.Warn("container runs without its cpu limit", "container", a.spec.ID, "err", err)
	}
	p.mu.Lock()
	a.status.State, a.status.StartedAt = sandbox.StateRunning, answer.StartedAt
	st, removed := a.status, p.removed
	p.notify()
	p.mu.Unlock()
	a.watch(proc)
	if removed {
		// Remove has not seen the process: it waits for this attempt's end.
		return st, a.kill()
	}
	return st, nil
}

// diedEarly says why a process ended before its guest began.
func (a *attempt) diedEarly(ctx context.Context, err error) error {
	complaint := a.complaint()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("start container %s: %w", a.spec.ID, ctx.Err())
	case a.oomKilled(), a.spec.Limits.Memory > 0 && lackedMemory(complaint):
		return &sandbox.StartError{
			Reason: sandbox.ReasonRunContainerError,
			Message: fmt.Sprintf("the memory limit of %d MiB is too small to load the module: raise limits.memory",
				a.spec.Limits.Memory>>20),
		}
	case complaint != "":
		return &sandbox.StartError{Reason: sandbox.ReasonRunContainerError, Message: complaint}
	}
	return fmt.Errorf("the container's process ended before its guest began: %w", err)
}

// complaint is the beginning of what the engine wrote to its standard error.
func (a *attempt) complaint() string {
	f, err := os.Open(filepath.Join(a.dir, stderrFile))
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	const most = 1024
	text, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return ""
	}
	return strings.ToValidUTF8(strings.TrimSpace(string(text)), "")
}

// prepare makes the attempt's files, and says what its process is to do.
func (a *attempt) prepare(ctx context.Context, entry image.Entry, code *compile.Code) (container.Request, error) {
	r, p, spec := a.pod.rt, a.pod, a.spec
	user := p.identity()
	memory := r.memoryLimit(spec.Limits, p.stored.Spec.Limits)
	req := container.Request{
		Container: spec,
		Code:      code.Dir, Names: entry.NamesPath, Language: entry.Language,
		Out: filepath.Join(a.dir, outDir), Root: filepath.Join(a.dir, rootDir),
		Net: p.net(), Hostname: p.stored.Spec.Hostname, OwnNetwork: r.launch.inNetworkNamespace(),
		Join: r.groups.Join(a.group).All, UID: user.uid, GID: user.gid, UserNamespace: r.launch.inUserNamespace(),
		Pages: pages(memory, code.Size),
	}
	if !r.holds("memory") {
		const engine = 64 << 20
		req.Data = uint64(memory) + engine
	}
	if spec.ReadOnlyRoot {
		req.Root = entry.Root // shown as it is, or nothing
	} else if err := a.makeRoot(ctx, entry, req.Root, user); err != nil {
		return req, err
	}
	if err := p.makeNet(); err != nil { // an earlier version made sandboxes without
		return req, err
	}
	return req, a.makeFiles(req, user)
}

// makeRoot makes the folder that the guest may write to, with the image's files in it.
func (a *attempt) makeRoot(ctx context.Context, entry image.Entry, root string, user identity) error {
	if err := os.Mkdir(root, 0o755); err != nil {
		return err
	}
	if entry.Root != "" {
		if err := copyRoot(ctx, entry.Root, root, user); err != nil {
			return err
		}
	}
	// What an image has under that name stays, even a link: it is never followed here.
	tmp := filepath.Join(root, "tmp")
	if err := os.Mkdir(tmp, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return a.own(user, root, tmp)
}

// own gives files to the pod's user.
func (*attempt) own(user identity, paths ...string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	for _, path := range paths {
		if err := os.Lchown(path, user.uid, user.gid); err != nil {
			return err
		}
	}
	return nil
}

func (a *attempt) makeFiles(req container.Request, user identity) error {
	own := []string{req.Out, filepath.Dir(a.spec.Log.Path)}
	for _, dir := range own {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	message := filepath.Join(req.Out, container.MessageFile)
	if a.spec.TerminationMessagePath != "" {
		if err := os.WriteFile(message, nil, 0o644); err != nil {
			return err
		}
		own = append(own, message)
	}
	if err := a.own(user, own...); err != nil {
		return err
	}
	return atomicfile.WriteJSON(filepath.Join(a.dir, specFile), storedSpec{Spec: a.spec, Created: time.Now()}, false)
}
