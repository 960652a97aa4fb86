//go:build wasip1

package signal

import (
	"io"
	"os"
	"strconv"
	"sync"
	"syscall"
)

// The host has no signals but one: a request to stop, which a program sees as the end of the file whose descriptor is in
// EDGEPOD_STOP_FD. It becomes SIGTERM here:
//
//	Notify or Ignore of SIGTERM ──► watch waits for the end ──► handlers get SIGTERM; ignored: nothing; none left: exit 143
//
// Without either nobody waits, and the host ends the program itself.
const stopVariable = "EDGEPOD_STOP_FD"

const numSig = 65

// stop is under the lock of handlers.
var stop struct {
	watch   sync.Once
	ignored [numSig]bool
}

// ready tells the runtime that signals are received. It has none to send, but Stop waits until all have been.
func ready()

func init() { ready() }

func signum(sig os.Signal) int {
	if s, ok := sig.(syscall.Signal); ok && s >= 0 && s < numSig {
		return int(s)
	}
	return -1
}

func enableSignal(sig int) {
	stop.ignored[sig] = false
	watchFor(sig)
}

func disableSignal(sig int) {
	if sig >= 0 {
		stop.ignored[sig] = false
	}
}

func ignoreSignal(sig int) {
	if sig >= 0 {
		stop.ignored[sig] = true
		watchFor(sig)
	}
}

func signalIgnored(sig int) bool {
	handlers.Lock()
	defer handlers.Unlock()
	return stop.ignored[sig]
}

func watchFor(sig int) {
	if sig == int(syscall.SIGTERM) {
		stop.watch.Do(func() { go watch() })
	}
}

// watch waits for the request and passes it on.
func watch() {
	fd, err := strconv.Atoi(os.Getenv(stopVariable))
	if err != nil || syscall.SetNonblock(fd, true) != nil {
		return
	}
	file := os.NewFile(uintptr(fd), stopVariable)
	for {
		_, err := file.Read(make([]byte, 1))
		if err == nil {
			continue
		}
		if err != io.EOF {
			return
		}
		break
	}
	handlers.Lock()
	wanted, ignored := handlers.ref[syscall.SIGTERM] > 0, stop.ignored[syscall.SIGTERM]
	handlers.Unlock()
	switch {
	case wanted:
		process(syscall.SIGTERM)
	case !ignored:
		os.Exit(128 + int(syscall.SIGTERM))
	}
}
