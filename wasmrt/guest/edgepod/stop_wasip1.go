package edgepod

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"syscall"
)

// firstPort reads the number of the first listener.
func firstPort(getenv func(string) string) (int, error) {
	fd, err := strconv.Atoi(getenv("EDGEPOD_LISTEN_FD"))
	if err != nil {
		return 0, errors.New("EDGEPOD_LISTEN_FD does not tell the descriptor of the first port")
	}
	return fd, nil
}

func setNonblock(fd int) error { return syscall.SetNonblock(fd, true) }

// stopping waits for the end of the stop descriptor from its first call on. Without one, there is no request.
var stopping = sync.OnceValue(func() <-chan struct{} {
	ended := make(chan struct{})
	fd, err := strconv.Atoi(os.Getenv("EDGEPOD_STOP_FD"))
	if err != nil {
		return ended
	}
	if err := setNonblock(fd); err != nil {
		fmt.Fprintf(os.Stderr, "edgepod: stop descriptor %d: %v\n", fd, err)
		return ended
	}
	file := os.NewFile(uintptr(fd), "stop")
	go func() {
		if _, err := io.Copy(io.Discard, file); err == nil {
			close(ended)
		}
	}()
	return ended
})
