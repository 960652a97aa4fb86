package volume

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Limited tells whether a volume of the pod has a limit that is to be watched.
func Limited(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return limit(&v) > 0 })
}

func limit(v *corev1.Volume) int64 {
	if v.EmptyDir == nil || v.EmptyDir.SizeLimit == nil {
		return 0
	}
	return v.EmptyDir.SizeLimit.Value()
}

// Exceeded returns the first volume of the pod that holds more than its limit, nil for none. It looks no further than to
// that point, follows no links, and passes over what changes meanwhile.
func (f Folder) Exceeded(ctx context.Context, pod *corev1.Pod) (*corev1.Volume, error) {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		most := limit(v)
		if most <= 0 {
			continue
		}
		dir, err := f.dir(v.Name)
		if err != nil {
			return nil, err
		}
		if over, err := holdsMore(ctx, dir, most); over || err != nil {
			return v, err
		}
	}
	return nil, nil
}

// maxDepth is how deep folders are counted: each level costs more than the one above, and no program needs so many.
const maxDepth = 256

// holdsMore tells whether the files beneath dir take more than most bytes of the disk. One with several names counts once;
// folders below maxDepth count as more than any limit.
func holdsMore(ctx context.Context, dir string, most int64) (bool, error) {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer root.Close()
	var total int64
	counted := map[uint64]bool{}
	err = fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if strings.Count(path, "/") >= maxDepth {
			total = math.MaxInt64
			return fs.SkipAll
		}
		if err != nil {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		size, inode, names := allocated(info)
		if names > 1 && !d.IsDir() {
			if counted[inode] {
				return nil
			}
			counted[inode] = true
		}
		if total += size; total > most {
			return fs.SkipAll
		}
		return nil
	})
	return total > most, err
}
