package main

import (
	"bufio"
	"io"
	"net"
	"strconv"
	"strings"
)

// Bounds of a request's head.
const (
	mostLine   = 16 << 10
	mostHead   = 64 << 10
	mostFields = 100
)

// field is one header as it came.
type field struct{ name, value string }

// request is a request whose body has not been read.
type request struct {
	line   string // as the log shows it
	method string
	path   string // decoded, without the query
	raw    string // the same as it came
	query  string // with its question mark
	minor  int    // of HTTP/1.x
	header []field
	body   io.Reader
	peer   net.Addr
	// last is set where no other request may follow on the connection.
	last bool
	// withheld is set where the body may come or not.
	withheld bool
}

// problem is an answer in place of what was asked for.
type problem int

func (p problem) Error() string { return statusText(int(p)) }

// get returns the first header of this name.
func (r *request) get(name string) string {
	for _, f := range r.header {
		if strings.EqualFold(f.name, name) {
			return f.value
		}
	}
	return ""
}

// has tells whether a list of words in the headers of this name contains word.
func (r *request) has(name, word string) bool {
	for _, f := range r.header {
		if !strings.EqualFold(f.name, name) {
			continue
		}
		for part := range strings.SplitSeq(f.value, ",") {
			if strings.EqualFold(strings.TrimSpace(part), word) {
				return true
			}
		}
	}
	return false
}

// readRequest reads the head of the next request. io.EOF tells that none comes; a problem, that it is to be answered with
// that, and is the last.
func readRequest(in *bufio.Reader) (*request, error) {
	r := &request{}
	line, err := readLine(in)
	for range 3 { // some clients leave empty lines before
		if err == nil && line == "" {
			line, err = readLine(in)
		}
	}
	if err != nil {
		return r, err
	}
	r.line = line
	if err := r.parseLine(line); err != nil {
		return r, err
	}
	if err := r.readHeader(in); err != nil {
		return r, unexpected(err)
	}
	r.last = r.has("Connection", "close") || r.minor == 0 && !r.has("Connection", "keep-alive")
	return r, r.findBody(in)
}

// unexpected makes an end of the input one within a request.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// readLine returns a line without its end.
func readLine(in *bufio.Reader) (string, error) {
	text, err := in.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		return "", problem(431)
	}
	if err != nil {
		if err == io.EOF && len(text) > 0 {
			err = io.ErrUnexpectedEOF
		}
		return "", err
	}
	return strings.TrimSuffix(string(text[:len(text)-1]), "\r"), nil
}

func (r *request) parseLine(line string) error {
	method, rest, ok := strings.Cut(line, " ")
	target, version, ok2 := strings.Cut(rest, " ")
	if !ok || !ok2 || !isToken(method) || target == "" {
		return problem(400)
	}
	minor, ok := strings.CutPrefix(version, "HTTP/1.")
	if !ok || len(minor) != 1 || minor[0] < '0' || minor[0] > '9' {
		return problem(505)
	}
	r.method, r.minor = method, int(minor[0]-'0')
	if scheme, rest, ok := strings.Cut(target, "://"); ok && !strings.Contains(scheme, "/") { // as proxies are asked
		_, target, _ = strings.Cut(rest, "/")
		target = "/" + target
	}
	var query bool
	if r.raw, r.query, query = strings.Cut(target, "?"); query {
		r.query = "?" + r.query
	}
	r.path, ok = decodePath(r.raw)
	if !ok || r.path != "*" && !strings.HasPrefix(r.path, "/") {
		return problem(400)
	}
	return nil
}

func (r *request) readHeader(in *bufio.Reader) error {
	size := 0
	for {
		line, err := readLine(in)
		if err != nil || line == "" {
			return err
		}
		if size += len(line); size > mostHead || len(r.header) == mostFields {
			return problem(431)
		}
		name, value, ok := strings.Cut(line, ":")
		value = strings.Trim(value, " \t")
		if !ok || !isToken(name) || strings.ContainsAny(value, "\x00\r") {
			return problem(400)
		}
		r.header = append(r.header, field{name, value})
	}
}

// findBody sees where the body ends. What could be taken in two ways is refused.
func (r *request) findBody(in *bufio.Reader) error {
	length := int64(-1)
	chunked := false
	for _, f := range r.header {
		switch {
		case strings.EqualFold(f.name, "Transfer-Encoding"):
			if !strings.EqualFold(f.value, "chunked") {
				return problem(501)
			}
			if chunked || r.minor == 0 {
				return problem(400)
			}
			chunked = true
		case strings.EqualFold(f.name, "Content-Length"):
			n, err := strconv.ParseUint(f.value, 10, 63)
			if err != nil || length >= 0 && int64(n) != length {
				return problem(400)
			}
			length = int64(n)
		}
	}
	switch {
	case chunked && length >= 0:
		return problem(400)
	case chunked:
		r.body = &chunks{in: in}
	case length > 0:
		r.body = &exactly{in: in, left: length}
	default:
		r.body = &exactly{in: in}
	}
	return nil
}

// isToken tells whether s is a word as HTTP has them for methods and names.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`()<>@,;:\"/[]?={}`, c) >= 0 {
			return false
		}
	}
	return s != ""
}

// decodePath replaces %XX. A zero byte is refused: no file has one.
func decodePath(s string) (string, bool) {
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '%' {
			if i+2 >= len(s) {
				return "", false
			}
			n, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
			if err != nil {
				return "", false
			}
			c = byte(n)
			i += 2
		}
		if c == 0 {
			return "", false
		}
		out.WriteByte(c)
	}
	return out.String(), true
}
