//go:build unix

package depot

import "golang.org/x/sys/unix"

// freeBytes returns how much may still be written to the disk of a folder.
func freeBytes(dir string) (n int64, known bool) {
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return 0, false
	}
	return int64(stat.Bavail) * int64(stat.Bsize), true
}
