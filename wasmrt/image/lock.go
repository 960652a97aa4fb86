package image

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// keyedLock lets one goroutine at a time work on each key.
type keyedLock struct {
	mu   sync.Mutex
	held map[string]chan struct{}
}

// lock waits until the key is free, or ctx ends.
func (l *keyedLock) lock(ctx context.Context, key string) error {
	for {
		l.mu.Lock()
		free, taken := l.held[key]
		if !taken {
			if l.held == nil {
				l.held = map[string]chan struct{}{}
			}
			l.held[key] = make(chan struct{})
			l.mu.Unlock()
			return nil
		}
		l.mu.Unlock()
		select {
		case <-free:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (l *keyedLock) unlock(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.held[key])
	delete(l.held, key)
}

// lockFile takes the lock on the store's folder that all processes on it share: shared by those that put things in, exclusive
// for who takes things away. It is gone with its holder.
func (s *Store) lockFile(ctx context.Context, how int) (unlock func(), err error) {
	f, err := os.OpenFile(s.path(lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	const pause = 20 * time.Millisecond
	for {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil // which unlocks it
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return nil, errors.Join(err, f.Close())
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), f.Close())
		}
	}
}
