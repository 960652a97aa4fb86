package main

import (
	"archive/tar"
	"bytes"
	"flag"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/rogpeppe/go-internal/testscript"
)

// registries is the key of a script's registries, which are held by their name and by their host.
type registries struct{}

// scriptRegistry is an image registry that runs in the test's process.
type scriptRegistry struct {
	server         *httptest.Server
	user, password string
	// status answers every request, where it is not 0.
	status atomic.Int32
}

// runRegistry starts image registries on the loopback address, fills them and ends them:
//
//	registry start NAME [USER PASSWORD]    puts its host into $NAME
//	registry push REFERENCE LAYOUT [-entrypoint WORDS] [-cmd WORDS] [-env NAME=VALUE] [-workdir PATH] [-file PATH=FILE] [MODULE]
//	                                       puts the digest into $DIGEST; LAYOUT is artifact, runwasi, image, index or linux
//	registry answer NAME STATUS            answers everything with the HTTP status, or with 0 as usual again
//	registry stop NAME
func runRegistry(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: registry start|push|answer|stop ...")
	}
	all := ts.Value(registries{}).(map[string]*scriptRegistry)
	switch args[0] {
	case "start":
		startRegistry(ts, all, args[1], args[2:])
	case "push":
		pushImage(ts, all, args[1], args[2:])
	case "answer":
		status, err := strconv.Atoi(args[2])
		ts.Check(err)
		all[args[1]].status.Store(int32(status))
	case "stop":
		all[args[1]].server.Close()
	default:
		ts.Fatalf("registry %s is not known", args[0])
	}
}

func startRegistry(ts *testscript.TestScript, all map[string]*scriptRegistry, called string, login []string) {
	r := &scriptRegistry{}
	if len(login) == 2 {
		r.user, r.password = login[0], login[1]
	}
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	r.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		user, password, _ := req.BasicAuth()
		switch status := int(r.status.Load()); {
		case status != 0:
			w.Header().Set("Retry-After", "1")
			http.Error(w, http.StatusText(status), status)
		case user != r.user || password != r.password:
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			http.Error(w, `{"errors": [{"code": "UNAUTHORIZED", "message": "authentication required"}]}`, http.StatusUnauthorized)
		default:
			inner.ServeHTTP(w, req)
		}
	}))
	ts.Defer(r.server.Close)
	host := strings.TrimPrefix(r.server.URL, "http://")
	all[called], all[host] = r, r
	ts.Setenv(called, host)
}

// pushImage makes an image in a layout and pushes it.
func pushImage(ts *testscript.TestScript, all map[string]*scriptRegistry, to string, args []string) {
	ref, err := name.ParseReference(to)
	ts.Check(err)
	target := all[ref.Context().RegistryStr()]
	if target == nil || len(args) == 0 {
		ts.Fatalf("registry push %s: no registry of this script, or no layout", to)
	}
	layout, config := args[0], v1.Config{}
	flags := flag.NewFlagSet("push", flag.ContinueOnError)
	files := map[string][]byte{}
	flags.Func("entrypoint", "", func(s string) error { config.Entrypoint = strings.Fields(s); return nil })
	flags.Func("cmd", "", func(s string) error { config.Cmd = strings.Fields(s); return nil })
	flags.Func("env", "", func(s string) error { config.Env = append(config.Env, s); return nil })
	flags.StringVar(&config.WorkingDir, "workdir", "", "")
	flags.Func("file", "", func(s string) error {
		path, file, _ := strings.Cut(s, "=")
		files[path] = []byte(ts.ReadFile(file))
		return nil
	})
	ts.Check(flags.Parse(args[1:]))
	var module []byte
	if flags.NArg() > 0 {
		module = []byte(ts.ReadFile(flags.Arg(0)))
	}
	auth := remote.WithAuth(authn.Anonymous)
	if target.user != "" {
		auth = remote.WithAuth(&authn.Basic{Username: target.user, Password: target.password})
	}
	var digest v1.Hash
	if layout == "index" {
		index := platforms(ts, module, config)
		digest, err = index.Digest()
		ts.Check(err)
		ts.Check(remote.WriteIndex(ref, index, auth))
	} else {
		image := imageOf(ts, layout, module, config, files)
		digest, err = image.Digest()
		ts.Check(err)
		ts.Check(remote.Write(ref, image, auth))
	}
	ts.Setenv("DIGEST", digest.String())
}

func imageOf(ts *testscript.TestScript, layout string, module []byte, config v1.Config, files map[string][]byte) v1.Image {
	switch layout {
	case "artifact":
		return artifact(ts, static.NewLayer(module, "application/wasm"), "application/vnd.wasm.config.v0+json")
	case "runwasi":
		layer := static.NewLayer(module, "application/vnd.bytecodealliance.wasm.component.layer.v0+wasm")
		return artifact(ts, layer, types.OCIConfigJSON)
	case "linux":
		config.Entrypoint = []string{"/bin/server"}
		return withPlatform(ts, "linux", "amd64", config, map[string][]byte{"bin/server": []byte("\x7fELF")})
	case "image":
		files["app.wasm"] = module
		if config.Entrypoint == nil && config.Cmd == nil {
			config.Entrypoint = []string{"/app.wasm"}
		}
		return withPlatform(ts, "wasip1", "wasm", config, files)
	}
	ts.Fatalf("registry push: the layout %s is not known", layout)
	return nil
}

// artifact is a module as one raw layer.
func artifact(ts *testscript.TestScript, layer v1.Layer, config types.MediaType) v1.Image {
	image, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{Architecture: "wasm", OS: "wasip1"})
	ts.Check(err)
	image, err = mutate.AppendLayers(image, layer)
	ts.Check(err)
	return mutate.ConfigMediaType(mutate.MediaType(image, types.OCIManifestSchema1), config)
}

// withPlatform is an ordinary image with files in one layer.
func withPlatform(ts *testscript.TestScript, os, arch string, config v1.Config, files map[string][]byte) v1.Image {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for path, data := range files {
		ts.Check(w.WriteHeader(&tar.Header{
			Name: strings.TrimPrefix(path, "/"), Mode: 0o644, Size: int64(len(data)), Typeflag: tar.TypeReg, ModTime: time.Unix(1, 0),
		}))
		_, err := w.Write(data)
		ts.Check(err)
	}
	ts.Check(w.Close())
	layer, err := tarball.LayerFromOpener(
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer))
	ts.Check(err)
	image, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{OS: os, Architecture: arch, Config: config})
	ts.Check(err)
	image, err = mutate.AppendLayers(image, layer)
	ts.Check(err)
	return mutate.ConfigMediaType(mutate.MediaType(image, types.OCIManifestSchema1), types.OCIConfigJSON)
}

// platforms is an index of a Linux image and one of the module.
func platforms(ts *testscript.TestScript, module []byte, config v1.Config) v1.ImageIndex {
	linux := imageOf(ts, "linux", nil, v1.Config{}, nil)
	wasm := imageOf(ts, "image", module, config, map[string][]byte{})
	add := func(image v1.Image, os, arch string) mutate.IndexAddendum {
		return mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: os, Architecture: arch}}}
	}
	index := mutate.AppendManifests(empty.Index, add(linux, "linux", "amd64"), add(wasm, "wasip1", "wasm"))
	return mutate.IndexMediaType(index, types.OCIImageIndex)
}
