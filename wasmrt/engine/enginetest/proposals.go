package enginetest

import "testing"

// Proposals returns a module for each proposal that is not supported.
func Proposals(t testing.TB) map[string][]byte {
	t.Helper()
	// code is a module with one function, of type ()->(), with this body.
	code := func(body ...byte) []byte {
		module := []byte("\x00asm\x01\x00\x00\x00\x01\x04\x01\x60\x00\x00\x03\x02\x01\x00\x0a")
		entry := append([]byte{byte(len(body) + 2), 0}, append(body, 0x0b)...)
		return append(append(module, byte(len(entry)+1), 1), entry...)
	}
	header := func(sections ...byte) []byte { return append([]byte("\x00asm\x01\x00\x00\x00"), sections...) }
	return map[string][]byte{
		"exception-handling":                   Assemble(t, `(module (tag $e) (func (throw $e)))`),
		"exception-handling (the legacy form)": code(0x06, 0x40, 0x19, 0x0b),
		"memory64":                             Assemble(t, `(module (memory i64 1))`),
		"multi-memory":                         Assemble(t, `(module (memory 1) (memory 1))`),
		"custom-page-sizes":                    header(5, 4, 1, 8, 1, 0),
		"gc":                                   header(1, 5, 1, 0x5f, 1, 0x7f, 0),
		"function-references":                  code(0xd0, 0x70, 0xd4, 0x1a),
		"stack-switching":                      code(0xe0, 0),
		"wide-arithmetic":                      code(0x42, 1, 0x42, 1, 0x42, 1, 0x42, 1, 0xfc, 0x13, 0x1a, 0x1a),
		"memory-control":                       code(0x41, 0, 0x41, 0, 0xfc, 0x12, 0),
	}
}
