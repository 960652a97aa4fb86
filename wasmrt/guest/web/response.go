package main

import (
	"bufio"
	"io"
	"strconv"
	"time"
)

// timeFormat is how HTTP writes times.
const timeFormat = "Mon, 02 Jan 2006 15:04:05 GMT"

// unknownLength is for bodies that end when they end.
const unknownLength = -1

// response writes one answer.
type response struct {
	out *bufio.Writer
	req *request
	// status and size are for the log; size counts the body.
	status  int
	size    int64
	chunked bool
}

func statusText(status int) string {
	switch status {
	case 200:
		return "OK"
	case 206:
		return "Partial Content"
	case 301:
		return "Moved Permanently"
	case 304:
		return "Not Modified"
	case 400:
		return "Bad Request"
	case 403:
		return "Forbidden"
	case 404:
		return "Not Found"
	case 405:
		return "Method Not Allowed"
	case 416:
		return "Range Not Satisfiable"
	case 431:
		return "Request Header Fields Too Large"
	case 501:
		return "Not Implemented"
	case 505:
		return "HTTP Version Not Supported"
	}
	return "Internal Server Error"
}

// begin writes the head of an answer whose body has this length.
func (r *response) begin(status int, length int64, header ...field) {
	r.status = status
	r.line("HTTP/1.1 " + strconv.Itoa(status) + " " + statusText(status))
	r.line("Server: edgepod-web")
	r.line("Date: " + time.Now().UTC().Format(timeFormat))
	for _, f := range header {
		r.line(f.name + ": " + f.value)
	}
	switch {
	case status == 304:
	case length >= 0:
		r.line("Content-Length: " + strconv.FormatInt(length, 10))
	case r.req.minor > 0:
		r.chunked = true
		r.line("Transfer-Encoding: chunked")
	default:
		r.req.last = true
	}
	if r.req.last {
		r.line("Connection: close")
	} else if r.req.minor == 0 {
		r.line("Connection: keep-alive")
	}
	r.line("")
}

func (r *response) line(text string) {
	// An error comes back from Flush.
	_, _ = r.out.WriteString(text)
	_, _ = r.out.WriteString("\r\n")
}

// headOnly tells that the answer has no body, whatever its head says.
func (r *response) headOnly() bool { return r.req.method == "HEAD" || r.status == 304 }

// Write writes a part of the body.
func (r *response) Write(p []byte) (int, error) {
	if r.headOnly() || len(p) == 0 {
		return len(p), nil
	}
	if r.chunked {
		r.line(strconv.FormatInt(int64(len(p)), 16))
	}
	n, err := r.out.Write(p)
	r.size += int64(n)
	if r.chunked {
		r.line("")
	}
	return n, err
}

// end finishes the answer.
func (r *response) end() error {
	if r.chunked && !r.headOnly() {
		r.line("0")
		r.line("")
	}
	return r.out.Flush()
}

// text answers with a text.
func (r *response) text(status int, text string, header ...field) {
	r.page(status, "text/plain; charset=utf-8", text, header...)
}

func (r *response) page(status int, kind, text string, header ...field) {
	r.begin(status, int64(len(text)), append(header, field{"Content-Type", kind})...)
	_, _ = io.WriteString(r, text) // an error comes back from Flush
}

// refuse answers with a status and its name.
func (r *response) refuse(status int, header ...field) {
	r.text(status, strconv.Itoa(status)+" "+statusText(status)+"\n", header...)
}
