// Package volume makes a pod's volumes on its node: folders beneath one folder of the pod, and folders of the host where
// the node allows them.
//
//	DIR/NAME/           emptyDir: the guests' own
//	DIR/NAME/KEY        configMap, secret, downwardAPI, projected: a link to ..data/KEY
//	DIR/NAME/..data     a link to the folder of the newest content, replaced in one step
package volume

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"edgepod/server/agent/podvalue"
	"edgepod/wasmrt/sandbox"
	"edgepod/wasmrt/sandbox/guestfiles"
)

// Folder is the volumes of one pod. Only one goroutine may use it at a time.
type Folder struct {
	// Dir is where the volumes are; it is made by Prepare.
	Dir string
	// HostPaths are the folders of the host that pods may mount, or anything beneath. None: no hostPath volumes.
	HostPaths []string
	// Owner is to have the files that are made here, where it is not nil: the user of the pod's containers, whom their modes
	// are meant for.
	Owner *sandbox.Owner
}

// Prepare makes each volume of the pod and brings generated content up to date, replacing it in one step. Calling it
// again changes only what differs. The error names the volume in the kubelet's words.
func (f Folder) Prepare(values podvalue.Context) error {
	for i := range values.Pod.Spec.Volumes {
		v := &values.Pod.Spec.Volumes[i]
		if err := f.prepare(v, values); err != nil {
			return setUpError(v, err)
		}
	}
	return nil
}

func setUpError(v *corev1.Volume, err error) error {
	return fmt.Errorf("MountVolume.SetUp failed for volume %q : %w", v.Name, err)
}

func (f Folder) prepare(v *corev1.Volume, values podvalue.Context) error {
	if v.HostPath != nil {
		_, err := f.hostPath(v.HostPath)
		return err
	}
	dir, err := f.dir(v.Name)
	if err != nil {
		return err
	}
	if isEmptyDir(v) {
		return errors.Join(makeDir(dir, 0o777), f.own(dir))
	}
	files, err := content(v, values)
	if err != nil {
		return err
	}
	if err := makeDir(dir, 0o755); err != nil {
		return err
	}
	return f.replace(dir, files)
}

// own gives a file to the volumes' owner.
func (f Folder) own(path string) error {
	if f.Owner == nil {
		return nil
	}
	return os.Lchown(path, f.Owner.UID, f.Owner.GID)
}

func (f Folder) dir(name string) (string, error) {
	if name != filepath.Base(name) || !filepath.IsLocal(name) {
		return "", fmt.Errorf("%q is no name for a volume", name)
	}
	return filepath.Join(f.Dir, name), nil
}

// makeDir makes a folder with exactly these permissions, whatever the umask.
func makeDir(dir string, perm os.FileMode) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.Chmod(dir, perm)
}

func isEmptyDir(v *corev1.Volume) bool {
	return v.EmptyDir != nil || v.VolumeSource == (corev1.VolumeSource{})
}

// generated tells whether the volume's content comes from the API; guests can't write to such a volume.
func generated(v *corev1.Volume) bool {
	return v.ConfigMap != nil || v.Secret != nil || v.DownwardAPI != nil || v.Projected != nil
}

// Mounts are the container's mounts of the prepared volumes. Each Source is free of symbolic links, so that it can be
// opened without following any.
func (f Folder) Mounts(pod *corev1.Pod, container *corev1.Container, env *podvalue.Env) ([]sandbox.Mount, error) {
	out := make([]sandbox.Mount, 0, len(container.VolumeMounts))
	for i := range container.VolumeMounts {
		m := &container.VolumeMounts[i]
		at := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
		if at < 0 {
			return nil, fmt.Errorf("cannot find volume %q to mount into container %q", m.Name, container.Name)
		}
		v := &pod.Spec.Volumes[at]
		source, err := f.source(v, m, env)
		if err != nil {
			return nil, fmt.Errorf("volume %q of container %q: %w", m.Name, container.Name, err)
		}
		out = append(out, sandbox.Mount{
			Source: source, Target: path.Clean("/" + m.MountPath), ReadOnly: m.ReadOnly || generated(v),
		})
	}
	return out, nil
}

func (f Folder) source(v *corev1.Volume, m *corev1.VolumeMount, env *podvalue.Env) (string, error) {
	var base string
	var err error
	if v.HostPath != nil {
		base, err = f.hostPath(v.HostPath)
	} else if base, err = f.dir(v.Name); err == nil {
		base, err = filepath.EvalSymlinks(base)
	}
	if err != nil {
		return "", err
	}
	sub := m.SubPath
	if m.SubPathExpr != "" {
		sub = podvalue.Expand(m.SubPathExpr, env.Lookup)
	}
	if sub == "" {
		return base, nil
	}
	if m.ReadOnly || generated(v) {
		return beneath(base, sub, nil)
	}
	own := f.own
	if v.HostPath != nil {
		own = func(string) error { return nil } // as on the host
	}
	return beneath(base, sub, own)
}

// Remove removes the volumes with all that is in them. It follows no links, and takes away folders that guests have
// locked. Removing what is not there is no error.
func (f Folder) Remove() error { return guestfiles.Remove(f.Dir) }
