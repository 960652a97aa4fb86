package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// target is one object or, without a name, all objects of a kind: what a command works on.
type target struct {
	mapping   *meta.RESTMapping
	namespace string
	name      string
	// object is what a file says it should be; nil where the user gave only its name.
	object *unstructured.Unstructured
}

// path of the target in the API.
func (t target) path() []string {
	parts := []string{"/apis", t.mapping.Resource.Group, t.mapping.Resource.Version}
	if t.mapping.Resource.Group == "" {
		parts = []string{"/api", t.mapping.Resource.Version}
	}
	if t.namespaced() && t.namespace != "" {
		parts = append(parts, "namespaces", t.namespace)
	}
	parts = append(parts, t.mapping.Resource.Resource)
	if t.name != "" {
		parts = append(parts, t.name)
	}
	return parts
}

func (t target) namespaced() bool { return t.mapping.Scope.Name() == meta.RESTScopeNameNamespace }

// String spells the target as the commands print it: pod/web, deployment.apps/web.
func (t target) String() string {
	kind := strings.ToLower(t.mapping.GroupVersionKind.Kind)
	if group := t.mapping.GroupVersionKind.Group; group != "" {
		kind += "." + group
	}
	return kind + "/" + t.name
}

// addFileFlags binds the flags by which a command takes objects from files.
func addFileFlags(f *pflag.FlagSet, files *[]string, recursive *bool) {
	f.StringSliceVarP(files, "filename", "f", nil, "file or folder with YAML or JSON, - for standard input")
	f.BoolVarP(recursive, "recursive", "R", false, "descend into folders of --filename")
}

// selected returns what the files or else the arguments name.
func (c *client) selected(args, files []string, recursive, allNamespaces bool) ([]target, error) {
	if len(files) == 0 {
		return c.targets(args, allNamespaces)
	}
	if len(args) > 0 {
		return nil, errors.New("objects are named either by -f or by arguments")
	}
	return c.manifests(files, recursive)
}

// targets reads what a command line names: TYPE[,TYPE] [NAME...], or TYPE/NAME....
func (c *client) targets(args []string, allNamespaces bool) ([]target, error) {
	if len(args) == 0 {
		return nil, errors.New("say which objects: TYPE, TYPE NAME or TYPE/NAME")
	}
	namespace, _, err := c.Namespace()
	if err != nil {
		return nil, err
	}
	if allNamespaces {
		namespace = ""
	}
	if strings.Contains(args[0], "/") {
		return c.pairs(args, namespace)
	}
	var all []target
	for _, kind := range strings.Split(args[0], ",") {
		mapping, err := c.mapping(kind)
		if err != nil {
			return nil, err
		}
		names := args[1:]
		if len(names) == 0 {
			names = []string{""}
		}
		for _, name := range names {
			if strings.Contains(name, "/") {
				return nil, fmt.Errorf("%q: TYPE/NAME cannot be mixed with TYPE NAME", name)
			}
			all = append(all, target{mapping: mapping, namespace: namespace, name: name})
		}
	}
	return all, nil
}

func (c *client) pairs(args []string, namespace string) ([]target, error) {
	var all []target
	for _, arg := range args {
		kind, name, ok := strings.Cut(arg, "/")
		if !ok || kind == "" || name == "" || strings.Contains(name, "/") {
			return nil, fmt.Errorf("%q is not TYPE/NAME", arg)
		}
		mapping, err := c.mapping(kind)
		if err != nil {
			return nil, err
		}
		all = append(all, target{mapping: mapping, namespace: namespace, name: name})
	}
	return all, nil
}

// mapping finds a kind by what users call it: pods, pod, po, deployments.apps, deployments.v1.apps.
func (c *client) mapping(kind string) (*meta.RESTMapping, error) {
	mapper, err := c.mapper()
	if err != nil {
		return nil, err
	}
	versioned, grouped := schema.ParseResourceArg(strings.ToLower(kind))
	gvk := schema.GroupVersionKind{}
	if versioned != nil {
		gvk, err = mapper.KindFor(*versioned)
	}
	if gvk.Empty() {
		gvk, err = mapper.KindFor(grouped.WithVersion(""))
	}
	if meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("the server has no resource type %q", kind)
	}
	if err != nil {
		return nil, err
	}
	return mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
}

// manifests reads the objects in files, in folders' .yaml, .yml and .json files, or for "-" in standard input.
func (c *client) manifests(paths []string, recursive bool) ([]target, error) {
	var all []target
	for _, path := range paths {
		if path == "-" {
			found, err := c.decode(c.app.in, "standard input")
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
			continue
		}
		files, err := manifestFiles(path, recursive)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			found, err := c.decodeFile(file)
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("there is no object in %s", strings.Join(paths, ", "))
	}
	return all, nil
}

// manifestFiles returns path, or where it is a folder the manifests in it, sorted.
func manifestFiles(path string, recursive bool) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	var files []string
	err = filepath.WalkDir(path, func(file string, entry os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && file != path && !recursive:
			return filepath.SkipDir
		case !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(file)):
			files = append(files, file)
		}
		return nil
	})
	return files, err
}

func (c *client) decodeFile(path string) ([]target, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return c.decode(file, path)
}

// decode reads a stream of YAML documents or JSON objects; a List counts as its items.
func (c *client) decode(r io.Reader, source string) ([]target, error) {
	decoder := yaml.NewYAMLOrJSONDecoder(bufio.NewReader(r), 4096)
	var all []target
	for {
		var content map[string]any
		err := decoder.Decode(&content)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s is neither YAML nor JSON: %w", source, err)
		}
		if len(content) == 0 {
			continue
		}
		found, err := c.placed(&unstructured.Unstructured{Object: content})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", source, err)
		}
		all = append(all, found...)
	}
}

// placed finds where an object of a file belongs.
func (c *client) placed(object *unstructured.Unstructured) ([]target, error) {
	if object.IsList() {
		var all []target
		err := object.EachListItem(func(item runtime.Object) error {
			found, err := c.placed(item.(*unstructured.Unstructured))
			all = append(all, found...)
			return err
		})
		return all, err
	}
	gvk := object.GroupVersionKind()
	if gvk.Kind == "" || gvk.Version == "" {
		return nil, errors.New("an object without apiVersion and kind")
	}
	mapper, err := c.mapper()
	if err != nil {
		return nil, err
	}
	mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("the server has no kind %s in %s", gvk.Kind, gvk.GroupVersion())
	}
	if err != nil {
		return nil, err
	}
	t := target{mapping: mapping, name: object.GetName(), object: object}
	if !t.namespaced() {
		return []target{t}, nil
	}
	namespace, explicit, err := c.Namespace()
	if err != nil {
		return nil, err
	}
	t.namespace = object.GetNamespace()
	switch {
	case t.namespace == "":
		t.namespace = namespace
		object.SetNamespace(namespace)
	case explicit && t.namespace != namespace:
		return nil, fmt.Errorf("%s is of namespace %s, but -n says %s", t, t.namespace, namespace)
	}
	return []target{t}, nil
}

// get asks for the target as one object.
func (c *client) get(ctx context.Context, t target) (*unstructured.Unstructured, error) {
	api, err := c.api()
	if err != nil {
		return nil, err
	}
	data, err := answer(api.Get().AbsPath(t.path()...).Do(ctx))
	if err != nil {
		return nil, err
	}
	return decodeObject(data)
}

func decodeObject(data []byte) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	return object, object.UnmarshalJSON(data)
}
