// Package compile turns modules into machine code, once for each digest, in short-lived worker processes with limits, and
// keeps the code.
//
// The cache folder has one folder for each module and engine, and a file that is locked while one is being made:
//
//	DIR/KEY/code.json    the files of the code, each with its size and SHA-256
//	DIR/KEY/…            those files, as the engine wrote them
//	DIR/KEY.lock         held by the one who compiles, of however many agents share the folder
//	DIR/staging-…        what a worker writes to
//
// An entry appears under KEY at once, by a rename, and its files never change. Its folder is locked (flock, shared) by those
// who use it: by who is about to start a container, and by the container's process as long as it lives. What has been used
// the longest ago and is locked by nobody goes when the cache is over its size.
//
// Since the engine trusts what it finds there, only the agents can write to the folder, and a file that is not what it was
// when it was last compared with its sum is compared again before it is used.
package compile

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"edgepod/wasmrt/engine/wazero"
)

// Module is what is to be compiled.
type Module struct {
	// Path is the module's file, Sum its SHA-256 in hexadecimal, Size its length.
	Path string
	Sum  string
	Size int64
	// Debug is the file of its sections for debuggers, which is named after its content; "" for none.
	Debug string
}

// id tells modules apart: by their content, and by what is known of their source.
func (m Module) id() string { return m.Sum + " " + filepath.Base(m.Debug) }

// File is one file of compiled code.
type File struct {
	// Name in the code's folder, with its SHA-256 in hexadecimal and its length.
	Name string `json:"name"`
	Sum  string `json:"sum"`
	Size int64  `json:"size"`
}

// Code is the compiled form of a module.
type Code struct {
	// Dir is the folder that the engine loads, Size the length of its files.
	Dir  string
	Size int64

	lock *os.File
}

// Release lets go of the code: it may be removed from now on, unless others hold it. Releasing twice is no error.
func (c *Code) Release() {
	if c.lock != nil {
		_ = c.lock.Close() // only a lock hangs on it
		c.lock = nil
	}
}

// Job is what a worker is told.
type Job struct {
	// Module is the file to compile, Sum its SHA-256 in hexadecimal.
	Module string `json:"module"`
	Sum    string `json:"sum"`
	// Debug is the file of its sections for debuggers, "" for none.
	Debug string `json:"debug,omitempty"`
	// Out is an empty folder that the worker may write to.
	Out string `json:"out"`
	// UID and GID to become, where the worker starts as root; UserNamespace as in package harden.
	UID           int  `json:"uid"`
	GID           int  `json:"gid"`
	UserNamespace bool `json:"userNamespace"`
	// CPU seconds and bytes of memory that the worker may use.
	CPU    uint64 `json:"cpu"`
	Memory uint64 `json:"memory"`
}

// Result is what a worker answers: nothing where the code lies in Job.Out, or why the module is refused, or that the
// module's file is not what it was.
type Result struct {
	Error   string `json:"error,omitempty"`
	Damaged bool   `json:"damaged,omitempty"`
	// Limit is the limit that was hit.
	Limit Limit `json:"limit,omitempty"`
}

// Limit is a limit of a worker.
type Limit string

// The limits of a worker.
const (
	LimitCPU    Limit = "cpu"
	LimitMemory Limit = "memory"
	LimitTime   Limit = "time"
)

// key names the code of a module: other bytes, another engine or another processor give another key.
func key(m Module) string {
	h := sha256.New()
	fmt.Fprintf(h, "2 %s %s %s %s", m.id(), wazero.Identity(), runtime.GOARCH, processor())
	return hex.EncodeToString(h.Sum(nil))
}

// processor tells machines apart whose processors have other features, which the engine's code depends on.
var processor = sync.OnceValue(func() string {
	data, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(line, ":")
		if name = strings.TrimSpace(name); name == "flags" || name == "Features" {
			return strings.TrimSpace(value)
		}
	}
	return ""
})
