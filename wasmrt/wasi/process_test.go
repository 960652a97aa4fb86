//go:build linux

package wasi

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime"
	"testing"

	"edgepod/wasmrt/fs"
)

func TestExitCodes(t *testing.T) {
	g := newGuest(t, Config{}, "")
	for _, code := range []uint64{0, 1, 255, 256, math.MaxUint32} {
		if exit := ends(t, func() { g.call("proc_exit", code) }); exit == nil || uint64(exit.Code) != code || exit.Stopped {
			t.Errorf("exit %d: got %+v", code, exit)
		}
	}
	for sig, code := range map[uint64]uint32{2: 130, 6: 134, 9: 137, 15: 143, 30: 159} {
		if exit := ends(t, func() { g.call("proc_raise", sig) }); exit == nil || exit.Code != code {
			t.Errorf("signal %d: got %+v, want code %d", sig, exit, code)
		}
	}
	for sig, want := range map[uint64]fs.Errno{0: 0, 16: 0, 17: 0, 18: fs.NotSup, 31: fs.Inval, math.MaxUint32: fs.Inval} {
		g.want(want, "proc_raise", sig)
	}
	for _, c := range []struct {
		err     error
		code    uint32
		stopped bool
		trap    bool
	}{
		{nil, 0, false, false},
		{fmt.Errorf("wrapped: %w", &ExitError{Code: 3}), 3, false, false},
		{&ExitError{Code: CodeStopped, Stopped: true}, CodeStopped, true, false},
		{errors.New("unreachable"), 0, false, true},
	} {
		code, stopped, err := ExitCode(c.err)
		if code != c.code || stopped != c.stopped || (err != nil) != c.trap {
			t.Errorf("%v: got %d, %v, %v", c.err, code, stopped, err)
		}
	}
}

func TestRandom(t *testing.T) {
	g := newGuest(t, Config{}, "")
	g.ok("random_get", 0, 64)
	if bytes.Count(g.mem[:64], []byte{0}) > 16 || g.mem[64] != 0 {
		t.Errorf("got %v", g.mem[:65])
	}
	g.ok("random_get", 0, 0)
	g.ok("random_get", 0, memorySize)
	g.want(fs.Fault, "random_get", 0, math.MaxUint32)
	g.want(fs.Fault, "random_get", 1, memorySize)
}

// TestPointersOutOfRange calls every function with pointers and sizes that lead out of memory.
func TestPointersOutOfRange(t *testing.T) {
	g := newGuest(t, Config{Args: []string{"a"}, Env: []string{"A=1"}}, folder(t, "file"))
	g.open("file", 0, 0, allRights)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, bad := range []uint64{memorySize - 1, memorySize, 1 << 31, math.MaxUint32 - 7, math.MaxUint32} {
		for _, f := range append(preview1(), unstable()...) {
			if f.name == "proc_exit" || f.name == "proc_raise" {
				continue
			}
			for bits := range 1 << len(f.params) {
				if len(f.params) > 6 && bits%7 != 0 {
					continue
				}
				args := make([]uint64, max(len(f.params), 1))
				for i := range f.params {
					switch {
					case bits>>i&1 != 0:
						args[i] = bad
					case i == 0:
						args[i] = 3 + uint64(bits)%2
					default:
						args[i] = 4
					}
				}
				g.h.call(f, g.mem, args)
			}
		}
	}
	runtime.ReadMemStats(&after)
	if grown := after.HeapSys - min(before.HeapSys, after.HeapSys); grown > 64<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
}

func TestGiantLists(t *testing.T) {
	g := newGuest(t, Config{}, folder(t))
	fd := g.open("file", oflagCreat, 0, allRights)
	out := g.alloc(4)
	g.want(fs.Fault, "fd_write", fd, 0, math.MaxUint32, out)
	g.want(fs.Fault, "fd_write", fd, 0, 1<<29, out)
	g.want(fs.Fault, "fd_read", fd, 8, memorySize/8, out)
	list := g.alloc(8 * 5000)
	for i := range uint64(5000) {
		g.put32(list+8*i, 0)
		g.put32(list+8*i+4, 1)
	}
	g.ok("fd_write", fd, list, 5000, out)
	if got := g.u32(out); got != maxBufs {
		t.Errorf("wrote %d bytes, want %d", got, maxBufs)
	}
	for i := range uint64(5000) {
		g.put32(list+8*i, memorySize+1)
		g.put32(list+8*i+4, 0)
	}
	g.ok("fd_write", fd, list, 5000, out)
	if got := g.u32(out); got != 0 {
		t.Errorf("wrote %d bytes of nothing", got)
	}
}

func TestImportsAreChecked(t *testing.T) {
	const m = "wasi_snapshot_preview1"
	i32, i64 := byte(0x7f), byte(0x7e)
	good := []Import{
		{Module: m, Name: "proc_exit", Params: []byte{i32}},
		{Module: m, Name: "fd_seek", Params: []byte{i32, i64, i32, i32}, Results: []byte{i32}},
		{Module: m, Name: "sched_yield", Results: []byte{i32}},
		{Module: "wasi_unstable", Name: "fd_seek", Params: []byte{i32, i64, i32, i32}, Results: []byte{i32}},
	}
	if err := CheckImports(good); err != nil {
		t.Errorf("got %v", err)
	}
	for want, i := range map[string]Import{
		"the module imports env.host_call (i32) -> i32, which is not offered": {
			Module: "env", Name: "host_call", Params: []byte{i32}, Results: []byte{i32},
		},
		"the module imports wasi_snapshot_preview1.thread_spawn (), which is not offered": {Module: m, Name: "thread_spawn"},
		"the module imports wasi_unstable.sock_accept (i32, i32, i32) -> i32, which is not offered": {
			Module: "wasi_unstable", Name: "sock_accept", Params: []byte{i32, i32, i32}, Results: []byte{i32},
		},
		"the module imports wasi_snapshot_preview1.fd_close (i64) -> i32, which is offered as (i32) -> i32 only": {
			Module: m, Name: "fd_close", Params: []byte{i64}, Results: []byte{i32},
		},
	} {
		err := CheckImports(append(good, i))
		var unknown *UnknownImportError
		if !errors.As(err, &unknown) || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// FuzzCalls runs sequences of calls with parameters of all kinds on one guest, whose host must stay whole.
func FuzzCalls(f *testing.F) {
	f.Add([]byte("\x16\x03\x04\x00\x00\x00\x16\x04\x04\x00\x00\x00"))
	f.Add(binary.LittleEndian.AppendUint64(nil, 0x1234567890abcdef))
	f.Fuzz(func(t *testing.T, program []byte) {
		g := newGuest(t, Config{Args: []string{"a"}, MaxFiles: 16}, folder(t, "a", "b/c"))
		copy(g.mem, "a\x00b/c\x00../..\x00")
		list := preview1()
		for len(program) > 0 {
			fn := list[int(program[0])%len(list)]
			program = program[1:]
			args := make([]uint64, max(len(fn.params), 1))
			for i := range fn.params {
				if i < len(program) {
					args[i] = fuzzValue(program[i])
				}
			}
			program = program[min(len(fn.params), len(program)):]
			switch fn.name {
			case "proc_exit", "proc_raise", "poll_oneoff":
				continue
			}
			g.h.call(fn, g.mem, args)
		}
	})
}

// fuzzValue spreads a byte over small numbers, the ends of memory, and numbers beyond.
func fuzzValue(b byte) uint64 {
	switch {
	case b < 200:
		return uint64(b) % 40
	case b < 220:
		return memorySize - uint64(b-200)
	case b < 240:
		return uint64(b) << 24
	}
	return math.MaxUint64 - uint64(b-240)
}
