package main

import (
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// accessLog writes a line for each request, in the common log format.
type accessLog struct{ out io.Writer }

func (l *accessLog) write(r *response) {
	peer := "-"
	if r.req.peer != nil {
		peer = r.req.peer.String()
		if host, _, err := net.SplitHostPort(peer); err == nil {
			peer = host
		}
	}
	line := peer + " - - [" + time.Now().UTC().Format("02/Jan/2006:15:04:05 -0700") + "] \"" + printable(r.req.line) + "\" " +
		strconv.Itoa(r.status) + " " + strconv.FormatInt(r.size, 10) + "\n"
	_, _ = io.WriteString(l.out, line) // there is nobody to tell
}

// printable makes text that others chose safe for a log: one line, with no quote that could end it early.
func printable(text string) string {
	var out strings.Builder
	for i := range len(text) {
		c := text[i]
		switch {
		case c == '"' || c == '\\':
			out.WriteByte('\\')
			out.WriteByte(c)
		case c < ' ' || c >= 0x7f:
			const digits = "0123456789abcdef"
			out.WriteString(`\x`)
			out.WriteByte(digits[c>>4])
			out.WriteByte(digits[c&15])
		default:
			out.WriteByte(c)
		}
	}
	return out.String()
}
