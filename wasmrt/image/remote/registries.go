// Package remote fetches manifests and blobs from registries that speak the protocol of the OCI distribution specification.
package remote

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
