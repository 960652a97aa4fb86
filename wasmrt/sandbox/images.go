package sandbox

import "time"

// StoredImage is an image that is on this machine.
type StoredImage struct {
	// Digest and ID are those of its Image.
	Digest string `json:"digest"`
	ID     string `json:"id,omitempty"`
	// Refs are the references, as users wrote them, that were last seen to stand for it.
	Refs []string `json:"refs,omitempty"`
	// Size on disk in bytes.
	Size int64 `json:"size"`
	// LastUsed is when it was last pulled or started, to the precision of the file system.
	LastUsed time.Time `json:"lastUsed"`
}

// CollectRequest says which images CollectImages is to remove. What an attempt uses that has not ended is kept whatever it
// says.
type CollectRequest struct {
	// MaxAge is how long an image may lie unused; 0: for ever.
	MaxAge time.Duration
	// Free is how many bytes are to be freed in all, by those that were unused for longest where age frees less; 0: none.
	Free int64
	// MinAge keeps what was used since, such as an image that was pulled for a container about to start.
	MinAge time.Duration
}

// Collected is what CollectImages has removed.
type Collected struct {
	Images int
	Bytes  int64
}
