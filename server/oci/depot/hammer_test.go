package depot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// checkWhole tells whether table, folders and figures agree, and whether every content is what its digest says. Nobody may
// be using the depot.
func (d *Depot) checkWhole(t testing.TB) {
	t.Helper()
	members, usages := map[Digest]int{}, map[string]map[Digest]int64{}
	for name, r := range d.repositories {
		namespace := NamespaceOf(name)
		if usages[namespace] == nil {
			usages[namespace] = map[Digest]int64{}
		}
		for digest, size := range r.document.contents() {
			members[digest]++
			usages[namespace][digest] = size
			data, err := os.ReadFile(d.contentPath(digest))
			if err != nil || int64(len(data)) != size || DigestOf(data) != digest {
				t.Errorf("%s: content %s: %d bytes, %v", name, digest, len(data), err)
			}
		}
		for digest, m := range r.document.Manifests {
			if missing := r.document.missing(&m); len(missing) > 0 {
				t.Errorf("%s: manifest %s lacks %v", name, digest, missing)
			}
		}
		for tag, digest := range r.document.Tags {
			if _, ok := r.document.Manifests[digest]; !ok {
				t.Errorf("%s: tag %s names %s, which is not there", name, tag, digest)
			}
		}
	}
	table := map[Digest]int{}
	for digest, c := range d.contents {
		table[digest] = c.members
		if c.pins != 0 {
			t.Errorf("%s is pinned", digest)
		}
	}
	if diff := cmp.Diff(members, table); diff != "" {
		t.Errorf("contents: %s", diff)
	}
	if got := len(d.files(t, blobsDir)); got != len(members) {
		t.Errorf("%d files for %d contents", got, len(members))
	}
	for namespace, u := range d.usage {
		var stored int64
		for _, size := range usages[namespace] {
			stored += size
		}
		var coming int64
		for _, up := range d.uploads {
			if NamespaceOf(up.repository) == namespace {
				coming += up.size
			}
		}
		if u.stored != stored || u.coming != coming {
			t.Errorf("namespace %s: stored %d, coming %d; want %d, %d", namespace, u.stored, u.coming, stored, coming)
		}
	}
	if got := d.files(t, trashDir); len(got) > 0 {
		t.Errorf("trash: %v", got)
	}
}

// TestManyAtOnceLeaveItWhole pushes, mounts, deletes and collects the same few contents from many sides, with a collection
// for which every grace is over.
func TestManyAtOnceLeaveItWhole(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, func(config *Config) {
		config.InUse = func(context.Context) (func(Digest) bool, error) {
			return func(digest Digest) bool { return digest[7] < '8' }, nil
		}
	})
	var wait sync.WaitGroup
	for worker := range 8 {
		random := rand.New(rand.NewPCG(1, uint64(worker)))
		wait.Go(func() {
			for range 60 {
				if err := d.act(t.Context(), random); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	d.checkWhole(t)
	before := d.Stats()
	before.Counters = Counters{}
	d = open(t, dir, nil)
	d.checkWhole(t)
	if diff := cmp.Diff(before, d.Stats()); diff != "" {
		t.Errorf("after reopening: %s", diff)
	}
	for _, namespace := range d.Namespaces() {
		if err := d.Drop(t.Context(), namespace); err != nil {
			t.Error(err)
		}
	}
	d.checkWhole(t)
	if s := d.Stats(); s.Contents+s.Repositories+s.Uploads != 0 {
		t.Errorf("after all were dropped: %+v", s)
	}
}

// act does one thing by chance. Errors that others cause are none.
func (d *Depot) act(ctx context.Context, random *rand.Rand) error {
	name := fmt.Sprintf("%c/app%d", 'a'+rune(random.IntN(2)), random.IntN(2))
	data := bytes.Repeat([]byte{byte(random.IntN(5))}, 3000)
	digest, tag := DigestOf(data), fmt.Sprint("t", random.IntN(3))
	manifest := append([]byte("manifest of "), data...)
	var err error
	switch random.IntN(9) {
	case 0, 1, 2:
		err = d.upload(ctx, name, data, random.IntN(2) == 0)
	case 3, 4:
		m := Manifest{Digest: DigestOf(manifest), Size: int64(len(manifest)), Blobs: []Digest{digest}}
		err = d.PutManifest(ctx, name, tag, m, manifest, roomy)
	case 5:
		err = d.Mount(ctx, name, "", digest, roomy)
	case 6:
		err = errors.Join(d.DeleteBlob(ctx, name, digest), d.DeleteTag(ctx, name, tag))
	case 7:
		err = d.DeleteManifest(ctx, name, DigestOf(manifest))
	case 8:
		err = d.Collect(ctx, time.Now().Add(1000*time.Hour))
	}
	var missing *MissingError
	var inUse *InUseError
	for _, expected := range []error{ErrUnknownBlob, ErrUnknownManifest, ErrUnknownRepository, ErrUnknownUpload} {
		if errors.Is(err, expected) {
			return nil
		}
	}
	if errors.As(err, &missing) || errors.As(err, &inUse) {
		return nil
	}
	return err
}

// upload pushes a blob, in pieces or not.
func (d *Depot) upload(ctx context.Context, name string, data []byte, pieces bool) error {
	id, err := d.Begin(ctx, name)
	if err != nil {
		return err
	}
	parts := [][]byte{data}
	if pieces {
		parts = [][]byte{data[:1000], data[1000:]}
	}
	for _, part := range parts {
		if _, err := d.Append(ctx, name, id, -1, bytes.NewReader(part), Limits{roomy, roomy}, nil); err != nil {
			return err
		}
	}
	_, err = d.Finish(ctx, name, id, DigestOf(data), roomy)
	return err
}

// TestRandomHistoriesEndAsTheOracleSays compares with maps, over reopenings.
func TestRandomHistoriesEndAsTheOracleSays(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 7))
			dir := t.TempDir()
			d := open(t, dir, nil)
			tags := map[string]Digest{}
			manifests := map[Digest]bool{}
			for range 80 {
				data := fmt.Appendf(nil, "content %d", random.IntN(6))
				manifest := append([]byte("manifest of "), data...)
				digest, tag := DigestOf(manifest), fmt.Sprint("t", random.IntN(4))
				switch random.IntN(6) {
				case 0, 1, 2:
					d.push(t, "a/app", data)
					m := Manifest{Digest: digest, Size: int64(len(manifest)), Blobs: []Digest{DigestOf(data)}}
					if err := d.PutManifest(t.Context(), "a/app", tag, m, manifest, roomy); err != nil {
						t.Fatal(err)
					}
					tags[tag], manifests[digest] = digest, true
				case 3:
					if err := d.DeleteTag(t.Context(), "a/app", tag); (err == nil) != (tags[tag] != "") {
						t.Errorf("delete tag: %v", err)
					}
					delete(tags, tag)
				case 4:
					if err := d.DeleteManifest(t.Context(), "a/app", digest); (err == nil) != manifests[digest] {
						t.Errorf("delete manifest: %v", err)
					}
					delete(manifests, digest)
					maps.DeleteFunc(tags, func(_ string, of Digest) bool { return of == digest })
				case 5:
					d = open(t, dir, nil)
				}
				got := map[string]Digest{}
				if doc, err := d.look("a/app"); err == nil {
					got = doc.Tags
					if len(doc.Manifests) != len(manifests) {
						t.Fatalf("manifests: %v, want %v", slices.Collect(maps.Keys(doc.Manifests)), manifests)
					}
				}
				if diff := cmp.Diff(tags, got); diff != "" {
					t.Fatal(diff)
				}
			}
			d.checkWhole(t)
		})
	}
}

func TestALaterRequestTakesAnUploadOver(t *testing.T) {
	d := open(t, t.TempDir(), nil)
	id, err := d.Begin(t.Context(), "a/app")
	if err != nil {
		t.Fatal(err)
	}
	body, feed := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		_, err := d.Append(context.Background(), "a/app", id, 0, body, Limits{roomy, roomy}, func() { body.Close() })
		ended <- err
	}()
	if _, err := feed.Write([]byte("first ")); err != nil {
		t.Fatal(err)
	}
	if size, err := d.Append(t.Context(), "a/app", id, 6, strings.NewReader("second"), Limits{roomy, roomy}, nil); err != nil || size != 12 {
		t.Errorf("the later one: %d, %v", size, err)
	}
	if err := <-ended; !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("the earlier one: %v", err)
	}
	if _, err := d.Finish(t.Context(), "a/app", id, DigestOf([]byte("first second")), roomy); err != nil {
		t.Error(err)
	}
}
