package image

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"edgepod/wasmrt/atomicfile"
	"edgepod/wasmrt/image/remote"
)

// fruitless is how many attempts in a row at a blob may bring nothing.
const fruitless = 3

// fetchAll makes sure that the store has these blobs, several at a time.
func (s *Store) fetchAll(ctx context.Context, repo *remote.Repository, blobs []v1.Descriptor) error {
	const most = 3
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(most)
	for _, d := range blobs {
		group.Go(func() error { return s.fetch(ctx, repo, d) })
	}
	return group.Wait()
}

// fetchSmall returns a blob that is small enough for memory. It is not stored.
func (s *Store) fetchSmall(ctx context.Context, repo *remote.Repository, d v1.Descriptor) ([]byte, error) {
	blob, err := repo.Blob(ctx, d.Digest.String(), 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = blob.Close() }()
	var content bytes.Buffer
	sum := sha256.New()
	if _, err := io.Copy(io.MultiWriter(&content, sum), io.LimitReader(blob, d.Size+1)); err != nil {
		return nil, err
	}
	return content.Bytes(), verify(d, int64(content.Len()), sum)
}

// verify tells whether what came is what the descriptor announced.
func verify(d v1.Descriptor, size int64, sum hash.Hash) error {
	if got := hex.EncodeToString(sum.Sum(nil)); size != d.Size || got != d.Digest.Hex {
		return &damagedError{fmt.Sprintf("the registry sent something else than announced: %d bytes with digest sha256:%s in place of %d with %s",
			size, got, d.Size, d.Digest)}
	}
	return nil
}

// damagedError is about content that is not what its digest says.
type damagedError struct{ text string }

func (e *damagedError) Error() string { return e.text }

// fetch makes sure that the store has a blob. What an earlier attempt left of it is used. Pulls from one repository take
// turns; those from another, which may be slow, are not waited for.
func (s *Store) fetch(ctx context.Context, repo *remote.Repository, d v1.Descriptor) error {
	turn := repo.Name() + " " + d.Digest.Hex
	if err := s.busy.lock(ctx, turn); err != nil {
		return err
	}
	defer s.busy.unlock(turn)
	if s.hasBlob(d) {
		return nil
	}
	p, err := s.openPartial(d)
	if err != nil {
		return fmt.Errorf("store a layer: %w", err)
	}
	defer p.close()
	resumed := p.size > 0
	err = p.download(ctx, repo, d)
	if damaged := (*damagedError)(nil); errors.As(err, &damaged) && resumed {
		if err = p.restart(); err == nil { // the damage may have been in what was there before
			err = p.download(ctx, repo, d)
		}
	}
	if damaged := (*damagedError)(nil); errors.As(err, &damaged) {
		err = errors.Join(err, p.restart())
	}
	if err != nil {
		return err
	}
	return p.finish(s.path(blobDir, d.Digest.Hex))
}

// hasBlob tells whether the store has a blob, and keeps it from being collected as left over for a while.
func (s *Store) hasBlob(d v1.Descriptor) bool {
	path := s.path(blobDir, d.Digest.Hex)
	info, err := os.Stat(path)
	if err != nil || info.Size() != d.Size || !info.Mode().IsRegular() {
		return false
	}
	now := time.Now()
	return os.Chtimes(path, now, now) == nil
}

// partial is the beginning of a blob. Only one process at a time writes to it.
type partial struct {
	file *os.File
	path string
	// private is set for one that is of no use to others, since another process is at work on the shared one.
	private bool
	sum     hash.Hash
	size    int64
}

func (s *Store) openPartial(d v1.Descriptor) (*partial, error) {
	p := &partial{path: s.path(partialDir, d.Digest.Hex)}
	f, err := os.OpenFile(p.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if !claim(f, p.path) {
		_ = f.Close() // nothing was written
		if f, err = os.CreateTemp(s.staging(), "blob-*"); err != nil {
			return nil, err
		}
		p.private, p.path = true, f.Name()
	}
	p.file = f
	if err := p.reread(d.Size); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// claim locks a file, and tells whether that went well and it still is the one at path.
func claim(f *os.File, path string) bool {
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return false
	}
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(path)
	return err == nil && os.SameFile(mine, named)
}

// reread takes up what is there.
func (p *partial) reread(limit int64) (err error) {
	p.sum = sha256.New()
	p.size, err = io.Copy(p.sum, io.LimitReader(p.file, limit+1))
	if err == nil && p.size > limit {
		return p.restart()
	}
	return err
}

func (p *partial) restart() error {
	p.sum, p.size = sha256.New(), 0
	if _, err := p.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return p.file.Truncate(0)
}

// download fetches what is missing, through cuts, and checks the whole.
func (p *partial) download(ctx context.Context, repo *remote.Repository, d v1.Descriptor) error {
	for failed := 0; p.size < d.Size; {
		before := p.size
		err := p.more(ctx, repo, d)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if p.size >= d.Size && err == nil {
			break
		}
		if err == nil {
			err = fmt.Errorf("the registry ended after %d of %d bytes of a layer", p.size, d.Size)
		}
		if failed++; p.size > before {
			failed = 0
		}
		var status *remote.StatusError
		var local *fs.PathError
		if failed >= fruitless || errors.As(err, &status) || errors.As(err, &local) {
			return err
		}
	}
	return verify(d, p.size, p.sum)
}

// more makes one request.
func (p *partial) more(ctx context.Context, repo *remote.Repository, d v1.Descriptor) error {
	blob, err := repo.Blob(ctx, d.Digest.String(), p.size)
	if err != nil {
		return err
	}
	defer func() { _ = blob.Close() }()
	if blob.Offset != p.size {
		if err := p.restart(); err != nil {
			return err
		}
	}
	// One byte too many is enough to see that there are.
	n, err := io.Copy(io.MultiWriter(p.file, p.sum), io.LimitReader(blob, d.Size-p.size+1))
	p.size += n
	return err
}

// finish gives the blob its place.
func (p *partial) finish(path string) error {
	if err := p.file.Sync(); err != nil {
		return err
	}
	if err := os.Rename(p.path, path); err != nil {
		return err
	}
	return atomicfile.SyncDir(filepath.Dir(path))
}

// close lets go of the file. One that is private and not finished is removed.
func (p *partial) close() {
	if p.private {
		_ = os.Remove(p.path) // gone where it has been finished
	}
	_ = p.file.Close() // what counts has been synced
}
