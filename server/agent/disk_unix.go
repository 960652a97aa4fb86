//go:build unix

package agent

import "golang.org/x/sys/unix"

// diskSpace is the size of the file system that holds the folder, and what is free on it.
func diskSpace(dir string) (size, free int64, ok bool) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, 0, false
	}
	return int64(st.Blocks) * int64(st.Bsize), int64(st.Bavail) * int64(st.Bsize), true
}
