package podvalue

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Env is a container's environment, in the order in which it was declared.
type Env struct {
	names  []string
	values map[string]string
}

// Lookup returns the variable's value.
func (e *Env) Lookup(name string) (string, bool) {
	v, ok := e.values[name]
	return v, ok
}

// List returns the variables as NAME=value.
func (e *Env) List() []string {
	out := make([]string, len(e.names))
	for i, name := range e.names {
		out[i] = name + "=" + e.values[name]
	}
	return out
}

func (e *Env) set(name, value string) {
	if _, ok := e.values[name]; !ok {
		e.names = append(e.names, name)
	}
	e.values[name] = value
}

// Env resolves the environment of a container of the pod: HOSTNAME, then envFrom, then env, a later one replacing an
// earlier one of its name.
func (c Context) Env(container *corev1.Container, hostname string) (*Env, error) {
	env := &Env{values: map[string]string{}}
	env.set("HOSTNAME", hostname)
	for i := range container.EnvFrom {
		if err := c.envFrom(env, &container.EnvFrom[i]); err != nil {
			return nil, err
		}
	}
	for i := range container.Env {
		v := &container.Env[i]
		value, ok := Expand(v.Value, env.Lookup), true
		if v.Value == "" && v.ValueFrom != nil {
			var err error
			if value, ok, err = c.valueFrom(v.ValueFrom, container.Name); err != nil {
				return nil, err
			}
		}
		if strings.ContainsRune(value, 0) {
			return nil, fmt.Errorf("environment variable %s holds a zero byte", v.Name)
		}
		if ok {
			env.set(v.Name, value)
		}
	}
	return env, nil
}

func (c Context) envFrom(env *Env, from *corev1.EnvFromSource) error {
	data := map[string]string{}
	switch {
	case from.ConfigMapRef != nil:
		m, err := c.Sources.ConfigMap(from.ConfigMapRef.Name)
		if err != nil {
			return unlessOptional(err, from.ConfigMapRef.Optional)
		}
		data = m.Data
	case from.SecretRef != nil:
		s, err := c.Sources.Secret(from.SecretRef.Name)
		if err != nil {
			return unlessOptional(err, from.SecretRef.Optional)
		}
		for k, v := range s.Data {
			data[k] = string(v)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if name := from.Prefix + key; !strings.ContainsAny(name, "=\x00") && !strings.ContainsRune(data[key], 0) {
			env.set(name, data[key])
		}
	}
	return nil
}

// valueFrom resolves one reference; ok is false for an optional one that leads nowhere.
func (c Context) valueFrom(from *corev1.EnvVarSource, container string) (value string, ok bool, err error) {
	switch {
	case from.FieldRef != nil:
		value, err = c.Field(from.FieldRef.FieldPath)
	case from.ResourceFieldRef != nil:
		value, err = c.Resource(from.ResourceFieldRef, container)
	case from.ConfigMapKeyRef != nil:
		return c.configMapKey(from.ConfigMapKeyRef)
	case from.SecretKeyRef != nil:
		return c.secretKey(from.SecretKeyRef)
	default:
		err = fmt.Errorf("a valueFrom of a kind that this node does not know")
	}
	return value, err == nil, err
}

func (c Context) configMapKey(ref *corev1.ConfigMapKeySelector) (string, bool, error) {
	m, err := c.Sources.ConfigMap(ref.Name)
	if err != nil {
		return "", false, unlessOptional(err, ref.Optional)
	}
	value, ok := m.Data[ref.Key]
	if !ok && !set(ref.Optional) {
		return "", false, fmt.Errorf("couldn't find key %v in ConfigMap %v/%v", ref.Key, c.Pod.Namespace, ref.Name)
	}
	return value, ok, nil
}

func (c Context) secretKey(ref *corev1.SecretKeySelector) (string, bool, error) {
	s, err := c.Sources.Secret(ref.Name)
	if err != nil {
		return "", false, unlessOptional(err, ref.Optional)
	}
	value, ok := s.Data[ref.Key]
	if !ok && !set(ref.Optional) {
		return "", false, fmt.Errorf("couldn't find key %v in Secret %v/%v", ref.Key, c.Pod.Namespace, ref.Name)
	}
	return string(value), ok, nil
}

func unlessOptional(err error, optional *bool) error {
	if apierrors.IsNotFound(err) && set(optional) {
		return nil
	}
	return err
}

func set(b *bool) bool { return b != nil && *b }
