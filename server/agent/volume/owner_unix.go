//go:build unix

package volume

import (
	"io/fs"
	"syscall"
)

// ownerOf returns the user that owns a file.
func ownerOf(info fs.FileInfo) (int, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(st.Uid), true
}

// allocated returns what a file takes of the disk, which is its inode, and how many names it has.
func allocated(info fs.FileInfo) (size int64, inode, names uint64) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return info.Size(), 0, 1
	}
	const block = 512
	return int64(st.Blocks) * block, uint64(st.Ino), uint64(st.Nlink)
}
