package container

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// room is how much this process's own memory may grow until it is collected.
const room = 16 << 20

// quiet lets the collector run only when memory has grown, never by time: it waits for the guest to make a host call, and
// everything else, also the stop request, waits for the collector. What loading a large module has left is given back
// now; for a small one that takes longer than all the rest.
func quiet() {
	const worthwhile = 8 << 20
	if liveMemory() > worthwhile {
		debug.FreeOSMemory()
	}
	setRoom()
}

// setRoom allows memory to grow from what it is now, again after each collection: what is really in use, such as the
// stack of a guest that recurses deeply, must not make the collector run all the time.
func setRoom() {
	debug.SetMemoryLimit(liveMemory() + room)
	type sentinel struct{ _ [16]byte }
	runtime.SetFinalizer(&sentinel{}, func(*sentinel) { setRoom() })
}

// liveMemory is what the Go runtime holds now.
func liveMemory() int64 {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	return int64(samples[0].Value.Uint64() - samples[1].Value.Uint64())
}
