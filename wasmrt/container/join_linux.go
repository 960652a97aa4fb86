package container

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
	"kernel.org/pub/linux/libs/security/libcap/psx"
)

// join moves this process into the cgroups of these files, thread by thread. Those that come later are born there.
func join(files []string) error {
	self := []byte("0")
	for _, name := range files {
		file, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return fmt.Errorf("join cgroup: %w", err)
		}
		_, _, e := psx.Syscall3(unix.SYS_WRITE, file.Fd(), uintptr(unsafe.Pointer(&self[0])), uintptr(len(self)))
		runtime.KeepAlive(self)
		if e != 0 {
			return errors.Join(fmt.Errorf("join cgroup %s: %w", name, e), file.Close())
		}
		if err := file.Close(); err != nil {
			return err
		}
	}
	return nil
}
