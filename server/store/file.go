package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
)

const (
	// A file is rewritten if it is larger than compactMin and compactRatio times what is in it.
	compactMin   = 16 << 20
	compactRatio = 3
	compactBatch = 8 << 20
	compactTurns = 1000 // a leader looks whether to do it as often
	// lockWait is for the moment that a killed process takes to go; somebody who lives holds the lock for longer.
	lockWait = time.Second
	lockPoll = 20 * time.Millisecond
)

// openDisk takes the lock, makes the file if there is none, and checks it.
func openDisk(path string, log *slog.Logger) (*disk, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	lock, err := lockFile(path + ".lock")
	if err != nil {
		return nil, err
	}
	d := &disk{path: path, log: log, lock: lock}
	if err := d.open(); err != nil {
		lock.Close()
		return nil, err
	}
	return d, nil
}

func (d *disk) open() error {
	if err := removeIfThere(d.path + ".new"); err != nil {
		return err
	}
	if _, err := os.Stat(d.path); errors.Is(err, os.ErrNotExist) {
		if err := d.create(); err != nil {
			return fmt.Errorf("create store %s: %w", d.path, err)
		}
	}
	if err := d.check(); err != nil {
		return err
	}
	db, err := openBolt(d.path)
	if err != nil {
		return d.damaged(err)
	}
	d.db = db
	if err := d.checkSchema(); err != nil {
		d.db.Close()
		return err
	}
	return nil
}

// damaged says what the user can do about a broken file.
func (d *disk) damaged(err error) error {
	const hint = "restore a backup of it, or move it away to begin with an empty store"
	return fmt.Errorf("%w: %s: %w (%s)", ErrDamaged, d.path, err, hint)
}

// create makes an empty store beside PATH and moves it there, so that PATH is whole whenever it exists.
func (d *disk) create() error {
	db, err := openBolt(d.path + ".new")
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{objectsBucket, logBucket} {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		meta, err := tx.CreateBucket(metaBucket)
		if err != nil {
			return err
		}
		if err := meta.Put(schemaKey, binary.BigEndian.AppendUint32(nil, schemaVersion)); err != nil {
			return err
		}
		return putState(tx, state{last: 1, ceiling: 2, clean: true})
	})
	if err = errors.Join(err, db.Close()); err != nil {
		return err
	}
	if err := os.Rename(d.path+".new", d.path); err != nil {
		return err
	}
	return d.syncFolder()
}

// syncFolder makes a rename in PATH's folder last.
func (d *disk) syncFolder() error {
	dir, err := os.Open(filepath.Dir(d.path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// check looks at the file before bbolt does.
func (d *disk) check() error {
	file, err := os.Open(d.path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("store %s is not a file", d.path)
	}
	if info.Mode().Perm()&0o077 != 0 {
		if err := file.Chmod(0o600); err != nil {
			return fmt.Errorf("store %s can be read by others: %w", d.path, err)
		}
	}
	meta, err := checkFile(file, info.Size())
	if err != nil {
		return d.damaged(err)
	}
	if meta.single {
		d.log.Warn("one of the store's two header pages is invalid: a transaction that was under way is undone", "path", d.path)
	}
	return nil
}

func (d *disk) checkSchema() error {
	return recovered(func() error {
		return d.db.View(func(tx *bbolt.Tx) error {
			meta := tx.Bucket(metaBucket)
			if meta == nil || tx.Bucket(objectsBucket) == nil || tx.Bucket(logBucket) == nil {
				return d.damaged(errors.New("it is a bbolt file of another program"))
			}
			version := meta.Get(schemaKey)
			if len(version) != 4 {
				return d.damaged(errors.New("it has no schema version"))
			}
			if v := binary.BigEndian.Uint32(version); v != schemaVersion {
				return fmt.Errorf("%w: %s has schema %d, this program knows %d: use the newer program again",
					ErrNewer, d.path, v, schemaVersion)
			}
			return nil
		})
	})
}

// openBolt opens or makes a bbolt file. What checkFile let through and yet makes bbolt panic comes back as an error.
func openBolt(path string) (db *bbolt.DB, err error) {
	var file *os.File
	options := &bbolt.Options{
		Timeout: lockWait,
		// The list of free pages is made anew at each open: it is small work, less to write, and nothing that can be wrong.
		NoFreelistSync: true,
		FreelistType:   bbolt.FreelistMapType,
		OpenFile: func(path string, flag int, mode os.FileMode) (*os.File, error) {
			var err error
			file, err = os.OpenFile(path, flag, mode)
			return file, err
		},
	}
	err = recovered(func() error {
		db, err = bbolt.Open(path, 0o600, options)
		return err
	})
	if err != nil && file != nil {
		file.Close()
	}
	return db, err
}

// lockFile takes the lock that goes with the process, and leaves the process's number in it for whoever comes next.
func lockFile(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(lockWait); ; time.Sleep(lockPoll) {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			break
		}
		if errors.Is(err, syscall.EWOULDBLOCK) && time.Now().Before(deadline) {
			continue
		}
		owner, _ := os.ReadFile(path)
		file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s is locked by process %s", ErrInUse, path, strings.TrimSpace(string(owner)))
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	if err := file.Truncate(0); err == nil {
		// The number is a hint only: a full disk must not keep the store from being opened.
		_, _ = fmt.Fprintln(file, os.Getpid())
	}
	return file, nil
}

// wasteful tells whether the file is mostly free pages.
func (d *disk) wasteful() bool {
	stats, size := d.db.Stats(), d.size()
	free := int64(stats.FreePageN+stats.PendingPageN) * int64(d.db.Info().PageSize)
	return size > compactMin && size > compactRatio*(size-free)
}

// compact rewrites the file without its free pages. After an error the old one goes on.
func (d *disk) compact() error {
	path := d.path + ".new"
	db, err := openBolt(path)
	if err != nil {
		return err
	}
	db.NoSync = true
	err = recovered(func() error { return bbolt.Compact(db, d.db, compactBatch) })
	if err == nil {
		err = db.Sync()
	}
	db.NoSync = false
	if err == nil {
		err = os.Rename(path, d.path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("compact store %s: %w", d.path, err), db.Close(), removeIfThere(path))
	}
	old := d.db
	d.db = db
	return errors.Join(d.syncFolder(), old.Close())
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func (d *disk) size() int64 { return fileSize(d.path) }

// fileSize is 0 for a file that is not there.
func fileSize(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

func (d *disk) close() error {
	return errors.Join(d.db.Close(), d.lock.Close())
}
