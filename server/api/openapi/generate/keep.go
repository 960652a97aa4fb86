package main

import (
	"slices"
	"strings"

	"edgepod/server/registry"
)

// target is what a path of a document names.
type target struct {
	group, version, plural, subresource string
	named                               bool
}

// parse takes a path such as /apis/apps/v1/namespaces/{namespace}/deployments/{name}/status apart.
func parse(path string) (t target, ok bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case parts[0] == "api" && len(parts) >= 2:
		t.version, parts = parts[1], parts[2:]
	case parts[0] == "apis" && len(parts) >= 3:
		t.group, t.version, parts = parts[1], parts[2], parts[3:]
	default:
		return t, false
	}
	if len(parts) > 0 && parts[0] == "watch" {
		parts = parts[1:]
	}
	if len(parts) > 2 && parts[0] == "namespaces" && parts[1] == "{namespace}" {
		parts = parts[2:]
	}
	if len(parts) == 0 || len(parts) > 3 {
		return t, len(parts) == 0
	}
	t.plural, t.named = parts[0], len(parts) > 1
	if len(parts) == 3 {
		t.subresource = parts[2]
	}
	return t, true
}

// verb of a method on the target, in discovery's words.
func (t target) verb(method string) string {
	switch method {
	case "post":
		return "create"
	case "put":
		return "update"
	case "patch":
		return "patch"
	case "delete":
		if t.named {
			return "delete"
		}
		return "deletecollection"
	}
	if t.named {
		return "get"
	}
	return "list"
}

// verbs that are served of the target, nil where it is not.
func (t target) verbs(resources []*registry.Resource) []string {
	for _, res := range resources {
		if res.Kind.Group != t.group || res.Kind.Version != t.version || res.Name != t.plural {
			continue
		}
		if t.subresource == "" {
			return res.Verbs
		}
		for _, sub := range res.Subresources {
			if sub.Name == t.subresource {
				return sub.Verbs
			}
		}
	}
	return nil
}

// keep leaves in a document only the paths, methods and media types that are served.
func keep(document map[string]any, resources []*registry.Resource) {
	paths := document["paths"].(map[string]any)
	for path, item := range paths {
		t, ok := parse(path)
		if ok && t.plural == "" {
			ok = servesVersion(resources, t)
		} else if ok {
			ok = keepMethods(item.(map[string]any), t, t.verbs(resources))
		}
		if !ok {
			delete(paths, path)
		}
	}
	dropMedia(paths)
}

func servesVersion(resources []*registry.Resource, t target) bool {
	return slices.ContainsFunc(resources, func(res *registry.Resource) bool {
		return res.Kind.Group == t.group && res.Kind.Version == t.version
	})
}

// keepMethods tells whether any is left.
func keepMethods(item map[string]any, t target, verbs []string) bool {
	left := 0
	for _, method := range []string{"get", "put", "post", "delete", "options", "head", "patch"} {
		if item[method] == nil {
			continue
		}
		if method == "options" || method == "head" || !slices.Contains(verbs, t.verb(method)) {
			delete(item, method)
			continue
		}
		left++
	}
	return left > 0
}

// notServed are media types of Kubernetes that this server does not speak.
var notServed = []string{"application/cbor", "application/cbor-seq", "application/apply-patch+cbor", "application/apply-patch+yaml"}

// dropMedia removes them wherever they are named: as keys in version 3, in lists in version 2.
func dropMedia(value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, child := range v {
			if slices.Contains(notServed, key) {
				delete(v, key)
				continue
			}
			if list, ok := child.([]any); ok && (key == "consumes" || key == "produces") {
				v[key] = slices.DeleteFunc(list, func(e any) bool { return slices.Contains(notServed, e.(string)) })
			}
			dropMedia(child)
		}
	case []any:
		for _, child := range v {
			dropMedia(child)
		}
	}
}

// reachable returns the schemas that the value refers to, and those that they refer to.
func reachable(from any, schemas map[string]any, prefix string) map[string]any {
	found := map[string]any{}
	var visit func(value any)
	visit = func(value any) {
		switch v := value.(type) {
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok {
				name := strings.TrimPrefix(ref, prefix)
				if _, seen := found[name]; !seen && schemas[name] != nil {
					found[name] = schemas[name]
					visit(schemas[name])
				}
			}
			for _, child := range v {
				visit(child)
			}
		case []any:
			for _, child := range v {
				visit(child)
			}
		}
	}
	visit(from)
	return found
}
