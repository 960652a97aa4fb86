package sandboxtest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"edgepod/wasmrt/sandbox"
)

// Fake is a Runtime in memory, for tests of the agent. Its containers are records: they run from Start until a test
// ends them with Exit, or Stop does. Each failure that a real runtime can show is set by a method.
//
// It reads the clock by package time alone, so that it works in a testing/synctest bubble.
type Fake struct {
	mu         sync.Mutex
	sandboxes  map[string]*fakeSandbox
	pulled     map[string]*fakeImage // by digest
	supplied   map[string]sandbox.Image
	requests   []sandbox.PullRequest
	pullErr    map[string]error
	collectErr error
	startErr   map[string]error
	stubborn   map[string]bool
	onStart    func(sandbox.ContainerSpec) *sandbox.Exit
	layers     []sandbox.Layer
	owner      *sandbox.Owner
	calls      []string
	nextPID    int
	closed     bool
}

var _ sandbox.Runtime = (*Fake)(nil)

// NewFake returns a runtime without sandboxes that pulls each reference and starts each container.
func NewFake() *Fake {
	return &Fake{
		sandboxes: map[string]*fakeSandbox{},
		pulled:    map[string]*fakeImage{},
		supplied:  map[string]sandbox.Image{},
		pullErr:   map[string]error{},
		startErr:  map[string]error{},
		stubborn:  map[string]bool{},
		layers:    []sandbox.Layer{{Name: "cgroup-memory", Held: true}, {Name: "seccomp", Held: true}},
		nextPID:   1000,
	}
}

// FailPull makes Pull of ref return err from now on; nil lets it succeed again.
func (f *Fake) FailPull(ref string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pullErr[ref] = err
}

// FailStart makes Start of containers with this name return err from now on; nil lets them start again.
func (f *Fake) FailStart(container string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.startErr[container] = err
}

// IgnoreStop makes containers with this name run on when asked to stop, until they are killed.
func (f *Fake) IgnoreStop(container string, ignore bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stubborn[container] = ignore
}

// OnStart sets what a started container does: where fn returns an exit, the container has ended with it at once, zero
// times being filled in. fn runs under the fake's lock and must not call it.
func (f *Fake) OnStart(fn func(sandbox.ContainerSpec) *sandbox.Exit) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.onStart = fn
}

// SetLayers sets the answer of Layers.
func (f *Fake) SetLayers(layers []sandbox.Layer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.layers = slices.Clone(layers)
}

// SetOwner sets the user of all sandboxes; without it, there is none.
func (f *Fake) SetOwner(owner sandbox.Owner) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.owner = &owner
}

// Exit ends a running attempt, as if its guest had ended so; zero times and an empty reason are filled in.
func (f *Fake) Exit(sandboxID, containerID string, exit sandbox.Exit) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, c, err := f.find(sandboxID, containerID)
	if err != nil {
		return err
	}
	if c.status.State == sandbox.StateExited {
		return fmt.Errorf("container %s/%s has ended already", sandboxID, containerID)
	}
	s.end(c, exit)
	return nil
}

// Output appends one line to the attempt's log file, in the CRI format. stream is "stdout" or "stderr".
func (f *Fake) Output(sandboxID, containerID, stream, line string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, c, err := f.find(sandboxID, containerID)
	if err != nil {
		return err
	}
	return c.print(stream, line)
}

// Spec returns what the attempt was started with.
func (f *Fake) Spec(sandboxID, containerID string) (sandbox.ContainerSpec, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, c, err := f.find(sandboxID, containerID)
	if err != nil {
		return sandbox.ContainerSpec{}, err
	}
	return c.spec, nil
}

// Calls returns the calls that changed something, oldest first, such as "pull web", "create UID", "start UID/web-0",
// "stop UID/web-0 30s", "forget UID/web-0", "remove UID".
func (f *Fake) Calls() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls)
}

// Pull implements sandbox.Runtime. Unless SetImage has said otherwise, the digest is that of the reference's text.
func (f *Fake) Pull(ctx context.Context, req sandbox.PullRequest) (sandbox.Image, error) {
	ref := req.Ref
	if err := ctx.Err(); err != nil {
		return sandbox.Image{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls, f.requests = append(f.calls, "pull "+ref), append(f.requests, req)
	if err := f.pullErr[ref]; err != nil {
		return sandbox.Image{}, err
	}
	img, err := f.pullImage(req)
	if err == nil && req.Fetched != nil {
		req.Fetched()
	}
	return img, err
}

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Create implements sandbox.Runtime.
func (f *Fake) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if spec.ID == "" {
		return nil, errors.New("create sandbox: it has no id")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if s, ok := f.sandboxes[spec.ID]; ok {
		return s, nil
	}
	f.calls = append(f.calls, "create "+spec.ID)
	spec.Annotations = maps.Clone(spec.Annotations)
	s := &fakeSandbox{fake: f, spec: spec, changed: make(chan struct{})}
	f.sandboxes[spec.ID] = s
	return s, nil
}

// List implements sandbox.Runtime.
func (f *Fake) List(ctx context.Context) ([]sandbox.Sandbox, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	all := slices.SortedFunc(maps.Values(f.sandboxes), func(a, b *fakeSandbox) int { return cmp.Compare(a.spec.ID, b.spec.ID) })
	out := make([]sandbox.Sandbox, len(all))
	for i, s := range all {
		out[i] = s
	}
	return out, nil
}

// Owner implements sandbox.Runtime.
func (f *Fake) Owner(string) (sandbox.Owner, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.owner == nil {
		return sandbox.Owner{}, false
	}
	return *f.owner, true
}

// Layers implements sandbox.Runtime.
func (f *Fake) Layers() []sandbox.Layer {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.layers)
}

// Close implements sandbox.Runtime. The fake can be used on, as a new runtime on the same state would be.
func (f *Fake) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	return nil
}

// Closed tells whether Close was called.
func (f *Fake) Closed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.closed
}

func (f *Fake) find(sandboxID, containerID string) (*fakeSandbox, *fakeContainer, error) {
	s, ok := f.sandboxes[sandboxID]
	if !ok {
		return nil, nil, fmt.Errorf("no sandbox %s", sandboxID)
	}
	c := s.find(containerID)
	if c == nil {
		return nil, nil, fmt.Errorf("%s/%s: %w", sandboxID, containerID, sandbox.ErrNotFound)
	}
	return s, c, nil
}

// fakeContainer is one attempt; the fake's lock guards it.
type fakeContainer struct {
	spec   sandbox.ContainerSpec
	status sandbox.Status
}

func (c *fakeContainer) print(stream, line string) error {
	if c.spec.Log.Path == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(c.spec.Log.Path), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(c.spec.Log.Path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(file, "%s %s F %s\n", time.Now().UTC().Format(time.RFC3339Nano), stream, line)
	return errors.Join(err, file.Close())
}
