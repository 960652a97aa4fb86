package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
)

// bbolt trusts the file that it maps into memory: where a page is not what it should be, it panics, on a goroutine of its
// own even, or reads beyond the mapping. So before bbolt sees a file, checkFile walks all of its pages from the root. The
// layout is bbolt's version 2:
//
//	page:    id (8) flags (2) count (2) overflow pages (4), then count elements, then keys and values
//	branch:  pos (4) key size (4) page (8)               pos counts from the element's own start
//	leaf:    flags (4) pos (4) key size (4) value size (4)
//	meta:    magic (4) version (4) page size (4) flags (4) root bucket (8, 8) freelist (8) pages (8) txid (8) checksum (8)
//	bucket:  root page or 0 (8) sequence (8), then, for 0, a leaf page inline
const (
	pageHeader  = 16
	elementSize = 16
	metaSize    = 64
	bucketSize  = 16

	pageBranch   = 0x01
	pageLeaf     = 0x02
	pageFreelist = 0x10
	leafBucket   = 0x01

	boltMagic   = 0xED0CDAED
	boltVersion = 2
	noFreelist  = ^uint64(0)
)

var errNoMeta = errors.New("neither header page is valid (this is no edgepod store, or its start was overwritten)")

// boltMeta is what a meta page says.
type boltMeta struct {
	pageSize            uint32
	root, freelist      uint64
	pages, transactions uint64
	single              bool // the other meta page is not valid
}

// checker walks the pages of a file.
type checker struct {
	file io.ReaderAt
	meta boltMeta
	used []bool
}

// checkFile returns the meta page in force, or an error that names the first page that is not sound.
func checkFile(file io.ReaderAt, size int64) (boltMeta, error) {
	if size == 0 {
		return boltMeta{}, errors.New("the file is empty")
	}
	meta, err := readMeta(file)
	if err != nil {
		return meta, err
	}
	if want := int64(meta.pages) * int64(meta.pageSize); meta.pages > uint64(size) || want > size {
		return meta, fmt.Errorf("the file is cut short: it has %d bytes of %d", size, want)
	}
	c := &checker{file: file, meta: meta, used: make([]bool, meta.pages)}
	c.used[0], c.used[1] = true, true
	if err := c.walk(meta.root, nil, nil); err != nil {
		return meta, err
	}
	if meta.freelist == noFreelist {
		return meta, nil
	}
	return meta, c.freelist()
}

// readMeta returns the newer of the two valid meta pages. It looks for the second where bbolt does.
func readMeta(file io.ReaderAt) (boltMeta, error) {
	first, err := metaAt(file, 0)
	if err == nil {
		second, err := metaAt(file, int64(first.pageSize))
		if err == nil && second.pageSize == first.pageSize && second.transactions > first.transactions {
			return second, nil
		}
		first.single = err != nil
		return first, nil
	}
	for shift := range 15 {
		second, err := metaAt(file, 1024<<shift)
		if err == nil && second.pageSize == 1024<<shift {
			second.single = true
			return second, nil
		}
	}
	return boltMeta{}, errNoMeta
}

func metaAt(file io.ReaderAt, offset int64) (boltMeta, error) {
	b := make([]byte, pageHeader+metaSize)
	if _, err := file.ReadAt(b, offset); err != nil {
		return boltMeta{}, err
	}
	b = b[pageHeader:]
	sum := fnv.New64a()
	sum.Write(b[:metaSize-8])
	order := binary.NativeEndian
	m := boltMeta{
		pageSize:     order.Uint32(b[8:]),
		root:         order.Uint64(b[16:]),
		freelist:     order.Uint64(b[32:]),
		pages:        order.Uint64(b[40:]),
		transactions: order.Uint64(b[48:]),
	}
	valid := order.Uint32(b) == boltMagic && order.Uint32(b[4:]) == boltVersion && order.Uint64(b[56:]) == sum.Sum64()
	if !valid || m.pageSize < 1024 || m.pageSize > 1<<24 || m.pageSize&(m.pageSize-1) != 0 || m.pages < 2 {
		return boltMeta{}, errNoMeta
	}
	return m, nil
}

// page reads a page with its overflow and marks it as used.
func (c *checker) page(id uint64) ([]byte, error) {
	if id < 2 || id >= c.meta.pages {
		return nil, fmt.Errorf("page %d lies outside of the file", id)
	}
	size := int64(c.meta.pageSize)
	header := make([]byte, pageHeader)
	if _, err := c.file.ReadAt(header, int64(id)*size); err != nil {
		return nil, fmt.Errorf("page %d: %w", id, err)
	}
	order := binary.NativeEndian
	overflow := uint64(order.Uint32(header[12:]))
	if got := order.Uint64(header); got != id {
		return nil, fmt.Errorf("page %d says that it is page %d", id, got)
	}
	if id+overflow >= c.meta.pages {
		return nil, fmt.Errorf("page %d reaches beyond the file", id)
	}
	for i := id; i <= id+overflow; i++ {
		if c.used[i] {
			return nil, fmt.Errorf("page %d is used twice", i)
		}
		c.used[i] = true
	}
	b := make([]byte, int64(overflow+1)*size)
	if _, err := c.file.ReadAt(b, int64(id)*size); err != nil {
		return nil, fmt.Errorf("page %d: %w", id, err)
	}
	return b, nil
}

// walk checks a page and all below it, whose keys must lie from low up to and without high; nil is no bound.
func (c *checker) walk(id uint64, low, high []byte) error {
	b, err := c.page(id)
	if err != nil {
		return err
	}
	switch flags := binary.NativeEndian.Uint16(b[8:]); flags {
	case pageLeaf:
		err = c.leaf(b, low, high)
	case pageBranch:
		err = c.branch(b, low, high)
	default:
		err = fmt.Errorf("unknown kind %#x", flags)
	}
	if err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	return nil
}

func (c *checker) branch(b, low, high []byte) error {
	order := binary.NativeEndian
	count := int(order.Uint16(b[10:]))
	if count == 0 || pageHeader+count*elementSize > len(b) {
		return fmt.Errorf("%d children in a branch", count)
	}
	keys := make([][]byte, count)
	for i := range keys {
		at := pageHeader + i*elementSize
		key, _, err := cutElement(b, at, order.Uint32(b[at:]), order.Uint32(b[at+4:]), 0)
		if err != nil {
			return err
		}
		keys[i] = key
	}
	if err := checkOrder(keys, low, high); err != nil {
		return err
	}
	for i, key := range keys {
		end := high
		if i+1 < count {
			end = keys[i+1]
		}
		if err := c.walk(order.Uint64(b[pageHeader+i*elementSize+8:]), key, end); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) leaf(b, low, high []byte) error {
	order := binary.NativeEndian
	count := int(order.Uint16(b[10:]))
	if pageHeader+count*elementSize > len(b) {
		return fmt.Errorf("%d keys in a leaf", count)
	}
	keys := make([][]byte, count)
	for i := range keys {
		at := pageHeader + i*elementSize
		key, value, err := cutElement(b, at, order.Uint32(b[at+4:]), order.Uint32(b[at+8:]), order.Uint32(b[at+12:]))
		if err != nil {
			return err
		}
		keys[i] = key
		switch order.Uint32(b[at:]) {
		case 0:
		case leafBucket:
			if err := c.bucket(value); err != nil {
				return fmt.Errorf("bucket %q: %w", key, err)
			}
		default:
			return errors.New("unknown kind of value")
		}
	}
	return checkOrder(keys, low, high)
}

// checkOrder checks that keys rise strictly, from low up to and without high.
func checkOrder(keys [][]byte, low, high []byte) error {
	for i, key := range keys {
		switch {
		case i == 0 && bytes.Compare(key, low) < 0, high != nil && bytes.Compare(key, high) >= 0,
			i > 0 && bytes.Compare(keys[i-1], key) >= 0:
			return errors.New("keys are out of order")
		}
	}
	return nil
}

func (c *checker) bucket(value []byte) error {
	if len(value) < bucketSize {
		return errors.New("cut short")
	}
	order := binary.NativeEndian
	if root := order.Uint64(value); root != 0 {
		return c.walk(root, nil, nil)
	}
	inline := value[bucketSize:]
	if len(inline) < pageHeader || order.Uint16(inline[8:]) != pageLeaf {
		return errors.New("content is malformed")
	}
	return c.leaf(inline, nil, nil)
}

// cutElement returns key and value of the element that starts at a place of the page.
func cutElement(page []byte, at int, pos, keySize, valueSize uint32) (key, value []byte, err error) {
	start := uint64(at) + uint64(pos)
	end := start + uint64(keySize) + uint64(valueSize)
	if end > uint64(len(page)) || start < uint64(at) {
		return nil, nil, errors.New("a key or value reaches beyond the page")
	}
	middle := start + uint64(keySize)
	return page[start:middle], page[middle:end], nil
}

// freelist checks that the free pages, where the file lists them, are not in use.
func (c *checker) freelist() error {
	b, err := c.page(c.meta.freelist)
	if err != nil {
		return err
	}
	order := binary.NativeEndian
	count, list := uint64(order.Uint16(b[10:])), b[pageHeader:]
	if count == 0xffff {
		count, list = order.Uint64(list), list[8:]
	}
	if order.Uint16(b[8:]) != pageFreelist || count > uint64(len(list)/8) {
		return fmt.Errorf("page %d: list of free pages is malformed", c.meta.freelist)
	}
	for i := range count {
		id := order.Uint64(list[i*8:])
		if id >= c.meta.pages || c.used[id] {
			return fmt.Errorf("page %d is in use and listed as free", id)
		}
		c.used[id] = true
	}
	return nil
}
