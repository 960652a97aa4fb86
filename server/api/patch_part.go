package api

import (
	"reflect"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/runtime"
)

// touched are the fields at the top of an object that a patch may change, by their names on the wire. Most patches touch
// one, and only that one is taken apart and put together again. nil stands for all of them.
type touched map[string]bool

// touchedByKeys are the keys of a merge patch. Directives, and what the object is, concern the whole object.
func touchedByKeys(patch map[string]any) touched {
	names := touched{}
	for key := range patch {
		if strings.HasPrefix(key, "$") || key == "kind" || key == "apiVersion" {
			return nil
		}
		names[key] = true
	}
	return names
}

// touchedByOperations are where the paths of a JSON patch begin.
func touchedByOperations(operations jsonpatch.Patch) touched {
	names := touched{}
	for _, op := range operations {
		paths := make([]string, 1, 2)
		paths[0], _ = op.Path()
		if kind := op.Kind(); kind == "move" || kind == "copy" {
			from, _ := op.From()
			paths = append(paths, from)
		}
		for _, path := range paths {
			first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
			if !strings.HasPrefix(path, "/") || strings.Contains(first, "~") || first == "kind" || first == "apiVersion" || first == "" {
				return nil
			}
			names[first] = true
		}
	}
	return names
}

// copyFields copies the fields named from one object to another of the same type, without what they point to. It returns
// false where it copied nothing, because the type has no such fields.
func (names touched) copyFields(to, from runtime.Object) bool {
	target, source := reflect.ValueOf(to), reflect.ValueOf(from)
	if target.Kind() != reflect.Pointer || target.Elem().Kind() != reflect.Struct || target.Type() != source.Type() {
		return false
	}
	target, source = target.Elem(), source.Elem()
	for i := range target.NumField() {
		name, _, _ := strings.Cut(target.Type().Field(i).Tag.Get("json"), ",")
		if name != "" && names[name] {
			target.Field(i).Set(source.Field(i))
		}
	}
	return true
}
