// Package remote fetches manifests and blobs from registries that speak the protocol of the OCI distribution specification.
package remote

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
)

// Registries says how registries are reached.
type Registries struct {
	// Default is the host of names without one; "": docker.io.
	Default string `json:"default,omitempty"`
	// Hosts holds what differs from the usual way, by host with port. The host "*" speaks for all that are not named.
	Hosts map[string]Host `json:"hosts,omitempty"`
}

// Host is how one registry is reached.
type Host struct {
	// Mirrors are asked before it, in their order: each a URL such as https://mirror.example or https://cache.example/proxy,
	// below whose path the repositories are.
	Mirrors []string `json:"mirrors,omitempty"`
	// PlainHTTP lets it be reached without TLS. On the loopback address that is always allowed.
	PlainHTTP bool `json:"plainHTTP,omitempty"`
	// SkipVerify accepts any certificate.
	SkipVerify bool `json:"skipVerify,omitempty"`
	// CAFile holds certificates, in PEM, of authorities that are trusted for it beside the system's.
	CAFile string `json:"caFile,omitempty"`
	// TokenHosts may be sent the credentials for this registry, if it names one of them as the issuer of its tokens, beside
	// hosts of its own domain.
	TokenHosts []string `json:"tokenHosts,omitempty"`
}

// host returns how a host is reached.
func (r Registries) host(name string) Host {
	if h, ok := r.Hosts[name]; ok {
		return h
	}
	for spelt, h := range r.Hosts {
		if spelt != "*" && canonicalHost(spelt) == canonicalHost(name) {
			return h
		}
	}
	return r.Hosts["*"]
}

// Validate tells what is wrong with it.
func (r Registries) Validate() error {
	for _, host := range slices.Sorted(maps.Keys(r.Hosts)) {
		if host != "*" && !isHost(host) {
			return fmt.Errorf("registries: %q is not a host with an optional port", host)
		}
		for _, mirror := range r.Hosts[host].Mirrors {
			u, err := url.Parse(mirror)
			if err != nil || u.Scheme != "https" && u.Scheme != "http" || !isHost(u.Host) || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
				return fmt.Errorf("registries: mirror %q of %s is not a URL such as https://mirror.example/path", mirror, host)
			}
		}
	}
	if r.Default != "" && !isHost(r.Default) {
		return fmt.Errorf("registries: the default %q is not a host with an optional port", r.Default)
	}
	return nil
}

func isHost(host string) bool {
	u, err := url.Parse("//" + host)
	return err == nil && host != "" && u.Host == host && u.Hostname() != ""
}

// canonicalHost gives all spellings of Docker's registry one.
func canonicalHost(host string) string {
	switch host {
	case "docker.io", "index.docker.io", "registry-1.docker.io", "registry.hub.docker.com":
		return "index.docker.io"
	}
	return host
}
