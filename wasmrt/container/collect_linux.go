package container

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// room is how much this process's own memory may grow until it is collected.
const room = 8 << 20

// quiet lets the collector run only when memory has grown, never by time: it waits for the guest to make a host call, and
// everything else, also the stop request, waits for the collector. What loading a large module has left is given back
// now; for a small one that takes longer than all the rest.
func quiet() {
	const worthwhile = 4 << 20
	if heapObjects() > worthwhile {
		debug.FreeOSMemory()
	}
	setRoom()
}

// heapObjects is what lies on the heap, garbage included.
func heapObjects() uint64 {
	figure := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(figure)
	return figure[0].Value.Uint64()
}

// setRoom allows memory to grow from what it is now, again after each collection: what is really in use, such as the
// stack of a guest that recurses deeply, must not make the collector run all the time.
func setRoom() {
	debug.SetMemoryLimit(liveMemory() + room)
	type sentinel struct{ _ [16]byte }
	runtime.SetFinalizer(&sentinel{}, func(*sentinel) { setRoom() })
}

// liveMemory is what the Go runtime needs now: without what it has ready for later, and of its heap only what the last
// collection found in use. What is garbage by now is not told apart from the rest until it is swept.
func liveMemory() int64 {
	figures := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"},
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"},
	}
	metrics.Read(figures)
	live := int64(figures[0].Value.Uint64() + figures[1].Value.Uint64())
	for _, f := range figures[2:] {
		live -= int64(f.Value.Uint64())
	}
	return live
}
