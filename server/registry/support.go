package registry

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// SupportLevel is how far this runtime goes with a field.
type SupportLevel string

// The levels of support. What is warned of is stored and answered with a warning; what is refused is invalid.
const (
	Supported SupportLevel = "supported"
	Warned    SupportLevel = "warned"
	Refused   SupportLevel = "refused"
)

// SupportRow says what becomes of a field of pods. Path is written as in errors, with [] for every element of a list; Values,
// if any, are those that the row is about.
type SupportRow struct {
	Path   string
	Level  SupportLevel
	Values []string
	Text   string
}

// Support returns the rows for the documentation, in their order.
func Support() []SupportRow { return slices.Clone(unsupported) }

// podSupport makes of a table the function that looks at pods.
func podSupport(table []SupportRow) func(*corev1.Pod) verdict {
	var probes []probe
	for _, row := range table {
		if row.Level == Supported {
			continue
		}
		probes = append(probes, newProbe(row, reflect.TypeFor[corev1.Pod]()))
		if field, ok := strings.CutPrefix(row.Path, "spec.containers[]"); ok {
			row.Path = "spec.initContainers[]" + field
			probes = append(probes, newProbe(row, reflect.TypeFor[corev1.Pod]()))
		}
	}
	return func(pod *corev1.Pod) verdict {
		var v verdict
		for _, p := range probes {
			p.look(reflect.ValueOf(pod).Elem(), p.steps, nil, &v)
		}
		return v
	}
}

// probe finds the places of a row's path in a pod.
type probe struct {
	row   SupportRow
	steps []step
}

// step goes to a field of a structure, or to a key of a map, and from there into each element of a list if each is set.
type step struct {
	name  string
	index []int
	each  bool
}

// newProbe panics on a path that isn't one: the table is ours.
func newProbe(row SupportRow, t reflect.Type) probe {
	p := probe{row: row}
	for name := range strings.SplitSeq(row.Path, ".") {
		s := step{}
		s.name, s.each = strings.CutSuffix(name, "[]")
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t.Kind() == reflect.Map {
			t = t.Elem()
		} else {
			f, ok := fieldByJSON(t, s.name)
			if !ok {
				panic(fmt.Sprintf("%s: %s has no field %s", row.Path, t, s.name))
			}
			s.index, t = f.Index, f.Type
		}
		if s.each {
			t = t.Elem()
		}
		p.steps = append(p.steps, s)
	}
	return p
}

// fieldByJSON finds a field by the name that it has on the wire, also in structures that are embedded inline.
func fieldByJSON(t reflect.Type, name string) (reflect.StructField, bool) {
	for _, f := range reflect.VisibleFields(t) {
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag == name {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

// look follows the steps from v, and adds to the verdict for each place that is set. At are the indices of lists so far.
func (p probe) look(v reflect.Value, steps []step, at []int, found *verdict) {
	for i, s := range steps {
		for v.Kind() == reflect.Pointer {
			if v.IsNil() {
				return
			}
			v = v.Elem()
		}
		if s.index == nil {
			if v = v.MapIndex(reflect.ValueOf(s.name).Convert(v.Type().Key())); !v.IsValid() {
				return
			}
			continue
		}
		v = v.FieldByIndex(s.index)
		if s.each {
			for j := range v.Len() {
				p.look(v.Index(j), steps[i+1:], append(at, j), found)
			}
			return
		}
	}
	if !p.concerns(v) {
		return
	}
	if p.row.Level == Refused {
		found.errs = append(found.errs, field.Forbidden(p.path(at), p.row.Text))
		return
	}
	found.warnings = append(found.warnings, fmt.Sprintf("%s: %s", p.path(at), p.row.Text))
}

// concerns tells that a value is set, and one of those that the row is about.
func (p probe) concerns(v reflect.Value) bool {
	if v.IsZero() || (v.Kind() == reflect.Slice || v.Kind() == reflect.Map) && v.Len() == 0 {
		return false
	}
	for v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	return p.row.Values == nil || slices.Contains(p.row.Values, fmt.Sprint(v.Interface()))
}

// path is the row's path with the indices filled in.
func (p probe) path(at []int) *field.Path {
	var path *field.Path
	for _, s := range p.steps {
		switch {
		case path == nil:
			path = field.NewPath(s.name)
		default:
			path = path.Child(s.name)
		}
		if s.each {
			path, at = path.Index(at[0]), at[1:]
		}
	}
	return path
}

// merge adds to errors of this runtime those of validation, except where both refuse the same field.
func merge(own, validation field.ErrorList) field.ErrorList {
	merged := own
	for _, err := range validation {
		said := slices.ContainsFunc(own, func(e *field.Error) bool { return e.Field == err.Field && e.Type == err.Type })
		if !said {
			merged = append(merged, err)
		}
	}
	return merged
}
