//go:build wasip1

package runtime

import _ "unsafe" // for go:linkname

// os_signal_ready is for a package os/signal that receives by itself: it needs no goroutine here that asks again and again.
//
//go:linkname os_signal_ready os/signal.ready
func os_signal_ready() { sig.state.Store(sigReceiving) }
