package depot

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"
)

// patience is how many times the grace a blob is kept at the most while others are being pushed to its repository.
const patience = 24

// Collect gives up uploads that were left alone and removes what nothing names any more: manifests without a tag after
// their time, and blobs of no manifest after the grace. It may be called while images are pushed and pulled.
func (d *Depot) Collect(ctx context.Context, now time.Time) error {
	var errs []error
	for _, id := range d.restingUploads("", d.config.Abandoned, now) {
		err := d.giveUp(ctx, id)
		if err == nil {
			d.mu.Lock()
			d.counters.Abandoned++
			d.mu.Unlock()
		}
		errs = append(errs, err)
	}
	inUse, err := d.inUse(ctx)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	for _, r := range d.all() {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		d.mu.Lock()
		stale := d.prune(r, r.document.clone(), now, inUse)
		d.mu.Unlock()
		if !stale {
			continue
		}
		errs = append(errs, d.sparing(ctx, r.name, func(doc *document) { d.prune(r, doc, now, inUse) }))
	}
	return errors.Join(errs...)
}

// inUse returns what Config.InUse does; of all manifests that they are in use where nothing is known.
func (d *Depot) inUse(ctx context.Context) (func(Digest) bool, error) {
	if d.config.InUse == nil {
		return func(Digest) bool { return true }, nil
	}
	return d.config.InUse(ctx)
}

func (d *Depot) all() []*repository {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Values(d.repositories))
}

// sparing changes a repository, which may have gone, by an edit that takes something out; d.mu is held during the edit.
func (d *Depot) sparing(ctx context.Context, name string, edit func(*document)) error {
	err := d.tryChange(ctx, name, false, 0, func(doc *document) error {
		d.mu.Lock()
		defer d.mu.Unlock()
		edit(doc)
		return nil
	})
	if errors.Is(err, ErrUnknownRepository) {
		return nil
	}
	return err
}

// idleManifest is one that could make room.
type idleManifest struct {
	r      *repository
	digest Digest
	age    time.Duration
}

// breakOff is how long an upload may rest where its namespace has no room for others.
const breakOff = 5 * time.Minute

// makeRoom gives up uploads that were broken off, and removes manifests without tags, the oldest first, until a namespace
// has the room that it lacked; it tells whether there is any more than before. No repository's turn may be held.
func (d *Depot) makeRoom(ctx context.Context, full *QuotaError) bool {
	if d.config.InUse == nil {
		return false
	}
	inUse, err := d.config.InUse(ctx)
	if err != nil {
		d.config.Log.Warn("no room is made for an image", "namespace", full.Namespace, "err", err)
		return false
	}
	before, now := d.taken(full.Namespace), time.Now()
	d.giveUpResting(ctx, full.Namespace)
	for _, idle := range d.idleManifests(full.Namespace, now, inUse) {
		if before-d.taken(full.Namespace) >= full.Over {
			break
		}
		err := d.sparing(ctx, idle.r.name, func(doc *document) { d.sacrifice(idle, doc, now) })
		if err != nil {
			d.config.Log.Warn("no room is made for an image", "namespace", full.Namespace, "err", err)
			return false
		}
	}
	return d.taken(full.Namespace) < before
}

// sacrifice takes a manifest out of its repository's document, if it is still idle, with the blobs that it alone needed;
// d.mu is held.
func (d *Depot) sacrifice(idle idleManifest, doc *document, now time.Time) {
	if !slices.Contains(doc.idleManifests(), idle.digest) {
		return
	}
	m := doc.Manifests[idle.digest]
	doc.remove(idle.digest)
	for _, digest := range doc.idleBlobs() {
		if slices.Contains(m.Blobs, digest) && idle.r.age(digest, doc.Blobs[digest].Added, now) > d.config.Grace {
			delete(doc.Blobs, digest)
		}
	}
}

// idleManifests returns those of a namespace that nobody needs and that are older than the grace, the oldest first.
func (d *Depot) idleManifests(namespace string, now time.Time, inUse func(Digest) bool) []idleManifest {
	d.mu.Lock()
	defer d.mu.Unlock()
	var found []idleManifest
	for name, r := range d.repositories {
		if NamespaceOf(name) != namespace {
			continue
		}
		for _, digest := range r.document.idleManifests() {
			age := r.age(digest, r.document.Manifests[digest].Added, now)
			if age > d.config.Grace && !inUse(digest) {
				found = append(found, idleManifest{r, digest, age})
			}
		}
	}
	slices.SortFunc(found, func(a, b idleManifest) int { return cmp.Compare(b.age, a.age) })
	return found
}

// restingUploads returns the uploads to a namespace, or to all where that is "", that nobody works on and to which nothing
// has come for some time.
func (d *Depot) restingUploads(namespace string, rest time.Duration, now time.Time) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var resting []string
	for id, u := range d.uploads {
		ofIt := namespace == "" || NamespaceOf(u.repository) == namespace
		if ofIt && len(u.turn) == 0 && now.Sub(u.touched) > rest {
			resting = append(resting, id)
		}
	}
	return resting
}

// prune takes what is stale out of a repository's document, and tells whether there was any; d.mu is held.
func (d *Depot) prune(r *repository, doc *document, now time.Time, inUse func(Digest) bool) bool {
	before := doc.entries()
	for _, digest := range doc.idleManifests() {
		if r.age(digest, doc.Manifests[digest].Added, now) > d.config.Untagged && !inUse(digest) {
			doc.remove(digest)
		}
	}
	d.pruneBlobs(r, doc, now)
	return doc.entries() < before
}

// pruneBlobs takes the blobs of no manifest out; d.mu is held.
func (d *Depot) pruneBlobs(r *repository, doc *document, now time.Time) {
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
