package agent

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"edgepod/wasmrt/sandbox"
)

func TestImagesGoAsTheKubeletsDo(t *testing.T) {
	const gib = 1 << 30
	for _, tt := range []struct {
		name               string
		gc                 ImageGC
		size, free, stored int64
		want, wantDisk     int64
	}{
		{name: "plenty of space", size: 100 * gib, free: 50 * gib, stored: gib},
		{name: "just under the threshold", size: 100 * gib, free: 16 * gib},
		{name: "at the threshold", size: 100 * gib, free: 15 * gib, want: 5 * gib, wantDisk: 5 * gib},
		{name: "full", size: 100 * gib, want: 20 * gib, wantDisk: 20 * gib},
		{name: "full, and disk does not count", gc: ImageGC{HighPercent: 100}, size: 100 * gib},
		{name: "disk of unknown size"},
		{name: "more than images may take", gc: ImageGC{MaxSize: gib}, size: 100 * gib, free: 50 * gib, stored: 3 * gib, want: 2 * gib},
		{name: "the larger of both", gc: ImageGC{MaxSize: gib}, size: 100 * gib, stored: 3 * gib, want: 20 * gib, wantDisk: 20 * gib},
		{name: "own thresholds", gc: ImageGC{HighPercent: 50, LowPercent: 40}, size: 100 * gib, free: 49 * gib, want: 11 * gib, wantDisk: 11 * gib},
		{name: "only a high one", gc: ImageGC{HighPercent: 60}, size: 100 * gib, free: 30 * gib, want: 11 * gib, wantDisk: 11 * gib},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.gc.complete(); err != nil {
				t.Fatal(err)
			}
			got, disk := tt.gc.request(tt.size, tt.free, tt.stored)
			want := sandbox.CollectRequest{Free: tt.want, MinAge: 2 * time.Minute}
			if max(disk, 0) != tt.wantDisk || !cmp.Equal(got, want) {
				t.Errorf("request(%d, %d, %d) = %+v, %d; want %+v, %d", tt.size, tt.free, tt.stored, got, disk, want, tt.wantDisk)
			}
		})
	}
}

func TestImageGCRefusesWhatCannotBeMeant(t *testing.T) {
	for want, gc := range map[string]ImageGC{
		"101 percent":       {HighPercent: 101},
		"must be 1 to 100":  {HighPercent: -1, LowPercent: -2},
		"not 85 percent":    {LowPercent: 85},
		"not -3 percent":    {LowPercent: -3},
		"less than nothing": {MaxSize: -1},
		"within the last":   {MaxAge: time.Second},
	} {
		if err := gc.complete(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want one about %q", gc, err, want)
		}
	}
}

func TestNodeListsItsLargestImages(t *testing.T) {
	got := nodeImages([]sandbox.StoredImage{
		{Digest: "sha256:bb", ID: "sha256:bb", Refs: []string{"./b.wasm"}, Size: 2},
		{Digest: "sha256:cc", ID: "r.example/c@sha256:cc", Refs: []string{"r.example/c:v1", "c", "c", "d", "e", "f"}, Size: 3},
		{Digest: "sha256:aa", Size: 1},
	})
	want := []corev1.ContainerImage{
		{Names: []string{"r.example/c@sha256:cc", "c", "d", "e", "f"}, SizeBytes: 3},
		{Names: []string{"./b.wasm"}, SizeBytes: 2},
		{Names: []string{"sha256:aa"}, SizeBytes: 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("images (-want +got):\n%s", diff)
	}
	many := make([]sandbox.StoredImage, 2*maxNodeImages)
	for i := range many {
		many[i] = sandbox.StoredImage{Digest: fmt.Sprint(i), Size: int64(i)}
	}
	if got := nodeImages(many); len(got) != maxNodeImages || got[0].SizeBytes != int64(len(many)-1) {
		t.Errorf("%d images, the first of %d bytes", len(got), got[0].SizeBytes)
	}
}
