package image

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"edgepod/wasmrt/image/inspect"
)

// The media types of a module as an OCI artifact: of its one layer, and of its configuration.
const (
	ModuleType types.MediaType = "application/wasm"
	ConfigType types.MediaType = "application/vnd.wasm.config.v0+json"
)

// The media types of what else is in use beside ordinary images.
const (
	typeConfigOld      types.MediaType = "application/vnd.wasm.config.v1+json"
	typeSpinConfig     types.MediaType = "application/vnd.fermyon.spin.application.v1+config"
	typeContentLayer   types.MediaType = "application/vnd.wasm.content.layer.v1+wasm"
	typeModuleLayer    types.MediaType = "application/vnd.module.wasm.content.layer.v1+wasm"
	typeComponentLayer types.MediaType = "application/vnd.bytecodealliance.wasm.component.layer.v0+wasm"
)

// moduleLayers are the types of layers that are a module as it is, and no archive.
var moduleLayers = []types.MediaType{ModuleType, typeContentLayer, typeModuleLayer, typeComponentLayer}

// variantAnnotation marks ordinary images that hold a module.
const variantAnnotation = "module.wasm.image/variant"

// decodeManifest reads what a registry sent: one of index and image is set. What could be read as both is refused, since
// another reader might choose the other.
func decodeManifest(raw []byte, mediaType string) (index *v1.IndexManifest, image *v1.Manifest, err error) {
	keys, err := topKeys(raw)
	if err != nil {
		return nil, nil, problem("the manifest is no valid JSON: " + err.Error())
	}
	isIndex, isImage := keys["manifests"], keys["layers"] || keys["config"]
	switch {
	case isIndex && isImage:
		return nil, nil, problem("its manifest is an index at the same time, which is never right: build or push it anew")
	case keys["fslayers"] || keys["signatures"]:
		return nil, nil, problem("its manifest is of Docker's schema 1, which nobody builds any more: push it anew with a current tool")
	case !isIndex && !isImage:
		return nil, nil, problem("its manifest is neither an image nor an index of images")
	}
	if isIndex {
		index = new(v1.IndexManifest)
		err = json.Unmarshal(raw, index)
	} else {
		image = new(v1.Manifest)
		err = json.Unmarshal(raw, image)
	}
	if err != nil {
		return nil, nil, problem("its manifest can't be read: " + err.Error())
	}
	said := []types.MediaType{types.MediaType(mediaType)}
	if isIndex {
		said = append(said, index.MediaType)
	} else {
		said = append(said, image.MediaType)
	}
	for _, t := range said {
		if t.IsIndex() != isIndex && (t.IsIndex() || t.IsImage()) {
			return nil, nil, problem(fmt.Sprintf("its manifest says that it is of type %s, and is not", t))
		}
	}
	return index, image, nil
}

// topKeys returns the keys of a JSON object in lower case, as the decoder folds them. A key that comes twice is an error.
func topKeys(raw []byte) (map[string]bool, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("it is no object")
	}
	keys := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		key, ok := t.(string)
		if key = strings.ToLower(key); !ok || keys[key] {
			return nil, errors.New("a key comes twice")
		}
		keys[key] = true
		var skipped json.RawMessage
		if err := d.Decode(&skipped); err != nil {
			return nil, err
		}
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("something follows it")
	}
	return keys, nil
}

// chooseImage returns the image of an index that runs here: the one for WASI preview 1, or else what says of itself that it
// holds a module.
func chooseImage(index *v1.IndexManifest) (v1.Descriptor, error) {
	best, rank := v1.Descriptor{}, 0
	var platforms []string
	for _, d := range index.Manifests {
		if !d.MediaType.IsImage() && d.MediaType != "" {
			continue
		}
		if r := rankOf(d); r > rank {
			best, rank = d, r
		}
		if d.Platform != nil && d.Platform.OS != "unknown" {
			platforms = append(platforms, d.Platform.OS+"/"+d.Platform.Architecture)
		}
	}
	if rank > 0 {
		return best, nil
	}
	if len(index.Manifests) == 0 {
		return v1.Descriptor{}, problem("it is an empty index: there is no image in it")
	}
	const most = 8
	if len(platforms) > most {
		platforms = append(platforms[:most], "…")
	}
	return v1.Descriptor{}, problem(fmt.Sprintf("it has images for %s, and none for WebAssembly (wasip1/wasm or wasi/wasm). %s",
		strings.Join(platforms, ", "), linuxHint))
}

// linuxHint is for the user of an image that does not run here.
const linuxHint = "Linux images do not run here: a container is a WASI module. Build the program for WebAssembly, or use an image of the same program for wasi/wasm"

// rankOf says how well an image of an index would run here; 0: not at all.
func rankOf(d v1.Descriptor) int {
	p := d.Platform
	annotated := d.Annotations[variantAnnotation] != ""
	switch {
	case p == nil || p.OS == "" && p.Architecture == "":
		return 1
	case !isWasm(p.Architecture):
		if annotated {
			return 2
		}
		return 0
	case p.OS == "wasip1":
		return 6
	case p.OS == "wasi":
		return 5
	case p.OS == "wasip2":
		return 3 // a component, of which a part may run
	}
	return 2
}

func isWasm(architecture string) bool { return architecture == "wasm" || architecture == "wasm32" }

// shape is how the module lies in an image.
type shape int

const (
	shapeModule shape = iota // the only layer is the module
	shapeFiles               // the layers are archives, and the module is a file in them
)

// shapeOf classifies an image by its manifest, and refuses what surely does not run.
func shapeOf(m *v1.Manifest) (shape, error) {
	if m.Config.MediaType == typeSpinConfig || slices.ContainsFunc(m.Layers, isSpin) {
		return 0, problem("it is an application for Spin, whose modules are components that serve HTTP for Spin alone; " +
			"build the program as a WASI command (wasm32-wasip1 with a main function) that listens itself")
	}
	wasmConfig := m.Config.MediaType == ConfigType || m.Config.MediaType == typeConfigOld
	modules := 0
	for _, l := range m.Layers {
		switch {
		case slices.Contains(moduleLayers, l.MediaType):
			modules++
		case wasmConfig || !isArchive(l.MediaType):
			return 0, problem(fmt.Sprintf("it holds something of type %s, and no module: it is not an image that runs", inspect.Plain(string(l.MediaType))))
		}
	}
	switch {
	case len(m.Layers) == 0:
		return 0, problem("it has no layers, so that there is nothing to run")
	case modules == 1 && len(m.Layers) == 1:
		return shapeModule, nil
	case modules > 0:
		return 0, problem("it holds a module beside other layers, and only one that has a single layer runs: push the module alone, such as with `edgepod push` or `wkg oci push`")
	}
	return shapeFiles, nil
}

func isSpin(d v1.Descriptor) bool { return strings.Contains(string(d.MediaType), "fermyon") }

// isArchive tells layers of ordinary images from artifacts of other kinds.
func isArchive(t types.MediaType) bool {
	return t.IsLayer() || strings.Contains(string(t), ".tar") && (strings.HasPrefix(string(t), "application/vnd.oci.") || strings.HasPrefix(string(t), "application/vnd.docker."))
}

// refuseLinux refuses an ordinary image that is for Linux, as far as its description tells, before its layers are fetched.
func refuseLinux(m *v1.Manifest, c *v1.ConfigFile, annotated bool) error {
	if annotated || m.Annotations[variantAnnotation] != "" || c.Config.Labels[variantAnnotation] != "" || isWasm(c.Architecture) {
		return nil
	}
	command := slices.Concat(c.Config.Entrypoint, c.Config.Cmd)
	if len(command) == 0 || slices.ContainsFunc(command, func(s string) bool { return strings.HasSuffix(s, ".wasm") }) {
		return nil // as some tools build images of modules, with their own platform
	}
	platform := ""
	if c.OS != "" || c.Architecture != "" {
		platform = fmt.Sprintf("%s/%s, ", inspect.Plain(c.OS), inspect.Plain(c.Architecture))
	}
	return problem(fmt.Sprintf("it is a Linux image (%swhich runs %s). %s", platform, inspect.Plain(command[0]), linuxHint))
}
