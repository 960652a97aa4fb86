package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/containerd/cgroups/v3"
	"github.com/containerd/cgroups/v3/cgroup2"

	"edgepod/wasmrt/sandbox"
)

// unified is the key of version 2's one tree in a Ref.
const unified = "unified"

// v2 is a machine with version 2 alone.
type v2 struct {
	mount   string
	base    Ref
	enabled []string
	held    []Controller
}

func openV2(cfg Config, mount string) tree {
	const fix = "run the node as root, or under a user's systemd with systemd-run --user --scope -p Delegate=yes"
	parent, err := v2Parent(cfg, mount)
	if err != nil {
		return none{allLost("no control group can be made: "+err.Error(), fix)}
	}
	t := &v2{mount: mount, base: Ref{unified: path.Join(parent, cfg.Name)}}
	err = t.enable(parent)
	if err == nil {
		err = os.MkdirAll(t.folder(t.base), 0o755)
	}
	if err == nil {
		err = t.enable(t.base[unified])
	}
	if err != nil {
		return none{allLost("no control group can be made: "+err.Error(), fix)}
	}
	t.enabled = v2Controllers(t.folder(t.base), "cgroup.subtree_control")
	for _, n := range names {
		c := Controller{Name: n, Held: slices.Contains(t.enabled, n)}
		if !c.Held {
			c.Reason, c.Fix = "the controller is not delegated to this group", fix
		}
		t.held = append(t.held, c)
	}
	return t
}

// v2Parent returns the configured parent, the root where it may be written, or the group of this process.
func v2Parent(cfg Config, mount string) (string, error) {
	if cfg.Parent != "" {
		return path.Join("/", cfg.Parent), nil
	}
	if syscall.Access(filepath.Join(mount, "cgroup.subtree_control"), 2) == nil {
		return "/", nil
	}
	_, own, err := cgroups.ParseCgroupFileUnified("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	return own, nil
}

// enable passes the controllers on to the groups in group. A group that does so may hold no processes of its own, so this
// process moves to a group beside the sandboxes' where it is in the way.
func (t *v2) enable(group string) error {
	folder := filepath.Join(t.mount, group)
	var want []string
	for _, c := range v2Controllers(folder, "cgroup.controllers") {
		if slices.Contains(names, c) {
			want = append(want, "+"+c)
		}
	}
	if len(want) == 0 {
		return nil
	}
	file, value := filepath.Join(folder, "cgroup.subtree_control"), []byte(strings.Join(want, " "))
	err := os.WriteFile(file, value, 0)
	if !errors.Is(err, syscall.EBUSY) {
		return err
	}
	own, err := cgroup2.Load(path.Join(group, "edgepod-node"), cgroup2.WithMountpoint(t.mount))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(folder, "edgepod-node"), 0o755); err != nil {
		return err
	}
	if err := own.AddProc(uint64(os.Getpid())); err != nil {
		return err
	}
	return os.WriteFile(file, value, 0)
}

func v2Controllers(folder, file string) []string {
	data, err := os.ReadFile(filepath.Join(folder, file))
	if err != nil {
		return nil
	}
	return strings.Fields(string(data))
}

// known tells whether ref is a group of this tree. One that was stored when the machine used version 1 is not, and would
// otherwise be taken for the root of all.
func (t *v2) known(ref Ref) bool { return ref[unified] != "" }

func (t *v2) controllers() []Controller  { return t.held }
func (t *v2) root() Ref                  { return t.base }
func (t *v2) folder(ref Ref) string      { return filepath.Join(t.mount, ref[unified]) }
func (t *v2) has(controller string) bool { return slices.Contains(t.enabled, controller) }

func (t *v2) load(ref Ref) (*cgroup2.Manager, error) {
	return cgroup2.Load(ref[unified], cgroup2.WithMountpoint(t.mount))
}

func (t *v2) create(ref Ref, l sandbox.Limits) error {
	if !t.known(ref) {
		return nil
	}
	if err := os.MkdirAll(t.folder(ref), 0o755); err != nil {
		return fmt.Errorf("make cgroup: %w", err)
	}
	if path.Dir(ref[unified]) == t.base[unified] {
		if err := t.enable(ref[unified]); err != nil {
			return fmt.Errorf("pass controllers to the pod's cgroup: %w", err)
		}
	}
	if !limited(l) {
		return nil
	}
	res := &cgroup2.Resources{}
	if l.Memory > 0 && t.has(controllerMemory) {
		res.Memory = &cgroup2.Memory{Max: &l.Memory}
	}
	if l.CPUShareMilli > 0 && t.has(controllerCPU) {
		w := weight(l.CPUShareMilli)
		res.CPU = &cgroup2.CPU{Weight: &w}
	}
	if l.PIDs > 0 && t.has(controllerPIDs) {
		res.Pids = &cgroup2.Pids{Max: pids(l.PIDs)}
	}
	return t.update(ref, res)
}

func (t *v2) update(ref Ref, res *cgroup2.Resources) error {
	m, err := t.load(ref)
	if err != nil {
		return err
	}
	if err := m.Update(res); err != nil {
		return fmt.Errorf("set limits of cgroup: %w", err)
	}
	return nil
}

func (t *v2) add(ref Ref, pid int) error {
	if !t.known(ref) {
		return nil
	}
	m, err := t.load(ref)
	if err != nil {
		return err
	}
	return m.AddProc(uint64(pid))
}

func (t *v2) open(ref Ref) (*os.File, error) {
	if !t.known(ref) {
		return nil, nil
	}
	return os.Open(t.folder(ref))
}

func (t *v2) join(Ref) Join { return Join{} }

func (t *v2) setCPU(ref Ref, milli int64) error {
	if !t.known(ref) || !t.has(controllerCPU) {
		return nil
	}
	q, period := quota(milli), uint64(cpuPeriod)
	return t.update(ref, &cgroup2.Resources{CPU: &cgroup2.CPU{Max: cgroup2.NewCPUMax(&q, &period)}})
}

func (t *v2) usage(ref Ref) (Usage, error) {
	if !t.known(ref) {
		return Usage{}, ErrNoGroup
	}
	if _, err := os.Stat(t.folder(ref)); errors.Is(err, fs.ErrNotExist) {
		return Usage{}, ErrNoGroup
	}
	m, err := t.load(ref)
	if err != nil {
		return Usage{}, err
	}
	s, err := m.StatFiltered(cgroup2.StatPids | cgroup2.StatCPU | cgroup2.StatMemory)
	if err != nil {
		return Usage{}, fmt.Errorf("read cgroup: %w", err)
	}
	return Usage{
		CPU:    time.Duration(s.GetCPU().GetUsageUsec()) * time.Microsecond,
		Memory: max(int64(s.GetMemory().GetUsage())-int64(s.GetMemory().GetInactiveFile()), 0),
		PIDs:   int64(s.GetPids().GetCurrent()),
	}, nil
}

func (t *v2) oomKills(ref Ref) (uint64, error) {
	if !t.known(ref) {
		return 0, ErrNoGroup
	}
	return readKey(filepath.Join(t.folder(ref), "memory.events"), "oom_kill")
}

func (t *v2) kill(ref Ref) error {
	if !t.known(ref) {
		return nil
	}
	file, err := os.OpenFile(filepath.Join(t.folder(ref), "cgroup.kill"), os.O_WRONLY, 0)
	if errors.Is(err, fs.ErrNotExist) { // the group, or the kernel is older than 5.14
		err = killBeneath(t.folder(ref))
	} else if err == nil {
		_, err = file.WriteString("1")
		err = errors.Join(err, file.Close())
	}
	if err != nil && !errors.Is(err, syscall.ENODEV) {
		return fmt.Errorf("kill cgroup: %w", err)
	}
	return nil
}

func (t *v2) remove(ref Ref) error {
	if !t.known(ref) {
		return nil
	}
	return removeFolder(t.folder(ref))
}

func (t *v2) children(ref Ref) ([]string, error) {
	if !t.known(ref) {
		return nil, nil
	}
	return subfolders(t.folder(ref))
}
