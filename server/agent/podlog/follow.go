package podlog

import (
	"bufio"
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// look is how often a followed file is read where the system tells nothing.
const look = time.Second

// follow prints f and what is written to it, over rotations, until Follow is closed and everything is printed. f may be nil
// for a log that does not exist yet. It closes f.
func follow(ctx context.Context, p *printer, root *os.Root, name string, f *os.File) error {
	closeFile := func() {
		if f != nil {
			f.Close()
		}
	}
	defer func() { closeFile() }()
	changes, complaints, stop := watch(filepath.Join(root.Name(), filepath.FromSlash(path.Dir(name))))
	defer stop()
	tick := time.NewTicker(look)
	defer tick.Stop()
	var reader *bufio.Reader
	if f != nil {
		reader = bufio.NewReaderSize(f, 64<<10)
	}
	for ended := false; ; {
		next, err := drain(p, root, name, f, reader)
		if err != nil {
			return err
		}
		if flusher, ok := p.to.(Flusher); ok {
			flusher.Flush()
		}
		if next != nil {
			closeFile()
			f, reader = next, bufio.NewReaderSize(next, 64<<10)
			continue
		}
		if ended {
			return p.rest()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.options.Follow:
			ended = true
		case <-changes:
		case err := <-complaints:
			_ = err // changes were lost, perhaps: look again, as after one
		case <-tick.C:
		}
	}
}

// drain prints the rest of f, and returns the file that follows it, nil for none yet.
func drain(p *printer, root *os.Root, name string, f *os.File, reader *bufio.Reader) (*os.File, error) {
	if f == nil {
		return successor(root, name, nil)
	}
	if err := p.copy(reader); err != nil {
		return nil, err
	}
	next, err := successor(root, name, f)
	if err != nil || next == nil {
		return nil, err
	}
	// What was written between the two looks, before the rotation.
	if err := p.copy(reader); err != nil {
		next.Close()
		return nil, err
	}
	return next, nil
}

// successor opens the file that was begun after f, nil for none: the one before f in the row of rotated files.
func successor(root *os.Root, name string, f *os.File) (*os.File, error) {
	var younger *os.File
	missing := 0
	for i := 0; i < maxFiles && missing <= gap; i++ {
		candidate, err := open(root, rotated(name, i))
		if errors.Is(err, fs.ErrNotExist) {
			missing++
			continue
		}
		if err != nil {
			if younger != nil {
				younger.Close()
			}
			return nil, err
		}
		missing = 0
		if f != nil && sameFile(candidate, f) {
			candidate.Close()
			return younger, nil
		}
		if younger != nil {
			younger.Close()
		}
		younger = candidate
	}
	return younger, nil
}

// watch tells of changes in the folder. Where the system cannot, it never does.
func watch(dir string) (changes <-chan fsnotify.Event, complaints <-chan error, stop func()) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, nil, func() {}
	}
	if err := watcher.Add(dir); err != nil {
		watcher.Close()
		return nil, nil, func() {}
	}
	return watcher.Events, watcher.Errors, func() { watcher.Close() }
}
