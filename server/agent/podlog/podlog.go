// Package podlog reads the logs of containers as the runtime writes them: records of the container runtime interface, one
// per line, in a file that is rotated.
//
//	2026-01-02T15:04:05.000000001Z stdout F a whole line, or the end of one
//	2026-01-02T15:04:05.000000002Z stderr P a part of a line
//
// Who writes the files is not trusted: links are not followed, only plain files are read, and a record has a bound.
package podlog

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"time"
)

// maxRecord bounds the memory that one record takes.
const maxRecord = 1 << 20

// Options are those of the pods/log subresource.
type Options struct {
	// TailLines are the last lines to begin with, Since the time; nil and zero for all.
	TailLines  *int64
	LimitBytes *int64
	Since      time.Time
	Timestamps bool
	// Stream is "stdout" or "stderr", "" for both.
	Stream string
	// Follow goes on until it is closed, and then with what has been written till then; nil ends with what is there.
	Follow <-chan struct{}
}

// Flusher is a writer that holds back what it got until told not to, such as an HTTP answer.
type Flusher interface{ Flush() }

// Copy writes the log in the file of that name beneath root, with the parts of it that were rotated away.
func Copy(ctx context.Context, to io.Writer, root *os.Root, name string, o Options) error {
	files, err := openAll(root, name)
	if err != nil {
		return err
	}
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	if o.TailLines != nil {
		if files, err = skipToTail(files, *o.TailLines); err != nil {
			return err
		}
	}
	p := &printer{to: to, options: o}
	if o.LimitBytes != nil {
		p.left = *o.LimitBytes
	}
	var current *os.File
	for i, f := range files {
		if current = f; i == len(files)-1 && o.Follow != nil {
			break
		}
		if err := p.copy(bufio.NewReaderSize(f, 64<<10)); err != nil {
			return end(err)
		}
	}
	if o.Follow == nil {
		return end(p.rest())
	}
	if current != nil {
		files = files[:len(files)-1] // follow closes what it reads
	}
	return end(follow(ctx, p, root, name, current))
}

// errLimit ends a copy that has reached its number of bytes.
var errLimit = errors.New("limit of bytes reached")

func end(err error) error {
	if errors.Is(err, errLimit) {
		return nil
	}
	return err
}

// printer prints records.
type printer struct {
	to      io.Writer
	options Options
	left    int64
	partial []byte // a record of which the end has not been read yet
	inside  bool   // the last record printed was a part of a line
	out     []byte
}

// copy prints what r has to its end. What follows the last line end is kept for the next copy.
func (p *printer) copy(r *bufio.Reader) error {
	for {
		chunk, err := r.ReadSlice('\n')
		if len(p.partial)+len(chunk) > maxRecord {
			return errors.New("the log holds a record that is too long")
		}
		if err != nil {
			p.partial = append(p.partial, chunk...)
			if errors.Is(err, bufio.ErrBufferFull) {
				continue
			}
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		record := chunk
		if len(p.partial) > 0 {
			record = append(p.partial, chunk...)
		}
		if err := p.print(record[:len(record)-1]); err != nil {
			return err
		}
		p.partial = p.partial[:0]
	}
}

// rest prints a record that was cut off.
func (p *printer) rest() error {
	if len(p.partial) == 0 {
		return nil
	}
	record := p.partial
	p.partial = nil
	return p.print(record)
}

// print prints one record. What is no record is left out.
func (p *printer) print(record []byte) error {
	stamp, record, ok := bytes.Cut(record, []byte(" "))
	stream, record, ok2 := bytes.Cut(record, []byte(" "))
	tag, text, ok3 := bytes.Cut(record, []byte(" "))
	if !ok || !ok2 || !ok3 && len(tag) == 0 {
		return nil
	}
	if p.options.Stream != "" && string(stream) != p.options.Stream {
		return nil
	}
	if !p.options.Since.IsZero() {
		at, err := time.Parse(time.RFC3339Nano, string(stamp))
		if err != nil || at.Before(p.options.Since) {
			return nil
		}
	}
	p.out = p.out[:0]
	if p.options.Timestamps && !p.inside {
		p.out = append(append(p.out, stamp...), ' ')
	}
	p.out = append(p.out, text...)
	part, _, _ := bytes.Cut(tag, []byte(":"))
	if p.inside = string(part) == "P"; !p.inside {
		p.out = append(p.out, '\n')
	}
	return p.write()
}

func (p *printer) write() error {
	out := p.out
	if p.options.LimitBytes != nil {
		out = out[:min(int64(len(out)), p.left)]
		p.left -= int64(len(out))
	}
	if _, err := p.to.Write(out); err != nil {
		return err
	}
	if p.options.LimitBytes != nil && p.left <= 0 {
		return errLimit
	}
	return nil
}
