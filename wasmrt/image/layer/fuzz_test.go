package layer

import (
	"archive/tar"
	"bytes"
	"testing"
)

func FuzzApply(f *testing.F) {
	f.Add(pack(f, folder("d"), file("d/a", "x"), symlink("l", "/d"), link("h", "l/a"), file("l/.wh.a", ""), file("d/.wh..wh..opq", "")))
	f.Add(pack(f, symlink("out", "../../../../canary"), file("out/new", "x"), link("h", "out/secret")))
	f.Add(gzipped(f, pack(f, file("a", "x"))))
	f.Add(zstded(f, pack(f, file("a", "x"))))
	f.Add(sparse("s", 1<<20))
	f.Add(retyped(pack(f, file("x", "30 path=../../canary/secret\n")), tar.TypeXHeader))
	f.Fuzz(func(t *testing.T, data []byte) {
		p := newPlace(t)
		b := budget()
		if _, err := Apply(t.Context(), p.root, bytes.NewReader(data), b); err == nil && (b.Bytes < 0 || b.Files < 0) {
			t.Errorf("went over its budget: %+v", b)
		}
		p.check(t)
	})
}

// FuzzApplyNames is about names alone, in archives that are sound.
func FuzzApplyNames(f *testing.F) {
	f.Add("a", "/canary", "a/secret", "b")
	f.Add("a/../..", "..", "a/.wh.x", ".wh..wh..opq")
	f.Fuzz(func(t *testing.T, link1, target, name, hard string) {
		var entries []tar.Header
		for _, h := range []tar.Header{symlink(link1, target), file(name, "x"), link(hard, name), symlink(name, hard), file(link1+"/"+hard, "y")} {
			var probe bytes.Buffer
			if err := tar.NewWriter(&probe).WriteHeader(&tar.Header{Name: h.Name, Linkname: h.Linkname, Typeflag: tar.TypeSymlink}); err == nil && (h.Typeflag != tar.TypeReg || h.Name != "" && h.Name[len(h.Name)-1] != '/') {
				entries = append(entries, h)
			}
		}
		p := newPlace(t)
		// Each entry alone, so that what one is refused for does not hide the others.
		for _, h := range entries {
			_, _ = Apply(t.Context(), p.root, bytes.NewReader(pack(t, h)), budget()) // refused or not, it stays inside
		}
		p.check(t)
	})
}
