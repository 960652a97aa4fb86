package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestControlBytesAreShownAtATerminal(t *testing.T) {
	tests := []struct {
		name   string
		writes []string
		want   string
	}{
		{"text, tabs and lines", []string{"a\tb\nü€😀"}, "a\tb\nü€😀"},
		{"escape sequence", []string{"\x1b[2J"}, `\x1b[2J`},
		{"carriage return and delete", []string{"a\rb\x7f"}, `a\x0db\x7f`},
		{"C1 control in UTF-8", []string{"\u009b31m"}, `\x9b31m`},
		{"C1 control over two writes", []string{"\xc2", "\x9b"}, `\x9b`},
		{"no control over two writes", []string{"\xc2", "\xa7"}, "§"},
		{"lead byte twice", []string{"\xc2\xc2\xa7"}, "\xc2§"},
	}
	for _, test := range tests {
		var out bytes.Buffer
		e := &escaper{out: &out}
		for _, text := range test.writes {
			if n, err := e.Write([]byte(text)); n != len(text) || err != nil {
				t.Errorf("%s: Write(%q) = %d, %v", test.name, text, n, err)
			}
		}
		if out.String() != test.want {
			t.Errorf("%s: got %q, want %q", test.name, out.String(), test.want)
		}
	}
}

func TestModuleNamesAreNamesOfPods(t *testing.T) {
	for module, want := range map[string]string{
		"./app.wasm": "app", "My App (2).wasm": "my-app-2", "edgepod.dev/toolbox": "toolbox", "---.wasm": "module", "/": "module",
		"a23456789012345678901234567890123456789012345.wasm": "a234567890123456789012345678901234567890",
	} {
		if got := moduleName(module); got != want {
			t.Errorf("moduleName(%q) = %q, want %q", module, got, want)
		}
	}
}

func TestFoldersBecomeVolumes(t *testing.T) {
	dir := t.TempDir()
	volumes, mounts, err := folders([]string{dir + ":/data", dir + ":/etc/app:ro"})
	if err != nil {
		t.Fatal(err)
	}
	want := []corev1.VolumeMount{{Name: "dir-0", MountPath: "/data"}, {Name: "dir-1", MountPath: "/etc/app", ReadOnly: true}}
	if diff := cmp.Diff(want, mounts); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
	if len(volumes) != 2 || volumes[1].HostPath.Path != dir {
		t.Errorf("volumes: got %v", volumes)
	}
	for _, bad := range []string{"", dir, dir + ":", dir + ":data", dir + ":/data:rx", ":/data", dir + ":/a:/b:ro", filepath.Join(dir, "none") + ":/data"} {
		if _, _, err := folders([]string{bad}); err == nil {
			t.Errorf("folders(%q) is accepted", bad)
		}
	}
}

func TestEnvironmentTakesValuesOrTheCallers(t *testing.T) {
	lookup := func(name string) (string, bool) { return "mine", name == "HERE" }
	got, err := environment([]string{"A=1", "B=", "C=x=y", "HERE"}, lookup)
	if err != nil {
		t.Fatal(err)
	}
	want := []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B"}, {Name: "C", Value: "x=y"}, {Name: "HERE", Value: "mine"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
	for _, bad := range []string{"=1", "NOWHERE"} {
		if _, err := environment([]string{bad}, lookup); err == nil {
			t.Errorf("environment(%q) is accepted", bad)
		}
	}
}

func TestDataFolderHasOneHolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	held, err := lockDataDir(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	var inUse errInUse
	if _, err := lockDataDir(dir, 0); !errors.As(err, &inUse) || inUse.pid != os.Getpid() {
		t.Errorf("second lock: got %v, want one in use by pid %d", err, os.Getpid())
	}
	held.release()
	again, err := lockDataDir(dir, 0)
	if err != nil {
		t.Fatalf("after release: %v", err)
	}
	again.release()
}

func TestAFlagGoesBeforeTheEnvironment(t *testing.T) {
	folder := t.TempDir()
	other := filepath.Join(t.TempDir(), "missing")
	t.Setenv("KUBECONFIG", other)
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"get", "pods", "--data-dir", folder}, kubeconfigPath(folder)},
		{[]string{"get", "pods"}, other},
		{[]string{"get", "pods", "--data-dir", folder, "--kubeconfig", other}, other},
	} {
		var out, errOut strings.Builder
		a := &app{in: strings.NewReader(""), out: &out, errOut: &errOut}
		if code := execute(t.Context(), a, test.args); code != exitFailed || !strings.Contains(errOut.String(), test.want+":") {
			t.Errorf("%v: exit code %d, %q, want the missing %s named", test.args, code, errOut.String(), test.want)
		}
	}
}

func TestDefaultDataFolder(t *testing.T) {
	for _, test := range []struct {
		env  map[string]string
		want string
	}{
		{map[string]string{"EDGEPOD_DATA_DIR": "/d", "XDG_DATA_HOME": "/x", "HOME": "/h"}, "/d"},
		{map[string]string{"XDG_DATA_HOME": "/x", "HOME": "/h"}, "/x/edgepod"},
		{map[string]string{"XDG_DATA_HOME": "relative", "HOME": "/h"}, "/h/.local/share/edgepod"},
	} {
		if got := defaultDataDir(func(name string) string { return test.env[name] }); got != test.want {
			t.Errorf("with %v: got %s, want %s", test.env, got, test.want)
		}
	}
}

// TestApplyDropsWhatTheFileNoLongerSays holds the three ways of a patch: the file's last word, its new one, and what
// others have set.
func TestApplyDropsWhatTheFileNoLongerSays(t *testing.T) {
	configMap := func(data map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "c"}, "data": data,
		}}
	}
	live, err := withLastApplied(configMap(map[string]any{"a": "1", "b": "2"}))
	if err != nil {
		t.Fatal(err)
	}
	if patch, _, err := threeWayPatch(live, live); err != nil || string(patch) != "{}" {
		t.Errorf("nothing changed: got patch %s, %v", patch, err)
	}
	if err := unstructured.SetNestedField(live.Object, "3", "data", "others"); err != nil {
		t.Fatal(err)
	}
	modified, err := withLastApplied(configMap(map[string]any{"a": "2"}))
	if err != nil {
		t.Fatal(err)
	}
	patch, _, err := threeWayPatch(live, modified)
	if err != nil {
		t.Fatal(err)
	}
	got := &unstructured.Unstructured{}
	if err := got.UnmarshalJSON(append([]byte(`{"apiVersion":"v1","kind":"ConfigMap",`), patch[1:]...)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"a": "2", "b": nil}, got.Object["data"]); diff != "" {
		t.Errorf("patch of data (-want +got):\n%s", diff)
	}
}
