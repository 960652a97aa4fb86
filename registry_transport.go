package main

import (
	"net/http"
	"net/url"
	"path"

	"k8s.io/client-go/rest"
)

// registryTransport carries requests to the cluster's registry of images, whatever host they name, to the API server: over
// the same connections as other requests to it, with the same credentials.
type registryTransport struct {
	base      *url.URL
	transport http.RoundTripper
}

// newRegistryTransport returns that of the cluster which the configuration leads to.
func newRegistryTransport(config *rest.Config) (*registryTransport, error) {
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	return &registryTransport{base, transport}, nil
}

// RoundTrip implements http.RoundTripper.
func (t *registryTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	asked := r
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host, r.Host = t.base.Scheme, t.base.Host, ""
	if prefix := path.Join("/", t.base.Path); prefix != "/" {
		r.URL.Path, r.URL.RawPath = prefix+r.URL.Path, ""
	}
	resp, err := t.transport.RoundTrip(r)
	if err == nil {
		resp.Request = asked // so that messages name the registry, not the API server that it is part of
	}
	return resp, err
}
