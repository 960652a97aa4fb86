package volume

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"edgepod/server/agent/podvalue"
)

// file is one generated file.
type file struct {
	data []byte
	mode os.FileMode
}

// content is what the volume is to hold, by path.
func content(v *corev1.Volume, values podvalue.Context) (map[string]file, error) {
	out := map[string]file{}
	var err error
	switch {
	case v.ConfigMap != nil:
		s := v.ConfigMap
		err = addConfigMap(out, values, s.Name, s.Items, s.Optional, s.DefaultMode)
	case v.Secret != nil:
		s := v.Secret
		err = addSecret(out, values, s.SecretName, s.Items, s.Optional, s.DefaultMode)
	case v.DownwardAPI != nil:
		err = addDownward(out, values, v.DownwardAPI.Items, v.DownwardAPI.DefaultMode)
	case v.Projected != nil:
		err = addProjected(out, values, v.Projected)
	default:
		err = errors.New("this node has no volumes of this kind; it has emptyDir, configMap, secret, downwardAPI, projected and hostPath")
	}
	return out, err
}

func addProjected(out map[string]file, values podvalue.Context, p *corev1.ProjectedVolumeSource) error {
	for _, s := range p.Sources {
		var err error
		switch {
		case s.ConfigMap != nil:
			err = addConfigMap(out, values, s.ConfigMap.Name, s.ConfigMap.Items, s.ConfigMap.Optional, p.DefaultMode)
		case s.Secret != nil:
			err = addSecret(out, values, s.Secret.Name, s.Secret.Items, s.Secret.Optional, p.DefaultMode)
		case s.DownwardAPI != nil:
			err = addDownward(out, values, s.DownwardAPI.Items, p.DefaultMode)
		default:
			err = errors.New("this node projects configMap, secret and downwardAPI only")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func addConfigMap(out map[string]file, values podvalue.Context, name string, items []corev1.KeyToPath, optional *bool, mode *int32) error {
	data := map[string][]byte{}
	m, err := values.Sources.ConfigMap(name)
	switch {
	case err == nil:
		for k, v := range m.Data {
			data[k] = []byte(v)
		}
		for k, v := range m.BinaryData {
			data[k] = v
		}
	case !apierrors.IsNotFound(err) || !set(optional):
		return err
	}
	return addKeys(out, data, items, set(optional), mode, "configmap references non-existent config key: %s")
}

func addSecret(out map[string]file, values podvalue.Context, name string, items []corev1.KeyToPath, optional *bool, mode *int32) error {
	var data map[string][]byte
	s, err := values.Sources.Secret(name)
	switch {
	case err == nil:
		data = s.Data
	case !apierrors.IsNotFound(err) || !set(optional):
		return err
	}
	return addKeys(out, data, items, set(optional), mode, "references non-existent secret key: %s")
}

// addKeys adds each key under its own name, or those of items under the paths that they give.
func addKeys(out map[string]file, data map[string][]byte, items []corev1.KeyToPath, optional bool, mode *int32, missing string) error {
	if len(items) == 0 {
		for key, value := range data {
			if err := add(out, key, value, nil, mode); err != nil {
				return err
			}
		}
		return nil
	}
	for _, item := range items {
		value, ok := data[item.Key]
		if !ok && optional {
			continue
		}
		if !ok {
			return fmt.Errorf(missing, item.Key)
		}
		if err := add(out, item.Path, value, item.Mode, mode); err != nil {
			return err
		}
	}
	return nil
}

func addDownward(out map[string]file, values podvalue.Context, items []corev1.DownwardAPIVolumeFile, mode *int32) error {
	for _, item := range items {
		var value string
		var err error
		switch {
		case item.FieldRef != nil:
			value, err = values.Field(item.FieldRef.FieldPath)
		case item.ResourceFieldRef != nil:
			value, err = values.Resource(item.ResourceFieldRef, "")
		}
		if err == nil {
			err = add(out, item.Path, []byte(value), item.Mode, mode)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func add(out map[string]file, name string, data []byte, mode, defaultMode *int32) error {
	if !filepath.IsLocal(name) || filepath.Clean(name) != name || name == "." || len(name) > 1 && name[:2] == ".." {
		return fmt.Errorf("%q is no path for a file of the volume", name)
	}
	perm := os.FileMode(0o644)
	switch {
	case mode != nil:
		perm = os.FileMode(*mode)
	case defaultMode != nil:
		perm = os.FileMode(*defaultMode)
	}
	out[name] = file{data: data, mode: perm.Perm()}
	return nil
}

func set(b *bool) bool { return b != nil && *b }
