//go:build cgo

package harden

// CGO tells that this program was built with cgo: its threads are then found through /proc, which must be there and be of
// the process's own PID namespace. Neither a jail nor a new PID namespace works.
const CGO = true
