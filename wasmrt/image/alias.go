package image

import (
	"fmt"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

// aliases are the images of other programs in whose place a built-in module runs, by repository: what tutorials and charts
// name, and what behaves alike enough for their purpose.
var aliases = map[string]string{
	name.DefaultRegistry + "/library/nginx":                     "web",
	name.DefaultRegistry + "/library/httpd":                     "web",
	name.DefaultRegistry + "/library/hello-world":               "hello",
	name.DefaultRegistry + "/library/pause":                     "pause",
	name.DefaultRegistry + "/kubernetes/pause":                  "pause",
	name.DefaultRegistry + "/google/pause":                      "pause",
	name.DefaultRegistry + "/rancher/pause":                     "pause",
	name.DefaultRegistry + "/rancher/mirrored-pause":            "pause",
	name.DefaultRegistry + "/mirrorgooglecontainers/pause":      "pause",
	"registry.k8s.io/pause":                                     "pause",
	"registry.k8s.io/pause-amd64":                               "pause",
	"k8s.gcr.io/pause":                                          "pause",
	"k8s.gcr.io/pause-amd64":                                    "pause",
	"gcr.io/google_containers/pause":                            "pause",
	"gcr.io/google_containers/pause-amd64":                      "pause",
	"gcr.io/google-containers/pause":                            "pause",
	"gcr.io/google-samples/pause":                               "pause",
	"mcr.microsoft.com/oss/kubernetes/pause":                    "pause",
	"registry.aliyuncs.com/google_containers/pause":             "pause",
	"registry.cn-hangzhou.aliyuncs.com/google_containers/pause": "pause",
	"quay.io/openshift/origin-pod":                              "pause",
}

// alias returns the reference of the built-in module that stands for a repository, or "". Where that module does not ship,
// the repository stands for itself; so does an image named by digest, which can be nothing else.
func (s *Store) alias(t target) string {
	if !s.cfg.Aliases || strings.Contains(t.identifier, ":") {
		return ""
	}
	base, ok := aliases[t.repo.Name()]
	if !ok {
		return ""
	}
	src, err := s.locateBuiltin(BuiltinPrefix + base)
	if err != nil {
		return ""
	}
	src.close()
	return BuiltinPrefix + base
}

// aliasNote tells the user what runs in place of what was named.
func aliasNote(ref, builtin string) string {
	return fmt.Sprintf("The built-in module %s runs in place of %s, which is a Linux image and cannot run here. "+
		"Name %s to have it without this note; a node with --image-aliases=false has no such aliases.", builtin, ref, builtin)
}
