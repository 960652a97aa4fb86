//go:build linux

package wasi

import (
	"bufio"
	"fmt"
	"io"
	gonet "net"
	"net/http"
	"net/netip"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"edgepod/wasmrt/fs"
	"edgepod/wasmrt/net"
)

// BenchmarkPoll polls many connections, of which one is ready.
func BenchmarkPoll(b *testing.B) {
	for _, count := range []int{1, 64, 512} {
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			h, err := New(Config{Net: network(b, pod(b)), MaxFiles: 4096})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = h.Close() }()
			mem := make(memory, memorySize)
			for i := range count {
				fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
				if err != nil {
					b.Fatal(err)
				}
				defer unix.Close(fds[1])
				s := &socket{family: familyINET4, protocol: net.TCP, conn: &net.Conn{FD: fds[0]}}
				fd, err := h.add(&descriptor{object: s, base: socketRights})
				if err != nil {
					b.Fatal(err)
				}
				sub := mem[i*48:][:48]
				sub[8], sub[16], sub[17] = eventRead, byte(fd), byte(fd>>8)
				if i == count-1 {
					if _, err := unix.Write(fds[1], []byte("ready")); err != nil {
						b.Fatal(err)
					}
				}
			}
			const out, n = 1 << 19, 1<<20 - 4
			stack := params{0, out, uint64(count), n}
			b.ReportAllocs()
			for b.Loop() {
				if err := h.pollOneoff(mem, stack); err != nil || mem[n] != 1 {
					b.Fatal(err, mem[n])
				}
			}
		})
	}
}

// BenchmarkServers measures requests a second of HTTP servers that are guests, beside one that is native on the loopback
// of the host. The clients share the processors with them.
func BenchmarkServers(b *testing.B) {
	b.Run("native", func(b *testing.B) {
		l, err := gonet.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })}
		go func() { _ = s.Serve(l) }()
		defer func() { _ = s.Close() }()
		ask(b, "tcp", l.Addr().String(), 0)
	})
	inC, inGo := buildC(b, "serve"), buildGo(b, "serve")
	for _, c := range []struct {
		name string
		wasm []byte
		idle int
	}{
		{"C", inC, 0}, {"C, 500 idle", inC, 500}, {"Go", inGo, 0}, {"Go, 500 idle", inGo, 500},
	} {
		b.Run(c.name, func(b *testing.B) {
			dir := pod(b)
			h := newHost(b, Config{
				Args: []string{"serve", "recv"}, Net: network(b, dir), StopDescriptor: true, NonblockListeners: c.name[0] == 'G',
				Listeners: []Listener{{Protocol: net.TCP, Addr: netip.MustParseAddrPort("0.0.0.0:8080")}},
			}, fs.Config{})
			run := start(b, c.wasm, h)
			var wg sync.WaitGroup
			wg.Go(func() { _ = run() })
			ask(b, "unix", filepath.Join(dir, "tcp-8080"), c.idle)
			h.Terminate()
			wg.Wait()
		})
	}
}

// ask has 16 clients make b.N requests over connections that stay, beside others that are idle.
func ask(b *testing.B, network, addr string, idle int) {
	b.Helper()
	const clients = 16
	var left atomic.Int64
	left.Store(int64(b.N))
	conns := make([]gonet.Conn, clients+idle)
	for i := range conns {
		for {
			var err error
			if conns[i], err = gonet.Dial(network, addr); err == nil {
				break
			}
		}
		defer conns[i].Close()
	}
	b.ResetTimer()
	var wg sync.WaitGroup
	for _, conn := range conns[:clients] {
		wg.Go(func() {
			r := bufio.NewReader(conn)
			for left.Add(-1) >= 0 {
				if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: pod\r\n\r\n"); err != nil {
					b.Error(err)
					return
				}
				resp, err := http.ReadResponse(r, nil)
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
}

// BenchmarkIdle measures the processor time of a server in Go that has nothing to do, while ten seconds go by on the
// clock of its own timer.
func BenchmarkIdle(b *testing.B) {
	dir := pod(b)
	h := newHost(b, Config{
		Args: []string{"serve"}, Net: network(b, dir), StopDescriptor: true, NonblockListeners: true,
		Listeners: []Listener{{Protocol: net.TCP, Addr: netip.MustParseAddrPort("0.0.0.0:8080")}},
	}, fs.Config{})
	run := start(b, buildGo(b, "serve"), h)
	var wg sync.WaitGroup
	wg.Go(func() { _ = run() })
	defer wg.Wait()
	defer h.Terminate()
	conn, err := gonet.Dial("unix", filepath.Join(dir, "tcp-8080"))
	for err != nil {
		conn, err = gonet.Dial("unix", filepath.Join(dir, "tcp-8080"))
	}
	defer conn.Close()
	before := processorTime(b)
	b.ResetTimer()
	for range b.N {
		// One second of doing nothing.
		if _, err := unix.Poll(nil, 1000); err != nil && err != unix.EINTR {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(processorTime(b)-before)/1e6/float64(b.N), "cpu-ms/s")
}

// processorTime is the processor time of this process, in nanoseconds.
func processorTime(b *testing.B) int64 {
	b.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts); err != nil {
		b.Fatal(err)
	}
	return ts.Nano()
}
