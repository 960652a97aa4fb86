package api

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"edgepod/server/registry"
)

// minWatch is how long a watch lasts whose client names no time; up to twice as long, so that not all come back at once.
const minWatch = 30 * time.Minute

// keptBuffer is how much memory a watch keeps while nothing happens.
const keptBuffer = 16 << 10

// stalled is how long a watcher may leave its connection full before it is given up.
const stalled = time.Minute

func (a *API) watch(r *request) error {
	if err := r.negotiateStream(); err != nil {
		return err
	}
	options, err := r.listOptions(true)
	if err != nil {
		return err
	}
	if r.watchPath && r.name != "" {
		one := fields.OneTermEqualSelector("metadata.name", r.name)
		if options.FieldSelector != nil {
			one = fields.AndSelectors(options.FieldSelector, one)
		}
		options.FieldSelector = one
	}
	s, err := a.newStream(r, options)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Request().Context(), watchTime(options))
	defer cancel()
	watcher, err := a.Registry.Watch(ctx, r.resource, registry.WatchRequest{
		Namespace: r.namespace, Label: options.LabelSelector, Field: options.FieldSelector, ResourceVersion: options.ResourceVersion,
		SendInitialEvents: options.SendInitialEvents != nil && *options.SendInitialEvents,
	})
	if err != nil && !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
		return err
	}
	if begun := s.begin(); begun != nil {
		err = begun
	} else if err == nil {
		err = s.run(ctx, watcher)
	}
	s.end(ctx, watcher, err)
	// The deadline is the connection's, which may serve other requests.
	if err := setWriteDeadline(s.control, time.Time{}); err != nil {
		a.Log.Debug("the connection of a watch is gone", "err", err)
	}
	return nil
}

// setWriteDeadline sets the deadline of a connection, if it is of a kind that has any.
func setWriteDeadline(control *http.ResponseController, t time.Time) error {
	if err := control.SetWriteDeadline(t); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

func watchTime(options *internalversion.ListOptions) time.Duration {
	if options.TimeoutSeconds != nil && *options.TimeoutSeconds > 0 {
		return min(time.Duration(*options.TimeoutSeconds)*time.Second, 24*time.Hour)
	}
	return minWatch + rand.N(minWatch)
}

// stream writes the events of one watch.
type stream struct {
	api       *API
	r         *request
	encode    func(buf []byte, event registry.Event) ([]byte, error)
	bookmarks bool
	initial   bool // the client asked for the initial events and their end
	control   *http.ResponseController
	buf       []byte
	deadline  time.Time
}

func (a *API) newStream(r *request, options *internalversion.ListOptions) (*stream, error) {
	s := &stream{api: a, r: r, bookmarks: options.AllowWatchBookmarks, initial: options.SendInitialEvents != nil && *options.SendInitialEvents}
	s.control = http.NewResponseController(r.Response().Writer)
	switch {
	case r.out.convert.Kind == kindTable:
		table, err := r.tableOptions()
		if err != nil {
			return nil, err
		}
		s.encode = r.tableFrames(table)
	case r.out.convert.Kind == "PartialObjectMetadataList":
		return nil, statusError(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable,
			"you requested PartialObjectMetadataList, but the requested object is not a list")
	case r.out.convert.Kind != "":
		s.encode = r.partialFrames()
	case r.out.media == mediaProtobuf:
		s.encode = appendProtobufFrame
	default:
		s.encode = appendJSONFrame
	}
	return s, nil
}

// begin sends the headers, so that the client knows that it watches before anything happens.
func (s *stream) begin() error {
	header := s.r.Response().Header()
	kind := s.r.out.media.String()
	if s.r.out.media == mediaProtobuf {
		kind += ";stream=watch"
	}
	header["Content-Type"] = []string{kind}
	s.r.Response().WriteHeader(http.StatusOK)
	return s.flush()
}

// run sends events until the watch's time is over, its client gone or its history lost.
func (s *stream) run(ctx context.Context, watcher registry.Watcher) error {
	for {
		until, cancel := context.WithTimeout(ctx, s.api.Limits.Bookmark)
		err := s.events(until, watcher)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return err
		}
		if err := s.bookmark(watcher.Seen(), false); err != nil {
			return err
		}
	}
}

func (s *stream) events(ctx context.Context, watcher registry.Watcher) error {
	for {
		batch, err := watcher.Next(ctx)
		if err != nil {
			return err
		}
		s.buf = s.buf[:0]
		for _, event := range batch {
			if event.Type == bookmarkType {
				if s.buf, err = s.appendBookmark(s.buf, event.Revision, s.initial); err != nil {
					return err
				}
				continue
			}
			if s.buf, err = s.encode(s.buf, event); err != nil {
				return err
			}
			if len(s.buf) > chunkSize {
				if err := s.send(); err != nil {
					return err
				}
			}
		}
		if err := s.send(); err != nil {
			return err
		}
	}
}

// errClient ends a watch whose client does not read.
var errClient = errors.New("the watcher does not read")

// send writes what is in the buffer. The connection's deadline moves on only now and then, because moving it is not free.
func (s *stream) send() error {
	if len(s.buf) == 0 {
		return nil
	}
	if now := time.Now(); now.Add(stalled).After(s.deadline) {
		s.deadline = now.Add(2 * stalled)
		if err := setWriteDeadline(s.control, s.deadline); err != nil {
			return errClient
		}
	}
	_, err := s.r.Response().Write(s.buf)
	s.buf = s.buf[:0]
	if cap(s.buf) > keptBuffer {
		s.buf = nil
	}
	if err != nil {
		return errClient
	}
	return s.flush()
}

func (s *stream) flush() error {
	if err := s.control.Flush(); err != nil {
		return errClient
	}
	return nil
}

// end says how the watch ended: with a last bookmark when its time is over, with a Status when the server can't go on.
func (s *stream) end(ctx context.Context, watcher registry.Watcher, err error) {
	s.buf = s.buf[:0]
	switch {
	case errors.Is(err, errClient) || errors.Is(err, context.Canceled):
		return
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil:
		if err := s.bookmark(watcher.Seen(), false); err != nil {
			s.api.Log.Debug("a watcher left before its last bookmark", "err", err)
		}
		return
	}
	frame, failed := s.appendStatus(s.buf, s.api.status(s.r, err))
	if failed != nil {
		s.api.Log.Error("the end of a watch could not be encoded", "err", failed)
		return
	}
	s.buf = frame
	if err := s.send(); err != nil {
		s.api.Log.Debug("a watcher left before its end was told", "err", err)
	}
}

func (s *stream) bookmark(revision int64, initialEnd bool) error {
	var err error
	if s.buf, err = s.appendBookmark(s.buf[:0], revision, initialEnd); err != nil {
		return err
	}
	return s.send()
}
