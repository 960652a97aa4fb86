// Package sandboxtest tests implementations of the sandbox seam: a conformance suite that every runtime passes, and a
// fake runtime for the tests of those who use one.
package sandboxtest
