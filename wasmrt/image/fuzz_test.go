package image

import (
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"edgepod/wasmrt/sandbox"
)

func FuzzManifest(f *testing.F) {
	f.Add([]byte(`{"schemaVersion":2,"config":{"mediaType":"application/vnd.wasm.config.v0+json","size":2,"digest":"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"},"layers":[{"mediaType":"application/wasm","size":8,"digest":"sha256:93a44bbb96c751218e4c00d479e4c14358122a389acca16205b1e4d0dc5f9476"}]}`),
		"application/vnd.oci.image.manifest.v1+json")
	f.Add([]byte(`{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","size":1,"digest":"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","platform":{"os":"wasi","architecture":"wasm"}}]}`), "")
	f.Add([]byte(`{"Layers":[],"layers":[]}`), "")
	s := &Store{}
	s.cfg.Limits.complete()
	f.Fuzz(func(t *testing.T, raw []byte, mediaType string) {
		index, image, err := decodeManifest(raw, mediaType)
		if err != nil {
			return
		}
		if (index == nil) == (image == nil) {
			t.Fatal("it is both, or neither")
		}
		if index != nil {
			if d, err := chooseImage(index); err == nil && rankOf(d) == 0 {
				t.Errorf("chose %+v", d)
			}
			return
		}
		if _, err := shapeOf(image); err == nil && len(image.Layers) == 0 {
			t.Error("an image without layers has a shape")
		}
		if s.checkLimits(image) == nil {
			for _, l := range image.Layers {
				if l.Size < 0 || l.Digest.Algorithm != "sha256" || len(l.Digest.Hex) != 64 || strings.ContainsAny(l.Digest.Hex, "/.") {
					t.Errorf("accepted a layer %+v", l)
				}
			}
		}
		_ = refuseLinux(image, &v1.ConfigFile{}, false) // must only not panic
	})
}

func FuzzReference(f *testing.F) {
	for _, ref := range []string{"nginx", "registry.local/b/app", "a.example:5000/x/y:z@sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a", "registry.local/../b/app", "localhost/x", "Registry.Local/b/x", "x/../../b/app"} {
		f.Add(ref, "a")
	}
	s := &Store{cfg: Config{Cluster: transportFunc(nil)}}
	f.Fuzz(func(t *testing.T, ref, namespace string) {
		if namespace != "" && (strings.Trim(namespace, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || len(namespace) > 63) {
			return // which the API lets nobody make
		}
		targets, err := s.targets(sandbox.PullRequest{Ref: ref, Namespace: namespace})
		if err != nil {
			return
		}
		for _, target := range targets {
			own := strings.HasPrefix(target.repo.RepositoryStr(), namespace+"/") || strings.HasPrefix(target.repo.RepositoryStr(), PublicNamespace+"/")
			if isCluster := strings.EqualFold(target.repo.RegistryStr(), sandbox.ClusterRegistry); isCluster && namespace != "" && !own {
				t.Errorf("%q in namespace %q means %s", ref, namespace, target.key())
			}
			if strings.Contains(target.repo.RepositoryStr(), "..") && strings.Contains("/"+target.repo.RepositoryStr()+"/", "/../") {
				t.Errorf("%q leads out: %s", ref, target.key())
			}
		}
	})
}
