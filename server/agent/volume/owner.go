package volume

import (
	"io/fs"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
)

// mostFiles is how many files of a folder that is only read are looked at.
const mostFiles = 256

// RootsOwn returns the hostPath volumes of the pod that the owner may not use as the pod's containers are to use them: to
// read, and to write unless each mount is read-only. Their files are the host's, so that nothing here is changed for it.
// Without an owner there are none.
func (f Folder) RootsOwn(pod *corev1.Pod) ([]*corev1.Volume, error) {
	if f.Owner == nil {
		return nil, nil
	}
	var out []*corev1.Volume
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		mounted, written := use(pod, v.Name)
		if v.HostPath == nil || !mounted {
			continue
		}
		path, err := f.hostPath(v.HostPath)
		if err != nil {
			return nil, setUpError(v, err)
		}
		if !f.mayUse(path, written) {
			out = append(out, v)
		}
	}
	return out, nil
}

// use tells whether a container mounts the volume, and whether one may write to it.
func use(pod *corev1.Pod, volume string) (mounted, written bool) {
	for _, all := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range all {
			for _, m := range all[i].VolumeMounts {
				if m.Name == volume {
					mounted, written = true, written || !m.ReadOnly
				}
			}
		}
	}
	return mounted, written
}

// mayUse tells whether the owner may read what is at path, as far as mostFiles show, or write to it.
func (f Folder) mayUse(path string, write bool) bool {
	if write {
		info, err := os.Stat(path)
		return err != nil || f.allows(info, 0o6) // whoever opens it will say what is wrong
	}
	seen, ok := 0, true
	err := filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if seen++; err != nil || seen > mostFiles || !ok {
			return fs.SkipAll
		}
		if d.Type()&fs.ModeSymlink != 0 {
			return nil
		}
		info, err := d.Info()
		ok = err != nil || f.allows(info, 0o4)
		return nil
	})
	return ok && err == nil
}

// allows tells whether the mode gives the owner the rights in want, and in a folder the right to look up names.
func (f Folder) allows(info fs.FileInfo, want fs.FileMode) bool {
	if info.IsDir() {
		want |= 0o1
	}
	have := info.Mode().Perm()
	if f.owns(info) {
		have >>= 6
	}
	return have&want == want
}

// owns tells whether the file is the owner's, or of anybody's where there is none.
func (f Folder) owns(info fs.FileInfo) bool {
	uid, ok := ownerOf(info)
	return f.Owner == nil || ok && uid == f.Owner.UID
}
