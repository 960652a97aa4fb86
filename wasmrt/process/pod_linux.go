package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"edgepod/wasmrt/atomicfile"
	"edgepod/wasmrt/cgroup"
	"edgepod/wasmrt/sandbox"
	"edgepod/wasmrt/sandbox/guestfiles"
)

const (
	containersDir = "containers"
	sandboxFile   = "sandbox.json"
	netDir        = "net"
)

// pod implements sandbox.Sandbox.
type pod struct {
	rt     *Runtime
	stored stored
	dir    string
	group  cgroup.Ref

	mu       sync.Mutex
	attempts []*attempt
	changed  chan struct{}
	removed  bool
}

// attempt is one process of a container. The pod's lock guards what changes.
type attempt struct {
	pod   *pod
	dir   string
	spec  sandbox.ContainerSpec
	group cgroup.Ref

	status sandbox.Status
	proc   *proc         // nil until it has been started, and after its end
	doomed bool          // it is to be killed as soon as it has a process
	done   chan struct{} // closed at its end
	// cleared is closed when what the process needed is cleared up, after done.
	cleared chan struct{}
}

func newPod(r *Runtime, s stored) *pod {
	return &pod{
		rt: r, stored: s, group: s.Group, changed: make(chan struct{}),
		dir: filepath.Join(r.cfg.Dir, sandboxDir, s.Spec.ID),
	}
}

// create makes the pod's folder and cgroup, and records both.
func (p *pod) create() error {
	if err := os.MkdirAll(filepath.Join(p.dir, containersDir), 0o700); err != nil {
		return err
	}
	if err := p.makeNet(); err != nil {
		return err
	}
	if err := p.makeGroup(); err != nil {
		return err
	}
	return atomicfile.WriteJSON(filepath.Join(p.dir, sandboxFile), p.stored, false)
}

// net is the folder of the pod's network.
func (p *pod) net() string { return filepath.Join(p.dir, netDir) }

// makeNet makes that folder, if it is not there, for the pod's user alone.
func (p *pod) makeNet() error {
	if err := os.Mkdir(p.net(), 0o700); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		return fmt.Errorf("make the pod's network: %w", err)
	}
	if os.Geteuid() != 0 {
		return nil
	}
	user := p.identity()
	return os.Lchown(p.net(), user.uid, user.gid)
}

// makeGroup makes the pod's cgroup, or sets the limits of one that exists.
func (p *pod) makeGroup() error {
	if err := p.rt.groups.Create(p.group, p.stored.Spec.Limits); err != nil {
		return err
	}
	return p.rt.groups.SetCPU(p.group, p.stored.Spec.Limits.CPUMilli)
}

// runs tells whether a container of the pod runs, or may.
func (p *pod) runs() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.attempts, func(a *attempt) bool { return a.status.State != sandbox.StateExited })
}

func (p *pod) newAttempt(spec sandbox.ContainerSpec) *attempt {
	return &attempt{
		pod: p, spec: spec, dir: filepath.Join(p.dir, containersDir, spec.ID), group: p.group.Child(spec.ID),
		done: make(chan struct{}), cleared: make(chan struct{}),
		status: sandbox.Status{
			ID: spec.ID, Name: spec.Name, Attempt: spec.Attempt, State: sandbox.StateCreated, Image: spec.Image, Digest: spec.Digest,
		},
	}
}

// Spec implements sandbox.Sandbox.
func (p *pod) Spec() sandbox.Spec { return p.stored.Spec }

// Status implements sandbox.Sandbox.
func (p *pod) Status(ctx context.Context) ([]sandbox.Status, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]sandbox.Status, 0, len(p.attempts))
	for _, a := range p.attempts {
		if a.status.State == sandbox.StateCreated && a.proc != nil {
			a.noticeStart()
		}
		st := a.status
		if st.Exit != nil {
			exit := *st.Exit
			st.Exit = &exit
		}
		out = append(out, st)
	}
	return out, nil
}

// Changed implements sandbox.Sandbox.
func (p *pod) Changed() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changed
}

// notify wakes who waits for Changed; the caller holds the lock.
func (p *pod) notify() {
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *pod) find(id string) *attempt {
	i := slices.IndexFunc(p.attempts, func(a *attempt) bool { return a.spec.ID == id })
	if i < 0 {
		return nil
	}
	return p.attempts[i]
}

func (p *pod) lookup(id string) (*attempt, *proc, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.find(id)
	if a == nil {
		return nil, nil, fmt.Errorf("container %s: %w", id, sandbox.ErrNotFound)
	}
	return a, a.proc, nil
}

// Stop implements sandbox.Sandbox.
func (p *pod) Stop(ctx context.Context, id string, grace time.Duration) error {
	a, proc, err := p.lookup(id)
	if err != nil {
		return err
	}
	if !a.begun() {
		grace = 0 // there is nothing yet that could react
	}
	if proc != nil && grace > 0 {
		if err := proc.signal(syscall.SIGTERM); err != nil {
			return err
		}
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-a.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-p.rt.closing:
		return errClosed
	case <-timer.C:
	}
	if err := a.kill(); err != nil {
		return err
	}
	return a.await(ctx)
}

// begun tells whether the guest has begun.
func (a *attempt) begun() bool {
	a.pod.mu.Lock()
	defer a.pod.mu.Unlock()
	a.noticeStart()
	return a.status.State != sandbox.StateCreated
}

// await returns when the attempt has ended.
func (a *attempt) await(ctx context.Context) error {
	select {
	case <-a.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-a.pod.rt.closing:
		return errClosed
	}
}

// kill ends the attempt's process, and whatever else is in its cgroup, at once.
func (a *attempt) kill() error {
	a.pod.mu.Lock()
	a.doomed = true
	proc, ended := a.proc, a.status.State == sandbox.StateExited
	a.pod.mu.Unlock()
	if ended {
		return nil
	}
	var err error
	if proc != nil {
		err = proc.signal(syscall.SIGKILL)
	}
	return errors.Join(err, a.pod.rt.groups.Kill(a.group))
}

// Stats implements sandbox.Sandbox.
func (p *pod) Stats(ctx context.Context, id string) (sandbox.Stats, error) {
	if err := ctx.Err(); err != nil {
		return sandbox.Stats{}, err
	}
	a, proc, err := p.lookup(id)
	if err != nil {
		return sandbox.Stats{}, err
	}
	if proc == nil {
		return sandbox.Stats{}, fmt.Errorf("container %s does not run: %w", id, sandbox.ErrNotFound)
	}
	s, err := proc.usage()
	if err != nil {
		return sandbox.Stats{}, fmt.Errorf("container %s does not run: %w", id, sandbox.ErrNotFound)
	}
	s.At = time.Now()
	u, err := p.rt.groups.Usage(a.group)
	if errors.Is(err, cgroup.ErrNoGroup) {
		return s, nil
	}
	if err != nil {
		return sandbox.Stats{}, err
	}
	// A controller that is missing leaves its figure zero: the process's own stands.
	if u.CPU > 0 {
		s.CPU = u.CPU
	}
	if u.Memory > 0 {
		s.Memory = u.Memory
	}
	if u.PIDs > 0 {
		s.PIDs = u.PIDs
	}
	return s, nil
}

// Forget implements sandbox.Sandbox. Forgetting an attempt that is not known is no error.
func (p *pod) Forget(ctx context.Context, id string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.find(id)
	if a == nil {
		return nil
	}
	if a.status.State != sandbox.StateExited {
		return fmt.Errorf("forget container %s: it has not ended", id)
	}
	p.drop(a)
	return guestfiles.Remove(a.dir)
}

// drop takes the attempt off the list; the caller holds the lock.
func (p *pod) drop(a *attempt) {
	p.attempts = slices.DeleteFunc(p.attempts, func(other *attempt) bool { return other == a })
	p.notify()
}

// Remove implements sandbox.Sandbox.
func (p *pod) Remove(ctx context.Context) error {
	select {
	case <-p.rt.closing:
		return errClosed
	default:
	}
	p.mu.Lock()
	p.removed = true // nothing starts from now on
	attempts := slices.Clone(p.attempts)
	p.mu.Unlock()
	var errs []error
	for _, a := range attempts {
		errs = append(errs, a.kill())
	}
	for _, a := range attempts {
		if err := a.await(ctx); err != nil {
			return errors.Join(append(errs, err)...)
		}
	}
	if err := errors.Join(append(errs, guestfiles.Remove(p.dir))...); err != nil {
		return fmt.Errorf("remove sandbox %s: %w", p.stored.Spec.ID, err)
	}
	p.mu.Lock()
	p.attempts = nil
	p.notify()
	p.mu.Unlock()
	p.rt.forget(p, attempts)
	return nil
}

// release lets go of the processes without touching them.
func (p *pod) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range p.attempts {
		if a.proc != nil {
			a.proc.close()
		}
	}
}
