//go:build !cgo

package harden

// CGO tells that this program was built with cgo.
const CGO = false
