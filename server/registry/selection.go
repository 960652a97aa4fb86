package registry

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"edgepod/server/registry/upstream"
	"edgepod/server/store"
)

// selection is what of a resource a list or a watch is about.
type selection struct {
	res *Resource
	// namespace and name narrow it to keys; "" is all.
	namespace, name string
	label           labels.Selector
	field           fields.Selector
	// byKey tells that namespace and name say it all, so that no object needs to be looked at.
	byKey bool
}

func newSelection(res *Resource, namespace string, label labels.Selector, field fields.Selector) (*selection, error) {
	s := &selection{res: res, namespace: namespace, label: label, field: field}
	if s.label == nil {
		s.label = labels.Everything()
	}
	if s.field == nil || s.field.Empty() {
		s.field = fields.Everything()
		s.byKey = s.label.Empty()
		return s, nil
	}
	var err error
	s.field, err = s.field.Transform(func(label, value string) (string, string, error) {
		return upstream.FieldLabel(res.Kind, label, value)
	})
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	s.name, _ = s.field.RequiresExactMatch("metadata.name")
	s.byKey = s.label.Empty() && s.name != "" && len(s.field.Requirements()) == 1
	if only, ok := s.field.RequiresExactMatch("metadata.namespace"); ok && namespace == "" && res.Namespaced {
		s.namespace = only
	}
	return s, nil
}

// everything tells that no selector leaves anything out.
func (s *selection) everything() bool { return s.label.Empty() && s.field.Empty() }

// holds tells whether the key is within the selection.
func (s *selection) holds(key store.Key) bool {
	return (s.name == "" || key.Name == s.name) && (s.namespace == "" || key.Namespace == s.namespace)
}

// filter appends the objects that the selection holds, until there are limit of them (0: no limit).
func (s *selection) filter(entries []*store.Entry, found []*Object, limit int) ([]*Object, error) {
	if found == nil && s.everything() {
		found = make([]*Object, 0, len(entries))
	}
	for _, entry := range entries {
		if !s.holds(entry.Key) {
			continue
		}
		o, err := objectOf(s.res, entry)
		if err != nil {
			return nil, err
		}
		if !s.matches(o) {
			continue
		}
		if found = append(found, o); len(found) == limit {
			return found, nil
		}
	}
	return found, nil
}

// matches tells whether an object whose key is within the selection is selected.
func (s *selection) matches(o *Object) bool {
	if s.byKey {
		return true
	}
	return s.label.Matches(labels.Set(o.Meta().GetLabels())) && s.field.Matches(fieldsOf{o})
}

// fieldsOf reads the fields of an object that selectors may name, without making a map of them.
type fieldsOf struct{ *Object }

// Has tells whether the field is there: all are, since selectors were checked before.
func (f fieldsOf) Has(string) bool { return true }

// Get returns the field's value.
func (f fieldsOf) Get(name string) string {
	switch name {
	case "metadata.name":
		return f.Meta().GetName()
	case "metadata.namespace":
		return f.Meta().GetNamespace()
	}
	if f.resource.field == nil {
		return ""
	}
	return f.resource.field(f.decoded, name)
}
