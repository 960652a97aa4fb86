package agent_test

import (
	"os"
	"strings"
	"testing"

	"edgepod/wasmrt/sandbox"
)

func TestContainersFindTheirNameAndHostsInEtc(t *testing.T) {
	c := newCluster(t)
	c.startReady()
	pod := c.create(`
metadata: {name: web}
spec:
  hostname: tellme
  hostAliases: [{ip: 192.0.2.7, hostnames: [db, db.example]}]
  dnsConfig: {nameservers: [192.0.2.53], searches: [example], options: [{name: rotate}, {name: timeout, value: "1"}]}
  terminationGracePeriodSeconds: 1
  volumes: [{name: v, emptyDir: {}}]
  containers:
  - {name: main, image: app}
  - {name: own, image: app, volumeMounts: [{name: v, mountPath: /etc/hosts}, {name: v, mountPath: /etc}]}
`)
	c.wait("web", "ready", ready)
	mounted := func(id string) map[string]sandbox.Mount {
		spec, err := c.runtime.Spec(string(pod.UID), id)
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]sandbox.Mount{}
		for _, m := range spec.Mounts {
			if _, twice := all[m.Target]; twice {
				t.Errorf("%s has two mounts at %s", id, m.Target)
			}
			all[m.Target] = m
		}
		return all
	}
	for target, want := range map[string]string{
		"/etc/hostname":    "tellme\n",
		"/etc/resolv.conf": "nameserver 192.0.2.53\nsearch default.svc.cluster.local svc.cluster.local cluster.local example\noptions ndots:5 rotate timeout:1\n",
		"/etc/hosts":       "127.0.0.1\tlocalhost\n::1\tlocalhost\n127.0.0.1\ttellme\n::1\ttellme\n192.0.2.7\tdb\tdb.example\n",
	} {
		m := mounted("main-0")[target]
		info, err := os.Stat(m.Source)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(m.Source)
		if err != nil || string(text) != want || !m.ReadOnly || info.Mode().Perm() != 0o644 {
			t.Errorf("%s: %q, read-only %v, mode %v, %v; want %q", target, text, m.ReadOnly, info.Mode(), err, want)
		}
	}
	own := mounted("own-0")
	if m := own["/etc/hosts"]; m.ReadOnly || !strings.Contains(m.Source, "/.volumes/") {
		t.Errorf("the container's own mount at /etc/hosts is replaced by %+v", m)
	}
	if m := own["/etc/hostname"]; !strings.HasSuffix(m.Source, "/.etc/hostname") {
		t.Errorf("beneath a volume at /etc, the pod's name is %+v", m)
	}
	c.delete("web", 1)
	c.waitGone("web")
	c.poll("the pod's folder to go", func() bool {
		left, err := os.ReadDir(c.dir + "/agent/pods")
		return err == nil && len(left) == 0
	})
}
