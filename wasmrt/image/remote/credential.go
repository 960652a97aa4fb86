package remote

import (
	"cmp"
	"net/url"
	"path"
	"slices"
	"strings"

	"edgepod/wasmrt/sandbox"
)

// Matching returns the credentials for a repository, HOST/PATH, as the kubelet chooses and orders them: the more specific
// first, and those with the same key in the order in which they came.
func Matching(credentials []sandbox.Credential, repository string) []sandbox.Credential {
	type candidate struct {
		key string
		sandbox.Credential
	}
	host, rest, _ := strings.Cut(repository, "/")
	target := pattern{host: canonicalHost(host), path: "/" + rest}
	var found []candidate
	for _, c := range credentials {
		if p, ok := parsePattern(c.Server); ok && p.matches(target) {
			found = append(found, candidate{p.host + p.path, c})
		}
	}
	slices.SortStableFunc(found, func(a, b candidate) int { return cmp.Compare(b.key, a.key) })
	out := make([]sandbox.Credential, 0, len(found)+1)
	for _, c := range found {
		out = append(out, c.Credential)
	}
	return out
}

// pattern is the key of a credential: a host with an optional port, in whose dotted parts * may stand, and the beginning
// of a path.
type pattern struct{ host, path string }

// parsePattern reads a key, whose scheme and version of the protocol say nothing.
func parsePattern(key string) (pattern, bool) {
	if !strings.HasPrefix(key, "https://") && !strings.HasPrefix(key, "http://") {
		key = "https://" + key
	}
	u, err := url.Parse(key)
	if err != nil || u.Host == "" {
		return pattern{}, false
	}
	prefix := u.Path
	for _, version := range []string{"/v1/", "/v2/"} {
		if rest, ok := strings.CutPrefix(prefix, version); ok {
			prefix = "/" + rest
			break
		}
	}
	if prefix == "/" || prefix == "/v1" || prefix == "/v2" {
		prefix = ""
	}
	return pattern{host: canonicalHost(u.Host), path: prefix}, true
}

func (p pattern) matches(target pattern) bool {
	globs, parts := strings.Split(hostname(p.host), "."), strings.Split(hostname(target.host), ".")
	if len(globs) != len(parts) || port(p.host) != port(target.host) || !strings.HasPrefix(target.path, p.path) {
		return false
	}
	for i, glob := range globs {
		if ok, err := path.Match(glob, parts[i]); err != nil || !ok {
			return false
		}
	}
	return true
}

func hostname(host string) string { return (&url.URL{Host: host}).Hostname() }

func port(host string) string { return (&url.URL{Host: host}).Port() }
