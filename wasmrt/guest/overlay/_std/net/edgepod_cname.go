//go:build wasip1 && go1.26

package net

import "context"

func cgoLookupCNAME(ctx context.Context, name string) (string, error) { return canonical(ctx, name) }
