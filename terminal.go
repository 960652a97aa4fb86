package main

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// visible returns w, or where w is a terminal a writer that shows control bytes instead of sending them: what pods log
// and what objects hold comes from strangers, and must not steer the user's terminal.
func visible(w io.Writer) io.Writer {
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return &escaper{out: w}
	}
	return w
}

// escaper writes tabs, line ends and printable text as they are, and other control characters as \xNN.
type escaper struct {
	out io.Writer
	// lead is set when the last byte was 0xC2, with which the two-byte forms of the C1 control characters begin.
	lead bool
}

// Write passes on all of p, escaped; it counts p's bytes, not those written.
func (e *escaper) Write(p []byte) (int, error) {
	escaped := make([]byte, 0, len(p)+16)
	for _, b := range p {
		lead := e.lead
		e.lead = b == 0xC2
		switch {
		case e.lead && lead:
			escaped = append(escaped, 0xC2)
		case e.lead:
		case lead && b >= 0x80 && b < 0xA0:
			escaped = fmt.Appendf(escaped, `\x%02x`, b)
		case lead:
			escaped = appendVisible(append(escaped, 0xC2), b)
		default:
			escaped = appendVisible(escaped, b)
		}
	}
	if _, err := e.out.Write(escaped); err != nil {
		return 0, err
	}
	return len(p), nil
}

func appendVisible(dst []byte, b byte) []byte {
	if b < 0x20 && b != '\n' && b != '\t' || b == 0x7F {
		return fmt.Appendf(dst, `\x%02x`, b)
	}
	return append(dst, b)
}
