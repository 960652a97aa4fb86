//go:build wasip1 && !go1.26

package net

import "context"

// cgoLookupCNAME always has an answer, which may be an error.
func cgoLookupCNAME(ctx context.Context, name string) (string, error, bool) {
	name, err := canonical(ctx, name)
	return name, err, true
}
