package depot

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Open returns the depot in a folder, after it has put away what an earlier process left half done.
func Open(config Config) (*Depot, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	d := &Depot{
		config: config, repositories: map[string]*repository{}, contents: map[Digest]*content{},
		uploads: map[string]*upload{}, usage: map[string]*usage{},
	}
	if err := d.open(); err != nil {
		return nil, fmt.Errorf("open the images in %s: %w", config.Dir, err)
	}
	return d, nil
}

func (d *Depot) open() error {
	if err := os.RemoveAll(filepath.Join(d.config.Dir, trashDir)); err != nil {
		return err
	}
	if err := os.MkdirAll(d.config.Dir, 0o700); err != nil {
		return err
	}
	for _, dir := range []string{blobsDir + "/sha256", blobsDir + "/sha512", repositoriesDir, uploadsDir, trashDir} {
		if err := makeDirs(d.config.Dir, filepath.Join(d.config.Dir, dir)); err != nil {
			return err
		}
	}
	if err := d.loadContents(); err != nil {
		return err
	}
	whole, err := d.loadRepositories()
	if err != nil {
		return err
	}
	if whole {
		d.removeOrphans()
	}
	return d.loadUploads()
}

// loadContents lists the files in blobs; none is anybody's yet.
func (d *Depot) loadContents() error {
	for _, algorithm := range []string{"sha256", "sha512"} {
		files, err := os.ReadDir(filepath.Join(d.config.Dir, blobsDir, algorithm))
		if err != nil {
			return err
		}
		for _, file := range files {
			digest, err := ParseDigest(algorithm + ":" + file.Name())
			if err != nil {
				continue
			}
			info, err := file.Info()
			if err != nil {
				return err
			}
			d.contents[digest] = &content{size: info.Size()}
		}
	}
	return nil
}

// loadRepositories reads the documents. It is not whole where one of them could not be read: what that one named must not
// be removed.
func (d *Depot) loadRepositories() (whole bool, err error) {
	root := filepath.Join(d.config.Dir, repositoriesDir)
	whole = true
	var dirs []string
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			dirs = append(dirs, path)
		case strings.HasPrefix(entry.Name(), tempPrefix):
			return os.Remove(path)
		case entry.Name() == documentFile:
			relative, err := filepath.Rel(root, filepath.Dir(path))
			if err != nil {
				return err
			}
			ok, err := d.loadRepository(path, filepath.ToSlash(relative))
			whole = whole && ok
			return err
		case entry.Name() == documentFile+damagedSuffix:
			whole = false
		}
		return nil
	})
	for _, dir := range slices.Backward(dirs) {
		if dir != root {
			_ = os.Remove(dir) // which fails where it holds something
		}
	}
	return whole, err
}

// damagedSuffix is added to the name of a document that can't be read.
const damagedSuffix = ".damaged"

// loadRepository reads a document. One that can't be read is set aside.
func (d *Depot) loadRepository(path, name string) (ok bool, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return false, err
	}
	doc := newDocument(name)
	if err := json.Unmarshal(data, doc); err != nil || !doc.check(name) {
		d.config.Log.Error("a repository's document is damaged: its images must be pushed again; once the file is deleted, what they took is freed",
			"repository", name, "path", path+damagedSuffix, "err", err)
		return false, os.Rename(path, path+damagedSuffix)
	}
	if d.mend(doc) {
		if err := d.write(doc); err != nil {
			return false, err
		}
	}
	if doc.empty() {
		return true, nil
	}
	d.repositories[name] = newRepository(doc)
	u := d.usageOf(NamespaceOf(name))
	for digest, size := range doc.contents() {
		d.contents[digest].members++
		if u.held[digest]++; u.held[digest] == 1 {
			u.stored += size
		}
	}
	return true, nil
}

// mend takes out of a document what is not on disk, and tells whether there was any.
func (d *Depot) mend(doc *document) bool {
	before := doc.entries()
	for digest, size := range doc.contents() {
		if c := d.contents[digest]; c == nil || c.size != size {
			d.config.Log.Error("a content of an image is lost: push the image again", "repository", doc.Name, "digest", digest)
			delete(doc.Blobs, digest)
			doc.remove(digest)
		}
	}
	for tag, digest := range doc.Tags {
		if _, ok := doc.Manifests[digest]; !ok {
			delete(doc.Tags, tag)
		}
	}
	return doc.entries() < before
}

// removeOrphans removes the contents that no document names.
func (d *Depot) removeOrphans() {
	var trash []string
	for digest := range d.contents {
		trash = append(trash, d.discard(digest)...)
	}
	d.burn(trash)
	d.counters = Counters{}
}

// loadUploads takes up the uploads that were not finished, and removes what belongs to none.
func (d *Depot) loadUploads() error {
	dir := filepath.Join(d.config.Dir, uploadsDir)
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, file := range files {
		if id, ok := strings.CutSuffix(file.Name(), ".json"); ok {
			if err := d.loadUpload(id); err != nil {
				return err
			}
		}
	}
	for _, file := range files {
		id, _, _ := strings.Cut(file.Name(), ".")
		if d.uploads[id] == nil {
			if err := os.RemoveAll(filepath.Join(dir, file.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// loadUpload takes up an upload. Of one that has no file nothing has come, or it was finished and will be given up in time.
func (d *Depot) loadUpload(id string) error {
	record, info, err := d.readUpload(id)
	if err != nil || info == nil {
		return err
	}
	u := &upload{id: id, repository: record.Repository, turn: make(chan struct{}, 1), touched: info.ModTime()}
	switch info, err := os.Lstat(d.uploadPath(id, ".data")); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return nil
	default:
		u.size, u.touched = info.Size(), info.ModTime()
	}
	d.uploads[id] = u
	space := d.usageOf(NamespaceOf(record.Repository))
	space.uploads++
	space.coming += u.size
	return nil
}

// readUpload reads an upload's record; info is nil where it is not a whole one.
func (d *Depot) readUpload(id string) (record uploadRecord, info fs.FileInfo, err error) {
	path := d.uploadPath(id, ".json")
	if info, err = os.Lstat(path); err != nil || !info.Mode().IsRegular() {
		return record, nil, err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return record, nil, err
	}
	if json.Unmarshal(data, &record) != nil || CheckRepository(record.Repository) != nil {
		return record, nil, nil
	}
	return record, info, nil
}
