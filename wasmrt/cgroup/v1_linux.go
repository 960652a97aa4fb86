package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/containerd/cgroups/v3/cgroup1"
	"github.com/opencontainers/runtime-spec/specs-go"

	"edgepod/wasmrt/sandbox"
)

// v1 is a machine with version 1: one tree for each controller, of which the four that are used are kept.
type v1 struct {
	base Ref
	subs []cgroup1.Subsystem
	held []Controller
}

// pather is a subsystem that knows the folder of a group.
type pather interface {
	Name() cgroup1.Name
	Path(group string) string
}

func openV1(cfg Config) tree {
	subs, err := cgroup1.Default()
	if err != nil {
		return none{allLost("control groups of version 1 are not mounted: "+err.Error(), "mount them")}
	}
	parent := cgroup1.NestedPath(cfg.Name)
	if cfg.Parent != "" {
		parent = cgroup1.StaticPath(filepath.Join("/", cfg.Parent, cfg.Name))
	}
	t := &v1{base: Ref{}}
	reasons := map[string]string{}
	for _, s := range subs {
		p, ok := s.(pather)
		if !ok || !slices.Contains([]cgroup1.Name{cgroup1.Memory, cgroup1.Cpu, cgroup1.Cpuacct, cgroup1.Pids}, s.Name()) {
			continue
		}
		group, err := parent(s.Name())
		if err == nil {
			err = os.MkdirAll(p.Path(group), 0o755)
		}
		if err != nil {
			reasons[string(s.Name())] = err.Error()
			continue
		}
		t.base[string(s.Name())] = group
		t.subs = append(t.subs, s)
	}
	for _, n := range names {
		c := Controller{Name: n}
		if _, c.Held = t.base[n]; !c.Held {
			c.Reason = "its control group cannot be made"
			if r, ok := reasons[n]; ok {
				c.Reason += ": " + r
			}
			c.Fix = "run the node as root, or give its user a group of its own"
		}
		t.held = append(t.held, c)
	}
	return t
}

func (t *v1) controllers() []Controller { return t.held }
func (t *v1) root() Ref                 { return t.base }

func (t *v1) load(ref Ref) (cgroup1.Cgroup, error) {
	return cgroup1.Load(pathOf(ref), cgroup1.WithHierarchy(t.hierarchy(ref)))
}

func (t *v1) hierarchy(ref Ref) cgroup1.Hierarchy {
	return func() ([]cgroup1.Subsystem, error) {
		return slices.DeleteFunc(slices.Clone(t.subs), func(s cgroup1.Subsystem) bool {
			_, ok := ref[string(s.Name())]
			return !ok
		}), nil
	}
}

func pathOf(ref Ref) cgroup1.Path {
	return func(n cgroup1.Name) (string, error) {
		p, ok := ref[string(n)]
		if !ok {
			return "", cgroup1.ErrControllerNotActive
		}
		return p, nil
	}
}

func (t *v1) create(ref Ref, l sandbox.Limits) error {
	res := &specs.LinuxResources{}
	if l.Memory > 0 {
		res.Memory = &specs.LinuxMemory{Limit: &l.Memory}
	}
	if l.CPUShareMilli > 0 {
		s := shares(l.CPUShareMilli)
		res.CPU = &specs.LinuxCPU{Shares: &s}
	}
	if l.PIDs > 0 {
		n := pids(l.PIDs)
		res.Pids = &specs.LinuxPids{Limit: &n}
	}
	if _, err := cgroup1.New(pathOf(ref), res, cgroup1.WithHierarchy(t.hierarchy(ref))); err != nil {
		return fmt.Errorf("make cgroup: %w", err)
	}
	return nil
}

func (t *v1) add(ref Ref, pid int) error {
	cg, err := t.load(ref)
	if err != nil {
		return fmt.Errorf("load cgroup: %w", err)
	}
	return cg.AddProc(uint64(pid))
}

func (t *v1) open(Ref) (*os.File, error) { return nil, nil }

func (t *v1) join(ref Ref) Join {
	var j Join
	for name := range ref {
		folder, ok := t.folder(ref, cgroup1.Name(name))
		if !ok {
			continue
		}
		files := &j.Starter
		if name == controllerMemory {
			files = &j.All
		}
		*files = append(*files, filepath.Join(folder, "tasks"))
	}
	return j
}

func (t *v1) setCPU(ref Ref, milli int64) error {
	folder, ok := t.folder(ref, cgroup1.Cpu)
	if !ok {
		return nil
	}
	if err := os.WriteFile(filepath.Join(folder, "cpu.cfs_period_us"), strconv.AppendInt(nil, cpuPeriod, 10), 0); err != nil {
		return fmt.Errorf("set cpu limit: %w", err)
	}
	if err := os.WriteFile(filepath.Join(folder, "cpu.cfs_quota_us"), strconv.AppendInt(nil, quota(milli), 10), 0); err != nil {
		return fmt.Errorf("set cpu limit: %w", err)
	}
	return nil
}

func (t *v1) usage(ref Ref) (Usage, error) {
	cg, err := t.load(ref)
	if errors.Is(err, cgroup1.ErrCgroupDeleted) {
		return Usage{}, ErrNoGroup
	}
	if err != nil {
		return Usage{}, err
	}
	m, err := cg.Stat(cgroup1.IgnoreNotExist)
	if err != nil {
		return Usage{}, fmt.Errorf("read cgroup: %w", err)
	}
	u := Usage{CPU: time.Duration(m.GetCPU().GetUsage().GetTotal()), PIDs: int64(m.GetPids().GetCurrent())}
	// What could be dropped at once isn't counted, as Kubernetes does for its working set.
	u.Memory = max(int64(m.GetMemory().GetUsage().GetUsage())-int64(m.GetMemory().GetTotalInactiveFile()), 0)
	return u, nil
}

func (t *v1) oomKills(ref Ref) (uint64, error) {
	folder, ok := t.folder(ref, cgroup1.Memory)
	if !ok {
		return 0, ErrNoGroup
	}
	return readKey(filepath.Join(folder, "memory.oom_control"), "oom_kill")
}

// kill signals each process by itself: version 1 has no way to kill a group at once.
func (t *v1) kill(ref Ref) error {
	for name := range ref {
		folder, ok := t.folder(ref, cgroup1.Name(name))
		if !ok {
			continue
		}
		if err := killBeneath(folder); err != nil {
			return fmt.Errorf("kill cgroup: %w", err)
		}
	}
	return nil
}

// remove gives back the page cache that is charged to the group first: the kernel keeps a dead group as long as it has any.
// That may take a tenth of a second.
func (t *v1) remove(ref Ref) error {
	if folder, ok := t.folder(ref, cgroup1.Memory); ok {
		// It fails for a group that has gone, which is no concern.
		_ = os.WriteFile(filepath.Join(folder, "memory.force_empty"), []byte("0"), 0)
	}
	var errs []error
	for name := range ref {
		if folder, ok := t.folder(ref, cgroup1.Name(name)); ok {
			errs = append(errs, removeFolder(folder))
		}
	}
	return errors.Join(errs...)
}

func (t *v1) children(ref Ref) ([]string, error) {
	var all []string
	for name := range ref {
		folder, ok := t.folder(ref, cgroup1.Name(name))
		if !ok {
			continue
		}
		found, err := subfolders(folder)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

func (t *v1) folder(ref Ref, name cgroup1.Name) (string, bool) {
	group, ok := ref[string(name)]
	if !ok {
		return "", false
	}
	for _, s := range t.subs {
		if p, ok := s.(pather); ok && s.Name() == name {
			return p.Path(group), true
		}
	}
	return "", false
}
