// Package process runs pod sandboxes with one process for each container, and finds them again after a restart.
//
//	DIR/images/…                                   modules, by digest (package image)
//	DIR/code/…                                     their machine code (package compile)
//	DIR/bin/HASH                                   the program that containers run, where it ships embedded
//	DIR/jail/                                      an empty folder, the root folder of processes that run no guest
//	DIR/sandboxes/ID/sandbox.json                  what the sandbox is, and its cgroup
//	DIR/sandboxes/ID/net/                          the pod's network: root and working folder of its containers' processes
//	DIR/sandboxes/ID/containers/ATTEMPT/spec.json  what was asked for
//	                                   /status.json   the process: pid, start tick, boot
//	                                   /exit.json     how it ended, where the process could not tell
//	                                   /stderr        what the engine itself complained of
//	                                   /out/          the process's own: start.json, exit.json, termination-message
//	                                   /root/         the guest's root folder
//
// An attempt's life, as its files tell it; each is written by a rename:
//
//	spec.json ──► status.json ──► out/start.json ──► out/exit.json   the process ended by itself
//	 created       created          running      └─► exit.json       it was killed: signal, OOM counter
//
// A process is named by pid, start tick and boot, and touched only through a pidfd: one that has another's pid is never
// harmed.
package process

import (
	"io/fs"
	"log/slog"
	"net/http"
	"time"

	"edgepod/wasmrt/cgroup"
	"edgepod/wasmrt/image/remote"
)

// Config of a runtime.
type Config struct {
	// Dir is the state folder; it is made if missing. One runtime at a time uses it.
	Dir string
	// ImageDirs are the folders whose .wasm files may be used as images.
	ImageDirs []string
	// Builtins holds the modules that ship in the binary, as NAME.wasm; nil for none.
	Builtins fs.FS
	// NoAliases keeps names that tutorials use, such as nginx, from standing for built-in modules.
	NoAliases bool
	// Cluster carries the requests to the cluster's own registry; nil: there is none.
	Cluster http.RoundTripper
	// Registries says how other registries are reached.
	Registries remote.Registries
	// Cgroup says where the sandboxes' groups lie; its Name is chosen from Dir where it is empty. What lies in the group of
	// that name and belongs to no sandbox is killed and removed, so that it must be this runtime's alone.
	Cgroup cgroup.Config
	// ChildPath is the program that containers run; "" takes the embedded one, or this program where none is embedded.
	ChildPath string
	// MemoryDefault limits containers that have no memory limit, in bytes; 0 takes half of the machine's memory, so that
	// one guest cannot take the machine down.
	MemoryDefault int64
	// CompileCPU is the processor time that compiling a module may take, CompileMemory the memory in bytes, beside what is
	// added for its size; 0: 10 s, 512 MiB.
	CompileCPU    time.Duration
	CompileMemory int64
	// CodeCacheSize bounds the compiled code that is kept, in bytes, but for what is in use; 0: 2 GiB.
	CodeCacheSize int64
	// MaxImageSize in bytes; 0 takes the image store's default.
	MaxImageSize int64
	// Log may be nil.
	Log *slog.Logger
}

// childName is what a child process is called: by it, this program knows that it is one.
const childName = "edgepod-container"
