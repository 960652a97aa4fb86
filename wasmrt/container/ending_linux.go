package container

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"edgepod/wasmrt/engine"
	"edgepod/wasmrt/image/names"
	"edgepod/wasmrt/sandbox"
	"edgepod/wasmrt/wasi"
)

// maxMessage bounds a termination message, as Kubernetes does.
const maxMessage = 4096

// ending is what is needed to record how the guest ended: everything is opened before the process gives up its rights.
type ending struct {
	out       *os.Root
	log       *Log
	names     *os.File
	code      *os.File // locked, so that the code in use is kept
	spec      sandbox.ContainerSpec
	startedAt time.Time
	once      sync.Once
}

func newEnding(req Request) (*ending, error) {
	e := &ending{spec: req.Container}
	var err error
	if e.out, err = os.OpenRoot(req.Out); err != nil {
		return nil, err
	}
	logs, err := os.OpenRoot(filepath.Dir(req.Container.Log.Path))
	if err != nil {
		return nil, fmt.Errorf("open log folder: %w", err)
	}
	if e.log, err = OpenLog(logs, filepath.Base(req.Container.Log.Path), req.Container.Log); err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	if req.Names != "" {
		if e.names, err = os.Open(req.Names); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	return e, nil
}

// finish records exit and ends the process. The first call counts; any other waits for its end.
func (e *ending) finish(exit sandbox.Exit) {
	e.once.Do(func() {
		exit.StartedAt, exit.FinishedAt = e.startedAt, time.Now()
		exit.Message = e.message(exit)
		// Where the record cannot be written, on a full disk, the parent still sees the process's own exit code.
		if err := e.writeJSON(ExitFile, exit); err != nil {
			fmt.Fprintln(os.Stderr, "write exit record:", err)
		}
		_ = e.log.Close() // every record was written without a buffer
		code := int(exit.Code & 0xff)
		if code == 0 && exit.Code != 0 {
			code = 1
		}
		os.Exit(code)
	})
}

// exitOf tells how the guest ended, from the error of its call.
func (e *ending) exitOf(err error) sandbox.Exit {
	code, byRequest, trap := wasi.ExitCode(err)
	switch {
	case byRequest:
		return stopped()
	case trap != nil:
		message := e.trapMessage(trap)
		_, _ = io.WriteString(e.log.Stream("stderr"), message+"\n") // never fails
		return sandbox.Exit{Code: CodeTrap, Reason: sandbox.ReasonError, Message: message}
	case code == 0:
		return sandbox.Exit{Reason: sandbox.ReasonCompleted}
	default:
		return sandbox.Exit{Code: exitCode(code), Reason: sandbox.ReasonError}
	}
}

// stopped is the end of a guest that did not see the request to stop.
func stopped() sandbox.Exit {
	return sandbox.Exit{Code: wasi.CodeStopped, Signal: int32(syscall.SIGTERM), Reason: sandbox.ReasonError}
}

// exitCode brings a guest's code into the 0 to 255 that the rest of the world knows. One beyond becomes 255: cutting it to
// its low 8 bits could turn a failure into success.
func exitCode(code uint32) int32 { return int32(min(code, 255)) }

// trapMessage is a trap in the user's words, with the functions that led to it.
func (e *ending) trapMessage(err error) string {
	var trap *engine.Trap
	if !errors.As(err, &trap) {
		return clip(strings.TrimSpace(err.Error()))
	}
	e.nameFrames(trap.Frames)
	text := trap.Error()
	if trace := trap.Trace(); trace != "" {
		text += "\n" + strings.TrimSuffix(trace, "\n")
	}
	return clip(text)
}

// nameFrames gives functions their names, which are kept apart from the module.
func (e *ending) nameFrames(frames []engine.Frame) {
	if e.names == nil {
		return
	}
	var unnamed []uint32
	for _, f := range frames {
		if f.Name == "" && f.Index >= 0 {
			unnamed = append(unnamed, uint32(f.Index))
		}
	}
	known := names.Find(e.names, unnamed)
	for i, f := range frames {
		if f.Name == "" && f.Index >= 0 {
			frames[i].Name = known[uint32(f.Index)]
		}
	}
}

// message is what Kubernetes shows of an ended container: what the guest wrote to its termination file, else the trap,
// else the log's end where that is asked for.
func (e *ending) message(exit sandbox.Exit) string {
	if e.spec.TerminationMessagePath != "" {
		if f, err := e.out.Open(MessageFile); err == nil {
			content, err := io.ReadAll(io.LimitReader(f, maxMessage))
			if err == nil && len(content) > 0 {
				return strings.ToValidUTF8(string(content), "\uFFFD")
			}
		}
	}
	if exit.Message == "" && exit.Code != 0 && e.spec.FallbackToLogs {
		return strings.ToValidUTF8(e.log.Tail(), "\uFFFD")
	}
	return exit.Message
}

func clip(s string) string {
	if len(s) > maxMessage {
		s = s[:maxMessage-len("…")] + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// writeJSON writes a file in the child's own folder, wholly or not at all. It is not flushed to disk: a power cut ends the
// process as well, and leaves a run without a record, as if it had come a moment earlier.
func (e *ending) writeJSON(name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	temp := "." + name + ".tmp"
	f, err := e.out.OpenFile(temp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return e.out.Rename(temp, name)
}
