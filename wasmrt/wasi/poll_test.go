//go:build linux

package wasi

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"edgepod/wasmrt/fs"
)

// event is what a guest is told.
type event struct {
	Userdata uint64
	Errno    fs.Errno
	Type     uint8
	Nbytes   uint64
	Hangup   bool
}

// sub is a subscription that a test makes.
type sub struct {
	typ      uint8
	fd       uint32
	clock    uint32
	timeout  uint64
	absolute bool
}

// poll subscribes with the index as userdata.
func (g *guest) poll(subs ...sub) []event {
	g.t.Helper()
	in, out, n := g.alloc(48*len(subs)), g.alloc(eventSize*len(subs)), g.alloc(4)
	for i, s := range subs {
		p := in + uint64(48*i)
		clear(g.mem[p : p+48])
		g.put64(p, uint64(i))
		g.mem[p+8] = s.typ
		if s.typ == eventClock {
			g.put32(p+16, s.clock)
			g.put64(p+24, s.timeout)
			if s.absolute {
				g.mem[p+40] = 1
			}
		} else {
			g.put32(p+16, s.fd)
		}
	}
	g.ok("poll_oneoff", in, out, uint64(len(subs)), n)
	var events []event
	for i := range uint64(g.u32(n)) {
		p := out + eventSize*i
		events = append(events, event{
			Userdata: g.u64(p), Errno: fs.Errno(g.mem[p+8]), Type: g.mem[p+10], Nbytes: g.u64(p + 16), Hangup: g.mem[p+24] == eventHangup,
		})
	}
	return events
}

// pipe makes a pipe whose ends are closed with the test.
func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// never is a wait that a test does not want to see the end of.
const never = uint64(time.Hour)

func TestPollTellsWhatIsReady(t *testing.T) {
	r, w := pipe(t)
	g := newGuest(t, Config{Stdin: r, Stdout: io.Discard, Stderr: w}, folder(t, "12345"))
	fd := uint32(g.open("12345", 0, 0, allRights))
	g.read(uint64(fd), 2)
	noPoll := uint32(g.open("12345", 0, 0, rightFDRead))
	all := []sub{
		{typ: eventRead, fd: 0},
		{typ: eventWrite, fd: 1},
		{typ: eventWrite, fd: 2},
		{typ: eventRead, fd: fd},
		{typ: eventWrite, fd: fd},
		{typ: eventRead, fd: 99},
		{typ: eventWrite, fd: 0},
		{typ: eventRead, fd: noPoll},
		{typ: eventClock, clock: 9},
		{typ: eventClock, clock: clockProcess},
		{typ: 3},
		{typ: eventClock, clock: clockMonotonic, timeout: never},
		{typ: eventRead, fd: 0},
	}
	want := []event{
		{Userdata: 1, Type: eventWrite},
		{Userdata: 2, Type: eventWrite},
		{Userdata: 3, Type: eventRead, Nbytes: 3},
		{Userdata: 4, Type: eventWrite},
		{Userdata: 5, Type: eventRead, Errno: fs.BadF},
		{Userdata: 6, Type: eventWrite, Errno: fs.BadF},
		{Userdata: 7, Type: eventRead, Errno: fs.NotCapable},
		{Userdata: 8, Errno: fs.Inval},
		{Userdata: 9, Errno: fs.NotSup},
		{Userdata: 10, Type: 3, Errno: fs.Inval},
	}
	if diff := cmp.Diff(want, g.poll(all...)); diff != "" {
		t.Error(diff)
	}
	if _, err := w.WriteString("hello"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]event{{Userdata: 0, Type: eventRead, Nbytes: 5}}, g.poll(sub{typ: eventRead, fd: 0})); diff != "" {
		t.Error(diff)
	}
	w.Close()
	g.read(0, 10)
	if diff := cmp.Diff([]event{{Userdata: 0, Type: eventRead, Hangup: true}}, g.poll(sub{typ: eventRead, fd: 0})); diff != "" {
		t.Error(diff)
	}
	g.want(fs.Inval, "poll_oneoff", 0, 0, 0, 0)
	g.want(fs.Inval, "poll_oneoff", 0, 0, 1<<31, 0)
	g.want(fs.Fault, "poll_oneoff", memorySize-47, 0, 1, 0)
	g.want(fs.Fault, "poll_oneoff", 0, memorySize-31, 1, 0)
}

func TestPollOfAnInputThatHasEnded(t *testing.T) {
	g := newGuest(t, Config{}, "")
	want := []event{{Userdata: 0, Type: eventRead, Hangup: true}}
	if diff := cmp.Diff(want, g.poll(sub{typ: eventRead, fd: 0}, sub{clock: clockMonotonic, timeout: never})); diff != "" {
		t.Error(diff)
	}
	if got, errno := g.read(0, 10); got != "" || errno != 0 {
		t.Errorf("read %q, %d", got, errno)
	}
}

func TestPollOfClocks(t *testing.T) {
	g := newGuest(t, Config{}, "")
	now := func(id uint64) uint64 {
		p := g.alloc(8)
		g.ok("clock_time_get", id, 0, p)
		return g.u64(p)
	}
	const short = uint64(3 * time.Millisecond)
	for name, s := range map[string]sub{
		"monotonic":                      {clock: clockMonotonic, timeout: short},
		"realtime":                       {clock: clockRealtime, timeout: short},
		"monotonic, absolute":            {clock: clockMonotonic, timeout: now(clockMonotonic) + short, absolute: true},
		"realtime, absolute":             {clock: clockRealtime, timeout: now(clockRealtime) + short, absolute: true},
		"monotonic, absolute, long gone": {clock: clockMonotonic, timeout: 0, absolute: true},
		"realtime, absolute, long gone":  {clock: clockRealtime, timeout: 1, absolute: true},
		"nothing":                        {clock: clockMonotonic},
	} {
		before := now(clockMonotonic)
		got := g.poll(sub{clock: clockRealtime, timeout: never}, s, sub{clock: clockMonotonic, timeout: 1<<64 - 1})
		if diff := cmp.Diff([]event{{Userdata: 1}}, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if took := now(clockMonotonic) - before; !s.absolute && took < s.timeout {
			t.Errorf("%s: woke after %d ns", name, took)
		}
	}
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		t.Fatal(err)
	}
	if got := now(clockMonotonic); got < uint64(ts.Nano())-uint64(time.Second) {
		t.Errorf("monotonic clock is at %d, the host's at %d", got, ts.Nano())
	}
	for id := range uint64(4) {
		p := g.alloc(8)
		g.ok("clock_res_get", id, p)
		if g.u64(p) == 0 || now(id) == 0 {
			t.Errorf("clock %d: resolution %d, time %d", id, g.u64(p), now(id))
		}
	}
	g.want(fs.Inval, "clock_time_get", 4, 0, 0)
	g.want(fs.Inval, "clock_res_get", 4, 0)
	g.want(fs.Fault, "clock_time_get", 0, 0, memorySize-7)
}

// TestStopWakesWhatWaits stops guests that wait for ever; the test's own time limit is the assertion.
func TestStopWakesWhatWaits(t *testing.T) {
	for name, wait := range map[string]func(g *guest){
		"read":  func(g *guest) { g.read(0, 1) },
		"write": func(g *guest) { g.write(1, string(make([]byte, 1<<19))) },
		"sleep": func(g *guest) { g.poll(sub{clock: clockMonotonic, timeout: never}) },
		"poll":  func(g *guest) { g.poll(sub{typ: eventRead, fd: 0}) },
		"pipe in a volume": func(g *guest) {
			g.read(g.open("fifo", 0, 0, rightFDRead|rightFDWrite), 1)
		},
		"no wait": func(g *guest) {
			for {
				g.ok("sched_yield")
			}
		},
		"random": func(g *guest) {
			for {
				g.ok("random_get", 0, memorySize)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			in, _ := pipe(t)
			_, out := pipe(t)
			dir := folder(t)
			if err := unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
				t.Fatal(err)
			}
			g := newGuest(t, Config{Stdin: in, Stdout: out}, dir)
			var wg sync.WaitGroup
			wg.Go(func() { g.h.Stop() })
			exit := ends(t, func() { wait(g) })
			wg.Wait()
			if exit == nil || exit.Code != CodeStopped || !exit.Stopped {
				t.Errorf("got %+v", exit)
			}
			g.h.Stop()
		})
	}
}

func TestGuestsThatSeeStopRequests(t *testing.T) {
	in, _ := pipe(t)
	g := newGuest(t, Config{Stdin: in, Env: []string{"A=1"}, StopDescriptor: true}, folder(t))
	if got := g.h.cfg.Env; !cmp.Equal(got, []string{"A=1", StopVariable + "=4"}) {
		t.Fatalf("environment is %q", got)
	}
	g.ok("fd_fdstat_set_flags", 4, uint64(flagNonblock))
	if _, errno := g.read(4, 1); errno != fs.Again {
		t.Errorf("got errno %d, want %d", errno, fs.Again)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if !g.h.Stop() {
			t.Error("the request was not seen")
		}
	})
	got := g.poll(sub{typ: eventRead, fd: 0}, sub{typ: eventRead, fd: 4}, sub{clock: clockMonotonic, timeout: never})
	wg.Wait()
	if diff := cmp.Diff([]event{{Userdata: 1, Type: eventRead, Hangup: true}}, got); diff != "" {
		t.Error(diff)
	}
	if text, errno := g.read(4, 1); text != "" || errno != 0 {
		t.Errorf("read %q, %d", text, errno)
	}
	g.ok("sched_yield")
	g.h.Terminate()
	if exit := ends(t, func() { g.call("sched_yield") }); exit == nil || !exit.Stopped {
		t.Errorf("got %+v", exit)
	}
}

func TestGuestsThatDoNotWatchAreEnded(t *testing.T) {
	for name, before := range map[string]func(g *guest){
		"never looked": func(*guest) {},
		"closed it": func(g *guest) {
			g.poll(sub{typ: eventRead, fd: 3}, sub{clock: clockMonotonic})
			g.ok("fd_close", 3)
		},
	} {
		g := newGuest(t, Config{StopDescriptor: true}, "")
		before(g)
		if g.h.Stop() {
			t.Errorf("%s: the request was seen", name)
		}
		if exit := ends(t, func() { g.call("sched_yield") }); exit == nil || exit.Code != CodeStopped {
			t.Errorf("%s: got %+v", name, exit)
		}
	}
}

func TestPollIsWokenByData(t *testing.T) {
	r, w := pipe(t)
	g := newGuest(t, Config{Stdin: r}, "")
	for i := range 50 {
		var wg sync.WaitGroup
		wg.Go(func() { fmt.Fprint(w, "x") })
		got := g.poll(sub{typ: eventRead, fd: 0}, sub{clock: clockMonotonic, timeout: never})
		if diff := cmp.Diff([]event{{Type: eventRead, Nbytes: 1}}, got); diff != "" {
			t.Fatalf("round %d: %s", i, diff)
		}
		g.read(0, 1)
		wg.Wait()
	}
}

func TestStreamsThatMustNotBlock(t *testing.T) {
	in, _ := pipe(t)
	reader, out := pipe(t)
	g := newGuest(t, Config{Stdin: in, Stdout: out}, "")
	g.ok("fd_fdstat_set_flags", 0, uint64(flagNonblock))
	g.ok("fd_fdstat_set_flags", 1, uint64(flagNonblock))
	if _, errno := g.read(0, 1); errno != fs.Again {
		t.Errorf("got errno %d, want %d", errno, fs.Again)
	}
	list, _ := g.iovs(1 << 17)
	n := g.alloc(4)
	g.ok("fd_write", 1, list, 1, n)
	taken := int(g.u32(n))
	if taken == 0 || taken > 1<<16 {
		t.Errorf("a pipe of 64 KiB took %d bytes", taken)
	}
	g.want(fs.Again, "fd_write", 1, list, 1, n)
	if got, err := io.CopyN(io.Discard, reader, int64(taken)); err != nil {
		t.Errorf("read %d of %d: %v", got, taken, err)
	}
	reader.Close()
	g.want(fs.Pipe, "fd_write", 1, list, 1, n)
}

func TestOutputsAreWriters(t *testing.T) {
	var out, errs bytes.Buffer
	g := newGuest(t, Config{Stdout: &out, Stderr: &errs}, "")
	list, buf := g.iovs(2, 0, 3)
	copy(g.mem[buf:], "hello")
	g.ok("fd_write", 1, list, 3, g.alloc(4))
	g.write(2, "error")
	if out.String() != "hello" || errs.String() != "error" {
		t.Errorf("got %q and %q", out.String(), errs.String())
	}
	if typ, _, _, _ := g.fdstat(1); typ != fs.TypeUnknown {
		t.Errorf("output has type %d", typ)
	}
	tty := newGuest(t, Config{TTY: true}, "")
	if typ, _, base, _ := tty.fdstat(1); typ != fs.TypeCharacterDevice || base&(rightFDSeek|rightFDTell) != 0 {
		t.Errorf("terminal has type %d, rights %x", typ, base)
	}
	tty.write(1, "nobody reads this")
}
