package image

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"edgepod/wasmrt/sandbox"
)

// outcome is what a pull came to: "cached", "pulled", or the reason of its error.
func outcome(e Entry, err error) string {
	var img *sandbox.ImageError
	switch {
	case errors.As(err, &img):
		return img.Reason
	case err != nil:
		return err.Error()
	case e.Cached:
		return "cached"
	}
	return "pulled"
}

func TestPoliciesMeanWhatTheyMeanToTheKubelet(t *testing.T) {
	h := newHub(t)
	first := h.artifact("app", "v1", ConfigType, ModuleType, command())
	s, _ := openStore(t, nil)
	pull := func(policy sandbox.PullPolicy, want string, digest string) {
		t.Helper()
		e, err := resolve(t, s, h.ref("app:v1"), policy)
		if got := outcome(e, err); got != want || err == nil && e.Digest != digest {
			t.Errorf("%s: %s %s (%v), want %s %s", policy, got, e.Digest, err, want, digest)
		}
	}
	pull(sandbox.PullNever, sandbox.ReasonErrImageNeverPull, "")
	pull(sandbox.PullIfNotPresent, "pulled", first.Digest.String())
	pull(sandbox.PullAlways, "cached", first.Digest.String())
	second := h.artifact("app", "v1", ConfigType, ModuleType, command(custom("v", "2")))
	pull(sandbox.PullIfNotPresent, "cached", first.Digest.String())
	pull(sandbox.PullNever, "cached", first.Digest.String())
	pull(sandbox.PullAlways, "pulled", second.Digest.String())
	pull(sandbox.PullIfNotPresent, "cached", second.Digest.String())
	h.Close()
	pull(sandbox.PullAlways, sandbox.ReasonErrImagePull, "")
	pull(sandbox.PullIfNotPresent, "cached", second.Digest.String())
	e, err := resolve(t, s, h.ref("app@%s", first.Digest), sandbox.PullNever)
	if got := outcome(e, err); got != sandbox.ReasonErrImageNeverPull {
		t.Errorf("a digest that was never asked for: %s", got)
	}
}

// locked lets those in who are u or v, with password p.
func locked(w http.ResponseWriter, r *http.Request) bool {
	if user, password, _ := r.BasicAuth(); (user == "u" || user == "v") && password == "p" {
		return false
	}
	w.Header().Set("WWW-Authenticate", `Basic realm="r"`)
	w.WriteHeader(http.StatusUnauthorized)
	return true
}

func TestPrivateImagesAreForThoseWhoMayPullThem(t *testing.T) {
	h := newHub(t)
	h.artifact("app", "v1", ConfigType, ModuleType, command())
	h.before = locked
	s, _ := openStore(t, nil)
	pull := func(policy sandbox.PullPolicy, user string) string {
		req := sandbox.PullRequest{Ref: h.ref("app:v1"), Policy: policy}
		if user != "" {
			req.Credentials = []sandbox.Credential{{Server: h.host(), Username: user, Password: "p"}}
		}
		return outcome(s.Resolve(t.Context(), req))
	}
	for _, step := range []struct {
		policy     sandbox.PullPolicy
		user, want string
	}{
		{sandbox.PullIfNotPresent, "", sandbox.ReasonErrImagePull},
		{sandbox.PullIfNotPresent, "other", sandbox.ReasonErrImagePull},
		{sandbox.PullIfNotPresent, "u", "pulled"},
		{sandbox.PullIfNotPresent, "", sandbox.ReasonErrImagePull},
		{sandbox.PullNever, "other", sandbox.ReasonErrImageNeverPull},
		{sandbox.PullNever, "u", "cached"},
		{sandbox.PullIfNotPresent, "u", "cached"},
		{sandbox.PullNever, "v", sandbox.ReasonErrImageNeverPull},
		{sandbox.PullIfNotPresent, "v", "cached"}, // after asking the registry
		{sandbox.PullNever, "v", "cached"},
		{sandbox.PullNever, "u", "cached"},
	} {
		if got := pull(step.policy, step.user); got != step.want {
			t.Errorf("%s as %q: %s, want %s", step.policy, step.user, got, step.want)
		}
	}
	h.before = nil // the image becomes public
	if got := pull(sandbox.PullIfNotPresent, ""); got != "cached" {
		t.Errorf("when it is public: %s", got)
	}
	h.before = locked
	if got := pull(sandbox.PullNever, ""); got != "cached" {
		t.Errorf("after it was public: %s", got)
	}
	refs, err := os.ReadDir(s.path(refDir))
	if err != nil || len(refs) != 1 {
		t.Fatal(refs, err)
	}
	text, err := os.ReadFile(s.path(refDir, refs[0].Name()))
	if err != nil || strings.Contains(string(text), `"p"`) {
		t.Errorf("the store has written down a password: %s, %v", text, err)
	}
}

// cluster is the cluster's registry: a hub reached by the host name registry.local.
func cluster(h *hub) http.RoundTripper {
	return transportFunc(func(r *http.Request) (*http.Response, error) {
		r = r.Clone(r.Context())
		r.URL.Scheme, r.URL.Host = "http", h.host()
		return http.DefaultTransport.RoundTrip(r)
	})
}

type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestWhatNamesMean(t *testing.T) {
	own, world := newHub(t), newHub(t)
	marked := func(text string) []byte { return command(custom("v", text)) }
	for repo, text := range map[string]string{"a/app": "a", "b/app": "b", "kube-public/app": "public", "a/team/app": "a team"} {
		own.artifact(repo, "latest", ConfigType, ModuleType, marked(text))
	}
	own.artifact("a/nginx", "v9", ConfigType, ModuleType, marked("a nginx"))
	for repo, text := range map[string]string{"app": "world", "other": "world other", "nginx": "world nginx"} {
		world.artifact(repo, "latest", ConfigType, ModuleType, marked(text))
	}
	builtins := fstest.MapFS{"web.wasm": {Data: marked("built-in web")}, "pause.wasm": {Data: marked("built-in pause")}}
	known := map[string]string{}
	for _, text := range []string{"a", "b", "public", "a team", "a nginx", "world", "world other", "world nginx", "built-in web", "built-in pause"} {
		known[sumOf(marked(text))] = text
	}
	open := func(change func(*Config)) *Store {
		s, _ := openStore(t, func(c *Config) {
			c.Cluster, c.Builtins, c.Aliases = cluster(own), builtins, true
			c.Registries.Default = world.host()
			if change != nil {
				change(c)
			}
		})
		return s
	}
	// what a reference means is told by the original of the module.
	meaning := func(s *Store, ref, namespace string) string {
		e, err := s.Resolve(t.Context(), sandbox.PullRequest{Ref: ref, Namespace: namespace, Policy: sandbox.PullAlways})
		if err != nil {
			return outcome(e, err) + ": " + err.Error()
		}
		r, err := s.read(strings.TrimPrefix(e.Digest, "sha256:"))
		if err != nil {
			return err.Error()
		}
		for _, blob := range append(r.Blobs, strings.TrimPrefix(e.Digest, "sha256:")) {
			if text, ok := known[blob]; ok {
				return text
			}
		}
		return "unknown"
	}
	s := open(nil)
	for _, tt := range []struct{ ref, namespace, want string }{
		{"app", "a", "a"},
		{"app:latest", "b", "b"},
		{"app", "c", "world"},
		{"app", "", "world"},
		{"team/app", "a", "a team"},
		{"other", "a", "world other"},
		{"registry.local/app", "a", "a"},
		{"registry.local/a/app", "a", "a"},
		{"registry.local/kube-public/app", "a", "public"},
		{"registry.local/a/app", "", "a"},
		{"registry.local/b/app", "a", "of the namespace b, and a pod may use"},
		{"x/../../b/app", "a", "couldn't parse the image name"},
		{"registry.local/a/../b/app", "a", "couldn't parse the image name"},
		{"registry.local//b/app", "a", "couldn't parse the image name"},
		{"REGISTRY.local/b/app", "a", "of the namespace b, and a pod may use"},
		{"registry.local/none", "a", "there is no image registry.local/a/none:latest"},
		{"registry.local/app", "", "registry.local/NAMESPACE/NAME"},
		{"kube-public/app", "a", "there is no image"},
		{"nginx:v9", "a", "a nginx"},
		{"none", "a", "there is no image"},
		{"registry.k8s.io/pause:3.10", "a", "built-in pause"},
		{"docker.io/library/nginx:1.27", "a", "built-in web"},
		{"docker.io/nginx", "a", "built-in web"},
		{"docker.io/rancher/mirrored-pause:3.6", "", "built-in pause"},
	} {
		if got := meaning(s, tt.ref, tt.namespace); !strings.Contains(got, tt.want) {
			t.Errorf("%s in namespace %q: %s, want %s", tt.ref, tt.namespace, got, tt.want)
		}
	}
	hub := open(func(c *Config) { c.Registries.Default = "" })
	if got := meaning(hub, "nginx", "a"); got != "built-in web" {
		t.Errorf("nginx: %s, want the built-in module", got)
	}
	if got := meaning(hub, "nginx:v9", "a"); got != "a nginx" {
		t.Errorf("nginx:v9: %s, want what the namespace has", got)
	}
	if got := meaning(open(func(c *Config) { c.Aliases = false }), "nginx", "a"); got != "world nginx" {
		t.Errorf("nginx without aliases: %s", got)
	}
	if got := meaning(open(func(c *Config) { c.Cluster = nil }), "registry.local/a/app", "a"); !strings.Contains(got, "knows no registry of a cluster") {
		t.Errorf("without a cluster: %s", got)
	}
	if e, err := hub.Resolve(t.Context(), sandbox.PullRequest{Ref: "nginx", Namespace: "a"}); err != nil || !strings.Contains(e.Note, "edgepod.dev/web runs in place of nginx") || !strings.Contains(e.Note, "--image-aliases=false") {
		t.Errorf("the note of an alias: %q, %v", e.Note, err)
	}
}

func TestAnOutageDoesNotChangeWhatANameMeans(t *testing.T) {
	own, world := newHub(t), newHub(t)
	world.artifact("app", "latest", ConfigType, ModuleType, command(custom("v", "world")))
	down := false
	reach := cluster(own)
	s, _ := openStore(t, func(c *Config) {
		c.Registries.Default = world.host()
		c.Cluster = transportFunc(func(r *http.Request) (*http.Response, error) {
			if down {
				return nil, io.ErrClosedPipe
			}
			return reach.RoundTrip(r)
		})
	})
	pull := func(policy sandbox.PullPolicy) (Entry, error) {
		return s.Resolve(t.Context(), sandbox.PullRequest{Ref: "app", Namespace: "a", Policy: policy})
	}
	down = true
	if e, err := pull(sandbox.PullIfNotPresent); err == nil {
		t.Errorf("while the cluster's registry was down, the world's image was taken: %+v", e)
	}
	down = false
	first, err := pull(sandbox.PullIfNotPresent)
	if err != nil || !strings.HasPrefix(first.ID, world.host()) {
		t.Fatalf("%+v, %v, want the world's", first, err)
	}
	own.artifact("a/app", "latest", ConfigType, ModuleType, command(custom("v", "own")))
	down = true
	if e, err := pull(sandbox.PullIfNotPresent); err != nil || e.Digest != first.Digest || e.ID != first.ID {
		t.Errorf("what was meant before is here, and %+v, %v came", e, err)
	}
	down = false
	if e, err := pull(sandbox.PullAlways); err != nil || e.Digest == first.Digest || !strings.HasPrefix(e.ID, sandbox.ClusterRegistry+"/a/app@") {
		t.Errorf("when asked again: %+v, %v, want the cluster's own", e, err)
	}
}

func TestAShortNameThatIsNowhereSaysWhereItWasLookedFor(t *testing.T) {
	own, world := newHub(t), newHub(t)
	s, _ := openStore(t, func(c *Config) { c.Registries.Default, c.Cluster = world.host(), cluster(own) })
	req := sandbox.PullRequest{Ref: "misspelt:v1", Namespace: "a", Policy: sandbox.PullIfNotPresent}
	_, pulled := s.Resolve(t.Context(), req)
	_, inspected := s.Inspect(t.Context(), req)
	for _, err := range []error{pulled, inspected} {
		wanted := "there is no image registry.local/a/misspelt:v1 in the cluster; elsewhere: there is no image " + world.host()
		if err == nil || !strings.Contains(err.Error(), wanted) {
			t.Errorf("%v, want %q", err, wanted)
		}
	}
}

func TestAnyLostFileIsMadeAnew(t *testing.T) {
	h := newHub(t)
	files := gzipped(t, tarOf(t, map[string]string{"m.wasm": string(command(custom("name", "\x01\x04\x01\x00\x01f"), custom(".debug_info", "d"))), "data": "x"}))
	h.index("app", "v1", on(h.picture("app", "", picture{config: v1.ConfigFile{OS: "wasi", Architecture: "wasm"}, layers: [][]byte{files}}), "wasi", "wasm"))
	s, _ := openStore(t, nil)
	whole, err := resolve(t, s, h.ref("app:v1"), sandbox.PullIfNotPresent)
	if err != nil || whole.NamesPath == "" || whole.DebugPath == "" {
		t.Fatalf("%+v, %v", whole, err)
	}
	lost := 0
	check := func(what string) {
		t.Helper()
		lost++
		e, err := resolve(t, s, h.ref("app:v1"), sandbox.PullIfNotPresent)
		if err != nil || e.Digest != whole.Digest || e.Sum != whole.Sum || e.Root != whole.Root {
			t.Errorf("without %s: %+v, %v", what, e, err)
			return
		}
		for _, path := range []string{e.Path, filepath.Join(e.Root, "m.wasm")} {
			if _, err := os.Stat(path); err != nil {
				t.Errorf("without %s: %v", what, err)
			}
		}
	}
	for _, name := range s.content(t) {
		if err := os.RemoveAll(s.path(name)); err != nil {
			t.Fatal(err)
		}
		check(name)
	}
	for _, dir := range []string{imageDir, refDir} {
		for _, name := range s.content(t) {
			if filepath.Dir(name) == dir {
				if err := os.WriteFile(s.path(name), []byte("{torn"), 0o600); err != nil {
					t.Fatal(err)
				}
				check("a sound " + name)
			}
		}
	}
	for _, cut := range []string{blobDir, imageDir, moduleDir, rootDir} { // as after a power cut that took several
		for _, name := range s.content(t) {
			if dir := filepath.Dir(name); dir == cut || dir == imageDir {
				if err := os.RemoveAll(s.path(name)); err != nil {
					t.Fatal(err)
				}
			}
		}
		check("all of " + cut)
	}
	if lost < 10 {
		t.Errorf("only %d losses were tried", lost)
	}
}
