// Package image turns a reference into a WebAssembly module that can run: it finds or pulls the bytes, checks that they are a
// WASI command, strips what the engine does not need and keeps the result by digest.
//
// It does not compile and links no engine.
package image

import (
	"cmp"
	"io/fs"
	"log/slog"
	"net/http"
	"time"

	"edgepod/wasmrt/image/module"
	"edgepod/wasmrt/image/remote"
	"edgepod/wasmrt/sandbox"
)

// Config of a Store.
type Config struct {
	// Dir is the store's own folder; it is made if missing. Several stores may use it at the same time.
	Dir string
	// ImageDirs are the folders whose files may be used as images.
	ImageDirs []string
	// Builtins holds the modules that ship in the binary, as NAME.wasm or NAME-TAG.wasm; nil for none.
	Builtins fs.FS
	// Offered returns an error for the user, naming the import, for what the runtime does not have, else nil.
	Offered func(module.Import) error
	// Supported tells whether the engine has a proposal; nil: all but those that it is known to lack.
	Supported func(module.Proposal) bool
	// Aliases lets names that tutorials use, such as nginx, stand for built-in modules.
	Aliases bool
	// Cluster carries the requests to the cluster's own registry, whose host is sandbox.ClusterRegistry; nil: there is none.
	Cluster http.RoundTripper
	// Registries says how others are reached.
	Registries remote.Registries
	Limits     Limits
	// Log may be nil.
	Log *slog.Logger
}

// PublicNamespace is the one whose images of the cluster's registry pods of all namespaces may use.
const PublicNamespace = "kube-public"

// Limits of what is taken from a registry or a file. A zero field takes the default.
type Limits struct {
	// Module is the largest module in bytes; 256 MiB.
	Module int64
	// Download is the most bytes that the layers of an image may have as they are transferred, and Unpacked the most that
	// their files may have; 1 GiB and 2 GiB.
	Download, Unpacked int64
	// Layers and Files are the most that an image may have; 128 and 200,000.
	Layers, Files int
	// Stall is how long a registry may send nothing, Pull how long a pull may take altogether; a minute and an hour.
	Stall, Pull time.Duration
	// Pause is what the waits between attempts at a request begin with; half a second.
	Pause time.Duration
}

func (l *Limits) complete() {
	l.Module = cmp.Or(l.Module, 256<<20)
	l.Download = cmp.Or(l.Download, 1<<30)
	l.Unpacked = cmp.Or(l.Unpacked, 2<<30)
	l.Layers = cmp.Or(l.Layers, 128)
	l.Files = cmp.Or(l.Files, 200_000)
	l.Stall = cmp.Or(l.Stall, time.Minute)
	l.Pull = cmp.Or(l.Pull, time.Hour)
}

// Entry is an image in the store.
type Entry struct {
	// Digest is "sha256:…" of what the reference resolved to as it was supplied: a registry's manifest or index, or a
	// file's bytes. Size is the number of bytes that were fetched.
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
	// ID is the repository with the digest where Resolve pulled it from a registry, else the digest.
	ID string `json:"-"`
	// Sum is the SHA-256 of the file at Path, in hexadecimal, and ModuleSize its length.
	Sum        string `json:"sum"`
	ModuleSize int64  `json:"moduleSize"`
	// Path of the module to run, and of the content of its "name" section ("" where it has none).
	Path      string `json:"-"`
	NamesPath string `json:"-"`
	// DebugPath is a module with nothing but the sections for debuggers (DWARF) of the module as supplied; "" where it has
	// none.
	DebugPath string `json:"-"`
	// Root is the folder with the image's files; "" for an image that is a module alone. Its folders and files can be
	// read by all, and there are only those and symbolic links in it.
	Root string `json:"-"`
	// Language that the module was written in, as far as it tells: "go", "tinygo", "rust",
	// "c", "c++", "assemblyscript" and so on, or "".
	Language string `json:"language,omitempty"`
	// Config is what the image says of how it is run.
	Config sandbox.ImageConfig `json:"config,omitzero"`
	// Note is for the user, where the reference stands for something else than it seems to.
	Note string `json:"-"`
	// Cached tells that the store had it before the call.
	Cached bool `json:"-"`
}
