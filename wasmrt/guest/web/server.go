package main

import (
	"bufio"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// How long a connection may take.
const (
	idleTime  = 75 * time.Second
	headTime  = 20 * time.Second
	stallTime = 60 * time.Second
	// lingerTime is for what a client sends that is not read any more.
	lingerTime = time.Second
)

// mostConnections bounds the connections at a time: each needs a descriptor, and one for the file that it is sent.
const mostConnections = 400

// server answers requests.
type server struct {
	files files
	log   *accessLog

	mu       sync.Mutex
	stopping bool
	idle     map[net.Conn]bool // connections, and whether they wait for a request
	open     sync.WaitGroup
}

// serve accepts connections until the listener is closed.
func (s *server) serve(l net.Listener) error {
	places := make(chan struct{}, mostConnections)
	for {
		places <- struct{}{}
		conn, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			return err
		case !s.enter(conn):
			_ = conn.Close() // nothing was said on it
			return nil
		}
		go func() {
			defer func() { <-places }()
			defer s.leave(conn)
			s.connection(conn)
		}()
	}
}

func (s *server) enter(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return false
	}
	s.idle[conn] = true
	s.open.Add(1)
	return true
}

func (s *server) leave(conn net.Conn) {
	s.mu.Lock()
	delete(s.idle, conn)
	s.mu.Unlock()
	_ = conn.Close() // all has been said
	s.open.Done()
}

// setIdle notes whether a connection waits for a request, and tells whether it may.
func (s *server) setIdle(conn net.Conn, idle bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle[conn] = idle
	return !idle || !s.stopping
}

// stop ends connections that wait for a request, and waits until those that are being answered have been.
func (s *server) stop() {
	s.mu.Lock()
	s.stopping = true
	for conn, idle := range s.idle {
		if idle {
			// The reader sees the deadline; that of a request that is just coming is set anew.
			_ = conn.SetReadDeadline(time.Now())
		}
	}
	s.mu.Unlock()
	s.open.Wait()
}

// connection answers the requests of one connection.
func (s *server) connection(conn net.Conn) {
	in := bufio.NewReaderSize(conn, mostLine)
	out := bufio.NewWriterSize(&stalling{conn}, 32<<10)
	for first := true; ; first = false {
		wait := idleTime
		if first {
			wait = headTime
		}
		_ = conn.SetReadDeadline(time.Now().Add(wait)) // an error of the connection comes back from the read
		if !s.setIdle(conn, true) {
			return
		}
		if _, err := in.Peek(1); err != nil {
			return
		}
		s.setIdle(conn, false)
		_ = conn.SetReadDeadline(time.Now().Add(headTime))
		if !s.answer(conn, in, out) {
			return
		}
	}
}

// answer reads one request and answers it, and tells whether another may follow.
func (s *server) answer(conn net.Conn, in *bufio.Reader, out *bufio.Writer) (more bool) {
	req, err := readRequest(in)
	req.peer = conn.RemoteAddr()
	var refused problem
	if err != nil && !errors.As(err, &refused) {
		return false
	}
	r := &response{out: out, req: req}
	switch {
	case refused != 0:
		req.last = true
		r.refuse(int(refused))
	default:
		req.body = &patient{conn: conn, body: req.body}
		r.expect()
		s.route(r)
	}
	err = r.end()
	s.log.write(r)
	switch {
	case err != nil:
		return false
	case refused != 0 || req.withheld || !drain(req.body):
		linger(conn)
		return false
	}
	return !req.last
}

// linger closes a connection for the client's eyes and takes what it still sends: were that left unread, the answer could be
// lost on its way.
func linger(conn net.Conn) {
	if half, ok := conn.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
		return
	}
	_ = conn.SetReadDeadline(time.Now().Add(lingerTime)) // an error of the connection comes back from the read
	drain(conn)
}

func (s *server) route(r *response) {
	switch r.req.path {
	case "/healthz":
		r.text(200, "ok\n")
	case echoPath:
		echo(r)
	default:
		s.files.serve(r)
	}
}

// echoPath is the one path whose requests' bodies are read.
const echoPath = "/echo"

// expect asks for a body that its client holds back, where it will be read.
func (r *response) expect() {
	if !r.req.has("Expect", "100-continue") {
		return
	}
	if r.req.path != echoPath {
		r.req.last, r.req.withheld = true, true
		return
	}
	r.line("HTTP/1.1 100 Continue")
	r.line("")
	_ = r.out.Flush() // an error comes back from the next one
}

// echo answers with the request itself.
func echo(r *response) {
	r.begin(200, unknownLength, field{"Content-Type", "text/plain; charset=utf-8"})
	head := r.req.line + "\n"
	for _, f := range r.req.header {
		head += f.name + ": " + f.value + "\n"
	}
	_, err := io.WriteString(r, head+"\n")
	if err == nil {
		_, err = io.Copy(r, r.req.body)
	}
	if err != nil {
		r.req.last = true
	}
}

// stalling gives each write its time.
type stalling struct{ net.Conn }

func (s *stalling) Write(p []byte) (int, error) {
	_ = s.SetWriteDeadline(time.Now().Add(stallTime)) // an error of the connection comes back from the write
	return s.Conn.Write(p)
}

// patient gives each read of a body its time.
type patient struct {
	conn net.Conn
	body io.Reader
}

func (p *patient) Read(b []byte) (int, error) {
	_ = p.conn.SetReadDeadline(time.Now().Add(stallTime)) // an error of the connection comes back from the read
	return p.body.Read(b)
}
