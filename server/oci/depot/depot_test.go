package depot

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const roomy = 1 << 40

func open(t testing.TB, dir string, change func(*Config)) *Depot {
	t.Helper()
	config := Config{Dir: dir}
	if change != nil {
		change(&config)
	}
	d, err := Open(config)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// push uploads a blob and returns its digest.
func (d *Depot) push(t testing.TB, name string, data []byte) Digest {
	t.Helper()
	id, err := d.Begin(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Append(t.Context(), name, id, 0, bytes.NewReader(data), Limits{roomy, roomy}, func() {}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Finish(t.Context(), name, id, DigestOf(data), roomy); err != nil {
		t.Fatal(err)
	}
	return DigestOf(data)
}

// put adds a manifest of the blobs, whose bytes are made up from the text.
func (d *Depot) put(t testing.TB, name, tag, text string, blobs ...Digest) Digest {
	t.Helper()
	data := []byte("manifest " + text)
	m := Manifest{Digest: DigestOf(data), MediaType: "m", Size: int64(len(data)), Blobs: blobs}
	if err := d.PutManifest(t.Context(), name, tag, m, data, roomy); err != nil {
		t.Fatal(err)
	}
	return m.Digest
}

// files are the paths below a folder of the depot.
func (d *Depot) files(t testing.TB, dir string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(d.config.Dir, dir), func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files = append(files, filepath.Base(path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestAllThatWasSaidIsThereAfterReopening(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	layer := d.push(t, "a/app", []byte("layer"))
	manifest := d.put(t, "a/app", "v1", "one", layer)
	if err := d.Mount(t.Context(), "b/deep/app", "a/app", layer, roomy); err != nil {
		t.Fatal(err)
	}
	id, err := d.Begin(t.Context(), "a/app")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Append(t.Context(), "a/app", id, 0, strings.NewReader("half"), Limits{roomy, roomy}, nil); err != nil {
		t.Fatal(err)
	}
	before, used := d.Stats(), d.Used("a")

	d = open(t, dir, nil)
	before.Counters = Counters{}
	if diff := cmp.Diff(before, d.Stats()); diff != "" {
		t.Error(diff)
	}
	if got := d.Used("a"); got != used {
		t.Errorf("used %d, before %d", got, used)
	}
	if m, data, err := d.Manifest(t.Context(), "a/app", "v1"); err != nil || m.Digest != manifest || string(data) != "manifest one" {
		t.Errorf("manifest: %+v %q %v", m, data, err)
	}
	if size, err := d.Size("a/app", id); err != nil || size != 4 {
		t.Errorf("upload: %d, %v", size, err)
	}
	if _, err := d.Append(t.Context(), "a/app", id, 4, strings.NewReader(" whole"), Limits{roomy, roomy}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Finish(t.Context(), "a/app", id, DigestOf([]byte("half whole")), roomy); err != nil {
		t.Error(err)
	}
}

func TestContentsGoWithTheLastThatNamesThem(t *testing.T) {
	d := open(t, t.TempDir(), nil)
	layer := d.push(t, "a/one", []byte("layer"))
	d.push(t, "b/two", []byte("layer"))
	if got := len(d.files(t, blobsDir)); got != 1 {
		t.Errorf("%d files for one content", got)
	}
	if err := d.DeleteBlob(t.Context(), "a/one", layer); err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.Blob("b/two", layer); err != nil {
		t.Error(err)
	}
	if err := d.Drop(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	if got := append(d.files(t, blobsDir), d.files(t, repositoriesDir)...); len(got) != 0 || d.Stats().Contents != 0 || d.Used("a")+d.Used("b") != 0 {
		t.Errorf("left: %v, %+v", got, d.Stats())
	}
}

func TestQuotaCountsEachContentOnce(t *testing.T) {
	d := open(t, t.TempDir(), nil)
	ctx := t.Context()
	data := bytes.Repeat([]byte("x"), 1000)
	d.push(t, "a/one", data)
	if err := d.Mount(ctx, "a/two", "a/one", DigestOf(data), 1000); err != nil {
		t.Errorf("the same content in a second repository: %v", err)
	}
	var full *QuotaError
	if err := d.Mount(ctx, "b/app", "a/one", DigestOf(data), 999); !errors.As(err, &full) || full.Used != 0 {
		t.Errorf("a content larger than the quota: %v", err)
	}
	id, err := d.Begin(t.Context(), "a/one")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Append(ctx, "a/one", id, 0, bytes.NewReader(data[:600]), Limits{1600, roomy}, nil); err != nil {
		t.Error(err)
	}
	other, err := d.Begin(t.Context(), "a/two")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Append(ctx, "a/two", other, 0, bytes.NewReader(data[:1]), Limits{1600, roomy}, nil); !errors.As(err, &full) {
		t.Errorf("what uploads bring together: %v", err)
	}
	if err := d.Cancel(ctx, "a/one", id); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Size("a/two", other); !errors.Is(err, ErrUnknownUpload) {
		t.Errorf("one without room is kept: %v", err)
	}
	if other, err = d.Begin(t.Context(), "a/two"); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Append(ctx, "a/two", other, 0, bytes.NewReader(data[:600]), Limits{1600, roomy}, nil); err != nil {
		t.Errorf("after another upload was given up: %v", err)
	}
	if _, err := d.Finish(ctx, "a/two", other, DigestOf(data[:600]), 1600); err != nil {
		t.Error(err)
	}
	if got := d.Used("a"); got != 1600 {
		t.Errorf("used: %d", got)
	}
}

func TestUploadsAreBoundedInNumber(t *testing.T) {
	d := open(t, t.TempDir(), func(config *Config) { config.Uploads = 2 })
	var ids []string
	for range 2 {
		id, err := d.Begin(t.Context(), "a/app")
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	if _, err := d.Begin(t.Context(), "a/other"); !errors.Is(err, ErrUploads) {
		t.Errorf("a third: %v", err)
	}
	if _, err := d.Begin(t.Context(), "b/app"); err != nil {
		t.Errorf("one of another namespace: %v", err)
	}
	if err := d.Cancel(t.Context(), "a/app", ids[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Begin(t.Context(), "a/other"); err != nil {
		t.Errorf("after one ended: %v", err)
	}
	if _, err := d.Size("b/app", ids[1]); !errors.Is(err, ErrUnknownUpload) {
		t.Errorf("an upload of another repository: %v", err)
	}
	// Those that were broken off give way to others.
	d.mu.Lock()
	d.uploads[ids[1]].touched = time.Now().Add(-breakOff - time.Second)
	d.mu.Unlock()
	if _, err := d.Begin(t.Context(), "a/other"); err != nil {
		t.Errorf("where one was broken off: %v", err)
	}
	if _, err := d.Size("a/app", ids[1]); !errors.Is(err, ErrUnknownUpload) {
		t.Errorf("the one that was broken off: %v", err)
	}
	if _, err := d.Begin(t.Context(), "a/other"); !errors.Is(err, ErrUploads) {
		t.Errorf("a third again: %v", err)
	}
}

func TestRepositoriesAreBounded(t *testing.T) {
	d := open(t, t.TempDir(), func(config *Config) { config.Entries = 6 })
	layer := d.push(t, "a/app", []byte("layer"))
	d.put(t, "a/app", "v1", "one", layer)
	d.put(t, "a/app", "v2", "two")
	var full *FullError
	data := []byte("three")
	if err := d.PutManifest(t.Context(), "a/app", "v3", Manifest{Digest: DigestOf(data), Size: 5}, data, roomy); !errors.As(err, &full) {
		t.Errorf("too many: %v", err)
	}
	if err := d.DeleteTag(t.Context(), "a/app", "v1"); err != nil {
		t.Error(err)
	}
}

func TestUploadsLeaveSomeOfTheDiskFree(t *testing.T) {
	d := open(t, t.TempDir(), func(config *Config) { config.Spare = 1 << 60 })
	id, err := d.Begin(t.Context(), "a/app")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Append(t.Context(), "a/app", id, 0, strings.NewReader("x"), Limits{roomy, roomy}, nil); !errors.Is(err, ErrDiskFull) {
		t.Errorf("an upload to a full disk: %v", err)
	}
}

func TestOpenPutsAwayWhatACrashLeft(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	lost, short, kept := d.push(t, "a/app", []byte("lost")), d.push(t, "a/app", []byte("short")), d.push(t, "a/app", []byte("kept"))
	broken := d.put(t, "a/app", "broken", "broken", kept)
	d.put(t, "a/app", "good", "good", kept)
	d.push(t, "b/app", []byte("in a document that is damaged"))
	file := func(path, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, path), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Remove(d.contentPath(lost)), os.Truncate(d.contentPath(short), 2), os.Remove(d.contentPath(broken))); err != nil {
		t.Fatal(err)
	}
	orphan := DigestOf([]byte("orphan"))
	file("blobs/sha256/"+strings.TrimPrefix(string(orphan), "sha256:"), "orphan")
	file("trash/7", "x")
	file("uploads/.new-1", "x")
	file("uploads/0123.json", "nonsense")
	file("uploads/0123.data", "x")
	file("uploads/4567.data", "x")
	file("repositories/a/app/.new-2", "{")

	d = open(t, dir, nil)
	if got := append(d.files(t, trashDir), d.files(t, uploadsDir)...); len(got) > 0 {
		t.Errorf("left: %v", got)
	}
	doc, err := d.look("a/app")
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := doc.Blobs[kept]; !ok || len(doc.Blobs) != 1 || len(doc.Manifests) != 1 || len(doc.Tags) != 1 {
		t.Errorf("document: %+v", doc)
	}
	if _, err := os.Stat(d.contentPath(orphan)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a content of nobody: %v", err)
	}

	file("repositories/b/app/"+documentFile, "{damaged")
	file("blobs/sha256/"+strings.TrimPrefix(string(orphan), "sha256:"), "orphan")
	for range 2 {
		d = open(t, dir, nil)
		if _, err := os.Stat(filepath.Join(dir, "repositories/b/app", documentFile+damagedSuffix)); err != nil {
			t.Errorf("a damaged document is set aside: %v", err)
		}
		if _, err := os.Stat(d.contentPath(DigestOf([]byte("in a document that is damaged")))); err != nil {
			t.Errorf("what it may have named is kept: %v", err)
		}
	}
	d.push(t, "b/app", []byte("pushed anew"))
	if err := os.Remove(filepath.Join(dir, "repositories/b/app", documentFile+damagedSuffix)); err != nil {
		t.Fatal(err)
	}
	d = open(t, dir, nil)
	if got := len(d.files(t, blobsDir)); got != 3 {
		t.Errorf("%d files, want a manifest and two blobs: %v", got, d.files(t, blobsDir))
	}
}

func TestDocumentsWithNamesOfOtherFilesAreNotTrusted(t *testing.T) {
	for name, text := range map[string]string{
		"another's":  `{"version":1,"name":"b/app"}`,
		"newer":      `{"version":2,"name":"a/app"}`,
		"a path":     `{"version":1,"name":"a/app","blobs":{"sha256:../../../etc/passwd":{"size":1}}}`,
		"a tag":      `{"version":1,"name":"a/app","tags":{"../x":"sha256:00"}}`,
		"a manifest": `{"version":1,"name":"a/app","manifests":{"x":{}}}`,
		"nothing":    ``,
		"null":       `null`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, repositoriesDir, "a", "app", documentFile)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			d := open(t, dir, nil)
			if _, err := d.look("a/app"); !errors.Is(err, ErrUnknownRepository) {
				t.Errorf("taken: %v", err)
			}
		})
	}
}

func TestNamesThatMayBe(t *testing.T) {
	good := []string{"a/b", "default/app", "my-ns/a.b_c__d--e/f", "0/0", "a/" + strings.Repeat("b", 253)}
	bad := []string{
		"", "a", "a/", "/a", "a//b", "a/b/", "A/b", "a/B", "a/../b", "a/.b", "a/b.", "a/_b", "a/b_", "a/b___c", "a/b..c", "a/-b", "a.b/c", "a_b/c",
		"-a/b", "a-/b", "a/b\n", "a/b c", "a/b:c", "a/b@c", "a/\x00", "a/ä", strings.Repeat("a", 64) + "/b", "a/" + strings.Repeat("b", 254),
	}
	for _, name := range good {
		if err := CheckRepository(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range bad {
		if CheckRepository(name) == nil {
			t.Errorf("%q is taken for a repository's name", name)
		}
	}
	for _, tag := range []string{"", ".", "..", "-x", ".x", "a/b", "a b", "a:b", strings.Repeat("a", 129), "a\n"} {
		if CheckTag(tag) == nil {
			t.Errorf("%q is taken for a tag", tag)
		}
	}
}

func FuzzNamesStayBelowTheirFolder(f *testing.F) {
	for _, seed := range []string{"a/b", "a/../b", "/a/b", "a/b/_repository.json", "a/\x00"} {
		f.Add(seed)
	}
	d := &Depot{config: Config{Dir: "/depot"}}
	f.Fuzz(func(t *testing.T, name string) {
		if digest, err := ParseDigest(name); err == nil {
			if got := filepath.Dir(filepath.Dir(d.contentPath(digest))); got != "/depot/blobs" {
				t.Errorf("%q lies in %s", name, got)
			}
		}
		if CheckRepository(name) != nil {
			return
		}
		path := d.repositoryDir(name)
		if path != "/depot/repositories/"+name || filepath.Clean(path) != path || strings.Contains(path, "/_") || NamespaceOf(name) == "" {
			t.Errorf("%q lies at %s", name, path)
		}
	})
}

func ExampleQuotaError() {
	fmt.Println(&QuotaError{Namespace: "shop", Quota: 2 << 30, Used: 3 << 20})
	// Output: namespace shop may keep 2 GiB of images and has 3 MiB, which leaves no room for this one: delete images that are not needed, or raise the quota
}
