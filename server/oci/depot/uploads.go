package depot

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// upload is a blob on its way in.
//
//	Begin ──► Append … Append ──► Finish ──► a blob of its repository
//	   └─────────┴──────────────► Cancel, or left alone for too long
//
// It outlives requests, connections and the process: what has come can be asked for, and sending goes on from there.
type upload struct {
	id, repository string
	// turn is held by the one who adds to it or ends it, who alone uses hash: that of the first hashed bytes.
	turn   chan struct{}
	hash   hash.Hash
	hashed int64
	// The rest is guarded by Depot.mu.
	size      int64
	touched   time.Time
	gone      bool
	waiting   int
	interrupt func() // makes the one whose turn it is stop reading; nil: it will soon be done
}

// uploadRecord is what the disk knows of an upload, beside its bytes.
type uploadRecord struct {
	Repository string `json:"repository"`
}

// Limits bound what an upload may bring.
type Limits struct {
	// Quota of the namespace and largest Blob, in bytes.
	Quota, Blob int64
}

func (d *Depot) uploadPath(id, kind string) string {
	return filepath.Join(d.config.Dir, uploadsDir, id+kind)
}

// Begin starts an upload to the repository and returns its id. Where the namespace has as many as it may, those that were
// broken off give way.
func (d *Depot) Begin(ctx context.Context, name string) (string, error) {
	var random [16]byte
	if _, err := rand.Read(random[:]); err != nil {
		return "", err
	}
	id, namespace := hex.EncodeToString(random[:]), NamespaceOf(name)
	if !d.takesUpload(namespace) {
		d.giveUpResting(ctx, namespace)
		if !d.takesUpload(namespace) {
			return "", ErrUploads
		}
	}
	err := d.record(id, name)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		d.usageOf(namespace).uploads--
		return "", err
	}
	d.uploads[id] = &upload{id: id, repository: name, turn: make(chan struct{}, 1), hash: sha256.New(), touched: time.Now()}
	return id, nil
}

// takesUpload counts another upload of a namespace, if it may have one.
func (d *Depot) takesUpload(namespace string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	u := d.usageOf(namespace)
	if u.uploads >= d.config.Uploads {
		return false
	}
	u.uploads++
	return true
}

// giveUpResting gives up the uploads of a namespace that were broken off.
func (d *Depot) giveUpResting(ctx context.Context, namespace string) {
	for _, id := range d.restingUploads(namespace, breakOff, time.Now()) {
		if err := d.giveUp(ctx, id); err != nil {
			d.config.Log.Warn("an upload that was broken off stays", "upload", id, "err", err)
		}
	}
}

// record writes down whose an upload is. It does not wait for the disk: an upload that a power cut takes is begun again.
func (d *Depot) record(id, name string) error {
	data, err := json.Marshal(uploadRecord{Repository: name})
	if err != nil {
		return err
	}
	return os.WriteFile(d.uploadPath(id, ".json"), data, 0o600)
}

// Size returns how many bytes of the upload have come.
func (d *Depot) Size(name, id string) (int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	u := d.uploads[id]
	if u == nil || u.repository != name {
		return 0, ErrUnknownUpload
	}
	return u.size, nil
}

// enter waits for the turn to work on an upload. Who has it now is interrupted, if that is possible: a client that comes
// again has given up its earlier connection, even if that is not known here yet.
func (d *Depot) enter(ctx context.Context, name, id string, interrupt func()) (*upload, error) {
	d.mu.Lock()
	u := d.uploads[id]
	if u == nil || u.repository != name {
		d.mu.Unlock()
		return nil, ErrUnknownUpload
	}
	u.waiting++
	other := u.interrupt
	d.mu.Unlock()
	if other != nil {
		other()
	}
	var err error
	select {
	case u.turn <- struct{}{}:
	case <-ctx.Done():
		err = ctx.Err()
	}
	d.mu.Lock()
	u.waiting--
	gone, wanted := u.gone, u.waiting > 0
	if err == nil && !gone {
		u.interrupt = interrupt
	}
	d.mu.Unlock()
	switch {
	case err != nil:
		return nil, err
	case gone:
		<-u.turn
		return nil, ErrUnknownUpload
	case wanted && interrupt != nil:
		interrupt()
	}
	return u, nil
}

func (d *Depot) leave(u *upload) {
	d.mu.Lock()
	u.interrupt = nil
	d.mu.Unlock()
	<-u.turn
}

// Append adds what body holds to the upload, whose size must be at; a negative at stands for whatever it is. It returns the
// size afterwards, also with an error: what has come before that stays, unless there is no room for more. Interrupt must make
// a Read of body return; it is called where another request takes the upload over, perhaps more than once, but not after
// Append has returned.
func (d *Depot) Append(ctx context.Context, name, id string, at int64, body io.Reader, limits Limits, interrupt func()) (int64, error) {
	u, err := d.enter(ctx, name, id, interrupt)
	if err != nil {
		return 0, err
	}
	defer d.leave(u)
	if at >= 0 && at != u.size {
		return u.size, &OffsetError{Want: at, Size: u.size}
	}
	err = d.receive(ctx, u, body, limits)
	var tooLarge *SizeError
	var full *QuotaError
	if errors.As(err, &tooLarge) || errors.As(err, &full) || errors.Is(err, ErrDiskFull) || errors.Is(err, syscall.ENOSPC) {
		d.remove(u) // so that what has come takes no room from others
	}
	return u.size, err
}

// receive is Append for the one whose turn it is.
func (d *Depot) receive(ctx context.Context, u *upload, body io.Reader, limits Limits) (err error) {
	file, err := os.OpenFile(d.uploadPath(u.id, ".data"), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	buf := make([]byte, 128<<10)
	for {
		n, readErr := body.Read(buf)
		if n > 0 {
			if err := d.add(ctx, u, file, buf[:n], limits); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(readErr, io.EOF):
			return nil
		case readErr != nil:
			return readErr
		}
	}
}

// add adds one piece.
func (d *Depot) add(ctx context.Context, u *upload, file *os.File, piece []byte, limits Limits) error {
	n := int64(len(piece))
	if u.size+n > limits.Blob {
		return &SizeError{limits.Blob}
	}
	if free, known := freeBytes(d.config.Dir); known && free-n < d.config.Spare {
		return ErrDiskFull
	}
	namespace := NamespaceOf(u.repository)
	err := d.reserve(namespace, n, limits.Quota)
	var full *QuotaError
	if errors.As(err, &full) && d.makeRoom(ctx, full) {
		err = d.reserve(namespace, n, limits.Quota)
	}
	if err != nil {
		return err
	}
	if _, err := file.WriteAt(piece, u.size); err != nil {
		d.release(namespace, n)
		return err
	}
	if u.hash != nil && u.hashed == u.size {
		u.hash.Write(piece)
		u.hashed += n
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	u.size += n
	u.touched = time.Now()
	d.counters.BytesIn += n
	return nil
}

// Finish makes the upload a blob of its repository. If its bytes are not those that the digest names, it is given up.
func (d *Depot) Finish(ctx context.Context, name, id string, digest Digest, quota int64) (int64, error) {
	u, err := d.enter(ctx, name, id, nil)
	if err != nil {
		return 0, err
	}
	defer d.leave(u)
	if err := d.verify(u, digest); err != nil {
		var mismatch *DigestError
		if errors.As(err, &mismatch) {
			d.remove(u)
		}
		return 0, err
	}
	if err := d.place(d.uploadPath(u.id, ".data"), digest, u.size); err != nil {
		return 0, err
	}
	defer d.unpin(digest)
	d.remove(u)
	return u.size, d.change(ctx, name, true, quota, func(doc *document) error {
		doc.Blobs[digest] = blob{Size: u.size, Added: time.Now().UTC()}
		return nil
	})
}

// verify makes the upload's file hold exactly what has come, on disk, and compares it with the digest.
func (d *Depot) verify(u *upload, digest Digest) (err error) {
	file, err := os.OpenFile(d.uploadPath(u.id, ".data"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := file.Truncate(u.size); err != nil {
		return err
	}
	h := u.hash
	if algorithm, _ := digest.split(); algorithm != "sha256" || h == nil || u.hashed != u.size {
		h = digest.NewHash()
		if _, err := io.Copy(h, file); err != nil {
			return err
		}
	}
	if !digest.Matches(h) {
		return &DigestError{digest}
	}
	return file.Sync()
}

// Cancel gives an upload up.
func (d *Depot) Cancel(ctx context.Context, name, id string) error {
	u, err := d.enter(ctx, name, id, nil)
	if err != nil {
		return err
	}
	defer d.leave(u)
	d.remove(u)
	return nil
}

// giveUp is Cancel for the depot itself, of an upload that may have ended.
func (d *Depot) giveUp(ctx context.Context, id string) error {
	d.mu.Lock()
	u := d.uploads[id]
	d.mu.Unlock()
	if u == nil {
		return nil
	}
	if err := d.Cancel(ctx, u.repository, id); !errors.Is(err, ErrUnknownUpload) {
		return err
	}
	return nil
}

// remove ends an upload, for the one whose turn it is.
func (d *Depot) remove(u *upload) {
	for _, kind := range []string{".json", ".data"} {
		if err := os.Remove(d.uploadPath(u.id, kind)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			d.config.Log.Warn("the file of an ended upload is left behind", "upload", u.id, "err", err)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	u.gone = true
	delete(d.uploads, u.id)
	space := d.usageOf(NamespaceOf(u.repository))
	space.uploads--
	space.coming -= u.size
}
