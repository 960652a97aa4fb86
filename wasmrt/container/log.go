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
// A line that has not ended is kept for a moment, since many guests write a line and its end apart; then it is written as
// a partial record, tag P, so that a prompt is seen and little is lost when the process is killed.
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
	// open is the line that has not ended, of the stream openOf; timer is set while there is one.
	open   []byte
	openOf string
	timer  *time.Timer
}

// partialAfter is how long a line that has not ended is kept.
const partialAfter = 50 * time.Millisecond

// OpenLog opens the log named name in dir, which the Log closes. An existing file is continued.
func OpenLog(dir *os.Root, name string, spec sandbox.Log) (*Log, error) {
	l := &Log{dir: dir, name: name, maxBytes: spec.MaxBytes, maxFiles: spec.MaxFiles}
	if l.maxBytes <= 0 {
		l.maxBytes = defaultLogBytes
	}
	if l.maxFiles <= 0 {
		l.maxFiles = defaultLogFiles
	}
	return l, l.openFile()
}

func (l *Log) openFile() error {
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
	if stream != l.openOf {
		l.writeOpen()
	}
	if len(l.open) > 0 {
		l.open = append(l.open, p...)
		p, l.open = l.open, nil
	}
	for len(p) > 0 {
		piece, rest, tag := cutLine(p)
		if tag == 'P' && len(rest) == 0 && len(piece) < maxLine {
			l.open, l.openOf = append(l.open, piece...), stream
			l.armTimer()
			break
		}
		l.record(stream, piece, tag)
		p = rest
	}
	l.flush()
}

// armTimer has the open line written soon, if it is not by then.
func (l *Log) armTimer() {
	if l.timer != nil {
		l.timer.Reset(partialAfter)
		return
	}
	l.timer = time.AfterFunc(partialAfter, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.writeOpen()
		l.flush()
	})
}

// writeOpen makes a partial record of the open line.
func (l *Log) writeOpen() {
	if len(l.open) > 0 {
		l.record(l.openOf, l.open, 'P')
		l.open = l.open[:0]
	}
}

// record adds a record to the buffer, in a new file where it does not fit the present one.
func (l *Log) record(stream string, piece []byte, tag byte) {
	head := append(time.Now().UTC().AppendFormat(nil, time.RFC3339Nano), " "+stream+" "+string(tag)+" "...)
	if l.size+int64(len(l.buf)+len(head)+len(piece)+1) > l.maxBytes {
		l.flush()
		if l.size > 0 {
			l.rotate()
		}
	}
	l.buf = append(append(append(l.buf, head...), piece...), '\n')
	if len(l.buf) > 4*maxLine {
		l.flush()
	}
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
	if e := l.openFile(); e != nil {
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
	l.writeOpen()
	l.flush()
	if l.timer != nil {
		l.timer.Stop()
	}
	var err error
	if l.file != nil {
		err = l.file.Close()
		l.file = nil
	}
	return errors.Join(err, l.dir.Close())
}
