package podvalue

import (
	"cmp"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"edgepod/wasmrt/sandbox"
)

// Args are the guest's arguments, its name first. As in Kubernetes, command stands in place of the image's entrypoint and
// cmd, and args in place of its cmd. What runs is the image's module in any case.
func Args(container *corev1.Container, env *Env, image sandbox.ImageConfig) []string {
	out := expandAll(container.Command, env)
	args := expandAll(container.Args, env)
	switch {
	case len(out) > 0:
	case len(image.Entrypoint) > 0:
		out = slices.Clone(image.Entrypoint)
		if len(args) == 0 {
			args = image.Cmd
		}
	case len(image.Cmd) == 0:
		out = []string{moduleName(container.Image)}
	case len(args) == 0:
		args = image.Cmd
	case isModule(image.Cmd[0]) && !isModule(args[0]): // which would lose the guest its name
		out = image.Cmd[:1:1]
	}
	return append(out, args...)
}

// WorkingDir is where the guest starts: as the container says, else as the image does.
func WorkingDir(container *corev1.Container, image sandbox.ImageConfig) string {
	return cmp.Or(container.WorkingDir, image.WorkingDir)
}

// Over returns the variables as NAME=value, those of the image first that are not replaced by one of the container.
func (e *Env) Over(image sandbox.ImageConfig) []string {
	under := &Env{values: map[string]string{}}
	for _, text := range image.Env {
		name, value, ok := strings.Cut(text, "=")
		if _, replaced := e.values[name]; ok && name != "" && !replaced && !strings.ContainsRune(text, 0) {
			under.set(name, value)
		}
	}
	return append(under.List(), e.List()...)
}

func expandAll(texts []string, env *Env) []string {
	out := make([]string, len(texts))
	for i, text := range texts {
		out[i] = Expand(text, env.Lookup)
	}
	return out
}

func isModule(name string) bool { return path.Ext(name) == ".wasm" }

// moduleName is the last part of a reference, without tag and digest: "app.wasm" of "file:///srv/app.wasm".
func moduleName(image string) string {
	name, _, _ := strings.Cut(image, "@")
	name = path.Base(strings.TrimPrefix(name, "file://"))
	name, _, _ = strings.Cut(name, ":")
	return name
}
