package image

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"edgepod/wasmrt/image/inspect"
	"edgepod/wasmrt/sandbox"
)

// target is one of the places that a reference may mean.
type target struct {
	repo name.Repository
	// identifier is a tag or digest.
	identifier string
	// builtin is set in place of both for an alias: the reference of the built-in module.
	builtin string
	// cluster marks the cluster's own registry, where what is not found may be elsewhere.
	cluster bool
}

// key names the target in the store.
func (t target) key() string {
	sep := ":"
	if strings.Contains(t.identifier, ":") {
		sep = "@"
	}
	return t.repo.Name() + sep + t.identifier
}

// targets returns what a reference to a registry may mean, in the order in which it is looked for: with a host, what is
// there; without one, the namespace's part of the cluster's registry, a built-in module of another name, the default
// registry.
func (s *Store) targets(req sandbox.PullRequest) ([]target, error) {
	host := s.cfg.Registries.Default
	if host == "" {
		host = name.DefaultRegistry
	}
	ref, err := name.ParseReference(req.Ref, name.WithDefaultRegistry(host))
	if err != nil {
		return nil, invalid(req.Ref, whyInvalid(req.Ref, err))
	}
	if !repositoryForm.MatchString(ref.Context().RepositoryStr()) {
		return nil, invalid(req.Ref, "the parts of a repository's name are letters and digits in lower case, with single separators in between")
	}
	if digest := ref.Identifier(); strings.Contains(digest, ":") && !strings.HasPrefix(digest, "sha256:") {
		return nil, invalid(req.Ref, "only digests of the kind sha256 are known")
	}
	own := target{repo: ref.Context(), identifier: ref.Identifier()}
	if strings.EqualFold(own.repo.RegistryStr(), sandbox.ClusterRegistry) {
		own.repo = clusterRepo(own.repo.RepositoryStr())
		t, err := s.clusterTarget(req, own)
		return []target{t}, err
	}
	var out []target
	if !hasHost(req.Ref) && s.cfg.Cluster != nil && req.Namespace != "" {
		short := strings.TrimPrefix(own.repo.RepositoryStr(), "library/")
		out = append(out, target{repo: clusterRepo(req.Namespace, short), identifier: own.identifier, cluster: true})
	}
	if builtin := s.alias(own); builtin != "" {
		return append(out, target{builtin: builtin}), nil
	}
	return append(out, own), nil
}

// repositoryForm is that of the distribution specification. What else the library lets pass, such as .. between slashes,
// could lead from one namespace into another.
var repositoryForm = regexp.MustCompile(`^[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*$`)

// whyInvalid says what is wrong with a reference, as far as that can be told.
func whyInvalid(ref string, err error) string {
	if _, lower := name.ParseReference(strings.ToLower(ref)); lower == nil {
		return "the names of repositories are written in lower case"
	}
	return err.Error()
}

// clusterRepo is a repository of the cluster's registry.
func clusterRepo(parts ...string) name.Repository {
	registry, err := name.NewRegistry(sandbox.ClusterRegistry)
	if err != nil { // it is a constant, and a valid one
		panic(err)
	}
	return registry.Repo(parts...)
}

// clusterTarget is a reference with the host of the cluster's registry: NAME is of the pod's own namespace, and only that
// one's images and the public ones may be used.
func (s *Store) clusterTarget(req sandbox.PullRequest, t target) (target, error) {
	if s.cfg.Cluster == nil {
		return target{}, imageError(req.Ref, problem("this node knows no registry of a cluster"))
	}
	t.cluster = true
	namespace, rest, _ := strings.Cut(t.repo.RepositoryStr(), "/")
	if rest == "" {
		if req.Namespace == "" {
			return target{}, invalid(req.Ref, "images of the cluster's registry are named "+sandbox.ClusterRegistry+"/NAMESPACE/NAME")
		}
		t.repo = clusterRepo(req.Namespace, namespace)
		return t, nil
	}
	if req.Namespace != "" && namespace != req.Namespace && namespace != PublicNamespace {
		return target{}, imageError(req.Ref, problem(fmt.Sprintf("it is of the namespace %s, and a pod may use the images of its own namespace (%s) and of %s",
			inspect.Plain(namespace), req.Namespace, PublicNamespace)))
	}
	return t, nil
}

// hasHost tells whether a reference begins with a registry's host, as everybody tells it from a folder's name.
func hasHost(ref string) bool {
	first, _, found := strings.Cut(ref, "/")
	return found && (strings.ContainsAny(first, ".:") || first == "localhost")
}
