//go:build linux

package fs

import (
	"os"
	"testing"
	"time"
)

// testTime is how long a test that could go on for ever does so: as long as said, or as EDGEPOD_TEST_TIME says, such as 60s.
func testTime(t *testing.T, usual time.Duration) time.Duration {
	t.Helper()
	text := os.Getenv("EDGEPOD_TEST_TIME")
	if text == "" {
		return usual
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("EDGEPOD_TEST_TIME: %v", err)
	}
	return max(d, usual)
}
