package main

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"time"
)

// welcome is the page of a server that has no files.
const welcome = `<!DOCTYPE html>
<html>
<head><meta charset="utf-8"><title>edgepod web</title></head>
<body>
<h1>It works.</h1>
<p>This is edgepod's own web server, a WebAssembly module that also answers for the image nginx. It has no files to serve
yet: mount a folder at /usr/share/nginx/html or /srv, or name another one as its argument.</p>
</body>
</html>
`

// kinds are the media types of files, by the endings of their names.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8", ".htm": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
	".js": "text/javascript; charset=utf-8", ".mjs": "text/javascript; charset=utf-8", ".json": "application/json",
	".txt": "text/plain; charset=utf-8", ".md": "text/markdown; charset=utf-8", ".csv": "text/csv; charset=utf-8",
	".xml": "text/xml; charset=utf-8", ".yaml": "application/yaml", ".yml": "application/yaml", ".svg": "image/svg+xml",
	".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp",
	".avif": "image/avif", ".ico": "image/x-icon", ".woff": "font/woff", ".woff2": "font/woff2", ".ttf": "font/ttf",
	".pdf": "application/pdf", ".wasm": "application/wasm", ".zip": "application/zip", ".gz": "application/gzip",
	".mp3": "audio/mpeg", ".mp4": "video/mp4", ".webm": "video/webm",
}

// files serves a folder. Links that lead out of it are not followed.
type files struct {
	root *os.Root // nil: there is none
}

// empty tells whether there is nothing to serve.
func (f files) empty() bool {
	if f.root == nil {
		return true
	}
	dir, err := f.root.Open(".")
	if err != nil {
		return true
	}
	defer dir.Close()
	_, err = dir.Readdirnames(1)
	return err == io.EOF
}

// serve answers a request for a file.
func (f files) serve(r *response) {
	if r.req.method != "GET" && r.req.method != "HEAD" {
		r.refuse(405, field{"Allow", "GET, HEAD"})
		return
	}
	name := strings.TrimPrefix(path.Clean(r.req.path), "/")
	if name == "" {
		name = "."
		if f.empty() {
			r.page(200, "text/html; charset=utf-8", welcome)
			return
		}
	}
	if f.root == nil {
		r.refuse(404)
		return
	}
	file, info, err := f.open(name)
	switch {
	case errors.Is(err, errIsFolder):
		f.folder(r, name)
		return
	case err != nil || strings.HasSuffix(r.req.path, "/"):
		if err == nil {
			file.Close()
		}
		r.refuse(404)
		return
	}
	defer file.Close()
	send(r, file, info)
}

var errIsFolder = errors.New("is a folder")

// open opens a file, but no folder and nothing else that is not a file.
func (f files) open(name string) (*os.File, fs.FileInfo, error) {
	info, err := f.root.Stat(name)
	switch {
	case err != nil:
		return nil, nil, err
	case info.IsDir():
		return nil, nil, errIsFolder
	case !info.Mode().IsRegular():
		return nil, nil, fs.ErrPermission
	}
	file, err := f.root.Open(name)
	if err != nil {
		return nil, nil, err
	}
	if info, err = file.Stat(); err != nil || !info.Mode().IsRegular() {
		file.Close()
		return nil, nil, errors.Join(err, fs.ErrPermission)
	}
	return file, info, nil
}

// folder answers with the index page of a folder, whose path ends in a slash.
func (f files) folder(r *response, name string) {
	if !strings.HasSuffix(r.req.path, "/") {
		// Not all that begins with a slash is of this server: //example.org/ is of another.
		r.refuse(301, field{"Location", "/" + strings.TrimLeft(r.req.raw, "/\\") + "/" + r.req.query})
		return
	}
	file, info, err := f.open(path.Join(name, "index.html"))
	if err != nil {
		r.refuse(403)
		return
	}
	defer file.Close()
	send(r, file, info)
}

// send answers with a file, or that the client has it already, or with the part that was asked for.
func send(r *response, file *os.File, info fs.FileInfo) {
	tag := `"` + strconv.FormatInt(info.ModTime().UnixNano(), 36) + "-" + strconv.FormatInt(info.Size(), 36) + `"`
	kind := kinds[strings.ToLower(path.Ext(info.Name()))]
	if kind == "" {
		kind = "application/octet-stream"
	}
	header := []field{
		{"ETag", tag}, {"Last-Modified", info.ModTime().UTC().Format(timeFormat)}, {"Accept-Ranges", "bytes"},
	}
	if unchanged(r.req, tag, info.ModTime()) {
		r.begin(304, 0, header...)
		return
	}
	first, length, status := wantedRange(r.req, tag, info.Size())
	switch status {
	case 416:
		r.refuse(416, field{"Content-Range", "bytes */" + strconv.FormatInt(info.Size(), 10)})
		return
	case 206:
		header = append(header, field{"Content-Range", "bytes " + strconv.FormatInt(first, 10) + "-" +
			strconv.FormatInt(first+length-1, 10) + "/" + strconv.FormatInt(info.Size(), 10)})
	}
	r.begin(status, length, append(header, field{"Content-Type", kind})...)
	if r.headOnly() {
		return
	}
	n, _ := io.Copy(r, io.NewSectionReader(file, first, length))
	if n < length { // the file has shrunk, or the client is gone: neither can be told otherwise
		r.req.last = true
	}
}

// unchanged tells whether the client has the file as it is.
func unchanged(r *request, tag string, modified time.Time) bool {
	if r.get("If-None-Match") != "" {
		return r.has("If-None-Match", tag) || r.has("If-None-Match", "W/"+tag) || r.has("If-None-Match", "*")
	}
	since, err := time.Parse(timeFormat, r.get("If-Modified-Since"))
	return err == nil && !modified.Truncate(time.Second).After(since)
}

// wantedRange returns the part of a file that a request is for: a range where it names one, all where it names none or
// several.
func wantedRange(r *request, tag string, size int64) (first, length int64, status int) {
	ranges, ok := strings.CutPrefix(r.get("Range"), "bytes=")
	if !ok || strings.Contains(ranges, ",") || r.get("If-Range") != "" && r.get("If-Range") != tag {
		return 0, size, 200
	}
	from, to, ok := strings.Cut(strings.TrimSpace(ranges), "-")
	if !ok {
		return 0, size, 200
	}
	if from == "" { // the last so many
		n, err := strconv.ParseUint(to, 10, 63)
		switch {
		case err != nil:
			return 0, size, 200
		case n == 0 || size == 0:
			return 0, 0, 416
		}
		length = min(int64(n), size)
		return size - length, length, 206
	}
	start, err := strconv.ParseUint(from, 10, 63)
	end := uint64(size) - 1
	if err == nil && to != "" {
		end, err = strconv.ParseUint(to, 10, 63)
	}
	switch {
	case err != nil || to != "" && end < start:
		return 0, size, 200
	case int64(start) >= size:
		return 0, 0, 416
	}
	end = min(end, uint64(size)-1)
	return int64(start), int64(end-start) + 1, 206
}
