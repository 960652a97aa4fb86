package store

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"slices"

	"go.etcd.io/bbolt"
)

// disk is the file. It is no cache and answers no reads: it is written by whoever leads the commits, and read once.
//
//	PATH        bbolt file with the buckets below
//	PATH.lock   locked by the process that has the store open; never renamed, unlike PATH
//	PATH.new    a file that is being made, to take PATH's place by a rename
type disk struct {
	path string
	log  *slog.Logger
	lock *os.File
	db   *bbolt.DB
}

var (
	metaBucket    = []byte("meta")
	objectsBucket = []byte("objects")
	logBucket     = []byte("log")
	schemaKey     = []byte("schema")
	stateKey      = []byte("state")
)

const (
	schemaVersion = 1
	stateSize     = 3*revisionSize + 1
)

// state is the record of the counters.
type state struct {
	last    int64 // newest revision in the file
	ceiling int64 // every revision that was ever taken is below
	floor   int64 // the log holds every event after this revision
	clean   bool  // the store was closed, and last is the newest revision of all
}

// changes are what one transaction writes.
type changes struct {
	records []record
	objects []objectChange
	// wipe deletes what the log holds after the state's last revision, as a failed transaction may have left it.
	wipe  bool
	after int64
	state state
}

// objectChange sets an entry, or deletes the key where it is nil.
type objectChange struct {
	key   Key
	entry *Entry
}

// content is all of a file.
type content struct {
	entries []*Entry // in key order
	records []record // newest first
	state   state
}

// recovered turns panics, and faults of mapped memory, into errors.
func recovered(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("bbolt: %v", r)
		}
	}()
	return f()
}

// load reads everything.
func (d *disk) load() (c content, err error) {
	err = recovered(func() error {
		return d.db.View(func(tx *bbolt.Tx) error {
			if c.state, err = getState(tx); err != nil {
				return err
			}
			err := tx.Bucket(objectsBucket).ForEach(func(k, v []byte) error {
				e, err := decodeObject(k, v)
				c.entries = append(c.entries, e)
				return err
			})
			if err != nil {
				return err
			}
			cursor := tx.Bucket(logBucket).Cursor()
			for k, v := cursor.Last(); k != nil; k, v = cursor.Prev() {
				r, err := decodeRecord(k, v)
				if err != nil {
					return err
				}
				c.records = append(c.records, r)
			}
			return nil
		})
	})
	if err != nil {
		return c, d.damaged(err)
	}
	return c, nil
}

// write is one transaction, on disk when it returns, and the bytes written for it. After an error the file may hold all of
// the changes or none.
func (d *disk) write(c changes) (written int64, err error) {
	err = recovered(func() error {
		return d.db.Update(func(tx *bbolt.Tx) error {
			tx.OnCommit(func() {
				stats := tx.Stats()
				written = stats.GetPageAlloc() + int64(d.db.Info().PageSize)
			})
			if err := writeLog(tx.Bucket(logBucket), c); err != nil {
				return err
			}
			objects := tx.Bucket(objectsBucket)
			for _, o := range c.objects {
				if err := writeObject(objects, o); err != nil {
					return err
				}
			}
			return putState(tx, c.state)
		})
	})
	return written, err
}

func writeObject(objects *bbolt.Bucket, o objectChange) error {
	key := encodeKey(o.key)
	if o.entry == nil {
		return objects.Delete(key)
	}
	return objects.Put(key, encodeObject(key, o.entry))
}

// writeLog appends the records and deletes those up to the floor.
func writeLog(log *bbolt.Bucket, c changes) error {
	log.FillPercent = 0.95
	var drop [][]byte
	cursor := log.Cursor()
	for k, _ := cursor.First(); k != nil; k, _ = cursor.Next() {
		if revision, err := decodeRevision(k); err != nil || revision > c.state.floor {
			break
		}
		drop = append(drop, bytes.Clone(k))
	}
	if c.wipe {
		for k, _ := cursor.Seek(encodeRevision(c.after + 1)); k != nil; k, _ = cursor.Next() {
			drop = append(drop, bytes.Clone(k))
		}
	}
	for _, k := range drop {
		if err := log.Delete(k); err != nil {
			return err
		}
	}
	slices.SortFunc(c.records, func(a, b record) int { return cmp.Compare(a.revision, b.revision) })
	for _, r := range c.records {
		if r.revision <= c.state.floor {
			continue
		}
		if err := log.Put(encodeRecord(r)); err != nil {
			return err
		}
	}
	return nil
}

func putState(tx *bbolt.Tx, s state) error {
	b := make([]byte, crcSize, crcSize+stateSize)
	b = binary.BigEndian.AppendUint64(b, uint64(s.last))
	b = binary.BigEndian.AppendUint64(b, uint64(s.ceiling))
	b = binary.BigEndian.AppendUint64(b, uint64(s.floor))
	clean := byte(0)
	if s.clean {
		clean = 1
	}
	return tx.Bucket(metaBucket).Put(stateKey, seal(stateKey, append(b, clean)))
}

func getState(tx *bbolt.Tx) (state, error) {
	b, err := unseal(stateKey, tx.Bucket(metaBucket).Get(stateKey))
	if err != nil || len(b) != stateSize {
		return state{}, fmt.Errorf("state of the store: %w", errors.Join(err, errRecord))
	}
	number := func(i int) int64 { return int64(binary.BigEndian.Uint64(b[i*revisionSize:])) }
	return state{last: number(0), ceiling: number(1), floor: number(2), clean: b[stateSize-1] == 1}, nil
}
