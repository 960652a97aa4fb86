//go:build !linux

package guestfiles

import "os"

// Remove removes path and all that is in it, and follows no link. Removing what is not there is no error.
func Remove(path string) error { return os.RemoveAll(path) }
