package agent

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"edgepod/wasmrt/sandbox"
)

// etcFile is a file that every container of a pod finds in /etc.
type etcFile struct{ name, content string }

// etcFiles are those files. They say what the pod says; what of it guests can use is another matter.
func etcFiles(pod *corev1.Pod) []etcFile {
	return []etcFile{{"hostname", hostname(pod) + "\n"}, {"hosts", hostsFile(pod)}, {"resolv.conf", resolverFile(pod)}}
}

func hostsFile(pod *corev1.Pod) string {
	own := hostname(pod)
	var hosts strings.Builder
	fmt.Fprintf(&hosts, "127.0.0.1\tlocalhost\n::1\tlocalhost\n127.0.0.1\t%s\n::1\t%s\n", own, own)
	for _, alias := range pod.Spec.HostAliases {
		fmt.Fprintf(&hosts, "%s\t%s\n", alias.IP, strings.Join(alias.Hostnames, "\t"))
	}
	return hosts.String()
}

// resolverFile is what the pod's policy and configuration make of resolv.conf. It names no server of the cluster's, which has
// none yet.
func resolverFile(pod *corev1.Pod) string {
	var servers, searches, options []string
	if pod.Spec.DNSPolicy == corev1.DNSClusterFirst || pod.Spec.DNSPolicy == "" {
		searches = []string{pod.Namespace + ".svc." + clusterDomain, "svc." + clusterDomain, clusterDomain}
		options = []string{"ndots:5"}
	}
	if c := pod.Spec.DNSConfig; c != nil {
		servers, searches = c.Nameservers, append(searches, c.Searches...)
		for _, o := range c.Options {
			text := o.Name
			if o.Value != nil {
				text += ":" + *o.Value
			}
			options = append(options, text)
		}
	}
	var out strings.Builder
	for _, server := range servers {
		fmt.Fprintf(&out, "nameserver %s\n", server)
	}
	if len(searches) > 0 {
		fmt.Fprintf(&out, "search %s\n", strings.Join(searches, " "))
	}
	if len(options) > 0 {
		fmt.Fprintf(&out, "options %s\n", strings.Join(options, " "))
	}
	return out.String()
}

// clusterDomain is the domain of the cluster's own names.
const clusterDomain = "cluster.local"

// etcMounts makes the files of /etc and returns the mounts that show them, but for those in whose place the container has a
// mount of its own.
func (f podFolder) etcMounts(pod *corev1.Pod, own []sandbox.Mount) ([]sandbox.Mount, error) {
	dir := f.etc()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	var out []sandbox.Mount
	for _, file := range etcFiles(pod) {
		target := "/etc/" + file.name
		inPlace := slices.ContainsFunc(own, func(m sandbox.Mount) bool {
			return m.Target == target || strings.HasPrefix(m.Target, target+"/")
		})
		if inPlace {
			continue
		}
		source := filepath.Join(dir, file.name)
		if err := keepFile(source, []byte(file.content)); err != nil {
			return nil, err
		}
		out = append(out, sandbox.Mount{Source: source, Target: target, ReadOnly: true})
	}
	return out, nil
}

// keepFile gives a file that all may read its content, wholly or not at all, unless it has that.
func keepFile(path string, content []byte) error {
	if now, err := os.ReadFile(path); err == nil && bytes.Equal(now, content) {
		return nil
	}
	temporary, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return err
	}
	_, err = temporary.Write(content)
	err = errors.Join(err, temporary.Chmod(0o644), temporary.Close())
	if err == nil {
		err = os.Rename(temporary.Name(), path)
	}
	if err != nil {
		_ = os.Remove(temporary.Name()) // it is of no use to anybody
	}
	return err
}
