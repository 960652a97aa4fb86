package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"edgepod/wasmrt/image"
	"edgepod/wasmrt/image/inspect"
	wasmmodule "edgepod/wasmrt/image/module"
	"edgepod/wasmrt/process"
)

// maxModule is the largest module that is read to be pushed.
const maxModule = 1 << 30

// pushable is what can be pushed: an image or an index, and what the user should know of it.
type pushable struct {
	remote.Taggable
	note string
}

// openPushable makes an image of a module, or reads one from an OCI layout's folder or an archive of `docker save`.
func openPushable(source string, dirs []string) (p pushable, err error) {
	info, err := os.Stat(source)
	if err != nil {
		return p, err
	}
	if info.IsDir() {
		if len(dirs) > 0 {
			return p, errors.New("--dir adds folders to a module, and a folder was given in its place")
		}
		p.Taggable, err = fromLayout(source)
		return p, err
	}
	if !info.Mode().IsRegular() {
		return p, fmt.Errorf("%s is not a file", source)
	}
	if isArchive(source) {
		if len(dirs) > 0 {
			return p, errors.New("--dir adds folders to a module, and an archive was given in its place")
		}
		p.Taggable, err = fromArchive(source)
		return p, err
	}
	data, note, err := readModule(source)
	if err != nil {
		return p, err
	}
	p.note = note
	if len(dirs) > 0 {
		p.Taggable, err = withFolders(filepath.Base(source), data, dirs, info.ModTime())
		return p, err
	}
	p.Taggable, err = newArtifact(data, info.ModTime())
	return p, err
}

// isArchive tells whether a file is a tar archive, by the header of its first entry.
func isArchive(path string) bool {
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	_, err = tar.NewReader(file).Next()
	return err == nil
}

// readModule reads a file that must be a module. The note is for the user.
func readModule(path string) (data []byte, note string, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, "", err
	}
	defer file.Close()
	if err := checkMagic(file, path); err != nil {
		return nil, "", err
	}
	if data, err = io.ReadAll(io.LimitReader(file, maxModule+1)); err != nil {
		return nil, "", fmt.Errorf("read %s: %w", path, err)
	}
	if len(data) > maxModule {
		return nil, "", fmt.Errorf("%s is larger than %d GiB", path, maxModule>>30)
	}
	note, err = checkModule(data)
	if err != nil {
		return nil, "", fmt.Errorf("%s %w", path, err)
	}
	return data, note, nil
}

// checkModule tells whether the bytes are a module, or a component that may hold one. The error's text goes on from the name of the file.
func checkModule(data []byte) (note string, err error) {
	switch wasmmodule.Sniff(data) {
	case wasmmodule.Component:
	case wasmmodule.Core:
		if _, err := wasmmodule.Read(bytes.NewReader(data), int64(len(data))); err != nil {
			return "", fmt.Errorf("is a damaged module: %w", err)
		}
	case wasmmodule.Cut:
		return "", errors.New("is only the beginning of a module: the file is cut off")
	default:
		return "", errors.New("is WebAssembly of an unknown version: only modules of version 1 run")
	}
	return whatToKnow(data)
}

// whatToKnow says why nodes will refuse the module, or what a pod of it will lack; "" where there is nothing to say.
func whatToKnow(data []byte) (string, error) {
	report := &inspect.Report{}
	world := inspect.World{Offered: process.Offered}
	if err := world.Describe(bytes.NewReader(data), int64(len(data)), report); err != nil || report.Runs {
		return report.Note, err
	}
	const most = 3
	problems := report.Problems
	if more := len(problems) - most; more > 0 {
		problems = append(problems[:most:most], fmt.Sprintf("and %d more, which `edgepod inspect` tells", more))
	}
	return "nodes will refuse it: " + strings.Join(problems, "; "), nil
}

// moduleArtifact is a module as the CNCF's Wasm OCI artifact: a configuration of its own kind, and one layer, the module as it is.
type moduleArtifact struct {
	config, manifest []byte
	layer            v1.Layer
}

// newArtifact returns the image of a module. It is the same for the same bytes and time.
func newArtifact(data []byte, created time.Time) (v1.Image, error) {
	layer := static.NewLayer(data, image.ModuleType)
	digest, err := layer.Digest()
	if err != nil {
		return nil, err
	}
	system := "wasip1"
	if wasmmodule.Sniff(data) == wasmmodule.Component {
		system = "wasip2"
	}
	a := &moduleArtifact{layer: layer}
	a.config, err = json.Marshal(map[string]any{
		"created": created.UTC().Truncate(time.Second), "architecture": "wasm", "os": system, "layerDigests": []string{digest.String()},
	})
	if err != nil {
		return nil, err
	}
	configDigest, size, err := v1.SHA256(bytes.NewReader(a.config))
	if err != nil {
		return nil, err
	}
	a.manifest, err = json.Marshal(v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1,
		Config: v1.Descriptor{MediaType: image.ConfigType, Digest: configDigest, Size: size},
		Layers: []v1.Descriptor{{MediaType: image.ModuleType, Digest: digest, Size: int64(len(data))}},
	})
	if err != nil {
		return nil, err
	}
	return partial.CompressedToImage(a)
}

// RawConfigFile implements partial.CompressedImageCore.
func (a *moduleArtifact) RawConfigFile() ([]byte, error) { return a.config, nil }

// MediaType implements partial.CompressedImageCore.
func (a *moduleArtifact) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

// RawManifest implements partial.CompressedImageCore.
func (a *moduleArtifact) RawManifest() ([]byte, error) { return a.manifest, nil }

// LayerByDigest implements partial.CompressedImageCore.
func (a *moduleArtifact) LayerByDigest(digest v1.Hash) (partial.CompressedLayer, error) {
	own, err := a.layer.Digest()
	if err != nil {
		return nil, err
	}
	if digest != own {
		return nil, fmt.Errorf("the module's image has no layer %s", digest)
	}
	return a.layer, nil
}

// fromLayout reads the one image or index of an OCI layout; several become an index.
func fromLayout(dir string) (remote.Taggable, error) {
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, fmt.Errorf("folder %s is no OCI layout: %w", dir, err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, fmt.Errorf("OCI layout %s: %w", dir, err)
	}
	if len(manifest.Manifests) != 1 {
		return index, nil
	}
	only := manifest.Manifests[0]
	if only.MediaType.IsIndex() {
		return index.ImageIndex(only.Digest)
	}
	return index.Image(only.Digest)
}

// fromArchive reads the one image of an archive that `docker save` made.
func fromArchive(path string) (remote.Taggable, error) {
	saved, err := tarball.ImageFromPath(path, nil)
	if err != nil {
		return nil, fmt.Errorf("archive %s holds no image as `docker save` writes it: %w", path, err)
	}
	return saved, nil
}

// withFolders returns an ordinary image for WebAssembly: the module, which is its entrypoint, and folders of files that the
// guest finds in its root.
func withFolders(file string, data []byte, dirs []string, created time.Time) (v1.Image, error) {
	archive := &folderArchive{created: created.UTC().Truncate(time.Second)}
	if err := archive.add(file, dirs, data); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(archive.open, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	made := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	made, err = mutate.Append(made, mutate.Addendum{Layer: layer, MediaType: types.OCILayer})
	if err != nil {
		return nil, err
	}
	config, err := made.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "wasip1", "wasm", v1.Time{Time: archive.created}
	config.Config.Entrypoint = []string{"/" + file}
	return mutate.ConfigFile(made, config)
}

// splitDir reads HOST:GUEST.
func splitDir(text string) (host, guest string, err error) {
	i := strings.LastIndex(text, ":")
	if i <= 0 || !strings.HasPrefix(text[i+1:], "/") {
		return "", "", fmt.Errorf("--dir %q is not FOLDER:/PATH, with the path that the guest finds it at", text)
	}
	return text[:i], text[i+1:], nil
}
