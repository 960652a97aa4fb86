package depot

// usage is what a namespace's repositories take, each content counted once, and what uploads and changes under way will.
type usage struct {
	held    map[Digest]int
	stored  int64
	coming  int64
	uploads int
}

// Counters count what has happened since the depot was opened.
type Counters struct {
	// BytesIn were sent by uploads; Collected contents were removed, and CollectedBytes with them.
	BytesIn, Collected, CollectedBytes int64
	// Abandoned uploads were given up; Damaged contents were found to be others than their digests name.
	Abandoned, Damaged int64
}

// Stats are a depot's figures.
type Stats struct {
	Counters
	Repositories, Manifests, Tags, Uploads int
	Contents                               int
	Bytes                                  int64
}

// Stats returns the present figures.
func (d *Depot) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := Stats{Counters: d.counters, Contents: len(d.contents), Uploads: len(d.uploads)}
	for _, c := range d.contents {
		s.Bytes += c.size
	}
	for _, r := range d.repositories {
		if r.document.empty() {
			continue
		}
		s.Repositories++
		s.Manifests += len(r.document.Manifests)
		s.Tags += len(r.document.Tags)
	}
	return s
}

// Used returns how many bytes the namespace's repositories take.
func (d *Depot) Used(namespace string) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if u := d.usage[namespace]; u != nil {
		return u.stored
	}
	return 0
}

// taken returns how many bytes of its quota the namespace has used, those of uploads and changes under way included.
func (d *Depot) taken(namespace string) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	u := d.usageOf(namespace)
	return u.stored + u.coming
}

// usageOf returns the namespace's usage; d.mu is held.
func (d *Depot) usageOf(namespace string) *usage {
	u := d.usage[namespace]
	if u == nil {
		u = &usage{held: map[Digest]int{}}
		d.usage[namespace] = u
	}
	return u
}

// reserve lets the namespace grow by n bytes, until release.
func (d *Depot) reserve(namespace string, n, quota int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.reserveLocked(namespace, n, quota)
}

func (d *Depot) reserveLocked(namespace string, n, quota int64) error {
	u := d.usageOf(namespace)
	if n > 0 && u.stored+u.coming+n > quota {
		return &QuotaError{Namespace: namespace, Quota: quota, Used: u.stored, Over: u.stored + u.coming + n - quota}
	}
	u.coming += n
	return nil
}

func (d *Depot) release(namespace string, n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.usageOf(namespace).coming -= n
}
