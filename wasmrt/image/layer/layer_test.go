package layer

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"edgepod/wasmrt/image/imagetest"
)

var gzipped, zstded = imagetest.Gzip, imagetest.Zstd

// pack makes an archive of headers. The content of files is in their Linkname.
func pack(t testing.TB, entries ...tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, h := range entries {
		content := ""
		if h.Typeflag == tar.TypeReg {
			content, h.Linkname = h.Linkname, ""
			h.Size = int64(len(content))
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func file(name, content string) tar.Header {
	return tar.Header{Name: name, Linkname: content, Typeflag: tar.TypeReg, Mode: 0o600}
}

func folder(name string) tar.Header {
	return tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: 0o700}
}

func symlink(name, target string) tar.Header {
	return tar.Header{Name: name, Linkname: target, Typeflag: tar.TypeSymlink}
}

func link(name, target string) tar.Header {
	return tar.Header{Name: name, Linkname: target, Typeflag: tar.TypeLink}
}

// place is a folder to unpack into, with another beside it that nothing may touch.
type place struct {
	dir, canary string
	root        *os.Root
}

func newPlace(t testing.TB) *place {
	t.Helper()
	top := t.TempDir()
	p := &place{dir: filepath.Join(top, "root"), canary: filepath.Join(top, "canary")}
	for _, dir := range []string{p.dir, p.canary} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(p.canary, "secret"), []byte("canary"), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(p.dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	p.root = root
	return p
}

// check fails the test if anything beside the root has changed, or if there is something in it that may not be.
func (p *place) check(t testing.TB) {
	t.Helper()
	top, err := os.ReadDir(filepath.Dir(p.dir))
	if err != nil || len(top) != 2 {
		t.Errorf("beside the root: %v, %v", top, err)
	}
	names, err := os.ReadDir(p.canary)
	if err != nil || len(names) != 1 {
		t.Errorf("in the canary's folder: %v, %v", names, err)
	}
	content, err := os.ReadFile(filepath.Join(p.canary, "secret"))
	if err != nil || string(content) != "canary" {
		t.Errorf("the canary is %q, %v", content, err)
	}
	err = filepath.WalkDir(p.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch info.Mode().Type() {
		case 0, fs.ModeDir, fs.ModeSymlink:
		default:
			t.Errorf("%s is a %v", path, info.Mode())
		}
		if info.Mode().Type() != fs.ModeSymlink && (info.Mode()&(fs.ModeSetuid|fs.ModeSetgid|0o022) != 0 || info.Mode()&0o444 != 0o444) {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// tree lists what was unpacked: files with their content, folders with a slash, links with an arrow.
func (p *place) tree(t testing.TB) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(p.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == p.dir {
			return err
		}
		rel, err := filepath.Rel(p.dir, path)
		if err != nil {
			return err
		}
		switch d.Type() {
		case fs.ModeDir:
			out[rel+"/"] = ""
		case fs.ModeSymlink:
			target, err := os.Readlink(path)
			out[rel] = "→" + target
			return err
		default:
			content, err := os.ReadFile(path)
			out[rel] = string(content)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func budget() *Budget { return &Budget{Bytes: 1 << 20, Files: 1000} }

func TestLayersAreApplied(t *testing.T) {
	base := pack(t, folder("etc/"), file("etc/a", "1"), file("etc/b", "2"), folder("lib"), file("lib/x/y", "deep"), file("f", "file"))
	for name, tt := range map[string]struct {
		layers [][]byte
		want   map[string]string
	}{
		"one":                      {nil, map[string]string{"etc/": "", "etc/a": "1", "etc/b": "2", "lib/": "", "lib/x/": "", "lib/x/y": "deep", "f": "file"}},
		"whiteouts":                {[][]byte{pack(t, file("etc/.wh.a", ""), file(".wh.lib", ""), file(".wh.nothing", ""))}, map[string]string{"etc/": "", "etc/b": "2", "f": "file"}},
		"opaque":                   {[][]byte{pack(t, file("etc/new", "n"), file("etc/.wh..wh..opq", ""))}, map[string]string{"etc/": "", "etc/new": "n", "lib/": "", "lib/x/": "", "lib/x/y": "deep", "f": "file"}},
		"hidden and made anew":     {[][]byte{pack(t, file(".wh.lib", ""), file("lib/z", "z"))}, map[string]string{"etc/": "", "etc/a": "1", "etc/b": "2", "lib/": "", "lib/z": "z", "f": "file"}},
		"made anew and hidden":     {[][]byte{pack(t, file("lib/z", "z"), file(".wh.lib", ""))}, map[string]string{"etc/": "", "etc/a": "1", "etc/b": "2", "lib/": "", "lib/z": "z", "f": "file"}},
		"file in place of folder":  {[][]byte{pack(t, file("lib", "now a file"), file("f", "other"))}, map[string]string{"etc/": "", "etc/a": "1", "etc/b": "2", "lib": "now a file", "f": "other"}},
		"folder in place of file":  {[][]byte{pack(t, folder("f"), file("f/g", "g"))}, map[string]string{"etc/": "", "etc/a": "1", "etc/b": "2", "lib/": "", "lib/x/": "", "lib/x/y": "deep", "f/": "", "f/g": "g"}},
		"below what was a file":    {[][]byte{pack(t, file("f/g", "g"))}, map[string]string{"etc/": "", "etc/a": "1", "etc/b": "2", "lib/": "", "lib/x/": "", "lib/x/y": "deep", "f/": "", "f/g": "g"}},
		"through links":            {[][]byte{pack(t, symlink("bin", "/lib"), symlink("up", "../../../lib/x"), file("bin/new", "n"), file("up/new", "m"))}, map[string]string{"etc/": "", "etc/a": "1", "etc/b": "2", "lib/": "", "lib/new": "n", "lib/x/": "", "lib/x/y": "deep", "lib/x/new": "m", "f": "file", "bin": "→/lib", "up": "→../../../lib/x"}},
		"hard links":               {[][]byte{pack(t, link("copy", "etc/a"), link("/etc/c", "/etc/b"), symlink("s", "/etc/a"), link("s2", "s"), link("f", "f"))}, map[string]string{"etc/": "", "etc/a": "1", "etc/b": "2", "etc/c": "2", "copy": "1", "s": "→/etc/a", "s2": "→/etc/a", "lib/": "", "lib/x/": "", "lib/x/y": "deep", "f": "file"}},
		"twice, and the last wins": {[][]byte{pack(t, file("f", "x"), folder("f"), file("f/z", ""), file("f", "last"))}, map[string]string{"etc/": "", "etc/a": "1", "etc/b": "2", "lib/": "", "lib/x/": "", "lib/x/y": "deep", "f": "last"}},
	} {
		p := newPlace(t)
		for i, l := range append([][]byte{base}, tt.layers...) {
			packed := [][]byte{l, gzipped(t, l), zstded(t, l)}[i%3]
			if _, err := Apply(t.Context(), p.root, bytes.NewReader(packed), budget()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if diff := cmp.Diff(tt.want, p.tree(t)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		p.check(t)
	}
}

func TestHostileLayersStayInsideAndAreRefused(t *testing.T) {
	deep := strings.Repeat("d/", maxDepth)
	for name, tt := range map[string]struct {
		layer []byte
		want  string // of the error
	}{
		"dot dot":               {pack(t, file("../canary/new", "x")), "leads out"},
		"dot dot inside":        {pack(t, file("a/../../canary/secret", "x")), "leads out"},
		"absolute and dot dot":  {pack(t, file("/../canary/secret", "x")), "leads out"},
		"no name":               {pack(t, file("", "x")), "no name"},
		"long name":             {pack(t, file(strings.Repeat("n", 300), "x")), "too long"},
		"long path":             {pack(t, file(strings.Repeat("n/", 3000)+"x", "x")), "too long"},
		"deep":                  {pack(t, file(deep+"x", "x")), "too deep"},
		"loop":                  {pack(t, symlink("a", "b"), symlink("b", "a"), file("a/x", "x")), "symbolic links"},
		"link to nowhere":       {pack(t, symlink("a", "")), "a place that can't be"},
		"hard link out":         {pack(t, link("a", "../canary/secret")), "leads out"},
		"hard link to the host": {pack(t, link("a", "/etc/hostname")), "not in the image"},
		"hard link by link":     {pack(t, symlink("d", "/canary"), link("a", "d/secret")), "not in the image"},
		"hard link to folder":   {pack(t, folder("d"), link("a", "d")), "to a folder"},
		"hard link to itself":   {pack(t, link("a", "a")), "not in the image"},
		"hide dot":              {pack(t, file("d/.wh..", "")), "hides a name"},
		"hide dot dot":          {pack(t, file("d/.wh...", "")), "hides a name"},
		"hide nothing":          {pack(t, file("d/.wh.", "")), "hides a name"},
		"cut":                   {pack(t, file("a", strings.Repeat("x", 2000)))[:1500], "damaged"},
		"cut gzip":              {gzipped(t, pack(t, file("a", "x")))[:30], "damaged"},
		"gzip header alone":     {[]byte{0x1f, 0x8b, 8}, "damaged"},
		"no archive":            {[]byte(strings.Repeat("no archive", 200)), "damaged"},
		"large file":            {pack(t, file("a", strings.Repeat("x", 1<<20)), file("b", "x")), "larger than"},
		"many files":            {pack(t, many(1001)...), "more files"},
		"many folders at once":  {pack(t, file(strings.Repeat("a/", 100)+"x", ""), file(strings.Repeat("b/", 100)+"x", "")), ""},
		"sparse":                {sparse("s", 10<<30), "larger than"},
		"zeros without end":     {gzipped(t, make([]byte, 24<<20)), "larger than"},
		"headers without end":   {gzipped(t, bytes.Repeat(pack(t, tar.Header{Name: "x", Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": strings.Repeat("c", 60_000)}})[:61_440+512], 400)), "larger than"},
		"large extended header": {retyped(pack(t, file("x", strings.Repeat("c", 2<<20))), tar.TypeXHeader), "damaged"},
		"large zstd window":     {wideZstd(t), "damaged"},
	} {
		p := newPlace(t)
		_, err := Apply(t.Context(), p.root, bytes.NewReader(tt.layer), budget())
		var own Error
		if tt.want == "" && err != nil || tt.want != "" && (!errors.As(err, &own) || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want an error of the layer with %q", name, err, tt.want)
		}
		p.check(t)
	}
}

func many(n int) (out []tar.Header) {
	for i := range n {
		out = append(out, file(fmt.Sprint("f", i), ""))
	}
	return out
}

func TestWhatNoGuestCanUseIsLeftOut(t *testing.T) {
	p := newPlace(t)
	special := func(name string, kind byte) tar.Header {
		return tar.Header{Name: name, Typeflag: kind, Devmajor: 1, Devminor: 3, Mode: 0o666}
	}
	l := pack(t, special("dev/null", tar.TypeChar), special("dev/sda", tar.TypeBlock), special("pipe", tar.TypeFifo), file(".wh..wh.plnk", ""),
		tar.Header{Name: "su", Linkname: "x", Typeflag: tar.TypeReg, Mode: 0o4755, Uid: 0, ModTime: time.Unix(1_700_000_000, 0)})
	got, err := Apply(t.Context(), p.root, bytes.NewReader(l), budget())
	if err != nil || got.Skipped != 4 {
		t.Errorf("%+v, %v, want 4 entries left out", got, err)
	}
	if diff := cmp.Diff(map[string]string{"dev/": "", "su": "x"}, p.tree(t)); diff != "" {
		t.Error(diff)
	}
	info, err := os.Stat(filepath.Join(p.dir, "su"))
	if err != nil || info.Mode() != 0o755 || info.ModTime().Unix() != 1_700_000_000 {
		t.Errorf("%v, %v", info, err)
	}
	p.check(t)
}

func TestABombTakesLittleMemory(t *testing.T) {
	bomb := gzipped(t, pack(t, file("zeros", strings.Repeat("\x00", 24<<20))))
	p := newPlace(t)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := Apply(t.Context(), p.root, bytes.NewReader(bomb), &Budget{Bytes: 8 << 20, Files: 10})
	runtime.ReadMemStats(&after)
	if err == nil || after.TotalAlloc-before.TotalAlloc > 4<<20 {
		t.Errorf("%v, and it allocated %d bytes", err, after.TotalAlloc-before.TotalAlloc)
	}
}

// TestLinksThatAreSwappedMeanwhileLeadNowhere has somebody exchange a folder for a link out of the root, over and over, while
// a layer is unpacked into it.
func TestLinksThatAreSwappedMeanwhileLeadNowhere(t *testing.T) {
	p := newPlace(t)
	if err := os.Mkdir(filepath.Join(p.dir, "d"), 0o755); err != nil {
		t.Fatal(err)
	}
	stop, swapped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(swapped)
		d, away := filepath.Join(p.dir, "d"), filepath.Join(p.dir, "away")
		for {
			select {
			case <-stop:
				return
			default:
			}
			// Each step may fail, since the layer works on the same names.
			_ = os.Rename(d, away)
			_ = os.Symlink(p.canary, d)
			_ = os.Remove(d)
			_ = os.Rename(away, d)
		}
	}()
	layers := [][]byte{
		pack(t, file("d/new", "x"), file("d/secret", "x"), file("d/.wh.secret", ""), symlink("d/l", "/etc"), link("d/h", "d/new")),
		pack(t, file("d/.wh..wh..opq", ""), folder("d/sub/deep"), file("d/sub/deep/secret", "x")),
	}
	for i := range 200 {
		_, _ = Apply(t.Context(), p.root, bytes.NewReader(layers[i%2]), budget()) // refused or not, it stays inside
	}
	close(stop)
	<-swapped
	p.check(t)
}

func TestApplyEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Apply(ctx, newPlace(t).root, bytes.NewReader(pack(t, file("a", "b"))), budget()); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want it cancelled", err)
	}
}

// wideZstd is a frame that asks for a window of 128 MiB, and holds a small archive in one block as it is.
func wideZstd(t testing.TB) []byte {
	t.Helper()
	archive := pack(t, file("a", "b"))
	const windowOf128Mi, last = (27 - 10) << 3, 1
	block := len(archive)<<3 | last
	return append([]byte{0x28, 0xb5, 0x2f, 0xfd, 0, windowOf128Mi, byte(block), byte(block >> 8), byte(block >> 16)}, archive...)
}

// retyped gives the first entry of an archive another type.
func retyped(archive []byte, kind byte) []byte {
	archive[156] = kind
	return summed(archive)
}

// summed puts the right checksum into the first header.
func summed(archive []byte) []byte {
	copy(archive[148:], "        ")
	sum := 0
	for _, b := range archive[:512] {
		sum += int(b)
	}
	copy(archive[148:], fmt.Sprintf("%06o\x00 ", sum))
	return archive
}

// sparse is an archive of one file in the old format of GNU, all hole.
func sparse(name string, size int64) []byte {
	block := make([]byte, 512)
	copy(block, name)
	copy(block[100:], "0000644\x00")
	copy(block[108:], "0000000\x000000000\x00")
	copy(block[124:], "00000000000\x00")
	copy(block[136:], "00000000000\x00")
	block[156] = 'S'
	copy(block[257:], "ustar  \x00")
	copy(block[386:], fmt.Sprintf("%011o\x0000000000000\x00", size))
	block[483] = 0x80 // a binary number
	for i := range 8 {
		block[483+11-i] = byte(size >> (8 * i))
	}
	copy(block[386:], block[483:495])
	copy(block[398:], "00000000000\x00")
	return append(summed(block), make([]byte, 1024)...)
}
