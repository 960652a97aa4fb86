package sandboxtest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"edgepod/wasmrt/sandbox"
)

// everything asks for the removal of whatever may be removed.
var everything = sandbox.CollectRequest{Free: 1 << 50}

func testImages(t *testing.T, s *Subject) {
	began := time.Now()
	box := s.create(t, "images")
	st := s.start(t, box, "c-0", "sleep")
	image := s.image(t, st.Digest)
	if image == nil {
		t.Fatalf("the list of images lacks %s, which runs", st.Digest)
	}
	if image.Size <= 0 || image.ID == "" || !slices.Contains(image.Refs, s.Image) || image.LastUsed.Before(began.Add(-time.Minute)) {
		t.Errorf("image %+v", *image)
	}
	s.collect(t, everything, false, st.Digest, "it runs")
	if err := box.Stop(t.Context(), "c-0", 0); err != nil {
		t.Fatal(err)
	}
	s.collect(t, sandbox.CollectRequest{Free: 1 << 50, MinAge: time.Hour}, false, st.Digest, "it was used a moment ago")
	s.collect(t, sandbox.CollectRequest{MaxAge: time.Hour}, false, st.Digest, "it is not that old")
	s.collect(t, sandbox.CollectRequest{}, false, st.Digest, "nothing is to be freed")
	spec := s.spec(t, "c-2", "exit", "0")
	s.collect(t, everything, true, st.Digest, "nothing uses it")
	var gone *sandbox.ImageError
	if _, err := box.Start(t.Context(), spec); !errors.As(err, &gone) || gone.Reason != sandbox.ReasonErrImagePull {
		t.Errorf("start of an image that has gone: %v, want an ImageError that it is to be pulled", err)
	}
	if _, err := s.Runtime.Pull(t.Context(), sandbox.PullRequest{Ref: s.Image, Policy: sandbox.PullIfNotPresent}); err != nil {
		t.Errorf("pull after the image was collected: %v", err)
	}
	s.start(t, box, "c-1", "exit", "0")
	if exit := await(t, box, "c-1"); exit.Code != 0 {
		t.Errorf("a container of an image that was collected and pulled again: %+v", exit)
	}
}

// collect removes images and tells whether that with the digest should have gone, for the reason why.
func (s *Subject) collect(t *testing.T, req sandbox.CollectRequest, goes bool, digest, why string) {
	t.Helper()
	before := s.image(t, digest)
	got, err := s.Runtime.CollectImages(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if gone := s.image(t, digest) == nil; gone != goes {
		t.Errorf("collecting %+v removed %d images; gone: %v, want %v, since %s", req, got.Images, gone, goes, why)
	}
	if goes && (got.Images < 1 || got.Bytes < before.Size) {
		t.Errorf("collected %+v, and the image alone had %d bytes", got, before.Size)
	}
}

// image is the one with the digest in the list of images, nil for none.
func (s *Subject) image(t *testing.T, digest string) *sandbox.StoredImage {
	t.Helper()
	all, err := s.Runtime.Images(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(i sandbox.StoredImage) bool { return i.Digest == digest })
	if i < 0 {
		return nil
	}
	return &all[i]
}
