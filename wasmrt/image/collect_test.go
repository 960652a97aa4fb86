package image

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"edgepod/wasmrt/sandbox"
)

// age makes all that is written down of an image look unused for so long.
func (s *Store) age(t *testing.T, digest string, by time.Duration) {
	t.Helper()
	name, _ := hexOf(digest)
	when := time.Now().Add(-by)
	if err := os.Chtimes(s.path(imageDir, name), when, when); err != nil {
		t.Fatal(err)
	}
}

// content lists the files in the store that belong to images.
func (s *Store) content(t *testing.T) (out []string) {
	t.Helper()
	for _, dir := range []string{blobDir, moduleDir, nameDir, debugDir, rootDir, imageDir, refDir} {
		names, err := listNames(s.path(dir))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			out = append(out, filepath.Join(dir, name))
		}
	}
	slices.Sort(out)
	return out
}

func collect(t *testing.T, s *Store, req sandbox.CollectRequest, inUse ...string) sandbox.Collected {
	t.Helper()
	got, err := s.Collect(t.Context(), req, func(digest string) bool { return slices.Contains(inUse, digest) })
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// An image that a pod asks for while a collection looks at the images is not taken for unused.
func TestAnImageAskedForDuringACollectionStays(t *testing.T) {
	s, dir := openStore(t, nil)
	if err := os.WriteFile(filepath.Join(dir, "a.wasm"), command(), 0o600); err != nil {
		t.Fatal(err)
	}
	e, err := resolve(t, s, "./a.wasm", sandbox.PullIfNotPresent)
	if err != nil {
		t.Fatal(err)
	}
	s.age(t, e.Digest, time.Hour)
	req := sandbox.CollectRequest{MaxAge: time.Minute, MinAge: time.Second}
	inUse := func(digest string) bool {
		if _, ok := s.Get(digest); !ok {
			t.Error("the image was gone before")
		}
		return false
	}
	if got, err := s.Collect(t.Context(), req, inUse); err != nil || got.Images != 0 {
		t.Errorf("collected %+v, %v", got, err)
	}
	if _, err := os.Stat(e.Path); err != nil {
		t.Errorf("its module: %v", err)
	}
	s.age(t, e.Digest, time.Hour)
	if got := collect(t, s, req); got.Images != 1 {
		t.Errorf("collected %+v; want it gone when nobody asks any more", got)
	}
}

func TestUnusedImagesAreCollectedByAgeAndBySize(t *testing.T) {
	h := newHub(t)
	shared := tarOf(t, map[string]string{"lib/data": string(make([]byte, 10_000))})
	push := func(name string) {
		h.picture(name, "v1", picture{
			config: v1.ConfigFile{OS: "wasi", Architecture: "wasm", Config: v1.Config{Cmd: []string{"/m.wasm"}}},
			layers: [][]byte{shared, tarOf(t, map[string]string{"m.wasm": string(command(custom("v", name)))})},
		})
	}
	s, _ := openStore(t, nil)
	var digests []string
	for i, name := range []string{"a", "b", "c", "d"} {
		push(name)
		e, err := resolve(t, s, h.ref("%s:v1", name), sandbox.PullIfNotPresent)
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, e.Digest)
		s.age(t, e.Digest, time.Duration(10-i)*time.Hour)
	}
	if list, err := s.List(t.Context()); err != nil || len(list) != 4 || list[0].Size < 10_000 || len(list[0].Refs) != 1 {
		t.Errorf("list: %+v, %v", list, err)
	}
	if got := collect(t, s, sandbox.CollectRequest{MaxAge: 20 * time.Hour}); got != (sandbox.Collected{}) {
		t.Errorf("nothing was due, and it collected %+v", got)
	}
	if got := collect(t, s, sandbox.CollectRequest{MaxAge: 9*time.Hour + time.Minute}, digests[1]); got.Images != 1 || got.Bytes < 10_000 || got.Bytes > 15_000 {
		t.Errorf("by age it collected %+v, want one image, and its root without the shared layer", got)
	}
	if got := collect(t, s, sandbox.CollectRequest{Free: 1, MinAge: time.Hour}, digests[1]); got.Images != 1 {
		t.Errorf("by size it collected %+v, want the longest unused that is not in use", got)
	}
	for i, want := range []bool{false, true, false, true} {
		name, _ := hexOf(digests[i])
		if _, err := os.Stat(s.path(imageDir, name)); (err == nil) != want {
			t.Errorf("image %d: %v, want it to be there: %v", i, err, want)
		}
	}
	if got := collect(t, s, sandbox.CollectRequest{Free: 1 << 40}, digests[1]); got.Images != 1 {
		t.Errorf("at last it collected %+v", got)
	}
	if got := collect(t, s, sandbox.CollectRequest{Free: 1 << 40}); got.Images != 1 || got.Bytes < 20_000 {
		t.Errorf("when nothing was in use it collected %+v", got)
	}
	if left := s.content(t); len(left) != 0 {
		t.Errorf("left over: %v", left)
	}
}

func TestStoresOnOneFolderSpareEachOthersImages(t *testing.T) {
	h := newHub(t)
	h.artifact("app", "v1", ConfigType, ModuleType, command())
	a, _ := openStore(t, nil)
	b, _ := openStore(t, func(c *Config) { c.Dir = a.cfg.Dir })
	e, err := resolve(t, a, h.ref("app:v1"), sandbox.PullIfNotPresent)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := a.Get(e.Digest); !ok { // as a container is started
		t.Fatal("the image is not there")
	}
	a.age(t, e.Digest, time.Hour)
	if got := collect(t, b, sandbox.CollectRequest{Free: 1}); got.Images != 0 {
		t.Errorf("it collected what another store needs: %+v", got)
	}
	collect(t, a, sandbox.CollectRequest{}, e.Digest)
	if got := collect(t, b, sandbox.CollectRequest{Free: 1}); got.Images != 0 {
		t.Errorf("it collected what another store still needs: %+v", got)
	}
	if err := os.WriteFile(a.path(blobDir, "left"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-2 * keepPart)
	if err := os.Chtimes(a.path(blobDir, "left"), old, old); err != nil {
		t.Fatal(err)
	}
	collect(t, a, sandbox.CollectRequest{})
	if got := collect(t, b, sandbox.CollectRequest{Free: 1}); got.Images != 1 {
		t.Errorf("what nobody needs any more was not collected: %+v", got)
	}
	if _, ok := a.Get(e.Digest); ok {
		t.Error("a collected image is still there")
	}
	if left := a.content(t); len(left) != 0 {
		t.Errorf("left over: %v", left)
	}
}

func TestBeginningsOfBlobsAreSweptWhenNobodyWillGoOnWithThem(t *testing.T) {
	s, _ := openStore(t, nil)
	begun := func(content string) (string, *partial) {
		d := describe(t, ModuleType, []byte(content))
		p, err := s.openPartial(d)
		if err != nil {
			t.Fatal(err)
		}
		old := time.Now().Add(-2 * keepPartial)
		if err := os.Chtimes(p.path, old, old); err != nil {
			t.Fatal(err)
		}
		return p.path, p
	}
	left, p := begun("left")
	p.close()
	busy, p := begun("busy")
	defer p.close()
	collect(t, s, sandbox.CollectRequest{})
	if _, err := os.Stat(left); err == nil {
		t.Error("an old beginning is still there")
	}
	if _, err := os.Stat(busy); err != nil {
		t.Errorf("one that is written to: %v", err)
	}
}

func TestWhatBelongsToNoImageGoesFirstWhereRoomIsNeeded(t *testing.T) {
	h := newHub(t)
	h.artifact("app", "v1", ConfigType, ModuleType, command())
	s, _ := openStore(t, nil)
	e, err := resolve(t, s, h.ref("app:v1"), sandbox.PullIfNotPresent)
	if err != nil {
		t.Fatal(err)
	}
	s.age(t, e.Digest, time.Hour)
	given, going := describe(t, ModuleType, make([]byte, 5000)), describe(t, ModuleType, make([]byte, 6000))
	for _, d := range []v1.Descriptor{given, going} {
		path := s.path(blobDir, d.Digest.Hex)
		if err := os.WriteFile(path, make([]byte, d.Size), 0o600); err != nil {
			t.Fatal(err)
		}
		old := time.Now().Add(-5 * time.Minute)
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	unpin := s.pin([]v1.Descriptor{going})
	if got := collect(t, s, sandbox.CollectRequest{}); got != (sandbox.Collected{}) {
		t.Errorf("where there is room: %+v", got)
	}
	if got := collect(t, s, sandbox.CollectRequest{Free: 5000}); got != (sandbox.Collected{Bytes: 5000}) {
		t.Errorf("where there is none: %+v, want the layer of the pull that was given up", got)
	}
	unpin()
	if got := collect(t, s, sandbox.CollectRequest{Free: 6000}); got != (sandbox.Collected{Bytes: 6000}) {
		t.Errorf("after the pull: %+v", got)
	}
}

func TestWhatDeadUsersLeftIsCleared(t *testing.T) {
	a, _ := openStore(t, nil)
	dead := filepath.Join(a.path(stagingDir), "u0", "root-1")
	if err := os.MkdirAll(dead, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(a.path(userDir, "u0"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b, _ := openStore(t, func(c *Config) { c.Dir = a.cfg.Dir })
	users, err := listNames(a.path(userDir))
	if err != nil || len(users) != 2 {
		t.Errorf("users %v, %v, want the two stores", users, err)
	}
	staging, err := listNames(b.path(stagingDir))
	if err != nil || len(staging) != 2 {
		t.Errorf("staging folders %v, %v, want those of the two stores", staging, err)
	}
}

func TestADamagedImageIsMadeAnewWithoutItsRegistry(t *testing.T) {
	h := newHub(t)
	files := gzipped(t, tarOf(t, map[string]string{"m.wasm": string(command()), "data": "x"}))
	h.index("app", "v1", on(h.picture("app", "", picture{config: v1.ConfigFile{OS: "wasi", Architecture: "wasm"}, layers: [][]byte{files}}), "wasi", "wasm"))
	s, _ := openStore(t, nil)
	e, err := resolve(t, s, h.ref("app:v1"), sandbox.PullIfNotPresent)
	if err != nil {
		t.Fatal(err)
	}
	h.Close()
	if err := os.WriteFile(e.Path, []byte("damage"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Drop(e.Digest); err != nil {
		t.Fatal(err)
	}
	again, err := resolve(t, s, h.ref("app:v1"), sandbox.PullIfNotPresent)
	if err != nil || again.Digest != e.Digest || again.ID != e.ID {
		t.Fatalf("%+v, %v, want the same as %+v", again, err, e)
	}
	module, err := os.ReadFile(again.Path)
	if err != nil || string(module) != string(command()) {
		t.Errorf("the module has %d bytes, %v", len(module), err)
	}
}
