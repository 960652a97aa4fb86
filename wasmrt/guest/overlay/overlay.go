// Package overlay gives programs in Go for WASI real sockets, a host name and a signal to stop: it replaces a few files of
// the standard library while `go build` runs, in which the port to WASI has pretended ones.
package overlay

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// standard holds the files that are added to the standard library, by their place in it. The go command looks into no
// folder whose name begins so.
//
//go:embed _std
var standard embed.FS

// versions are the releases of Go that the files fit.
var versions = []string{"go1.25", "go1.26"}

// replaced are the files of the standard library that must go, because ours define what they do.
var replaced = []string{
	"net/cgo_stub.go", "net/fd_fake.go", "net/fd_wasip1.go", "net/file_wasip1.go", "net/interface_stub.go", "net/net_fake.go",
	"net/netcgo_off.go", "net/netcgo_on.go", "net/sockopt_fake.go", "net/tcpsockopt_stub.go",
	"os/signal/signal_unix.go", "os/sys_bsd.go",
}

// listName is the file that `go build -overlay` reads.
const listName = "overlay.json"

// Toolchain is an installed Go, in the words of `go env`.
type Toolchain struct {
	// Root is GOROOT, Version GOVERSION.
	Root, Version string
	// ModCache is GOMODCACHE. The go command replaces no files beneath it, and a downloaded toolchain lies there.
	ModCache string
}

// Overlay is what a build needs.
type Overlay struct {
	// List is the file for -overlay.
	List string
	// Root is the GOROOT to build with: the toolchain's, or another way to it.
	Root string
}

// Supports returns an error that names the releases of Go that there are files for, unless this is one of them.
func (t Toolchain) Supports() error {
	for _, v := range versions {
		rest, ok := strings.CutPrefix(t.Version, v)
		if ok && (rest == "" || strings.IndexByte(".- rX", rest[0]) >= 0) {
			return nil
		}
	}
	return fmt.Errorf("%s is not supported, only %s are: choose one, as in GOTOOLCHAIN=%s.0",
		t.Version, strings.Join(versions, " and "), versions[len(versions)-1])
}

// Prepare makes an overlay for a toolchain in a folder of its own beneath dir, or finds the one that an earlier call has
// made there. Calls may run at the same time.
func Prepare(dir string, t Toolchain) (Overlay, error) {
	if err := t.Supports(); err != nil {
		return Overlay{}, err
	}
	files, err := contents()
	if err != nil {
		return Overlay{}, err
	}
	place := filepath.Join(dir, key(files, t))
	made := Overlay{List: filepath.Join(place, listName), Root: t.Root}
	beneath, err := filepath.Rel(t.ModCache, t.Root)
	if t.ModCache != "" && err == nil && filepath.IsLocal(beneath) {
		made.Root = filepath.Join(place, "go")
	}
	if _, err := os.Stat(made.List); err == nil {
		return made, nil
	}
	if err := made.fill(dir, place, t.Root, files); err != nil {
		return Overlay{}, err
	}
	return made, nil
}

// fill makes the folder place beneath dir, wholly or not at all. Others may be making it at the same time.
func (o Overlay) fill(dir, place, root string, files map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	temporary, err := os.MkdirTemp(dir, ".new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary)
	if o.Root != root {
		if err := os.Symlink(root, filepath.Join(temporary, "go")); err != nil {
			return err
		}
	}
	if err := write(temporary, place, o.Root, files); err != nil {
		return err
	}
	if err := os.Rename(temporary, place); err != nil {
		if _, other := os.Stat(o.List); other != nil {
			return err
		}
	}
	return nil
}

// contents returns the files to add, by their path in the standard library.
func contents() (map[string][]byte, error) {
	sub, err := fs.Sub(standard, "_std")
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	err = fs.WalkDir(sub, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		files[name], err = fs.ReadFile(sub, name)
		return err
	})
	return files, err
}

// key is a name for what Prepare makes of its input.
func key(files map[string][]byte, t Toolchain) string {
	text, err := json.Marshal([]any{files, replaced, t}) // keys of maps come sorted
	if err != nil {
		panic(err) // strings and bytes always can be written
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:12])
}

// write puts the files into dir, which is going to be called place, and the list for the go command beside them.
func write(dir, place, goroot string, files map[string][]byte) error {
	source := filepath.Join(goroot, "src")
	replace := map[string]string{}
	for _, name := range replaced {
		replace[filepath.Join(source, filepath.FromSlash(name))] = ""
	}
	for name, data := range files {
		name = filepath.FromSlash(name)
		replace[filepath.Join(source, name)] = filepath.Join(place, "src", name)
		to := filepath.Join(dir, "src", name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, data, 0o644); err != nil {
			return err
		}
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, listName), list, 0o644)
}
