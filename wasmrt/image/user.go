package image

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A user of the store's folder is a process's Store: a file that it holds a lock on as long as it lives, which names the
// images that it needs, and a folder for what is in the making.
//
//	DIR/users/NAME       digests, a line each
//	DIR/staging/NAME/    gone with the user

// join makes this Store a user, and clears away what dead ones left.
func (s *Store) join() error {
	if err := s.buryDead(); err != nil {
		return err
	}
	for {
		f, err := os.CreateTemp(s.path(userDir), "u")
		if err != nil {
			return err
		}
		if claim(f, f.Name()) {
			s.user = f
			if err := os.Mkdir(s.staging(), 0o700); err != nil {
				return errors.Join(err, os.Remove(f.Name()), f.Close())
			}
			return nil
		}
		// Another process has taken it for a dead one's.
		if err := f.Close(); err != nil {
			return err
		}
	}
}

// use notes that this user needs an image. It is false where the image has just been collected: who collects looks at the
// notes after it has taken an image away, and puts it back where it finds one.
func (s *Store) use(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, noted := s.used[name]; !noted {
		if _, err := s.user.WriteString(name + "\n"); err != nil {
			return false
		}
	}
	now := time.Now()
	s.used[name] = now
	return os.Chtimes(s.path(imageDir, name), now, now) == nil
}

// note writes down anew which images this user needs: to those given it adds what was asked for since.
func (s *Store) note(needed map[string]bool, since time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, at := range s.used {
		if !at.Before(since) {
			needed[name] = true
		}
	}
	used := map[string]time.Time{}
	var text strings.Builder
	for name := range needed {
		used[name] = s.used[name]
		text.WriteString(name + "\n")
	}
	if err := s.user.Truncate(0); err != nil {
		return err
	}
	if _, err := s.user.WriteAt([]byte(text.String()), 0); err != nil {
		return err
	}
	s.used = used
	_, err := s.user.Seek(0, io.SeekEnd)
	return err
}

// staging is the user's own folder.
func (s *Store) staging() string { return s.path(stagingDir, filepath.Base(s.user.Name())) }

// buryDead removes the traces of users whose process is gone.
func (s *Store) buryDead() error {
	// A user has its file before it has its folder, so that a folder seen first has its file if it is alive.
	folders, err := listNames(s.path(stagingDir))
	if err != nil {
		return err
	}
	alive, err := s.users()
	if err != nil {
		return err
	}
	for _, name := range folders {
		if _, ok := alive[name]; !ok {
			if err := os.RemoveAll(s.path(stagingDir, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// users returns what the users that are alive have written down, and removes the files of others.
func (s *Store) users() (map[string][]byte, error) {
	names, err := listNames(s.path(userDir))
	if err != nil {
		return nil, err
	}
	alive := map[string][]byte{}
	for _, name := range names {
		path := s.path(userDir, name)
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			continue // just gone
		}
		if claim(f, path) {
			err = os.Remove(path)
		} else {
			alive[name], err = io.ReadAll(f)
		}
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
	}
	return alive, nil
}

// Close lets go of the folder. The store is not used afterwards.
func (s *Store) Close() error {
	s.client.Close()
	return errors.Join(os.RemoveAll(s.staging()), os.Remove(s.user.Name()), s.user.Close())
}

func listNames(dir string) ([]string, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	names, err := f.Readdirnames(-1)
	return names, errors.Join(err, f.Close())
}
