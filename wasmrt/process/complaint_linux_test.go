package process

import "testing"

func TestComplaintsOfWantOfMemoryAreKnown(t *testing.T) {
	for complaint, want := range map[string]bool{
		"fatal error: runtime: cannot allocate memory\n\ngoroutine 1":                                                           true,
		"runtime: out of memory: cannot allocate 4194304-byte block":                                                            true,
		"panic: failed to reserve memory":                                                                                       true,
		"SIGSEGV: segmentation violation\nPC=0x433c9d m=5 sigcode=1 addr=0x0\n\ngoroutine 0 gp=0x127e m=5 mp=0x127f [idle]:\n":  true,
		"SIGSEGV: segmentation violation\nPC=0x433c9d m=5 sigcode=1 addr=0xdead\n\ngoroutine 0 gp=0x127e m=5 mp=0x127f [idle]:": false,
		"panic: runtime error: invalid memory address or nil pointer dereference\n[signal SIGSEGV: segmentation violation":      false,
		"": false,
	} {
		if got := lackedMemory(complaint); got != want {
			t.Errorf("%q: %v, want %v", complaint, got, want)
		}
	}
}
