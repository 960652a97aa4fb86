package api

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	kjson "sigs.k8s.io/json"
)

// maxTrust is how much memory a client gets for the mere promise of a body.
const maxTrust = 64 << 10

// body reads the request's body, which must not be larger or slower than allowed.
func (a *API) body(r *request) ([]byte, error) {
	req, limit := r.Request(), a.Limits.Body
	if req.Body == nil || req.ContentLength == 0 {
		return nil, nil
	}
	control := http.NewResponseController(r.Response().Writer)
	slow := time.AfterFunc(a.Limits.Upload, func() {
		if err := control.SetReadDeadline(time.Now()); err != nil {
			a.Log.Debug("a slow body can't be cut off", "err", err)
		}
	})
	defer slow.Stop()
	if req.ContentLength > limit {
		return nil, a.tooLarge(req.Body)
	}
	var buf bytes.Buffer
	if req.ContentLength > 0 {
		buf.Grow(int(min(req.ContentLength, maxTrust)) + bytes.MinRead)
	}
	n, err := buf.ReadFrom(io.LimitReader(req.Body, limit+1))
	if n > limit {
		return nil, a.tooLarge(req.Body)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, statusError(http.StatusRequestTimeout, metav1.StatusReasonTimeout, "the body of the request did not come in time")
	}
	if err != nil {
		return nil, badRequest("the body of the request could not be read: %v", err)
	}
	return buf.Bytes(), nil
}

// tooLarge refuses a body, after throwing away a good deal of the rest: a client that is still sending it when the answer
// comes may not get to read the answer.
func (a *API) tooLarge(rest io.Reader) error {
	if _, err := io.CopyN(io.Discard, rest, 4*a.Limits.Body); err != nil && !errors.Is(err, io.EOF) {
		a.Log.Debug("the rest of a large body did not come", "err", err)
	}
	return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", a.Limits.Body))
}

// contentType returns the serializer of the request's body: JSON where the client names none.
func contentType(req *http.Request, codecs serializer.CodecFactory) (runtime.SerializerInfo, error) {
	known := codecs.SupportedMediaTypes()
	header := req.Header.Get("Content-Type")
	if header == "" {
		return known[0], nil
	}
	if name, _, err := mime.ParseMediaType(header); err == nil {
		if info, ok := runtime.SerializerInfoForMediaType(known, name); ok {
			return info, nil
		}
	}
	return runtime.SerializerInfo{}, unsupportedMediaType(mediaTypes[:]...)
}

// decode makes an object of kind out of a body. What strict decoding finds is an error, a warning or nothing, as validation
// says.
func decode(r *request, codecs serializer.CodecFactory, body []byte, kind schema.GroupVersionKind, empty func() runtime.Object, validation string) (runtime.Object, error) {
	info, err := contentType(r.Request(), codecs)
	if err != nil {
		return nil, err
	}
	switch info.MediaType {
	case mediaJSON.String():
		if obj := decodeFlawless(body, kind, empty()); obj != nil {
			return obj, nil
		}
	case mediaYAML.String():
		if err := boundYAML(body); err != nil {
			return nil, badRequest("%v", err)
		}
	}
	serializer := info.StrictSerializer
	if validation == metav1.FieldValidationIgnore {
		serializer = info.Serializer
	}
	obj, found, err := serializer.Decode(body, &kind, empty())
	if strict, ok := runtime.AsStrictDecodingError(err); ok && obj != nil && validation == metav1.FieldValidationWarn {
		r.warnStrict(strict.Errors())
		err = nil
	}
	if err == nil && found != nil && *found != kind {
		if found.GroupVersion() != kind.GroupVersion() {
			return nil, badRequest("the API version in the data (%s) does not match the expected API version (%s)", found.GroupVersion(), kind.GroupVersion())
		}
		err = fmt.Errorf("converting (%s.%s) to (%s.%s): unknown conversion", found.Version, found.Kind, internalName(kind.Group), kind.Kind)
	}
	if err != nil {
		return nil, decodeError(err, kind, found, body)
	}
	return obj, nil
}

// decodeFlawless reads JSON that nothing is wrong with, in one pass; otherwise it returns nil, and the serializer, which
// reads twice, is to say what is wrong.
func decodeFlawless(body []byte, kind schema.GroupVersionKind, into runtime.Object) runtime.Object {
	strict, err := kjson.UnmarshalStrict(body, into)
	if err != nil || len(strict) > 0 {
		return nil
	}
	if found := into.GetObjectKind().GroupVersionKind(); found != kind && !found.Empty() {
		return nil
	}
	into.GetObjectKind().SetGroupVersionKind(kind)
	return into
}

// internalName is how Kubernetes' sources name a group.
func internalName(group string) string {
	if group == "" {
		return "core"
	}
	first, _, _ := strings.Cut(group, ".")
	return first
}

func decodeError(err error, kind schema.GroupVersionKind, found *schema.GroupVersionKind, body []byte) error {
	if found != nil && found.Kind != "" {
		return badRequest("%s in version %q cannot be handled as a %s: %v", found.Kind, found.Version, kind.Kind, err)
	}
	return badRequest("the object provided is unrecognized (must be of type %s): %v (%s)", kind.Kind, err, summary(body, 30))
}

// summary shows the beginning of a body in an error.
func summary(body []byte, limit int) string {
	if len(body) == 0 {
		return "<empty>"
	}
	more := ""
	if len(body) > limit {
		body, more = body[:limit], " ..."
	}
	if body[0] == '{' {
		return string(body) + more
	}
	return hex.EncodeToString(body) + more
}

// warnStrict warns of unknown and repeated fields. YAML's decoder puts several into one error, a line each.
func (r *request) warnStrict(errs []error) {
	for _, err := range errs {
		text := err.Error()
		if !strings.HasPrefix(text, "yaml: unmarshal errors:") {
			r.warn(text)
			continue
		}
		for _, line := range strings.Split(text, "\n")[1:] {
			r.warn(strings.TrimSpace(line))
		}
	}
}
