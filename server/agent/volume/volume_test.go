package volume_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/yaml"

	"edgepod/server/agent/podvalue"
	"edgepod/server/agent/volume"
)

// sources are config maps and secrets by name.
type sources map[string]map[string]string

func (s sources) ConfigMap(name string) (*corev1.ConfigMap, error) {
	if data, ok := s["cm/"+name]; ok {
		return &corev1.ConfigMap{Data: data, BinaryData: map[string][]byte{}}, nil
	}
	return nil, apierrors.NewNotFound(corev1.Resource("configmap"), name)
}

func (s sources) Secret(name string) (*corev1.Secret, error) {
	data, ok := s["secret/"+name]
	if !ok {
		return nil, apierrors.NewNotFound(corev1.Resource("secret"), name)
	}
	out := &corev1.Secret{Data: map[string][]byte{}}
	for k, v := range data {
		out.Data[k] = []byte(v)
	}
	return out, nil
}

func readPod(t *testing.T, text string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	if err := yaml.UnmarshalStrict([]byte(text), pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

// tree lists what a guest sees in dir: mode and content of each file, links followed.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var lines []string
	var walk func(at, shown string)
	walk = func(at, shown string) {
		entries, err := os.ReadDir(at)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), "..") {
				continue
			}
			path := filepath.Join(at, e.Name())
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if info.IsDir() {
				walk(path, shown+e.Name()+"/")
				continue
			}
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, fmt.Sprintf("%s%s %o %q", shown, e.Name(), info.Mode().Perm(), data))
		}
	}
	walk(dir, "")
	sort.Strings(lines)
	return strings.Join(lines, "\n")
}

func TestGeneratedVolumesHoldWhatTheApiSays(t *testing.T) {
	pod := readPod(t, `
metadata: {name: web, labels: {app: web}}
spec:
  containers: [{name: c, resources: {limits: {memory: 64Mi}}}]
  volumes:
  - {name: cm, configMap: {name: cfg}}
  - {name: items, configMap: {name: cfg, defaultMode: 0o600, items: [{key: a, path: dir/one}, {key: b, path: two, mode: 0o444}]}}
  - {name: secret, secret: {secretName: sec, defaultMode: 0o400}}
  - {name: none, secret: {secretName: gone, optional: true}}
  - name: down
    downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}, {path: mem, resourceFieldRef: {containerName: c, resource: limits.memory, divisor: 1Mi}}]}
  - name: all
    projected:
      sources:
      - {configMap: {name: cfg, items: [{key: a, path: from-cm}]}}
      - {secret: {name: sec}}
      - {downwardAPI: {items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}}
`)
	f := volume.Folder{Dir: filepath.Join(t.TempDir(), "v")}
	from := sources{"cm/cfg": {"a": "1", "b": "2"}, "secret/sec": {"token": "s"}}
	if err := f.Prepare(podvalue.Context{Pod: pod, Sources: from}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"cm":     "a 644 \"1\"\nb 644 \"2\"",
		"items":  "dir/one 600 \"1\"\ntwo 444 \"2\"",
		"secret": `token 400 "s"`,
		"none":   "",
		"down":   "labels 644 \"app=\\\"web\\\"\"\nmem 644 \"64\"",
		"all":    "from-cm 644 \"1\"\nname 644 \"web\"\ntoken 644 \"s\"",
	} {
		if diff := cmp.Diff(want, tree(t, filepath.Join(f.Dir, name))); diff != "" {
			t.Errorf("volume %s (-want +got):\n%s", name, diff)
		}
	}
	from["cm/cfg"] = map[string]string{"b": "3", "c": "4"}
	if err := f.Prepare(podvalue.Context{Pod: pod, Sources: from}); err == nil ||
		err.Error() != `MountVolume.SetUp failed for volume "items" : configmap references non-existent config key: a` {
		t.Errorf("missing key: %v", err)
	}
	if got := tree(t, filepath.Join(f.Dir, "cm")); got != "b 644 \"3\"\nc 644 \"4\"" {
		t.Errorf("after the change: %s", got)
	}
}

func TestReadersSeeOldOrNewContentWhole(t *testing.T) {
	pod := readPod(t, `{spec: {volumes: [{name: cm, configMap: {name: cfg}}]}}`)
	f := volume.Folder{Dir: t.TempDir()}
	write := func(i int) {
		text := fmt.Sprint(i)
		if err := f.Prepare(podvalue.Context{Pod: pod, Sources: sources{"cm/cfg": {"a": text, "b": text}}}); err != nil {
			t.Error(err)
		}
	}
	write(0)
	var wait sync.WaitGroup
	done := make(chan struct{})
	wait.Go(func() {
		defer close(done)
		for i := range 300 {
			write(i)
		}
	})
	data := filepath.Join(f.Dir, "cm", "..data")
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		// A reader that holds the folder sees one content, as long as it is not swept away under it.
		root, err := os.OpenRoot(data)
		if err != nil {
			continue
		}
		a, errA := fs.ReadFile(root.FS(), "a")
		b, errB := fs.ReadFile(root.FS(), "b")
		if errA == nil && errB == nil && string(a) != string(b) {
			t.Errorf("a is %s and b is %s", a, b)
		}
		root.Close()
	}
	wait.Wait()
	if entries, err := os.ReadDir(filepath.Join(f.Dir, "cm")); err != nil || len(entries) != 4 {
		t.Errorf("left in the volume: %v, %v; want a, b, ..data and its folder", entries, err)
	}
}

func TestHostPathIsAllowedBeneathTheNodesFoldersAlone(t *testing.T) {
	base := t.TempDir()
	outside := t.TempDir()
	for _, dir := range []string{"ok/sub", "other"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"out": outside, "in": filepath.Join(base, "ok/sub"), "dangling": filepath.Join(outside, "none"), "up": "../other"} {
		if err := os.Symlink(target, filepath.Join(base, "ok", name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(base, "ok/file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ path, kind, want string }{
		{"ok", "", ""},
		{"ok/sub", "Directory", ""},
		{"ok/sub/../sub", "", ""},
		{"ok/in", "", ""},
		{"ok/file", "File", ""},
		{"ok/new/deep", "DirectoryOrCreate", ""},
		{"ok/new/file", "FileOrCreate", ""},
		{"ok/file", "Directory", "is not a directory"},
		{"ok/sub", "File", "is not a file"},
		{"ok/sub", "Socket", "is not a socket file"},
		{"ok/sub", "BlockDevice", "is not a block device"},
		{"ok/gone", "", "does not exist"},
		{"ok/sub", "Nonsense", "invalid volume type"},
		{"other", "", "host-path"},
		{"ok/../other", "", "host-path"},
		{"ok/out", "", "host-path"},
		{"ok/out/new", "DirectoryOrCreate", "host-path"},
		{"ok/up", "", "host-path"},
		{"ok/dangling", "DirectoryOrCreate", "leads nowhere"},
	} {
		pod := readPod(t, fmt.Sprintf(`{spec: {volumes: [{name: h, hostPath: {path: %q, type: %q}}], containers: [{name: c, volumeMounts: [{name: h, mountPath: /h}]}]}}`,
			base+"/"+tt.path, tt.kind))
		f := volume.Folder{Dir: t.TempDir(), HostPaths: []string{filepath.Join(base, "ok")}}
		err := f.Prepare(podvalue.Context{Pod: pod})
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("hostPath %s of type %q: %v, want %q", tt.path, tt.kind, err, tt.want)
		}
		mounts, err := f.Mounts(pod, &pod.Spec.Containers[0], nil)
		if (err == nil) != (tt.want == "") {
			t.Errorf("mounts of hostPath %s: %v, %v", tt.path, mounts, err)
		}
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) > 0 {
		t.Errorf("made outside: %v, %v", entries, err)
	}
	none := volume.Folder{Dir: t.TempDir()}
	pod := readPod(t, `{spec: {volumes: [{name: h, hostPath: {path: /}}]}}`)
	if err := none.Prepare(podvalue.Context{Pod: pod}); err == nil || !strings.Contains(err.Error(), "the node allows no folders") {
		t.Errorf("hostPath / on a node that allows none: %v", err)
	}
}

func TestMountsOfSubPathsStayInTheVolume(t *testing.T) {
	dir := t.TempDir()
	f := volume.Folder{Dir: dir}
	pod := readPod(t, `
spec:
  volumes: [{name: e, emptyDir: {}}, {name: cm, configMap: {name: cfg}}]
  containers: [{name: c, env: [{name: WHO, value: me}], volumeMounts: [{name: e, mountPath: /data}]}]
`)
	values := podvalue.Context{Pod: pod, Sources: sources{"cm/cfg": {"a": "1"}}}
	if err := f.Prepare(values); err != nil {
		t.Fatal(err)
	}
	c := &pod.Spec.Containers[0]
	env, err := values.Env(c, "h")
	if err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"out": "/etc", "up": "../cm", "in": "real", "loop": "loop"} {
		if err := os.Symlink(target, filepath.Join(dir, "e", name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "e/real"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ mount, source, err string }{
		{`{name: e, mountPath: /data}`, "e", ""},
		{`{name: e, mountPath: /data, subPath: new/deep}`, "e/new/deep", ""},
		{`{name: e, mountPath: /data, subPathExpr: "users/$(WHO)"}`, "e/users/me", ""},
		{`{name: e, mountPath: /data, subPath: in}`, "e/real", ""},
		{`{name: cm, mountPath: /f, subPath: a}`, "cm/*/a", ""},
		{`{name: e, mountPath: /data, subPath: out}`, "", "escapes"},
		{`{name: e, mountPath: /data, subPath: out/passwd}`, "", "escapes"},
		{`{name: e, mountPath: /data, subPath: up}`, "", "escapes"},
		{`{name: e, mountPath: /data, subPath: ../cm}`, "", "relative path within the volume"},
		{`{name: e, mountPath: /data, subPath: /etc}`, "", "relative path within the volume"},
		{`{name: e, mountPath: /data, subPath: loop}`, "", "subPath"},
		{`{name: cm, mountPath: /f, subPath: none}`, "", "no such file"},
		{`{name: nope, mountPath: /f}`, "", `cannot find volume "nope" to mount into container "c"`},
	} {
		c.VolumeMounts = make([]corev1.VolumeMount, 1)
		if err := yaml.UnmarshalStrict([]byte(tt.mount), &c.VolumeMounts[0]); err != nil {
			t.Fatal(err)
		}
		mounts, err := f.Mounts(pod, c, env)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: mounts %v, error %v, want %q", tt.mount, mounts, err, tt.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tt.mount, err)
			continue
		}
		rel, _ := filepath.Rel(dir, mounts[0].Source)
		if ok, _ := filepath.Match(tt.source, rel); !ok || mounts[0].ReadOnly != strings.HasPrefix(tt.source, "cm") {
			t.Errorf("%s: %+v, want source %s", tt.mount, mounts[0], tt.source)
		}
	}
}

func TestRemoveFollowsNoLinksAndOpensLockedFolders(t *testing.T) {
	canary := t.TempDir()
	if err := os.WriteFile(filepath.Join(canary, "keep"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	f := volume.Folder{Dir: filepath.Join(t.TempDir(), "v")}
	locked := filepath.Join(f.Dir, "e", "locked", "deeper")
	if err := os.MkdirAll(locked, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{filepath.Join(f.Dir, "e", "link"), filepath.Join(locked, "link")} {
		if err := os.Symlink(canary, at); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{locked, filepath.Dir(locked)} {
		if err := os.Chmod(dir, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(f.Dir); !os.IsNotExist(err) {
		t.Errorf("the volumes are still there: %v", err)
	}
	if data, err := os.ReadFile(filepath.Join(canary, "keep")); err != nil || string(data) != "x" {
		t.Errorf("outside: %q, %v", data, err)
	}
	if err := f.Remove(); err != nil {
		t.Errorf("removing again: %v", err)
	}
}

func TestOtherKindsOfVolumesAreRefused(t *testing.T) {
	for _, source := range []string{`{nfs: {server: s, path: /}}`, `{persistentVolumeClaim: {claimName: c}}`, `{projected: {sources: [{serviceAccountToken: {path: t}}]}}`} {
		pod := readPod(t, `{spec: {volumes: [{name: v}]}}`)
		if err := yaml.UnmarshalStrict([]byte(source), &pod.Spec.Volumes[0].VolumeSource); err != nil {
			t.Fatal(err)
		}
		f := volume.Folder{Dir: t.TempDir()}
		if err := f.Prepare(podvalue.Context{Pod: pod}); err == nil || !strings.HasPrefix(err.Error(), `MountVolume.SetUp failed for volume "v" : this node`) {
			t.Errorf("volume %s: %v", source, err)
		}
	}
}

func TestPathsOfItemsStayInTheVolume(t *testing.T) {
	for _, path := range []string{"../x", "/x", "a/../../x", "..data", "..", ".", "a//b"} {
		pod := readPod(t, fmt.Sprintf(`{spec: {volumes: [{name: v, configMap: {name: cfg, items: [{key: a, path: %q}]}}]}}`, path))
		f := volume.Folder{Dir: t.TempDir()}
		if err := f.Prepare(podvalue.Context{Pod: pod, Sources: sources{"cm/cfg": {"a": "1"}}}); err == nil {
			t.Errorf("path %q is taken", path)
		}
	}
}

func TestUsageIsWhatTheFilesTake(t *testing.T) {
	pod := readPod(t, `{spec: {volumes: [{name: free, emptyDir: {}}, {name: v, emptyDir: {sizeLimit: 100Ki}}]}}`)
	if !volume.Limited(pod) || volume.Limited(readPod(t, `{spec: {volumes: [{name: free, emptyDir: {}}]}}`)) {
		t.Error("Limited does not tell the pod with a limit from that without")
	}
	outside := filepath.Join(t.TempDir(), "big")
	write := func(path string, size int) error { return os.WriteFile(path, make([]byte, size), 0o600) }
	if err := write(outside, 1<<20); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		fill func(dir string) error
		want bool
	}{
		"nothing":      {func(string) error { return nil }, false},
		"little":       {func(d string) error { return write(d+"/f", 50<<10) }, false},
		"one big file": {func(d string) error { return write(d+"/f", 200<<10) }, true},
		"many files": {func(d string) error {
			return errors.Join(write(d+"/a", 60<<10), os.MkdirAll(d+"/x/y", 0o700), write(d+"/x/y/b", 60<<10))
		}, true},
		"several names":  {func(d string) error { return errors.Join(write(d+"/a", 60<<10), os.Link(d+"/a", d+"/b")) }, false},
		"a hole":         {func(d string) error { return errors.Join(write(d+"/a", 0), os.Truncate(d+"/a", 1<<30)) }, false},
		"links outwards": {func(d string) error { return errors.Join(os.Symlink(outside, d+"/a"), os.Symlink("/usr", d+"/b")) }, false},
		"gone":           {func(d string) error { return os.Remove(d) }, false},
	} {
		f := volume.Folder{Dir: t.TempDir()}
		if err := f.Prepare(podvalue.Context{Pod: pod}); err != nil {
			t.Fatal(err)
		}
		if err := write(filepath.Join(f.Dir, "free", "f"), 1<<20); err != nil {
			t.Fatal(err)
		}
		if err := tt.fill(filepath.Join(f.Dir, "v")); err != nil {
			t.Fatal(err)
		}
		v, err := f.Exceeded(t.Context(), pod)
		if err != nil || (v != nil) != tt.want || v != nil && v.Name != "v" {
			t.Errorf("%s: %v, %v; exceeded is wanted: %v", name, v, err, tt.want)
		}
	}
}

func TestFoldersThatLieDeepAreMoreThanAnyLimit(t *testing.T) {
	pod := readPod(t, `{spec: {volumes: [{name: v, emptyDir: {sizeLimit: 1Gi}}]}}`)
	for levels, want := range map[int]bool{200: false, 300: true} {
		f := volume.Folder{Dir: filepath.Join(t.TempDir(), "volumes")}
		deep := filepath.Join(f.Dir, "v") + strings.Repeat("/d", levels)
		if err := errors.Join(f.Prepare(podvalue.Context{Pod: pod}), os.MkdirAll(deep, 0o700)); err != nil {
			t.Fatal(err)
		}
		if v, err := f.Exceeded(t.Context(), pod); err != nil || (v != nil) != want {
			t.Errorf("%d levels: %v, %v; exceeded is wanted: %v", levels, v, err, want)
		}
		if err := f.Remove(); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(f.Dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%d levels are still there: %v", levels, err)
		}
	}
}
