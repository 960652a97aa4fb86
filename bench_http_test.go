//go:build linux

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"edgepod/wasmrt/sandbox"
)

// benchServer is a web server that is measured, as a module and, where native is not empty, as the same program natively.
type benchServer struct {
	name, image, native string
	args                []string
	// listens tells that it makes its listener itself, and takes the address from $ADDRESS.
	listens bool
	// keeps tells that connections stay open.
	keeps bool
}

// How servers are measured: by so many connections at a time, guest and native by turns of so long; and so long they are
// then left alone.
const (
	loadConnections = 4
	loadTurns       = 4
	loadTime        = time.Second
	idleTime        = 10 * time.Second
)

// servers measures requests a second of servers in pods, and of the same servers natively on the loopback interface.
func (m *moduleMeasurement) servers() {
	var idle []func() time.Duration
	for _, s := range []benchServer{
		{name: "Go, net/http", image: "./server-go.wasm", native: "server-go", listens: true, keeps: true},
		{name: "C", image: "./server-c.wasm", native: "server-c", keeps: true},
		{name: "Rust, connection for each request", image: "./server-rust.wasm", native: "server-rust"},
		{name: "QuickJS", image: "./quickjs.wasm", args: []string{"/work/server.js"}, keeps: true},
	} {
		guest, native := m.startServer(s), m.startNative(s)
		for range loadTurns {
			guest.load(m, s)
			if native != nil {
				native.load(m, s)
			}
		}
		m.add("server in "+s.name+": requests a second, CPU each", "4,000", "%.0f, %.0f µs", guest.perSecond(), us(guest.cpuEach()))
		if native != nil {
			native.stop()
			m.add("  the same natively; ratios", "", "%.0f, %.0f µs; %.2f, %.2f", native.perSecond(), us(native.cpuEach()),
				guest.perSecond()/native.perSecond(), float64(guest.cpuEach())/float64(native.cpuEach()))
		}
		idle = append(idle, m.used(guest.proc))
	}
	<-time.After(idleTime)
	total := time.Duration(0)
	for _, used := range idle {
		total += used()
	}
	m.add(fmt.Sprintf("those %d servers idle for %v: CPU of all", len(idle), idleTime), "0", "%.1f ms", ms(total))
}

// benchTarget is a server that runs, and what it has done so far.
type benchTarget struct {
	dial func(context.Context) (net.Conn, error)
	proc string // its process's folder
	stop func()

	done      int64
	took, cpu time.Duration
}

func (l *benchTarget) perSecond() float64 { return float64(l.done) / l.took.Seconds() }

// cpuEach is the processor time for a request.
func (l *benchTarget) cpuEach() time.Duration { return l.cpu / time.Duration(max(l.done, 1)) }

// startServer starts the server in a pod, which stays.
func (m *moduleMeasurement) startServer(s benchServer) *benchTarget {
	pod := m.runtime.pod(m.B, map[string]string{"server.js": readFile(m.B, "testdata/bench/server.js")})
	_, err := pod.start(m.B, realContainer{
		name: "server", image: s.image, args: s.args, env: []string{"ADDRESS=:8080"}, memory: 256 << 20,
		ports: []sandbox.Port{{Name: "http", Protocol: "TCP", Number: 8080}},
	})
	m.check(err)
	l := &benchTarget{dial: pod.dialer(m), proc: pod.proc(m.B, "server")}
	m.awaitServer(l.dial)
	return l
}

func us(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// used returns what tells how much processor time a process has used since, once it has come to rest.
func (m *moduleMeasurement) used(proc string) func() time.Duration {
	awaitIdle(m.B, proc)
	before, err := processTime(proc)
	m.check(err)
	return func() time.Duration {
		after, err := processTime(proc)
		m.check(err)
		return after - before
	}
}

// dialer connects to the pod's port 8080, as the other containers of the pod do.
func (p *realPod) dialer(m *moduleMeasurement) func(context.Context) (net.Conn, error) {
	// The path of a socket has to be short.
	link := filepath.Join(p.work, ".net")
	m.check(os.Symlink(filepath.Join(p.runtime.dir, "sandboxes", p.Spec().ID, "net"), link))
	return func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(link, "tcp-8080"))
	}
}

// startNative starts the server as a process of this machine, or returns nil where there is none.
func (m *moduleMeasurement) startNative(s benchServer) *benchTarget {
	if s.native == "" {
		return nil
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	m.check(err)
	address := listener.Addr().String()
	file, err := listener.(*net.TCPListener).File()
	m.check(err)
	m.check(listener.Close())
	cmd := exec.Command(filepath.Join(m.runtime.scratch, s.native))
	cmd.Env = []string{"ADDRESS=" + address, "EDGEPOD_LISTEN_FD=3"}
	if !s.listens {
		cmd.ExtraFiles = []*os.File{file}
	} else {
		m.check(file.Close())
	}
	cmd.Stderr = os.Stderr
	m.check(cmd.Start())
	l := &benchTarget{
		dial: func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "tcp", address) },
		proc: fmt.Sprintf("/proc/%d", cmd.Process.Pid),
		stop: func() {
			m.check(cmd.Process.Kill())
			_ = cmd.Wait() // it was killed
		},
	}
	m.awaitServer(l.dial)
	return l
}

// load asks the server from some connections at once, each with one request at a time.
func (l *benchTarget) load(m *moduleMeasurement, s benchServer) {
	var done atomic.Int64
	var failed atomic.Pointer[error]
	var clients sync.WaitGroup
	before, err := processTime(l.proc)
	m.check(err)
	began := time.Now()
	for range loadConnections {
		clients.Go(func() {
			if err := ask(s, l.dial, began.Add(loadTime), &done); err != nil {
				failed.Store(&err)
			}
		})
	}
	clients.Wait()
	l.took += time.Since(began)
	after, err := processTime(l.proc)
	m.check(err)
	if err := failed.Load(); err != nil {
		m.Fatalf("server in %s: %v", s.name, *err)
	}
	l.cpu += after - before
	l.done += done.Load()
}

// awaitServer waits until a server answers.
func (m *moduleMeasurement) awaitServer(dial func(context.Context) (net.Conn, error)) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); ; <-tick.C {
		conn, err := dial(m.Context())
		if err == nil {
			_, err = request(conn, bufio.NewReader(conn))
			m.check(conn.Close())
		}
		if err == nil {
			return
		}
		if time.Since(began) > scriptTimeout {
			m.Fatalf("the server does not answer: %v", err)
		}
	}
}

// ask sends requests until the deadline, and counts those that are answered.
func ask(s benchServer, dial func(context.Context) (net.Conn, error), deadline time.Time, done *atomic.Int64) error {
	ctx, cancel := context.WithDeadline(context.Background(), deadline.Add(time.Minute))
	defer cancel()
	for time.Now().Before(deadline) {
		conn, err := dial(ctx)
		if err != nil {
			return err
		}
		reader := bufio.NewReader(conn)
		for open := true; err == nil && open && time.Now().Before(deadline); {
			open, err = request(conn, reader)
			if err == nil {
				done.Add(1)
			}
			open = open && s.keeps
		}
		if err := conn.Close(); err != nil {
			return err
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// request sends one and reads its answer; open tells whether the connection may be used again.
func request(conn net.Conn, reader *bufio.Reader) (open bool, err error) {
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: bench\r\n\r\n"); err != nil {
		return false, err
	}
	answer, err := http.ReadResponse(reader, nil)
	if err != nil {
		return false, err
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return false, err
	}
	if string(text) != "hello\n" {
		return false, fmt.Errorf("the answer is %q", text)
	}
	return !answer.Close, answer.Body.Close()
}
