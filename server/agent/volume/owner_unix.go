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
