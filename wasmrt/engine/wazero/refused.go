package wazero

import (
	"strconv"
	"strings"

	"edgepod/wasmrt/engine"
)

// refused gives what the engine says of a module its type.
func refused(err error) error {
	return &engine.RefusedError{Proposal: proposalOf(err.Error()), Err: err}
}

// proposalOf tells which proposal a module needs that the engine complains of with this text: "" where none is known by
// it. The engine names features that it has and that are switched off; what it has not it doesn't know, and it quotes the
// byte that it stumbled over.
func proposalOf(text string) string {
	const before, after = `feature "`, `" is disabled`
	if _, rest, ok := strings.Cut(text, before); ok {
		if name, _, ok := strings.Cut(rest, after); ok {
			return strings.TrimPrefix(name, "typed-") // of function references
		}
	}
	for _, b := range []struct {
		before   string
		proposal func(uint64) string
	}{
		{"invalid instruction 0x", proposalOfOpcode},
		{"unknown misc opcode 0x", proposalOfMisc},
		{"invalid misc opcode: 0x", proposalOfMisc},
		{"invalid byte for limits: 0x", proposalOfLimits},
		{"invalid byte: 0x", proposalOfType},
	} {
		if _, rest, ok := strings.Cut(text, b.before); ok {
			digits := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789abcdef"))]
			if code, err := strconv.ParseUint(digits, 16, 64); err == nil {
				return b.proposal(code)
			}
		}
	}
	if strings.Contains(text, "at most one memory allowed") {
		return "multi-memory"
	}
	return ""
}

// proposalOfOpcode knows the instructions of one byte.
func proposalOfOpcode(code uint64) string {
	switch {
	case code == 0x06, code == 0x07, code == 0x09, code == 0x18, code == 0x19:
		return "exception-handling (the legacy form)"
	case code == 0x08, code == 0x0a, code == 0x1f:
		return "exception-handling"
	case code >= 0xe0 && code <= 0xe6:
		return "stack-switching"
	case code == 0x14, code == 0x15, code >= 0xd4 && code <= 0xd6:
		return "function-references"
	case code == 0xd3, code == 0xfb:
		return "gc"
	}
	return ""
}

// proposalOfMisc knows the instructions behind the byte 0xfc.
func proposalOfMisc(code uint64) string {
	switch {
	case code == 0x12:
		return "memory-control"
	case code >= 0x13 && code <= 0x16:
		return "wide-arithmetic"
	}
	return ""
}

// proposalOfLimits knows the flags of memories and tables.
func proposalOfLimits(flags uint64) string {
	switch {
	case flags&8 != 0:
		return "custom-page-sizes"
	case flags&4 != 0:
		return "memory64"
	}
	return ""
}

// proposalOfType knows the forms of types.
func proposalOfType(form uint64) string {
	switch form {
	case 0x5d:
		return "stack-switching"
	case 0x5f, 0x5e, 0x50, 0x4f, 0x4e:
		return "gc"
	}
	return ""
}
