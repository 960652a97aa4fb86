// Package layer applies the layers of container images, which are tar archives from strangers, to a folder.
//
// Everything goes through an os.Root, and links of the image lead no further than its own root. What a WASI guest can't use
// is left out: devices, pipes, owners, special modes and extended attributes. Hard links become copies.
package layer

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"strings"
	"time"
)

// Budget is what may still be unpacked. The layers of an image share one.
type Budget struct {
	// Bytes that files may have, and Files that there may be, folders and links counted.
	Bytes int64
	Files int

	// steps were gone to find what names mean, through links and whiteouts.
	steps int
}

// maxSteps is the most for an image: those of the largest sound ones are a fifth, and these take a minute.
const maxSteps = 10_000_000

// step counts, and refuses an image that only leads about.
func (b *Budget) step(n int) error {
	if b.steps += n; b.steps > maxSteps {
		return Error("its links and the names that it hides lead about without end")
	}
	return nil
}

// Error is a problem with the layer itself, for the user.
type Error string

func (e Error) Error() string { return string(e) }

// Result is what was found in a layer.
type Result struct {
	// DiffID is "sha256:…" of the unpacked archive.
	DiffID string
	// Skipped counts the entries of kinds that are left out.
	Skipped int
}

// Apply unpacks a layer, which may be packed by gzip or zstd, over what root holds already. Nobody else may change the
// folder meanwhile. After an error its content is of no use.
func Apply(ctx context.Context, root *os.Root, r io.Reader, budget *Budget) (Result, error) {
	plain, err := unpack(r)
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = plain.Close() }() // nothing was written
	sum := sha256.New()
	// The headers take room too: without a limit a stream of them, or of zeros, would go on for ever.
	stream := &limited{ctx: ctx, r: io.TeeReader(plain, sum), left: streamLimit(budget)}
	a := &applier{root: root, budget: budget, own: map[string]bool{}, times: map[string]time.Time{}}
	if err := a.all(tar.NewReader(stream)); err != nil {
		return Result{}, explain(err)
	}
	if _, err := io.Copy(io.Discard, stream); err != nil { // what comes after the archive's end counts for the sum
		return Result{}, explain(err)
	}
	return Result{DiffID: "sha256:" + hex.EncodeToString(sum.Sum(nil)), Skipped: a.skipped}, nil
}

// streamLimit is the most bytes that an archive of the budget's size can have, with a margin.
func streamLimit(b *Budget) int64 {
	const perFile, margin = 4 << 10, 16 << 20
	if b.Bytes > math.MaxInt64/2 {
		return math.MaxInt64
	}
	return b.Bytes + int64(b.Files)*perFile + margin
}

// explain gives errors of the archive's format words for the user.
func explain(err error) error {
	var own Error
	if errors.As(err, &own) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if errors.Is(err, tar.ErrHeader) || errors.Is(err, tar.ErrFieldTooLong) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, tar.ErrWriteTooLong) {
		return Error("the layer is damaged: " + err.Error())
	}
	return err
}

var errTooLarge = Error("its files are larger than what an image may have here")

// limited ends a stream that is longer than it can be, and one that nobody waits for any more.
type limited struct {
	ctx  context.Context // lasts as long as the call of Apply
	r    io.Reader
	left int64
}

func (l *limited) Read(p []byte) (int, error) {
	if l.ctx.Err() != nil {
		return 0, context.Cause(l.ctx)
	}
	if l.left <= 0 {
		var one [1]byte
		if n, err := l.r.Read(one[:]); n == 0 {
			return 0, err
		}
		return 0, errTooLarge
	}
	n, err := l.r.Read(p[:min(int64(len(p)), l.left)])
	l.left -= int64(n)
	return n, err
}

// applier applies the entries of one layer.
type applier struct {
	root   *os.Root
	budget *Budget
	// own holds the paths that this layer made, and the folders on their way: its whiteouts hide what the layers below made
	// alone.
	own map[string]bool
	// times are those of folders, which are set when nothing is put into them any more.
	times   map[string]time.Time
	names   int64 // bytes of the paths so far
	skipped int
}

// maxNames bounds the paths of a layer, which are kept in memory until its end, and what the file system has to do with them.
const maxNames = 32 << 20

func (a *applier) all(r *tar.Reader) error {
	for {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if a.budget.Files--; a.budget.Files < 0 {
			return Error("it has more files than an image may have here")
		}
		if a.names += int64(len(h.Name)); a.names > maxNames {
			return Error("the paths of its files are longer than an image may have here")
		}
		if err := a.entry(h, r); err != nil {
			return fmt.Errorf("entry %s: %w", shown(h.Name), err)
		}
	}
	for dir, at := range a.times {
		_ = a.root.Chtimes(dir, at, at) // it may be gone again, or be something else
	}
	return nil
}

// The names by which a layer hides what lies below it.
const (
	whiteoutPrefix = ".wh."
	opaqueName     = ".wh..wh..opq"
	auxPrefix      = ".wh..wh."
)

func (a *applier) entry(h *tar.Header, content io.Reader) error {
	name, err := clean(h.Name)
	if err != nil || name == "." {
		return err
	}
	dir, base := path.Split(name)
	dir, err = a.parent(dir)
	if err != nil {
		return err
	}
	switch {
	case base == opaqueName:
		return a.hideAll(dir)
	case strings.HasPrefix(base, auxPrefix): // a storage driver's own notes
		a.skipped++
		return nil
	case strings.HasPrefix(base, whiteoutPrefix):
		return a.hide(dir, strings.TrimPrefix(base, whiteoutPrefix))
	}
	return a.put(path.Join(dir, base), h, content)
}

// mark notes that this layer made something.
func (a *applier) mark(name string) {
	for ; name != "." && !a.own[name]; name = path.Dir(name) {
		a.own[name] = true
		a.names += int64(len(name))
	}
}

// put makes what an entry describes, in place of what has its name.
func (a *applier) put(name string, h *tar.Header, content io.Reader) error {
	if h.Typeflag == tar.TypeDir {
		return a.folder(name, h)
	}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeGNUSparse, tar.TypeSymlink, tar.TypeLink:
	default: // devices, pipes and what else a guest can't use
		a.skipped++
		return nil
	}
	var err error
	target := ""
	if h.Typeflag == tar.TypeLink { // found before its own name is freed
		if target, err = a.linked(h.Linkname); err != nil || target == name {
			return err
		}
	}
	if err := a.root.RemoveAll(name); err != nil {
		return err
	}
	delete(a.times, name)
	a.mark(name)
	switch h.Typeflag {
	case tar.TypeSymlink:
		return a.symlink(name, h.Linkname)
	case tar.TypeLink:
		return a.copy(name, target)
	}
	return a.file(name, h, content)
}

func (a *applier) folder(name string, h *tar.Header) error {
	info, err := a.root.Lstat(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil && !info.IsDir() {
		if err := a.root.Remove(name); err != nil {
			return err
		}
	}
	if err != nil || !info.IsDir() {
		if err := a.mkdir(name); err != nil {
			return err
		}
	}
	a.mark(name)
	a.times[name] = stamp(h)
	return nil
}

// mkdir makes a folder whose mode does not depend on the process's mask.
func (a *applier) mkdir(name string) error {
	if err := a.root.Mkdir(name, folderMode); err != nil {
		return err
	}
	return a.root.Chmod(name, folderMode)
}

func (a *applier) symlink(name, target string) error {
	if target == "" || len(target) > maxTarget || strings.ContainsRune(target, 0) {
		return Error("it is a symbolic link to a place that can't be")
	}
	return a.root.Symlink(target, name)
}

func (a *applier) file(name string, h *tar.Header, content io.Reader) error {
	mode := fs.FileMode(fileMode)
	if h.FileInfo().Mode()&0o111 != 0 {
		mode |= 0o111
	}
	f, err := a.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	return a.fill(f, name, mode, content, stamp(h))
}

// copy is what becomes of a hard link.
func (a *applier) copy(name, target string) error {
	info, err := a.root.Lstat(target)
	if err != nil {
		return err
	}
	if info.Mode().Type() == fs.ModeSymlink {
		to, err := a.root.Readlink(target)
		if err != nil {
			return err
		}
		return a.symlink(name, to)
	}
	from, err := a.root.Open(target)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	to, err := a.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm())
	if err != nil {
		return err
	}
	return a.fill(to, name, info.Mode().Perm(), from, info.ModTime())
}

// fill writes a file within the budget, and closes it.
func (a *applier) fill(f *os.File, name string, mode fs.FileMode, content io.Reader, at time.Time) error {
	n, err := io.Copy(f, io.LimitReader(content, a.budget.Bytes+1))
	a.budget.Bytes -= n
	if err == nil && a.budget.Bytes < 0 {
		err = errTooLarge
	}
	if err == nil {
		err = f.Chmod(mode)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return a.root.Chtimes(name, at, at)
}

// linked finds the file that a hard link names.
func (a *applier) linked(name string) (string, error) {
	name, err := clean(name)
	if err != nil {
		return "", err
	}
	dir, base := path.Split(name)
	if dir, err = resolve(a.root, dir, a.budget); err == nil {
		name = path.Join(dir, base)
		var info fs.FileInfo
		if info, err = a.root.Lstat(name); err == nil && info.IsDir() {
			err = Error("it is a hard link to a folder")
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = Error("it is a hard link to something that is not in the image")
	}
	return name, err
}

// hide takes away what the layers below have under a name.
func (a *applier) hide(dir, base string) error {
	if base == "" || base == "." || base == ".." {
		return Error("it hides a name that can't be")
	}
	name := path.Join(dir, base)
	if a.own[name] {
		return a.prune(name)
	}
	return a.root.RemoveAll(name)
}

// hideAll takes away all that the layers below have in a folder.
func (a *applier) hideAll(dir string) error {
	f, err := a.root.Open(dir)
	if err != nil {
		return err
	}
	names, err := f.Readdirnames(-1)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := a.budget.step(len(names)); err != nil {
		return err
	}
	for _, base := range names {
		if err := a.hide(dir, base); err != nil {
			return err
		}
	}
	return nil
}

// prune is hide for what this layer made or touched: of a folder, only what lies below from earlier layers goes.
func (a *applier) prune(name string) error {
	if info, err := a.root.Lstat(name); err != nil || !info.IsDir() {
		return err
	}
	return a.hideAll(name)
}
