package oci

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"syscall"

	"edgepod/server/oci/depot"
)

// Codes of the distribution specification, but for paginationInvalid, which is that of other registries.
const (
	blobUnknown         = "BLOB_UNKNOWN"
	blobUploadInvalid   = "BLOB_UPLOAD_INVALID"
	blobUploadUnknown   = "BLOB_UPLOAD_UNKNOWN"
	digestInvalid       = "DIGEST_INVALID"
	manifestBlobUnknown = "MANIFEST_BLOB_UNKNOWN"
	manifestInvalid     = "MANIFEST_INVALID"
	manifestUnknown     = "MANIFEST_UNKNOWN"
	nameInvalid         = "NAME_INVALID"
	nameUnknown         = "NAME_UNKNOWN"
	sizeInvalid         = "SIZE_INVALID"
	unauthorized        = "UNAUTHORIZED"
	denied              = "DENIED"
	unsupported         = "UNSUPPORTED"
	tooManyRequests     = "TOOMANYREQUESTS"
	unknown             = "UNKNOWN"
	paginationInvalid   = "PAGINATION_NUMBER_INVALID"
)

// fault is an error that a client is to see.
type fault struct {
	status        int
	code, message string
	detail        any
}

func (f *fault) Error() string { return f.message }

// refuse returns a fault of a request.
func refuse(status int, code, format string, args ...any) error {
	return &fault{status: status, code: code, message: fmt.Sprintf(format, args...)}
}

// faultOf tells clients of an error in the words of the specification. It returns nil where the error is the server's own.
func faultOf(err error) *fault {
	var known *fault
	if errors.As(err, &known) {
		return known
	}
	for _, f := range sentinels {
		if errors.Is(err, f.is) {
			return &fault{status: f.status, code: f.code, message: f.message}
		}
	}
	return typedFault(err)
}

// sentinels are how errors without more facts are told.
var sentinels = []struct {
	is      error
	status  int
	code    string
	message string
}{
	{depot.ErrUnknownRepository, http.StatusNotFound, nameUnknown, depot.ErrUnknownRepository.Error()},
	{depot.ErrUnknownBlob, http.StatusNotFound, blobUnknown, depot.ErrUnknownBlob.Error()},
	{depot.ErrUnknownManifest, http.StatusNotFound, manifestUnknown, depot.ErrUnknownManifest.Error()},
	{depot.ErrUnknownUpload, http.StatusNotFound, blobUploadUnknown, depot.ErrUnknownUpload.Error()},
	{depot.ErrUploads, http.StatusTooManyRequests, tooManyRequests, depot.ErrUploads.Error()},
	{depot.ErrDiskFull, http.StatusInsufficientStorage, denied, depot.ErrDiskFull.Error()},
	{errTakenOver, http.StatusConflict, blobUploadInvalid, errTakenOver.Error()},
	{os.ErrDeadlineExceeded, http.StatusRequestTimeout, blobUploadInvalid, "the content did not come in time"},
	{syscall.ENOSPC, http.StatusInsufficientStorage, denied, depot.ErrDiskFull.Error()},
	{context.Canceled, http.StatusRequestTimeout, unknown, "the request was given up"},
}

func typedFault(err error) *fault {
	var (
		size    *depot.SizeError
		digest  *depot.DigestError
		offset  *depot.OffsetError
		quota   *depot.QuotaError
		missing *depot.MissingError
		inUse   *depot.InUseError
		full    *depot.FullError
	)
	switch {
	case errors.As(err, &size):
		return &fault{status: http.StatusRequestEntityTooLarge, code: sizeInvalid, message: size.Error()}
	case errors.As(err, &digest):
		return &fault{status: http.StatusBadRequest, code: digestInvalid, message: digest.Error()}
	case errors.As(err, &offset):
		return &fault{status: http.StatusRequestedRangeNotSatisfiable, code: blobUploadInvalid, message: offset.Error()}
	case errors.As(err, &quota):
		return &fault{status: http.StatusForbidden, code: denied, message: quota.Error(), detail: map[string]int64{"quota": quota.Quota, "used": quota.Used}}
	case errors.As(err, &missing):
		return &fault{status: http.StatusNotFound, code: manifestBlobUnknown, message: missing.Error(), detail: missing.Digests[:min(len(missing.Digests), 100)]}
	case errors.As(err, &inUse):
		return &fault{status: http.StatusMethodNotAllowed, code: denied, message: inUse.Error()}
	case errors.As(err, &full):
		return &fault{status: http.StatusForbidden, code: denied, message: full.Error()}
	}
	return nil
}

// Refuse answers a request that is turned away before it comes to the registry, in the registry's form.
func (g *Registry) Refuse(w http.ResponseWriter, status int, message string) {
	code := unknown
	switch status {
	case http.StatusUnauthorized:
		code = unauthorized
		// Docker's clients then send what `docker login` was given.
		w.Header().Set("WWW-Authenticate", `Basic realm="edgepod", charset="UTF-8"`)
	case http.StatusForbidden, http.StatusMisdirectedRequest:
		code = denied
	case http.StatusTooManyRequests:
		code = tooManyRequests
	}
	g.writeFault(w, &fault{status: status, code: code, message: message})
}

// writeFault answers with the fault.
func (g *Registry) writeFault(w http.ResponseWriter, f *fault) {
	type entry struct {
		Code    string `json:"code"`
		Message string `json:"message"`
		Detail  any    `json:"detail,omitempty"`
	}
	body, err := json.Marshal(map[string][]entry{"errors": {{f.code, f.message, f.detail}}})
	if err != nil {
		g.config.Log.Error("an error can't be answered", "err", err)
		body = []byte(`{"errors":[]}`)
	}
	if f.status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	g.write(w, f.status, "application/json", body)
}

func (g *Registry) write(w http.ResponseWriter, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	w.WriteHeader(status)
	if _, err := w.Write(body); err != nil && !errors.Is(err, http.ErrBodyNotAllowed) {
		g.config.Log.Debug("a client did not wait for its answer", "err", err)
	}
}
