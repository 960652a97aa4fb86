package depot

import (
	"errors"
	"fmt"
)

// What is not there, and what there is no room for.
var (
	ErrUnknownRepository = errors.New("there is no such repository")
	ErrUnknownBlob       = errors.New("the repository has no such blob")
	ErrUnknownManifest   = errors.New("the repository has no such manifest")
	ErrUnknownUpload     = errors.New("there is no such upload: it was finished, given up, or took too long")
	ErrDiskFull          = errors.New("the disk that holds the images is full")
	ErrUploads           = errors.New("the namespace has as many unfinished uploads as it may: finish or cancel some")
)

// SizeError says that a content is larger than the registry takes.
type SizeError struct{ Limit int64 }

func (e *SizeError) Error() string {
	return fmt.Sprintf("the content is larger than the registry's limit of %s", bytesText(e.Limit))
}

// DigestError says that a content is not the one that its digest names.
type DigestError struct{ Want Digest }

func (e *DigestError) Error() string {
	return fmt.Sprintf("the content that was sent does not have the digest %s", e.Want)
}

// OffsetError says that a chunk does not begin where the upload ends.
type OffsetError struct{ Want, Size int64 }

func (e *OffsetError) Error() string {
	return fmt.Sprintf("the chunk begins at byte %d, and the upload has %d bytes", e.Want, e.Size)
}

// QuotaError says that a namespace's repositories may not grow so much.
type QuotaError struct {
	Namespace   string
	Quota, Used int64
	// Over is how much is missing.
	Over int64
}

func (e *QuotaError) Error() string {
	return fmt.Sprintf("namespace %s may keep %s of images and has %s, which leaves no room for this one: delete images that are not needed, or raise the quota",
		e.Namespace, bytesText(e.Quota), bytesText(e.Used))
}

// MissingError says that a manifest names what its repository does not have.
type MissingError struct{ Digests []Digest }

func (e *MissingError) Error() string {
	return fmt.Sprintf("the manifest names %d blobs or manifests that the repository does not have, first %s", len(e.Digests), e.Digests[0])
}

// InUseError says that a manifest needs what was to be deleted.
type InUseError struct{ By Digest }

func (e *InUseError) Error() string {
	return fmt.Sprintf("manifest %s needs it: delete that one first", e.By)
}

// FullError says that a repository has as many manifests, tags or blobs as one may.
type FullError struct{ Limit int }

func (e *FullError) Error() string {
	return fmt.Sprintf("the repository has more than %d tags, manifests and blobs, with what its manifests list: delete some, or use another repository", e.Limit)
}

func bytesText(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d bytes", n)
	}
	value, names := float64(n)/unit, []string{"KiB", "MiB", "GiB", "TiB"}
	for len(names) > 1 && value >= unit {
		value, names = value/unit, names[1:]
	}
	return fmt.Sprintf("%.4g %s", value, names[0])
}
