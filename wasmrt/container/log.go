package container

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"
	"sync"
	"time"

	"edgepod/wasmrt/sandbox"
)

const (
	defaultLogBytes = 10 << 20
	defaultLogFiles = 5
	// maxLine is the longest piece of a line in one record.
	maxLine = 16 << 10
	// tailBytes and tailLines bound what is kept for a termination message.
	tailBytes = 2 << 10
	tailLines = 80
)

// Log writes a container's output in the CRI format and rotates its files by size. It never waits for a reader. What
// cannot be written, such as on a full disk, is dropped: the guest goes on.
//
// Every piece is written as it comes: one that does not end its line is a partial record, tag P.
type Log struct {
	dir      *os.Root
	name     string
	maxBytes int64
	maxFiles int

	mu   sync.Mutex
	file *os.File
	size int64
	buf  []byte
	tail []byte
}

// OpenLog opens the log named name in dir, which the Log closes. An existing file is continued.
func OpenLog(dir *os.Root, name string, spec sandbox.Log) (*Log, error) {
	l := &Log{dir: dir, name: name, maxBytes: spec.MaxBytes, maxFiles: spec.MaxFiles}
	if l.maxBytes <= 0 {
		l.maxBytes = defaultLogBytes
	}
	if l.maxFiles <= 0 {
		l.maxFiles = defaultLogFiles
	}
	return l, l.open()
}

func (l *Log) open() error {
	f, err := l.dir.OpenFile(l.name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	l.file, l.size = f, info.Size()
	return nil
}

// Stream returns a writer for "stdout" or "stderr". Its Write never fails.
func (l *Log) Stream(name string) io.Writer { return stream{l, name} }

type stream struct {
	log  *Log
	name string
}

func (s stream) Write(p []byte) (int, error) {
	s.log.write(s.name, p)
	return len(p), nil
}

func (l *Log) write(stream string, p []byte) {
	if len(p) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keepTail(p)
	now := time.Now().UTC().AppendFormat(nil, time.RFC3339Nano)
	for len(p) > 0 {
		piece, rest, tag := cutLine(p)
		p = rest
		if l.size+int64(len(l.buf))+int64(len(now)+len(stream)+len(piece)+5) > l.maxBytes {
			l.flush()
			if l.size > 0 {
				l.rotate()
			}
		}
		l.buf = append(l.buf, now...)
		l.buf = append(l.buf, ' ')
		l.buf = append(l.buf, stream...)
		l.buf = append(l.buf, ' ', tag, ' ')
		l.buf = append(l.buf, piece...)
		l.buf = append(l.buf, '\n')
		if len(l.buf) > 4*maxLine {
			l.flush()
		}
	}
	l.flush()
}

// cutLine takes the first record off p: a line without its end, or a piece of one.
func cutLine(p []byte) (piece, rest []byte, tag byte) {
	if i := bytes.IndexByte(p[:min(len(p), maxLine+1)], '\n'); i >= 0 {
		return p[:i], p[i+1:], 'F'
	}
	n := min(len(p), maxLine)
	return p[:n], p[n:], 'P'
}

func (l *Log) flush() {
	if len(l.buf) > 0 && l.file != nil {
		n, _ := l.file.Write(l.buf) // a full disk loses output, not the guest
		l.size += int64(n)
	}
	l.buf = l.buf[:0]
}

// rotate makes NAME the newest of NAME.1 to NAME.(maxFiles-1), dropping the oldest, and begins anew.
func (l *Log) rotate() {
	if l.file != nil {
		_ = l.file.Close() // written without a buffer
		l.file = nil
	}
	numbered := func(i int) string {
		if i == 0 {
			return l.name
		}
		return l.name + "." + strconv.Itoa(i)
	}
	last := l.maxFiles - 1
	err := l.dir.Remove(numbered(last))
	for i := last; i > 0 && (err == nil || errors.Is(err, fs.ErrNotExist)); i-- {
		err = l.dir.Rename(numbered(i-1), numbered(i))
	}
	if e := l.open(); e != nil {
		return // output is dropped until the next rotation can open a file
	}
	if l.size >= l.maxBytes && l.file.Truncate(0) == nil {
		// The file could not be moved out of the way; the bound matters more than old output.
		l.size = 0
	}
}

func (l *Log) keepTail(p []byte) {
	l.tail = append(l.tail, p[max(0, len(p)-tailBytes):]...)
	if over := len(l.tail) - tailBytes; over > 0 {
		l.tail = append(l.tail[:0], l.tail[over:]...)
	}
}

// Tail returns the end of the output: at most 80 lines and 2 KiB, of both streams as they came.
func (l *Log) Tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := bytes.SplitAfter(l.tail, []byte("\n"))
	if extra := len(lines) - tailLines - 1; extra > 0 {
		lines = lines[extra:]
	}
	return string(bytes.Join(lines, nil))
}

// Close closes the log. Writing to it afterwards is dropped.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var err error
	if l.file != nil {
		err = l.file.Close()
		l.file = nil
	}
	return errors.Join(err, l.dir.Close())
}
