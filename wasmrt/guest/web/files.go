package main

import (
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"strconv"
	"strings"
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

// indexName is the file that stands for its folder.
const indexName = "index.html"

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

// ServeHTTP answers a request for a file, or a folder with an index page.
func (f files) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		refuse(w, http.StatusMethodNotAllowed)
		return
	}
	name := strings.TrimPrefix(path.Clean("/"+r.URL.Path), "/")
	if name == "" {
		name = "."
		if f.empty() {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = io.WriteString(w, welcome) // a client that is gone needs no answer
			return
		}
	}
	file, info, err := f.open(name)
	slash := strings.HasSuffix(r.URL.Path, "/")
	switch {
	case errors.Is(err, errIsFolder) && slash:
		file, info, err = f.open(path.Join(name, indexName))
		if err != nil {
			refuse(w, http.StatusForbidden)
			return
		}
	case errors.Is(err, errIsFolder):
		redirect(w, r, "/"+name+"/")
		return
	case err != nil:
		refuse(w, http.StatusNotFound)
		return
	case slash:
		file.Close()
		refuse(w, http.StatusNotFound)
		return
	}
	defer file.Close()
	w.Header().Set("ETag", `"`+strconv.FormatInt(info.ModTime().UnixNano(), 36)+"-"+strconv.FormatInt(info.Size(), 36)+`"`)
	http.ServeContent(w, r, info.Name(), info.ModTime(), file)
}

var errIsFolder = errors.New("is a folder")

// open opens a file, but no folder and nothing else that is not a file.
func (f files) open(name string) (*os.File, fs.FileInfo, error) {
	if f.root == nil {
		return nil, nil, fs.ErrNotExist
	}
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
	return file, info, err
}

// redirect sends a client to another path of this server, with the query that it has.
func redirect(w http.ResponseWriter, r *http.Request, to string) {
	target := *r.URL
	target.Scheme, target.Host, target.Path, target.RawPath = "", "", to, ""
	w.Header().Set("Location", target.String())
	refuse(w, http.StatusMovedPermanently)
}

func refuse(w http.ResponseWriter, status int) {
	http.Error(w, strconv.Itoa(status)+" "+http.StatusText(status), status)
}
