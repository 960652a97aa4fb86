package podvalue_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"edgepod/server/agent/podvalue"
	"edgepod/wasmrt/sandbox"
)

// sources are config maps and secrets by name.
type sources struct {
	configMaps map[string]map[string]string
	secrets    map[string]map[string]string
}

func (s sources) ConfigMap(name string) (*corev1.ConfigMap, error) {
	if data, ok := s.configMaps[name]; ok {
		return &corev1.ConfigMap{Data: data}, nil
	}
	return nil, apierrors.NewNotFound(corev1.Resource("configmap"), name)
}

func (s sources) Secret(name string) (*corev1.Secret, error) {
	data, ok := s.secrets[name]
	if !ok {
		return nil, apierrors.NewNotFound(corev1.Resource("secret"), name)
	}
	out := &corev1.Secret{Data: map[string][]byte{}}
	for k, v := range data {
		out.Data[k] = []byte(v)
	}
	return out, nil
}

func TestExpandFollowsKubernetesRules(t *testing.T) {
	lookup := func(name string) (string, bool) {
		v, ok := map[string]string{"A": "1", "B": "$(A)", "EMPTY": ""}[name]
		return v, ok
	}
	for in, want := range map[string]string{
		"":              "",
		"plain":         "plain",
		"$(A)":          "1",
		"x$(A)y$(A)":    "x1y1",
		"$$(A)":         "$(A)",
		"$$$(A)":        "$1",
		"$(B)":          "$(A)",
		"$(MISSING)-z":  "$(MISSING)-z",
		"$(EMPTY)|":     "|",
		"$A":            "$A",
		"$":             "$",
		"100%$":         "100%$",
		"$(A":           "$(A",
		"$()":           "$()",
		"a$$b$$$$c":     "a$b$$c",
		"$(A)$(A":       "1$(A",
		"$((A))":        "$((A))",
		"pre$(A)$$post": "pre1$post",
	} {
		if got := podvalue.Expand(in, lookup); got != want {
			t.Errorf("Expand(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzExpandKeepsTextWithoutDollars(f *testing.F) {
	f.Add("$(A) $$ $(")
	f.Fuzz(func(t *testing.T, text string) {
		got := podvalue.Expand(text, func(string) (string, bool) { return "", false })
		if !strings.Contains(text, "$") && got != text {
			t.Errorf("Expand(%q) = %q, want it unchanged", text, got)
		}
		if twice := strings.ReplaceAll(text, "$", "$$"); podvalue.Expand(twice, nil) != text {
			t.Errorf("Expand(%q) = %q, want %q", twice, podvalue.Expand(twice, nil), text)
		}
	})
}

func podContext() podvalue.Context {
	return podvalue.Context{
		Pod: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: "web", Namespace: "shop", UID: "u-1",
				Labels: map[string]string{"app": "web", "tier": "front"}, Annotations: map[string]string{"note": "a\nb"},
			},
			Spec: corev1.PodSpec{NodeName: "n1", ServiceAccountName: "default", Containers: []corev1.Container{{
				Name: "c",
				Resources: corev1.ResourceRequirements{
					Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("100Mi")},
					Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1500m")},
				},
			}}},
			Status: corev1.PodStatus{PodIP: "10.0.0.9", PodIPs: []corev1.PodIP{{IP: "10.0.0.9"}}},
		},
		HostIP:      "192.0.2.1",
		Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")},
		Sources: sources{
			configMaps: map[string]map[string]string{"cfg": {"a": "1", "b": "2"}},
			secrets:    map[string]map[string]string{"sec": {"token": "s3"}},
		},
	}
}

func TestEnvResolvesEachKindOfSourceInOrder(t *testing.T) {
	var c corev1.Container
	err := yaml.UnmarshalStrict([]byte(`
name: c
envFrom:
- {prefix: CFG_, configMapRef: {name: cfg}}
- {secretRef: {name: sec}}
- {configMapRef: {name: none, optional: true}}
env:
- {name: PLAIN, value: x}
- {name: REF, value: "$(PLAIN)-$(CFG_a)-$(LATER)-$$(PLAIN)"}
- {name: LATER, value: "y"}
- {name: CFG_a, value: replaced}
- {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
- {name: LABEL, valueFrom: {fieldRef: {fieldPath: "metadata.labels['app']"}}}
- {name: LABELS, valueFrom: {fieldRef: {fieldPath: metadata.labels}}}
- {name: HOST, valueFrom: {fieldRef: {fieldPath: status.hostIP}}}
- {name: CPU, valueFrom: {resourceFieldRef: {resource: requests.cpu}}}
- {name: CPUM, valueFrom: {resourceFieldRef: {resource: requests.cpu, divisor: 1m}}}
- {name: CPULIMIT, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}
- {name: MEM, valueFrom: {resourceFieldRef: {resource: limits.memory, divisor: 1Mi}}}
- {name: KEY, valueFrom: {configMapKeyRef: {name: cfg, key: b}}}
- {name: TOKEN, valueFrom: {secretKeyRef: {name: sec, key: token}}}
- {name: GONE, valueFrom: {secretKeyRef: {name: sec, key: nope, optional: true}}}
- {name: EMPTY}
`), &c)
	if err != nil {
		t.Fatal(err)
	}
	env, err := podContext().Env(&c, "web")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"HOSTNAME=web", "CFG_a=replaced", "CFG_b=2", "token=s3", "PLAIN=x", "REF=x-1-$(LATER)-$(PLAIN)", "LATER=y",
		"NODE=n1", "LABEL=web", "LABELS=app=\"web\"\ntier=\"front\"", "HOST=192.0.2.1", "CPU=2", "CPUM=1500", "CPULIMIT=4",
		"MEM=100", "KEY=2", "TOKEN=s3", "EMPTY=",
	}
	if diff := cmp.Diff(want, env.List()); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

func TestEnvSaysWhatIsMissing(t *testing.T) {
	for from, want := range map[string]string{
		`{configMapKeyRef: {name: none, key: a}}`:                          `configmap "none" not found`,
		`{secretKeyRef: {name: none, key: a}}`:                             `secret "none" not found`,
		`{configMapKeyRef: {name: cfg, key: z}}`:                           "couldn't find key z in ConfigMap shop/cfg",
		`{secretKeyRef: {name: sec, key: z}}`:                              "couldn't find key z in Secret shop/sec",
		`{fieldRef: {fieldPath: status.phase}}`:                            "unsupported fieldPath: status.phase",
		`{fieldRef: {fieldPath: "spec.x['y']"}}`:                           `fieldPath "spec.x['y']" does not support subscript`,
		`{resourceFieldRef: {resource: limits.gpu}}`:                       "unsupported container resource : limits.gpu",
		`{resourceFieldRef: {containerName: other, resource: limits.cpu}}`: "container other not found",
	} {
		c := corev1.Container{Name: "c", Env: []corev1.EnvVar{{Name: "X", ValueFrom: &corev1.EnvVarSource{}}}}
		if err := yaml.UnmarshalStrict([]byte(from), c.Env[0].ValueFrom); err != nil {
			t.Fatal(err)
		}
		if _, err := podContext().Env(&c, "h"); err == nil || err.Error() != want {
			t.Errorf("valueFrom %s: error %v, want %s", from, err, want)
		}
	}
}

func TestArgsMergeWhatImageAndContainerSay(t *testing.T) {
	c := &corev1.Container{Name: "c", Env: []corev1.EnvVar{{Name: "WHO", Value: "you"}}}
	env, err := podContext().Env(c, "h")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		image           string
		entrypoint, cmd []string
		command, args   []string
		want            []string
	}{
		{image: "file:///srv/app.wasm", want: []string{"app.wasm"}},
		{image: "edgepod.dev/toolbox", args: []string{"a"}, want: []string{"toolbox", "a"}},
		{image: "edgepod.dev/wc", args: []string{"x.wasm"}, want: []string{"wc", "x.wasm"}},
		{image: "ghcr.io/x/web:v1@sha256:00", args: []string{"$(WHO)"}, want: []string{"web", "you"}},
		{image: "./app.wasm", command: []string{"sh", "-c"}, args: []string{"echo $(WHO)"}, want: []string{"sh", "-c", "echo you"}},

		{entrypoint: []string{"/a.wasm", "-x"}, cmd: []string{"y"}, want: []string{"/a.wasm", "-x", "y"}},
		{entrypoint: []string{"/a.wasm", "-x"}, cmd: []string{"y"}, args: []string{"z"}, want: []string{"/a.wasm", "-x", "z"}},
		{entrypoint: []string{"/a.wasm", "-x"}, cmd: []string{"y"}, command: []string{"b"}, want: []string{"b"}},
		{entrypoint: []string{"/a.wasm"}, cmd: []string{"y"}, command: []string{"b"}, args: []string{"z"}, want: []string{"b", "z"}},
		{entrypoint: []string{"$(WHO)"}, want: []string{"$(WHO)"}},
		{cmd: []string{"/a.wasm", "y"}, want: []string{"/a.wasm", "y"}},
		{cmd: []string{"/a.wasm", "y"}, args: []string{"z"}, want: []string{"/a.wasm", "z"}},
		{cmd: []string{"/a.wasm", "y"}, args: []string{"/a.wasm", "z"}, want: []string{"/a.wasm", "z"}},
		{cmd: []string{"serve"}, args: []string{"test"}, want: []string{"test"}},
		{cmd: []string{"/a.wasm"}, command: []string{"b"}, want: []string{"b"}},
	} {
		c := &corev1.Container{Image: tt.image, Command: tt.command, Args: tt.args}
		image := sandbox.ImageConfig{Entrypoint: tt.entrypoint, Cmd: tt.cmd}
		if got := podvalue.Args(c, env, image); !cmp.Equal(got, tt.want) {
			t.Errorf("Args(%+v) = %q, want %q", tt, got, tt.want)
		}
		if !cmp.Equal(image, sandbox.ImageConfig{Entrypoint: tt.entrypoint, Cmd: tt.cmd}) {
			t.Errorf("Args(%+v) changed the image's configuration: %+v", tt, image)
		}
	}
}

func TestImagesVariablesGiveWayToThoseOfThePod(t *testing.T) {
	c := &corev1.Container{Name: "c", Env: []corev1.EnvVar{{Name: "A", Value: "pod"}, {Name: "REF", Value: "$(B)"}}}
	env, err := podContext().Env(c, "h")
	if err != nil {
		t.Fatal(err)
	}
	image := sandbox.ImageConfig{Env: []string{"A=image", "B=1", "HOSTNAME=x", "B=2", "EMPTY=", "=odd", "odd", "C=a=b", "D=a\x00b"}, WorkingDir: "/srv"}
	want := []string{"B=2", "EMPTY=", "C=a=b", "HOSTNAME=h", "A=pod", "REF=$(B)"}
	if got := env.Over(image); !cmp.Equal(got, want) {
		t.Errorf("Over = %q, want %q", got, want)
	}
	if dir := podvalue.WorkingDir(c, image); dir != "/srv" {
		t.Errorf("working folder %q, want the image's", dir)
	}
	c.WorkingDir = "/tmp"
	if dir := podvalue.WorkingDir(c, image); dir != "/tmp" {
		t.Errorf("working folder %q, want the container's", dir)
	}
}
