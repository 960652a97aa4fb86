package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"edgepod/wasmrt/sandbox"
)

// ImageGC says when images that no container uses are removed from the node. A zero field takes the default, that of the
// kubelet.
type ImageGC struct {
	// HighPercent of the data folder's disk in use lets images go, those unused for longest first, until LowPercent is; 85
	// and 80. With HighPercent 100 none goes for the disk.
	HighPercent, LowPercent int
	// MaxAge is how long an image may lie unused, and MaxSize how many bytes all of them may take; 0: no bound.
	MaxAge  time.Duration
	MaxSize int64
	// MinAge keeps what was used since: 2 min.
	MinAge time.Duration
	// Period is how often all that is looked at: 5 min.
	Period time.Duration
}

func (g *ImageGC) complete() error {
	g.HighPercent = cmp.Or(g.HighPercent, 85)
	g.LowPercent = cmp.Or(g.LowPercent, min(80, g.HighPercent-1))
	g.MinAge = cmp.Or(g.MinAge, 2*time.Minute)
	g.Period = cmp.Or(g.Period, 5*time.Minute)
	switch {
	case g.HighPercent < 1 || g.HighPercent > 100:
		return fmt.Errorf("the disk usage at which images go is %d percent, and must be 1 to 100", g.HighPercent)
	case g.LowPercent < 0 || g.LowPercent >= g.HighPercent:
		return fmt.Errorf("images go from a disk usage of %d percent on, and must do so until less than that, not %d percent", g.HighPercent, g.LowPercent)
	case g.MaxAge < 0 || g.MaxSize < 0:
		return errors.New("the age and the size of images can't be bounded by less than nothing")
	case g.MaxAge > 0 && g.MaxAge < g.MinAge:
		return fmt.Errorf("images unused for %v can't go, because those used within the last %v stay", g.MaxAge, g.MinAge)
	}
	return nil
}

// request is what is to be collected on a disk of that size with so much free, where images take stored bytes. For is how
// many bytes are wanted of it for the disk's sake.
func (g *ImageGC) request(size, free, stored int64) (req sandbox.CollectRequest, disk int64) {
	if size > 0 && g.HighPercent < 100 && 100-free*100/size >= int64(g.HighPercent) {
		disk = size/100*int64(100-g.LowPercent) - free
	}
	over := int64(0)
	if g.MaxSize > 0 {
		over = stored - g.MaxSize
	}
	return sandbox.CollectRequest{MaxAge: g.MaxAge, MinAge: g.MinAge, Free: max(disk, over, 0)}, disk
}

// keepImages removes images from time to time until ctx ends.
func (a *Agent) keepImages(ctx context.Context) {
	for {
		sleep(ctx, a.ImageGC.Period)
		if ctx.Err() != nil {
			return
		}
		if err := a.collectImages(ctx); err != nil && ctx.Err() == nil {
			a.Log.Warn("remove unused images", "err", err)
			a.nodeWarning(ctx, "ImageGCFailed", err.Error())
		}
	}
}

func (a *Agent) collectImages(ctx context.Context) error {
	images, err := a.Runtime.Images(ctx)
	if err != nil {
		return err
	}
	stored := int64(0)
	for _, image := range images {
		stored += image.Size
	}
	size, free, _ := diskSpace(a.DataDir)
	request, disk := a.ImageGC.request(size, free, stored)
	got, err := a.Runtime.CollectImages(ctx, request)
	if got.Images > 0 {
		a.images.stale.Store(true)
		a.Log.Info("unused images are removed", "images", got.Images, "bytes", got.Bytes)
	}
	if err == nil && got.Bytes < disk {
		a.nodeWarning(ctx, "FreeDiskSpaceFailed", fmt.Sprintf(
			"Failed to garbage collect required amount of images. Attempted to free %d bytes, but only found %d bytes eligible to free.", disk, got.Bytes))
	}
	return err
}

// imageList is what the node's status says of images. It is read anew where that is due, or a pull or a collection has made
// it stale.
type imageList struct {
	stale atomic.Bool
	last  []corev1.ContainerImage // of keepNode's goroutine
}

func (a *Agent) listImages(ctx context.Context, due bool) []corev1.ContainerImage {
	l := &a.images
	if !l.stale.Swap(false) && !due {
		return l.last
	}
	images, err := a.Runtime.Images(ctx)
	if err != nil {
		l.stale.Store(true)
		if ctx.Err() == nil {
			a.Log.Warn("list images", "err", err)
		}
		return l.last
	}
	l.last = nodeImages(images)
	return l.last
}

// nodeWarning records an event of the node, if the API tells which node that is.
func (a *Agent) nodeWarning(ctx context.Context, reason, message string) {
	node, err := a.getNode(ctx)
	if err != nil {
		a.Log.Warn("event of the node is lost", "node", a.NodeName, "reason", reason, "message", message, "err", err)
		return
	}
	ref := &corev1.ObjectReference{Kind: "Node", Name: a.NodeName, UID: node.UID}
	a.events.Event(ref, corev1.EventTypeWarning, reason, message)
}

// The most images that the node's status lists, and names of each, as the kubelet has them.
const (
	maxNodeImages = 50
	maxImageNames = 5
)

// nodeImages is what the node's status says of images: the largest first.
func nodeImages(images []sandbox.StoredImage) []corev1.ContainerImage {
	images = slices.Clone(images)
	slices.SortFunc(images, func(a, b sandbox.StoredImage) int {
		return cmp.Or(cmp.Compare(b.Size, a.Size), cmp.Compare(a.Digest, b.Digest))
	})
	var out []corev1.ContainerImage
	for _, image := range images[:min(len(images), maxNodeImages)] {
		names := slices.Clone(image.Refs)
		slices.Sort(names)
		if repository, _, ok := strings.Cut(image.ID, "@"); ok && repository != "" {
			names = slices.Insert(names, 0, image.ID)
		}
		names = slices.Compact(names)
		if len(names) == 0 {
			names = []string{image.Digest}
		}
		out = append(out, corev1.ContainerImage{Names: names[:min(len(names), maxImageNames)], SizeBytes: image.Size})
	}
	return out
}
