package store

import "fmt"

// validate refuses what no store could do.
func (op Op) validate() error {
	if err := op.Key.validate(); err != nil {
		return err
	}
	switch op.Verb {
	case Create, Update:
		if op.Encode == nil {
			return fmt.Errorf("write of %s lacks Encode", op.Key)
		}
	case Delete:
	default:
		return fmt.Errorf("write of %s: unknown verb %d", op.Key, op.Verb)
	}
	return nil
}

// apply returns the event that the op makes of what is there.
func (op Op) apply(prev *Entry, revision int64) (Event, error) {
	switch {
	case op.Verb == Create && prev != nil:
		return Event{}, ErrExists
	case op.Verb != Create && prev == nil:
		return Event{}, ErrNotFound
	case op.Verb != Create && op.Expect != 0 && op.Expect != prev.Revision:
		return Event{}, ErrConflict
	}
	e := &Entry{Key: op.Key, Revision: revision}
	if op.Encode == nil {
		e.Value = prev.Value
		e.object.Store(prev.object.Load())
		return Event{Deleted: true, Entry: e, Prev: prev}, nil
	}
	value, object, err := op.encode(revision)
	if err != nil {
		return Event{}, err
	}
	e.Value = value
	if object != nil {
		e.object.Store(&object)
	}
	return Event{Deleted: op.Verb == Delete, Entry: e, Prev: prev}, nil
}

// encode keeps one writer's panic from ending another's call.
func (op Op) encode(revision int64) (value []byte, object any, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("encode: panic: %v", r)
		}
	}()
	value, object = op.Encode(revision)
	return value, object, nil
}
