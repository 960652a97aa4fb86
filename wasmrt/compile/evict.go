package compile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// kept is one entry of the cache, as trim sees it.
type kept struct {
	dir  string
	size int64
	used time.Time
}

// trim removes the entries that were used the longest ago, until the cache has the size that it may have. Those that are in
// use stay.
func (c *Cache) trim() error {
	entries, total, err := c.entries()
	if err != nil {
		return fmt.Errorf("trim code cache: %w", err)
	}
	slices.SortFunc(entries, func(a, b kept) int { return a.used.Compare(b.used) })
	for _, e := range entries {
		if total <= c.cfg.Size {
			return nil
		}
		gone, err := c.evict(e.dir)
		if err != nil {
			return err
		}
		if gone {
			total -= e.size
		}
	}
	return nil
}

// entries lists the cache's entries and their size together. What can't be read has none: it is compiled anew when needed.
func (c *Cache) entries() (entries []kept, total int64, err error) {
	list, err := os.ReadDir(c.cfg.Dir)
	if err != nil {
		return nil, 0, err
	}
	for _, d := range list {
		if !d.IsDir() || strings.HasPrefix(d.Name(), stagingPrefix) {
			continue
		}
		info, err := d.Info()
		if errors.Is(err, os.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, 0, err
		}
		e := kept{dir: filepath.Join(c.cfg.Dir, d.Name()), used: info.ModTime()}
		if r, err := readRecord(e.dir); err == nil {
			e.size = r.size()
		}
		entries, total = append(entries, e), total+e.size
	}
	return entries, total, nil
}

// evict removes an entry unless somebody holds it.
func (c *Cache) evict(dir string) (gone bool, err error) {
	lock, err := lockFolder(dir, true)
	if errors.Is(err, errLocked) {
		return false, nil
	}
	if errors.Is(err, os.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("trim code cache: %w", err)
	}
	defer func() { _ = lock.Close() }()
	return true, c.remove(dir)
}
