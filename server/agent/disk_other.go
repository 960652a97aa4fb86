//go:build !unix

package agent

// diskSpace is not known on this system.
func diskSpace(string) (size, free int64, ok bool) { return 0, 0, false }
