package sandboxtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"edgepod/wasmrt/sandbox"
)

// fakeSandbox is a Sandbox of a Fake, whose lock guards it.
type fakeSandbox struct {
	fake       *Fake
	spec       sandbox.Spec
	containers []*fakeContainer
	changed    chan struct{}
	removed    bool
}

func (s *fakeSandbox) Spec() sandbox.Spec { return s.spec }

func (s *fakeSandbox) Start(ctx context.Context, spec sandbox.ContainerSpec) (sandbox.Status, error) {
	if err := ctx.Err(); err != nil {
		return sandbox.Status{}, err
	}
	s.fake.mu.Lock()
	defer s.fake.mu.Unlock()
	s.fake.calls = append(s.fake.calls, "start "+s.spec.ID+"/"+spec.ID)
	if err := s.startable(spec); err != nil {
		return sandbox.Status{}, err
	}
	s.fake.nextPID++
	c := &fakeContainer{spec: spec, status: sandbox.Status{
		ID: spec.ID, Name: spec.Name, Attempt: spec.Attempt, State: sandbox.StateRunning,
		Image: spec.Image, Digest: spec.Digest,
		PID: s.fake.nextPID, StartTick: uint64(s.fake.nextPID), StartedAt: time.Now(),
	}}
	s.containers = append(s.containers, c)
	s.notify()
	if s.fake.onStart != nil {
		if exit := s.fake.onStart(spec); exit != nil {
			s.end(c, *exit)
		}
	}
	return c.status, nil
}

func (s *fakeSandbox) startable(spec sandbox.ContainerSpec) error {
	switch {
	case s.removed:
		return fmt.Errorf("sandbox %s is removed", s.spec.ID)
	case spec.ID == "" || spec.Name == "":
		return &sandbox.StartError{Reason: sandbox.ReasonCreateContainerConfigError, Message: "the container has no id or no name"}
	case s.find(spec.ID) != nil:
		return &sandbox.StartError{
			Reason: sandbox.ReasonCreateContainerError, Message: fmt.Sprintf("container %s exists already", spec.ID),
		}
	}
	if err := s.fake.startErr[spec.Name]; err != nil {
		return err
	}
	stored := slices.ContainsFunc(s.fake.stored(), func(i sandbox.StoredImage) bool { return i.Digest == spec.Digest })
	if !stored && spec.Digest != "" {
		return &sandbox.ImageError{Reason: sandbox.ReasonErrImagePull, Ref: spec.Image, Message: "the image is not here any more"}
	}
	return nil
}

func (s *fakeSandbox) Status(ctx context.Context) ([]sandbox.Status, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.fake.mu.Lock()
	defer s.fake.mu.Unlock()
	out := make([]sandbox.Status, 0, len(s.containers))
	for _, c := range s.containers {
		st := c.status
		if st.Exit != nil {
			exit := *st.Exit
			st.Exit = &exit
		}
		out = append(out, st)
	}
	return out, nil
}

func (s *fakeSandbox) Changed() <-chan struct{} {
	s.fake.mu.Lock()
	defer s.fake.mu.Unlock()
	return s.changed
}

func (s *fakeSandbox) Stop(ctx context.Context, id string, grace time.Duration) error {
	s.fake.mu.Lock()
	s.fake.calls = append(s.fake.calls, fmt.Sprintf("stop %s/%s %s", s.spec.ID, id, grace))
	c := s.find(id)
	if c == nil {
		s.fake.mu.Unlock()
		return fmt.Errorf("stop %s: %w", id, sandbox.ErrNotFound)
	}
	if grace > 0 && !s.fake.stubborn[c.spec.Name] {
		s.end(c, sandbox.Exit{Code: 143, Signal: 15})
	}
	s.fake.mu.Unlock()
	return s.killAfter(ctx, c, grace)
}

// killAfter waits until c has ended and kills it when grace has passed.
func (s *fakeSandbox) killAfter(ctx context.Context, c *fakeContainer, grace time.Duration) error {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	for {
		s.fake.mu.Lock()
		ended, changed := c.status.State == sandbox.StateExited, s.changed
		s.fake.mu.Unlock()
		if ended {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		case <-timer.C:
			s.fake.mu.Lock()
			s.end(c, sandbox.Exit{Code: 137, Signal: 9})
			s.fake.mu.Unlock()
		}
	}
}

func (s *fakeSandbox) Stats(ctx context.Context, id string) (sandbox.Stats, error) {
	if err := ctx.Err(); err != nil {
		return sandbox.Stats{}, err
	}
	s.fake.mu.Lock()
	defer s.fake.mu.Unlock()
	c := s.find(id)
	if c == nil || c.status.State == sandbox.StateExited {
		return sandbox.Stats{}, fmt.Errorf("stats of %s: %w", id, sandbox.ErrNotFound)
	}
	now := time.Now()
	return sandbox.Stats{At: now, CPU: now.Sub(c.status.StartedAt) / 100, Memory: 4 << 20, PIDs: 8}, nil
}

func (s *fakeSandbox) Forget(ctx context.Context, id string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.fake.mu.Lock()
	defer s.fake.mu.Unlock()
	s.fake.calls = append(s.fake.calls, "forget "+s.spec.ID+"/"+id)
	i := slices.IndexFunc(s.containers, func(c *fakeContainer) bool { return c.spec.ID == id })
	if i < 0 {
		return nil
	}
	if s.containers[i].status.State != sandbox.StateExited {
		return errors.New("forget " + id + ": it is still running")
	}
	s.containers = slices.Delete(s.containers, i, i+1)
	s.notify()
	return nil
}

func (s *fakeSandbox) Remove(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.fake.mu.Lock()
	defer s.fake.mu.Unlock()
	if s.removed {
		return nil
	}
	s.fake.calls = append(s.fake.calls, "remove "+s.spec.ID)
	for _, c := range s.containers {
		s.end(c, sandbox.Exit{Code: 137, Signal: 9})
	}
	s.removed, s.containers = true, nil
	delete(s.fake.sandboxes, s.spec.ID)
	s.notify()
	return nil
}

func (s *fakeSandbox) find(id string) *fakeContainer {
	i := slices.IndexFunc(s.containers, func(c *fakeContainer) bool { return c.spec.ID == id })
	if i < 0 {
		return nil
	}
	return s.containers[i]
}

// end records how c ended, if it has not ended.
func (s *fakeSandbox) end(c *fakeContainer, exit sandbox.Exit) {
	if c.status.State == sandbox.StateExited {
		return
	}
	reason := sandbox.ReasonError
	if exit.Code == 0 {
		reason = sandbox.ReasonCompleted
	}
	exit.Reason = cmp.Or(exit.Reason, reason)
	if exit.StartedAt.IsZero() {
		exit.StartedAt = c.status.StartedAt
	}
	if exit.FinishedAt.IsZero() {
		exit.FinishedAt = time.Now()
	}
	c.status.State, c.status.Exit = sandbox.StateExited, &exit
	s.notify()
}

func (s *fakeSandbox) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}
