package depot

import (
	"context"
	"errors"
	"time"
)

// patience is how many times the grace a blob is kept at the most while others are being pushed to its repository.
const patience = 24

// Collect gives up uploads that were left alone and removes what nothing names any more: manifests without a tag after
// their time, and blobs of no manifest after the grace. It may be called while images are pushed and pulled. InUse tells of
// a manifest that somebody needs by its digest; nil: of none is that known, and then none is removed.
func (d *Depot) Collect(ctx context.Context, now time.Time, inUse func(Digest) bool) error {
	var errs []error
	for _, id := range d.restingUploads(now) {
		err := d.giveUp(ctx, id)
		if err == nil {
			d.mu.Lock()
			d.counters.Abandoned++
			d.mu.Unlock()
		}
		errs = append(errs, err)
	}
	d.mu.Lock()
	repositories := make([]*repository, 0, len(d.repositories))
	for _, r := range d.repositories {
		repositories = append(repositories, r)
	}
	d.mu.Unlock()
	for _, r := range repositories {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		d.mu.Lock()
		stale := d.prune(r, r.document.clone(), now, inUse)
		d.mu.Unlock()
		if !stale {
			continue
		}
		err := d.change(ctx, r.name, false, 0, func(doc *document) error {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.prune(r, doc, now, inUse)
			return nil
		})
		if !errors.Is(err, ErrUnknownRepository) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (d *Depot) restingUploads(now time.Time) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var resting []string
	for id, u := range d.uploads {
		if now.Sub(u.touched) > d.config.Abandoned {
			resting = append(resting, id)
		}
	}
	return resting
}

// prune takes what is stale out of a repository's document, and tells whether there was any; d.mu is held.
func (d *Depot) prune(r *repository, doc *document, now time.Time, inUse func(Digest) bool) bool {
	before := doc.entries()
	for _, digest := range doc.idleManifests() {
		if inUse != nil && !inUse(digest) && r.age(digest, doc.Manifests[digest].Added, now) > d.config.Untagged {
			doc.remove(digest)
		}
	}
	idle := doc.idleBlobs()
	busy := d.receiving(r.name)
	for _, digest := range idle {
		busy = busy || r.age(digest, doc.Blobs[digest].Added, now) <= d.config.Grace
	}
	for _, digest := range idle {
		age := r.age(digest, doc.Blobs[digest].Added, now)
		if age > d.config.Grace && (!busy || age > patience*d.config.Grace) {
			delete(doc.Blobs, digest)
		}
	}
	return doc.entries() < before
}

// age is the time since the content was added or asked for.
func (r *repository) age(digest Digest, added, now time.Time) time.Duration {
	if asked := r.asked[digest]; asked.After(added) {
		added = asked
	}
	return now.Sub(added)
}

// receiving tells whether something is being uploaded to the repository.
func (d *Depot) receiving(name string) bool {
	for _, u := range d.uploads {
		if u.repository == name {
			return true
		}
	}
	return false
}
