package main

import (
	"bufio"
	"io"
	"strconv"
	"strings"
)

// exactly reads a body of known length.
type exactly struct {
	in   *bufio.Reader
	left int64
}

func (e *exactly) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	n, err := e.in.Read(p[:min(int64(len(p)), e.left)])
	e.left -= int64(n)
	return n, unexpected(err)
}

// chunks reads a body that comes in pieces, each after its size.
type chunks struct {
	in    *bufio.Reader
	left  int64
	begun bool
	ended bool
}

func (c *chunks) Read(p []byte) (int, error) {
	if c.left == 0 && !c.ended {
		if err := c.next(); err != nil {
			return 0, unexpected(err)
		}
	}
	if c.ended {
		return 0, io.EOF
	}
	n, err := c.in.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, unexpected(err)
}

// next reads the size of the next piece, and what follows the last.
func (c *chunks) next() error {
	if c.begun {
		if line, err := readLine(c.in); err != nil || line != "" {
			return badChunk(err)
		}
	}
	c.begun = true
	line, err := readLine(c.in)
	if err != nil {
		return err
	}
	digits, _, _ := strings.Cut(line, ";")
	size, err := strconv.ParseUint(strings.TrimSpace(digits), 16, 62)
	if err != nil {
		return problem(400)
	}
	c.left = int64(size)
	if size > 0 {
		return nil
	}
	for range mostFields {
		if line, err = readLine(c.in); err != nil || line == "" {
			c.ended = err == nil
			return err
		}
	}
	return problem(431)
}

func badChunk(err error) error {
	if err == nil {
		err = problem(400)
	}
	return err
}

// drain reads what is left of a body, so that the next request can be found, and tells whether there was little enough.
func drain(body io.Reader) bool {
	const most = 256 << 10
	n, err := io.Copy(io.Discard, io.LimitReader(body, most))
	return err == nil && n < most
}
