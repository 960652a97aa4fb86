package container

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"
)

// garbage is where objects lie for a moment.
var garbage []byte

// TestGarbageIsNotTakenForMemoryInUse makes garbage, of which each collection would otherwise leave more.
func TestGarbageIsNotTakenForMemoryInUse(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(math.MaxInt64))
	runtime.GC()
	for range 3 {
		before := liveMemory()
		for range 16 << 10 { // of 64 MiB
			garbage = make([]byte, 4<<10)
		}
		if after := liveMemory(); after > before+room {
			t.Errorf("%d MiB are in use after 64 MiB of garbage, and %d MiB before", after>>20, before>>20)
		}
		runtime.GC()
	}
	kept := make([]byte, 64<<20)
	before := liveMemory()
	runtime.GC()
	if after := liveMemory(); after < before+int64(len(kept))-room {
		t.Errorf("%d MiB are in use with 64 MiB more, and %d MiB before", after>>20, before>>20)
	}
	runtime.KeepAlive(kept)
}
