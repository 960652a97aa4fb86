package container

import "testing"

func TestGuestsCodeNeverTurnsFailureIntoSuccess(t *testing.T) {
	for code, want := range map[uint32]int32{1: 1, 3: 3, 255: 255, 256: 255, 512: 255, 1<<32 - 1: 255} {
		if got := exitCode(code); got != want {
			t.Errorf("code %d became %d, want %d", code, got, want)
		}
	}
}
