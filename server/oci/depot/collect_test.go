package depot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// aging is a depot in a bubble whose clock a test moves on.
type aging struct {
	*Depot
	t    *testing.T
	used map[Digest]bool
}

func newAging(t *testing.T) *aging {
	a := &aging{t: t, used: map[Digest]bool{}}
	a.Depot = open(t, t.TempDir(), func(config *Config) {
		config.Grace, config.Abandoned, config.Untagged = time.Hour, 2*time.Hour, 48*time.Hour
		config.InUse = func(context.Context) (func(Digest) bool, error) {
			return func(digest Digest) bool { return a.used[digest] }, nil
		}
	})
	return a
}

// pass lets time pass, and collects.
func (a *aging) pass(d time.Duration) {
	a.t.Helper()
	time.Sleep(d)
	if err := a.Collect(a.t.Context(), time.Now()); err != nil {
		a.t.Fatal(err)
	}
}

// has tells of something that was asked for whether it is there as it should be.
func (a *aging) has(what string, want bool, err error) {
	a.t.Helper()
	if (err == nil) != want {
		a.t.Errorf("%s: there %v (%v), want %v", what, err == nil, err, want)
	}
}

func (a *aging) blob(digest Digest) error {
	file, _, err := a.Blob("a/app", digest)
	if err == nil {
		file.Close()
	}
	return err
}

func (a *aging) manifest(digest Digest) error {
	_, _, err := a.Manifest(a.t.Context(), "a/app", string(digest))
	return err
}

func TestBlobsAndUploadsThatNobodyNeedsAreCollectedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newAging(t)
		kept := d.push(t, "a/app", []byte("kept"))
		d.put(t, "a/app", "v1", "one", kept)
		idle := d.push(t, "a/app", []byte("idle"))
		d.push(t, "b/other", []byte("idle"))

		d.pass(59 * time.Minute)
		d.has("a blob within the grace", true, d.blob(idle)) // which is asked for by this
		d.pass(59 * time.Minute)
		d.has("a blob that was asked for within the grace", true, d.blob(idle))
		d.pass(61 * time.Minute)
		d.has("a blob of no manifest", false, d.blob(idle))
		d.has("a manifest's blob", true, d.blob(kept))

		first := d.push(t, "a/app", []byte("first of a slow push"))
		time.Sleep(50 * time.Minute)
		d.push(t, "a/app", []byte("second of a slow push"))
		d.pass(50 * time.Minute)
		d.has("a blob of a push that goes on", true, d.blob(first))

		id, err := d.Begin(t.Context(), "a/app")
		d.has("an upload", true, err)
		d.pass(119 * time.Minute)
		_, err = d.Size("a/app", id)
		d.has("an upload that rests", true, err)
		d.pass(2 * time.Minute)
		_, err = d.Size("a/app", id)
		d.has("an upload that was left alone", false, err)
	})
}

func TestManifestsThatNothingNamesAreCollectedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newAging(t)
		tagged, listed, needed, loose := d.put(t, "a/app", "t", "tagged"), d.put(t, "a/app", "", "listed"),
			d.put(t, "a/app", "", "needed"), d.put(t, "a/app", "", "loose", d.push(t, "a/app", []byte("kept")))
		d.used[needed] = true
		put := func(text, tag string, m Manifest) Digest {
			data := []byte(text)
			m.Digest, m.MediaType, m.Size = DigestOf(data), "m", int64(len(data))
			if err := d.PutManifest(t.Context(), "a/app", tag, m, data, roomy); err != nil {
				t.Fatal(err)
			}
			return m.Digest
		}
		put("index", "index", Manifest{Manifests: []Digest{listed}})
		attached := put("signature", "", Manifest{Subject: tagged})
		d.pass(49 * time.Hour)
		for what, digest := range map[string]Digest{"a tagged": tagged, "a listed": listed, "a needed": needed, "an attached": attached} {
			d.has(what+" manifest", true, d.manifest(digest))
		}
		d.has("a manifest that nothing names", false, d.manifest(loose))
		if err := d.DeleteManifest(t.Context(), "a/app", tagged); err != nil {
			t.Fatal(err)
		}
		d.pass(49 * time.Hour)
		d.has("a manifest about one that is gone", false, d.manifest(attached))
	})
}

func TestOldManifestsWithoutTagsMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		needed := DigestOf([]byte("manifest build 1"))
		d := open(t, t.TempDir(), func(config *Config) {
			config.InUse = func(context.Context) (func(Digest) bool, error) {
				return func(digest Digest) bool { return digest == needed }, nil
			}
		})
		builds := map[int]Digest{}
		for build := range 5 {
			layer := d.push(t, "a/app", bytes.Repeat([]byte{byte(build)}, 1000))
			builds[build] = d.put(t, "a/app", "latest", fmt.Sprint("build ", build), layer)
			time.Sleep(time.Hour)
		}
		there := func() (numbers []int) {
			for build := range len(builds) {
				if _, _, err := d.Manifest(t.Context(), "a/app", string(builds[build])); err == nil {
					numbers = append(numbers, build)
				}
			}
			return numbers
		}
		push := func(size int, quota int64) error {
			id, err := d.Begin(t.Context(), "a/app")
			if err != nil {
				return err
			}
			data := bytes.Repeat([]byte("new"), size/3)
			if _, err := d.Append(t.Context(), "a/app", id, 0, bytes.NewReader(data), Limits{quota, roomy}, nil); err != nil {
				return errors.Join(err, d.Cancel(t.Context(), "a/app", id))
			}
			_, err = d.Finish(t.Context(), "a/app", id, DigestOf(data), quota)
			return err
		}
		quota := d.Used("a") + 100
		if err := push(900, quota); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]int{1, 2, 3, 4}, there()); diff != "" {
			t.Errorf("after one had to go: %s", diff)
		}
		// What was asked for just now is not old.
		if err := push(1500, quota); err == nil {
			t.Error("there was room where there is none")
		}
		time.Sleep(2 * time.Hour)
		if err := push(1500, quota); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]int{1, 4}, there()); diff != "" {
			t.Errorf("after two more had to go: %s", diff)
		}
		var full *QuotaError
		if err := push(2400, quota); !errors.As(err, &full) {
			t.Errorf("with nothing that could go: %v", err)
		}
		if diff := cmp.Diff([]int{1, 4}, there()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestUploadsThatWereBrokenOffMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, t.TempDir(), func(config *Config) {
			config.InUse = func(context.Context) (func(Digest) bool, error) { return func(Digest) bool { return false }, nil }
		})
		send := func(id string) error {
			_, err := d.Append(t.Context(), "a/app", id, -1, bytes.NewReader(make([]byte, 600)), Limits{1000, roomy}, nil)
			return err
		}
		broken, err := d.Begin(t.Context(), "a/app")
		if err != nil {
			t.Fatal(err)
		}
		if err := send(broken); err != nil {
			t.Fatal(err)
		}
		for _, rest := range []time.Duration{4 * time.Minute, 2 * time.Minute} {
			time.Sleep(rest)
			other, err := d.Begin(t.Context(), "a/app")
			if err != nil {
				t.Fatal(err)
			}
			if err := send(other); (err == nil) != (rest == 2*time.Minute) {
				t.Errorf("after %v more: %v", rest, err)
			}
		}
		if _, err := d.Size("a/app", broken); !errors.Is(err, ErrUnknownUpload) {
			t.Errorf("the upload that was broken off: %v", err)
		}
	})
}
