package process

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"edgepod/wasmrt/container"
	"edgepod/wasmrt/harden"
	"edgepod/wasmrt/sandbox"
)

// probeTimeout is how long a process may take to harden itself.
const probeTimeout = 10 * time.Second

// Layers implements sandbox.Runtime. The first call tries each layer in a process of its own.
func (r *Runtime) Layers() []sandbox.Layer { return slices.Clone(r.layers()) }

func (r *Runtime) probe() []sandbox.Layer {
	flags := r.launch.cloneFlags()
	layers := []sandbox.Layer{namespaceLayer(flags)}
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	own, err := r.probeProcess(ctx)
	if err != nil {
		r.log.Error("find out which layers of hardening hold", "err", err)
		own = []sandbox.Layer{{Name: "process", Reason: err.Error(), Fix: "see the node's log"}}
	}
	layers = append(layers, own...)
	for _, c := range r.groups.Controllers() {
		layers = append(layers, sandbox.Layer{Name: "cgroup-" + c.Name, Held: c.Held, Reason: c.Reason, Fix: c.Fix})
	}
	return layers
}

func (r *Runtime) probeProcess(ctx context.Context) ([]sandbox.Layer, error) {
	c, err := r.launch.start(container.JobProbe, nil, nil)
	if err != nil {
		return nil, err
	}
	defer c.abandon()
	user := podIdentity("probe")
	jail := filepath.Join(r.cfg.Dir, jailDir)
	answer, err := c.ask(ctx, container.Request{
		Out: jail, Net: jail, UID: user.uid, GID: user.gid, UserNamespace: r.launch.inUserNamespace(),
	})
	return answer.Layers, err
}

func namespaceLayer(flags uintptr) sandbox.Layer {
	const name = "namespaces"
	if flags&syscall.CLONE_NEWPID != 0 {
		return sandbox.Layer{Name: name, Held: true}
	}
	reason := "this user may make no namespaces"
	if flags != 0 {
		reason = "this user may make some namespaces only"
	}
	fix := "allow user namespaces (sysctl user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns), or run the node as root"
	switch {
	case harden.CGO && flags&syscall.CLONE_NEWNET != 0:
		fix = "build edgepod with make, or with CGO_ENABLED=0"
	case os.Geteuid() == 0:
		fix = "give the node CAP_SYS_ADMIN"
	}
	return sandbox.Layer{Name: name, Reason: reason, Fix: fix}
}
