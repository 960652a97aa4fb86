package store

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
)

// The file's records. All carry a checksum over their key and content, since bbolt checks nothing but its header pages.
//
//	objects:  resource 0 namespace 0 name  ->  crc32c, revision (8), value
//	log:      revision (8, big endian)     ->  crc32c, flags, key, revision and value before, value after (deletions only)
//
// The log is one of what was overwritten: an event's value after is found in the next event of its key, or else in
// objects. So a value is written once when it comes and once when it goes, and a log without its
// oldest part is whole still.
const (
	flagDeleted   = 1 << iota // the event is a deletion
	flagPrev                  // there was a value before
	flagValue                 // a deletion's last state, where it is not the value before
	flagCoalesced             // volatile writes of the key just before this one never reached the disk
	flagRestart               // no event: after a crash, revisions since that in the field before may have been lost
	flagsKnown    = 1<<iota - 1
)

const (
	crcSize      = 4
	revisionSize = 8
	maxKeySize   = 2048
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var errRecord = errors.New("record is cut short or malformed")

// record is one of the log in the file.
type record struct {
	revision     int64
	flags        byte
	key          Key
	prevRevision int64
	prev         []byte
	value        []byte
}

func (k Key) String() string {
	if k.Namespace == "" {
		return k.Resource + " " + k.Name
	}
	return k.Resource + " " + k.Namespace + "/" + k.Name
}

// validate refuses what cannot be a key in the file.
func (k Key) validate() error {
	switch {
	case k.Resource == "" || k.Name == "":
		return fmt.Errorf("key %q lacks a resource or a name", k.String())
	case strings.IndexByte(k.Resource, 0) >= 0 || strings.IndexByte(k.Namespace, 0) >= 0 || strings.IndexByte(k.Name, 0) >= 0:
		return fmt.Errorf("key %q holds a zero byte", k.String())
	case len(k.Resource)+len(k.Namespace)+len(k.Name) > maxKeySize:
		return fmt.Errorf("key of %s is longer than %d bytes", k.Resource, maxKeySize)
	}
	return nil
}

// encodeKey keeps the order of keys.
func encodeKey(k Key) []byte {
	b := make([]byte, 0, len(k.Resource)+len(k.Namespace)+len(k.Name)+2)
	b = append(append(b, k.Resource...), 0)
	b = append(append(b, k.Namespace...), 0)
	return append(b, k.Name...)
}

func decodeKey(b []byte) (Key, error) {
	parts := strings.Split(string(b), "\x00")
	if len(parts) != 3 {
		return Key{}, fmt.Errorf("key %q: %w", b, errRecord)
	}
	k := Key{Resource: parts[0], Namespace: parts[1], Name: parts[2]}
	return k, k.validate()
}

func encodeRevision(revision int64) []byte {
	return binary.BigEndian.AppendUint64(nil, uint64(revision))
}

func decodeRevision(b []byte) (int64, error) {
	if len(b) != revisionSize {
		return 0, fmt.Errorf("revision of %d bytes: %w", len(b), errRecord)
	}
	return int64(binary.BigEndian.Uint64(b)), nil
}

// seal puts the checksum over key and content in front of the content, whose first crcSize bytes are left for it.
func seal(key, content []byte) []byte {
	sum := crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, content[crcSize:])
	binary.BigEndian.PutUint32(content, sum)
	return content
}

// unseal returns what seal was given.
func unseal(key, sealed []byte) ([]byte, error) {
	if len(sealed) < crcSize {
		return nil, errRecord
	}
	sum := crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, sealed[crcSize:])
	if sum != binary.BigEndian.Uint32(sealed) {
		return nil, errors.New("checksum does not match")
	}
	return sealed[crcSize:], nil
}

// encodeObject returns the record of an entry under the key that encodeKey made of its own.
func encodeObject(key []byte, e *Entry) []byte {
	b := make([]byte, crcSize, crcSize+revisionSize+len(e.Value))
	b = binary.BigEndian.AppendUint64(b, uint64(e.Revision))
	return seal(key, append(b, e.Value...))
}

// decodeObject copies what it keeps.
func decodeObject(key, sealed []byte) (*Entry, error) {
	k, err := decodeKey(key)
	if err != nil {
		return nil, err
	}
	b, err := unseal(key, sealed)
	if err != nil {
		return nil, fmt.Errorf("object %s: %w", k, err)
	}
	if len(b) < revisionSize {
		return nil, fmt.Errorf("object %s: %w", k, errRecord)
	}
	return &Entry{
		Key:      k,
		Revision: int64(binary.BigEndian.Uint64(b)),
		Value:    bytes.Clone(b[revisionSize:]),
	}, nil
}

// recordOf returns the log record of an event.
func recordOf(ev Event, coalesced bool) record {
	r := record{revision: ev.Entry.Revision, key: ev.Entry.Key}
	if coalesced {
		r.flags |= flagCoalesced
	}
	if ev.Prev != nil {
		r.flags |= flagPrev
		r.prevRevision, r.prev = ev.Prev.Revision, ev.Prev.Value
	}
	if ev.Deleted {
		r.flags |= flagDeleted
		if ev.Prev == nil || !bytes.Equal(ev.Prev.Value, ev.Entry.Value) {
			r.flags |= flagValue
			r.value = ev.Entry.Value
		}
	}
	return r
}

func encodeRecord(r record) (key, sealed []byte) {
	key = encodeRevision(r.revision)
	name := encodeKey(r.key)
	b := make([]byte, crcSize, crcSize+1+4*binary.MaxVarintLen64+len(name)+len(r.prev)+len(r.value))
	b = append(b, r.flags)
	b = append(binary.AppendUvarint(b, uint64(len(name))), name...)
	b = binary.AppendUvarint(b, uint64(r.prevRevision))
	b = append(binary.AppendUvarint(b, uint64(len(r.prev))), r.prev...)
	return key, seal(key, append(b, r.value...))
}

// decodeRecord copies what it keeps.
func decodeRecord(key, sealed []byte) (r record, err error) {
	if r.revision, err = decodeRevision(key); err != nil {
		return r, err
	}
	b, err := unseal(key, sealed)
	if err != nil || len(b) == 0 || b[0] > flagsKnown {
		return r, fmt.Errorf("log record %d: %w", r.revision, cmp.Or(err, errRecord))
	}
	r.flags, b = b[0], bytes.Clone(b[1:])
	name, b, ok := cutBytes(b)
	prev, ok2 := binary.Uvarint(b)
	if !ok || ok2 <= 0 {
		return r, fmt.Errorf("log record %d: %w", r.revision, errRecord)
	}
	r.prevRevision = int64(prev)
	if r.prev, r.value, ok = cutBytes(b[ok2:]); !ok {
		return r, fmt.Errorf("log record %d: %w", r.revision, errRecord)
	}
	if r.flags&flagRestart != 0 {
		return r, nil
	}
	r.key, err = decodeKey(name)
	return r, err
}

// cutBytes cuts off a byte string with its length before it.
func cutBytes(b []byte) (cut, rest []byte, ok bool) {
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(len(b)-size) {
		return nil, nil, false
	}
	b = b[size:]
	return b[:n:n], b[n:], true
}
