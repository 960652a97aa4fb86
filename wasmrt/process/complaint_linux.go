package process

import "regexp"

// lacked matches what the Go runtime and the engine say at their end where memory was refused. The last form is a fault at
// address zero in the runtime's own code, which does not look at every allocation of the collector's: a fault of other code
// is told as a panic.
var lacked = regexp.MustCompile(`cannot allocate memory|out of memory|failed to (reserve|commit|allocate)|` +
	`^SIGSEGV: segmentation violation\nPC=\S+ m=\d+ sigcode=\d+ addr=0x0\n\ngoroutine 0 `)

// lackedMemory tells whether a process ended for want of memory, from the beginning of what it wrote to its standard error.
func lackedMemory(complaint string) bool { return lacked.MatchString(complaint) }
