package main

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"k8s.io/klog/v2"
)

func TestTheLogHoldsNoBodies(t *testing.T) {
	defer klog.ClearLogger()
	var out bytes.Buffer
	newLog(&out, slog.LevelDebug)
	log := klog.FromContext(context.Background())
	log.V(7).Info("detail")
	log.V(8).Info("Response Body", "body", "secret")
	if got := out.String(); strings.Contains(got, "secret") || !strings.Contains(got, "level=DEBUG msg=detail") {
		t.Errorf("logged %q", got)
	}
}
