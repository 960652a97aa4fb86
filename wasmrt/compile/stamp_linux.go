package compile

import (
	"fmt"
	"os"
	"syscall"
)

// stamp tells a file's content apart from what it was, without reading it: nobody can set the time of its last change.
func stamp(info os.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return info.ModTime().String()
	}
	return fmt.Sprintf("%d %d %d %d.%d", st.Dev, st.Ino, info.ModTime().UnixNano(), st.Ctim.Sec, st.Ctim.Nsec)
}
