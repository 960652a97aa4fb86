//go:build linux

package wasi

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"net/netip"
	"os"
	"testing"
	"time"

	"edgepod/wasmrt/fs"
	"edgepod/wasmrt/net"
)

// FuzzSequences makes any calls with any parameters, as a guest that is broken or hostile. No call may end in a panic but
// that which ends a guest, and nothing of the host may be left when the guest is gone.
//
// Each call is a byte for the function and one for each parameter: a small number, an address in memory where lists of
// buffers and addresses lie, or a number that is often handled wrongly.
func FuzzSequences(f *testing.F) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 7))
		calls := make([]byte, 2000)
		for i := range calls {
			calls[i] = byte(r.IntN(256))
			if r.IntN(2) == 0 {
				calls[i] %= 12
			}
		}
		f.Add(calls)
	}
	dir, root := pod(f), f.TempDir()
	if err := os.WriteFile(root+"/file", []byte("content"), 0o644); err != nil {
		f.Fatal(err)
	}
	functions := append(functionsOf("wasi_snapshot_preview1"), functionsOf("wasi_unstable")...)
	f.Fuzz(func(t *testing.T, calls []byte) {
		before := countFiles(t)
		c := caller{calls: calls, mem: wildMemory()}
		c.run(t, functions, dir, root)
		if after := countFiles(t); after != before {
			t.Errorf("%d descriptors of the host before, %d after", before, after)
		}
	})
}

// caller makes the calls that a list of bytes says.
type caller struct {
	calls []byte
	mem   memory
}

func (c *caller) run(t *testing.T, functions []function, dir, root string) {
	n, err := net.Open(net.Config{Dir: dir, Hostname: "web"})
	if err != nil {
		t.Fatal(err)
	}
	tree, err := fs.New(fs.Config{Root: root, RootReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	h, err := New(Config{Net: n, FS: tree, MaxFiles: 40, StopDescriptor: true, StdinOpen: true, Listeners: []Listener{
		{Protocol: net.TCP, Addr: netip.MustParseAddrPort("0.0.0.0:80")},
		{Protocol: net.UDP, Addr: netip.MustParseAddrPort("127.0.0.1:80")},
	}})
	if err != nil {
		t.Fatal(err)
	}
	h.poller.setFrom = 2
	// A guest may wait for ever.
	terminated := make(chan struct{})
	stop := time.AfterFunc(20*time.Millisecond, func() { h.Terminate(); close(terminated) })
	defer func() {
		if !stop.Stop() {
			<-terminated
		}
		r := recover()
		var exit *ExitError
		if err, ok := r.(error); r != nil && (!ok || !errors.As(err, &exit)) {
			panic(r)
		}
		if err := errors.Join(h.Close(), n.Close()); err != nil {
			t.Error(err)
		}
	}()
	for len(c.calls) > 0 {
		fn := functions[int(c.next())%len(functions)]
		stack := make([]uint64, max(len(fn.params), 1))
		for i := range fn.params {
			stack[i] = c.param()
		}
		h.call(fn, c.mem, stack)
	}
}

func (c *caller) next() byte {
	if len(c.calls) == 0 {
		return 0
	}
	b := c.calls[0]
	c.calls = c.calls[1:]
	return b
}

// The memory of a caller: cells that describe buffers, which lie behind them.
const (
	cells    = 180
	cellSize = 64
)

func (c *caller) param() uint64 {
	odd := [...]uint64{
		math.MaxUint32, math.MaxUint64, 1 << 31, 1<<31 - 1, 1 << 32, 1 << 63, uint64(memoryTop), uint64(memoryTop) - 1, uint64(memoryTop) - 8,
		uint64(memoryTop) - 128, 128, 80, 1 << 16, 1000, math.MaxUint32 - 7, 64,
	}
	switch b := c.next(); {
	case b < 60:
		return uint64(b)
	case int(b) < 60+cells:
		return uint64(b-60) * cellSize
	default:
		return odd[int(b)%len(odd)]
	}
}

const memoryTop = 1 << 16

// wildMemory makes a memory whose cells make sense as lists of buffers, addresses, subscriptions and names.
func wildMemory() memory {
	m := make(memory, memoryTop)
	le := binary.LittleEndian
	for i := range uint32(cells) {
		cell := m[i*cellSize:][:cellSize]
		for j := range uint32(cellSize / 8) {
			le.PutUint32(cell[j*8:], cells*cellSize+(i*8+j)*16%(memoryTop-cells*cellSize-128))
			le.PutUint32(cell[j*8+4:], [...]uint32{4, 16, 128, 0, 1, 64, 28, 1 << 20}[(i+j)%8])
		}
		switch i % 6 {
		case 1:
			// An address of version 2.
			copy(cell, []byte{familyINET4, 0, 127, 0, 0, 1})
		case 2:
			copy(cell, "localhost")
		case 3:
			copy(cell, "file")
		case 4:
			// A subscription to a descriptor, and one to a clock that is due at once.
			clear(cell[:48])
			cell[8], cell[16] = byte(i%3), byte(i%8)
		}
	}
	for i := cells * cellSize; i+16 < memoryTop; i += 16 {
		copy(m[i:], []byte{familyINET4, 0, 127, 0, 0, 1})
	}
	return m
}

// countFiles counts the descriptors of this process.
func countFiles(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
