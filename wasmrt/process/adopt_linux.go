package process

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"edgepod/wasmrt/atomicfile"
	"edgepod/wasmrt/cgroup"
	"edgepod/wasmrt/sandbox"
	"edgepod/wasmrt/sandbox/guestfiles"
)

// maxSpec bounds the files that this package writes.
const maxSpec = 8 << 20

// adopt finds the sandboxes of an earlier runtime. What cannot be read is put aside, its processes killed: nobody would
// look after them, and the same pod will be started anew.
func (r *Runtime) adopt() error {
	base := filepath.Join(r.cfg.Dir, sandboxDir)
	entries, err := os.ReadDir(base)
	if err != nil {
		return fmt.Errorf("look for sandboxes: %w", err)
	}
	for _, e := range entries {
		dir := filepath.Join(base, e.Name())
		var s stored
		err := atomicfile.ReadJSON(filepath.Join(dir, sandboxFile), &s, maxSpec)
		if err == nil && s.Spec.ID != e.Name() {
			err = fmt.Errorf("%s: %w: it is of another sandbox", dir, atomicfile.ErrCorrupt)
		}
		if err != nil {
			r.quarantine(dir, r.groups.Root().Child(e.Name()), err)
			continue
		}
		p := newPod(r, s)
		r.pods[s.Spec.ID] = p
		p.adopt()
	}
	r.sweep()
	return nil
}

// sweep removes the groups that an earlier runtime has left and that belong to nothing that was adopted, and kills what
// runs in them: it died while it compiled, or between the removal of a sandbox's files and that of its group.
func (r *Runtime) sweep() {
	root := r.groups.Root()
	r.sweepGroup(root, func(name string) bool { _, ok := r.pods[name]; return ok })
	for _, p := range r.pods {
		r.sweepGroup(p.group, func(name string) bool { return p.find(name) != nil })
	}
}

func (r *Runtime) sweepGroup(group cgroup.Ref, known func(string) bool) {
	names, err := r.groups.Children(group)
	if err != nil {
		r.log.Warn("look for cgroups that were left behind", "err", err)
	}
	for _, name := range names {
		if known(name) {
			continue
		}
		r.log.Info("remove a cgroup that was left behind", "name", name)
		if err := errors.Join(r.groups.Kill(group.Child(name)), r.groups.Remove(group.Child(name))); err != nil {
			r.log.Warn("remove a cgroup that was left behind", "name", name, "err", err)
		}
	}
}

// quarantine puts a folder aside whose files cannot be read. group is where its processes should be.
func (r *Runtime) quarantine(dir string, group cgroup.Ref, why error) {
	r.log.Error("state cannot be read and is put aside; its processes are killed", "dir", dir, "err", why)
	// Both spellings of the folder: a sandbox's, with attempts in it, and an attempt's.
	files, err := filepath.Glob(filepath.Join(dir, containersDir, "*", statusFile))
	for _, file := range append(files, filepath.Join(dir, statusFile)) {
		if proc, e := recordedProc(file); e == nil {
			err = errors.Join(err, proc.signal(syscall.SIGKILL))
			proc.close()
		}
		err = errors.Join(err, r.groups.Kill(group.Child(filepath.Base(filepath.Dir(file)))))
	}
	err = errors.Join(err, r.groups.Kill(group), r.groups.Remove(group))
	aside := filepath.Join(r.cfg.Dir, quarantineDir)
	err = errors.Join(err, os.MkdirAll(aside, 0o700))
	name := fmt.Sprintf("%s-%d", filepath.Base(dir), time.Now().UnixNano())
	if err = errors.Join(err, os.Rename(dir, filepath.Join(aside, name))); err != nil {
		r.log.Error("put aside state that cannot be read", "dir", dir, "err", err)
	}
}

// recordedProc finds the process that a status file names: errGone if it isn't there, or the machine was started since.
func recordedProc(file string) (*proc, error) {
	var s storedStatus
	if err := atomicfile.ReadJSON(file, &s, maxSpec); err != nil {
		return nil, err
	}
	if s.Boot != bootID() {
		return nil, errRebooted
	}
	return adoptProc(s.PID, s.StartTick)
}

var errRebooted = errors.New("the machine was restarted")

// adopt finds the sandbox's attempts.
func (p *pod) adopt() {
	base := filepath.Join(p.dir, containersDir)
	entries, err := os.ReadDir(base)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.rt.log.Error("look for containers", "dir", base, "err", err)
	}
	created := map[*attempt]time.Time{}
	for _, e := range entries {
		dir := filepath.Join(base, e.Name())
		var s storedSpec
		err := atomicfile.ReadJSON(filepath.Join(dir, specFile), &s, maxSpec)
		if errors.Is(err, fs.ErrNotExist) && !exists(filepath.Join(dir, statusFile)) {
			s.Spec.ID, err = e.Name(), nil // it never was told what to do
		}
		if err == nil && s.Spec.ID != e.Name() {
			err = fmt.Errorf("%s: %w: it is of another container", dir, atomicfile.ErrCorrupt)
		}
		if err != nil {
			p.rt.quarantine(dir, p.group.Child(e.Name()), err)
			continue
		}
		a := p.newAttempt(s.Spec)
		if a.adopt() {
			created[a] = s.Created
			p.attempts = append(p.attempts, a)
		}
	}
	slices.SortFunc(p.attempts, func(a, b *attempt) int {
		return cmp.Or(created[a].Compare(created[b]), cmp.Compare(a.spec.ID, b.spec.ID))
	})
	if err := p.adoptGroup(); err != nil {
		p.rt.log.Error("make the cgroup of a sandbox anew", "uid", p.stored.Spec.ID, "err", err)
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// adoptGroup makes the pod's group again, which is gone where nothing ran, and after a restart of the machine. It then
// lies where this runtime's groups lie, which may be elsewhere than before.
func (p *pod) adoptGroup() error {
	if p.runs() {
		return nil
	}
	if now := p.rt.groups.Root().Child(p.stored.Spec.ID); !maps.Equal(now, p.group) {
		if err := p.rt.clearGroup(p.group); err != nil {
			p.rt.log.Warn("remove the earlier cgroup of a sandbox", "uid", p.stored.Spec.ID, "err", err)
		}
		p.group, p.stored.Group = now, now
	}
	return p.create()
}

// adopt takes over the attempt's process or learns how it ended. It returns false for one that never was told what to do.
func (a *attempt) adopt() bool {
	r := a.pod.rt
	file := filepath.Join(a.dir, statusFile)
	var s storedStatus
	if err := atomicfile.ReadJSON(file, &s, maxSpec); errors.Is(err, fs.ErrNotExist) {
		if err := errors.Join(r.groups.Kill(a.group), r.groups.Remove(a.group), guestfiles.Remove(a.dir)); err != nil {
			r.log.Error("clear up a container that never began", "container", a.spec.ID, "err", err)
		}
		return false
	} else if err == nil {
		a.status.PID, a.status.StartTick = s.PID, s.StartTick
	}
	a.noticeStart()
	proc, err := recordedProc(file)
	if err == nil {
		a.proc = proc
		a.watch(proc)
		return true
	}
	if errors.Is(err, atomicfile.ErrCorrupt) {
		r.log.Error("status of a container cannot be read; it is killed", "container", a.spec.ID, "err", err)
		err = errors.Join(r.groups.Kill(a.group))
	}
	if errors.Is(err, errRebooted) {
		err = a.rebooted()
	}
	if err != nil && !errors.Is(err, errGone) {
		r.log.Error("look for the process of a container", "container", a.spec.ID, "err", err)
	}
	if err := a.ended(ended{}, false); err != nil {
		r.log.Error("record the end of a container", "container", a.spec.ID, "err", err)
	}
	return true
}

// rebooted records an end by a restart of the machine, if the process had not ended before.
func (a *attempt) rebooted() error {
	return atomicfile.WriteJSON(filepath.Join(a.dir, exitFile), sandbox.Exit{
		Code: 128 + int32(syscall.SIGKILL), Signal: int32(syscall.SIGKILL), Reason: sandbox.ReasonError,
		Message: "the machine was restarted while the container ran", FinishedAt: time.Now(),
	}, false)
}
