package image

import (
	"net/http"
	"strings"
	"testing"

	"edgepod/wasmrt/sandbox"
)

// Anybody can name the parts of an image of somebody else, and then send them as slowly as it pleases.
func TestARegistryThatIsSlowHoldsUpNoOther(t *testing.T) {
	slow, sound := newHub(t), newHub(t)
	wasm := command(custom("v", strings.Repeat("x", 100_000)))
	for _, h := range []*hub{slow, sound} {
		h.artifact("app", "v1", ConfigType, ModuleType, wasm)
	}
	blob := describe(t, ModuleType, wasm).Digest.String()
	asked, release := make(chan struct{}), make(chan struct{})
	slow.set(func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, blob) {
			close(asked)
			<-release
		}
		return false
	})
	s, _ := openStore(t, nil)
	held := make(chan error, 1)
	go func() {
		_, err := s.Resolve(t.Context(), sandbox.PullRequest{Ref: slow.ref("app:v1"), Policy: sandbox.PullAlways})
		held <- err
	}()
	<-asked
	if e, err := s.Resolve(t.Context(), sandbox.PullRequest{Ref: sound.ref("app:v1"), Policy: sandbox.PullAlways}); err != nil || e.Sum == "" {
		t.Errorf("from the other registry: %+v, %v", e, err)
	}
	close(release)
	if err := <-held; err != nil {
		t.Errorf("from the slow one in the end: %v", err)
	}
}
