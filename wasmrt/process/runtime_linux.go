package process

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"edgepod/wasmrt/cgroup"
	"edgepod/wasmrt/compile"
	"edgepod/wasmrt/harden"
	"edgepod/wasmrt/image"
	"edgepod/wasmrt/sandbox"
)

// Runtime implements sandbox.Runtime.
type Runtime struct {
	cfg    Config
	log    *slog.Logger
	launch *launcher
	groups *cgroup.Hierarchy
	images *image.Store
	code   *compile.Cache
	layers func() []sandbox.Layer

	// watchers are the goroutines that wait for processes; they end with the process, or by Close.
	watchers sync.WaitGroup

	mu   sync.Mutex
	pods map[string]*pod
	// clearing holds a channel, closed at the end, for each removed sandbox whose cgroup is still there.
	clearing map[string]chan struct{}
	closed   bool
	// closing is closed by Close.
	closing chan struct{}
}

var _ sandbox.Runtime = (*Runtime)(nil)

// The subfolders of Config.Dir.
const (
	imageDir      = "images"
	codeDir       = "code"
	binDir        = "bin"
	jailDir       = "jail"
	sandboxDir    = "sandboxes"
	quarantineDir = "quarantine"
)

// New returns the runtime on cfg.Dir, with the sandboxes that an earlier one left there: what still runs is adopted. It
// starts no container.
func New(cfg Config) (sandbox.Runtime, error) {
	if err := cfg.complete(); err != nil {
		return nil, fmt.Errorf("container runtime: %w", err)
	}
	r := &Runtime{cfg: cfg, log: cfg.Log, pods: map[string]*pod{}, clearing: map[string]chan struct{}{}, closing: make(chan struct{})}
	prog, err := program(cfg.ChildPath, filepath.Join(cfg.Dir, binDir))
	if err != nil {
		return nil, fmt.Errorf("container runtime: %w", err)
	}
	r.launch = &launcher{program: prog}
	r.images, err = image.Open(image.Config{
		Dir: filepath.Join(cfg.Dir, imageDir), ImageDirs: cfg.ImageDirs, Builtins: cfg.Builtins, Limits: imageLimits(cfg.MaxImageSize),
		Offered: Offered, Aliases: !cfg.NoAliases, Cluster: cfg.Cluster, Registries: cfg.Registries, Log: cfg.Log,
	})
	if err != nil {
		return nil, err
	}
	worker := podIdentity("compile worker")
	if prog == self && harden.CGO {
		worker = identity{} // without a jail another user could not reach its folder
	}
	r.code, err = compile.Open(compile.Config{
		Dir: filepath.Join(cfg.Dir, codeDir), UID: worker.uid, GID: worker.gid, Work: r.compileWorker,
		CPU: cfg.CompileCPU, Memory: uint64(cfg.CompileMemory), Size: cfg.CodeCacheSize,
	})
	if err != nil {
		return nil, errors.Join(err, r.images.Close())
	}
	r.layers = sync.OnceValue(r.probe)
	r.groups = cgroup.Open(cfg.Cgroup)
	if err := r.adopt(); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (cfg *Config) complete() error {
	if cfg.Dir == "" {
		return errors.New("no state folder is set")
	}
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return err
	}
	cfg.Dir = dir
	for _, sub := range []string{jailDir, sandboxDir} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return fmt.Errorf("make state folder: %w", err)
		}
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Cgroup.Name == "" {
		sum := sha256.Sum256([]byte(dir))
		cfg.Cgroup.Name = "edgepod-" + hex.EncodeToString(sum[:6])
	}
	if cfg.MemoryDefault == 0 {
		cfg.MemoryDefault = machineMemory() / 2
	}
	return nil
}

// imageLimits are those of an image store whose images may have so many bytes; 0 leaves them to the store.
func imageLimits(size int64) image.Limits {
	return image.Limits{Module: size, Download: size, Unpacked: 2 * size}
}

// Pull implements sandbox.Runtime.
func (r *Runtime) Pull(ctx context.Context, req sandbox.PullRequest) (sandbox.Image, error) {
	began, ref := time.Now(), req.Ref
	e, err := r.images.Resolve(ctx, req)
	if err != nil {
		return sandbox.Image{}, err
	}
	resolved := time.Now()
	if req.Fetched != nil {
		req.Fetched()
	}
	code, compiled, err := r.compile(ctx, e, req)
	if err != nil {
		return sandbox.Image{}, err
	}
	code.Release()
	img := sandbox.Image{
		Ref: ref, Digest: e.Digest, ID: e.ID, Size: e.Size, Config: e.Config, Note: e.Note,
		Cached: e.Cached, Compiled: compiled, Took: time.Since(began),
	}
	if compiled {
		img.CompileTook = time.Since(resolved)
	}
	return img, nil
}

// compile returns the code of an image's module, which the caller releases. A module whose stored file turns out to be
// damaged is fetched again, by what the request says.
func (r *Runtime) compile(ctx context.Context, e image.Entry, req sandbox.PullRequest) (*compile.Code, bool, error) {
	code, compiled, err := r.code.Ensure(ctx, moduleOf(e))
	if errors.Is(err, compile.ErrDamaged) {
		r.log.Warn("stored module is damaged and is made anew", "image", req.Ref, "digest", e.Digest)
		if err = r.images.Drop(e.Digest); err == nil {
			if e, err = r.images.Resolve(ctx, req); err == nil {
				code, compiled, err = r.code.Ensure(ctx, moduleOf(e))
			}
		}
	}
	var refused *compile.RefusedError
	if errors.As(err, &refused) {
		err = &sandbox.ImageError{Reason: sandbox.ReasonErrImagePull, Ref: req.Ref, Message: refused.Why}
	}
	return code, compiled, err
}

func moduleOf(e image.Entry) compile.Module {
	return compile.Module{Path: e.Path, Sum: e.Sum, Size: e.ModuleSize, Debug: e.DebugPath}
}

// stored is the content of sandbox.json.
type stored struct {
	Spec  sandbox.Spec `json:"spec"`
	Group cgroup.Ref   `json:"group,omitempty"`
}

// Create implements sandbox.Runtime.
func (r *Runtime) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !validID(spec.ID) {
		return nil, fmt.Errorf("create sandbox: %q is no valid id", spec.ID)
	}
	r.mu.Lock()
	for r.clearing[spec.ID] != nil {
		cleared := r.clearing[spec.ID]
		r.mu.Unlock()
		select {
		case <-cleared:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		r.mu.Lock()
	}
	defer r.mu.Unlock()
	if p, ok := r.pods[spec.ID]; ok {
		return p, nil
	}
	if r.closed {
		return nil, errClosed
	}
	p := newPod(r, stored{Spec: spec, Group: r.groups.Root().Child(spec.ID)})
	if err := p.create(); err != nil {
		return nil, fmt.Errorf("create sandbox: %w", errors.Join(err, r.groups.Remove(p.group), os.RemoveAll(p.dir)))
	}
	r.pods[spec.ID] = p
	return p, nil
}

// forget takes a removed sandbox off the list. Its cgroup goes in the background: giving back its memory can take the
// kernel a tenth of a second.
func (r *Runtime) forget(p *pod, attempts []*attempt) {
	id := p.stored.Spec.ID
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pods[id] != p {
		return // removed before
	}
	delete(r.pods, id)
	cleared := make(chan struct{})
	r.clearing[id] = cleared
	tidy := func() {
		for _, a := range attempts {
			<-a.cleared
		}
		if err := r.clearGroup(p.group); err != nil {
			r.log.Warn("remove the cgroup of a sandbox", "uid", id, "err", err)
		}
	}
	if r.closed { // nobody waits for what is done in the background
		tidy()
		return
	}
	r.watchers.Go(func() {
		tidy()
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.clearing, id)
		close(cleared)
	})
}

// clearGroup removes a group that nobody needs any more. What is in it still, against all expectation, is killed.
func (r *Runtime) clearGroup(group cgroup.Ref) error {
	if r.groups.Remove(group) == nil {
		return nil
	}
	if err := r.groups.Kill(group); err != nil {
		return err
	}
	return r.groups.Remove(group)
}

var errClosed = errors.New("the container runtime is closed")

// List implements sandbox.Runtime.
func (r *Runtime) List(ctx context.Context) ([]sandbox.Sandbox, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	pods := slices.SortedFunc(maps.Values(r.pods), func(a, b *pod) int { return cmp.Compare(a.stored.Spec.ID, b.stored.Spec.ID) })
	out := make([]sandbox.Sandbox, len(pods))
	for i, p := range pods {
		out[i] = p
	}
	return out, nil
}

// Close implements sandbox.Runtime: it stops watching. Containers run on. The cgroups of sandboxes in which nothing runs
// are removed, and made again by the next runtime.
func (r *Runtime) Close() error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		r.watchers.Wait()
		return nil
	}
	r.closed = true
	close(r.closing)
	pods := slices.Collect(maps.Values(r.pods))
	r.mu.Unlock()
	for _, p := range pods {
		p.release()
	}
	r.watchers.Wait()
	if err := r.images.Close(); err != nil {
		r.log.Warn("close the image store", "err", err)
	}
	idle := slices.DeleteFunc(slices.Clone(pods), (*pod).runs)
	r.each(idle, func(p *pod) {
		if err := r.groups.Remove(p.group); err != nil {
			r.log.Warn("remove the cgroup of a sandbox in which nothing runs", "uid", p.stored.Spec.ID, "err", err)
		}
	})
	if len(idle) < len(pods) {
		return nil
	}
	if err := r.groups.Remove(r.groups.Root()); err != nil {
		r.log.Warn("remove the runtime's cgroup", "err", err)
	}
	return nil
}

// each calls do for each pod, several at a time: the kernel lets one wait for a group that goes.
func (*Runtime) each(pods []*pod, do func(*pod)) {
	const most = 16
	var wait sync.WaitGroup
	free := make(chan struct{}, most)
	for _, p := range pods {
		free <- struct{}{}
		wait.Go(func() {
			defer func() { <-free }()
			do(p)
		})
	}
	wait.Wait()
}

// validID tells whether an id can be a file's name.
func validID(id string) bool {
	if id == "" || len(id) > 200 || id[0] == '.' {
		return false
	}
	for _, c := range id {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.') {
			return false
		}
	}
	return true
}
