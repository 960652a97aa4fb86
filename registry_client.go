package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"syscall"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"edgepod/server/oci"
)

// registryClient is how commands reach the cluster's registry of images.
type registryClient struct {
	transport *registryTransport
	namespace string
}

// registry returns the client's registry, with the namespace to work in.
func (c *client) registry() (*registryClient, error) {
	config, err := c.restConfig()
	if err != nil {
		return nil, err
	}
	r := &registryClient{}
	if r.namespace, _, err = c.Namespace(); err != nil {
		return nil, err
	}
	r.transport, err = newRegistryTransport(config)
	return r, err
}

// options are those of each call to the registry. The connection itself says who asks.
func (r *registryClient) options(ctx context.Context, more ...remote.Option) []remote.Option {
	return append([]remote.Option{
		remote.WithContext(ctx), remote.WithTransport(r.transport), remote.WithAuth(authn.Anonymous), remote.WithUserAgent("edgepod/" + version),
	}, more...)
}

// reference reads an image's name as users of the command write it: NAME[:TAG] of the namespace, or in full with the
// registry's host, then perhaps with a namespace of its own.
func (r *registryClient) reference(text string) (name.Reference, error) {
	rest, full := strings.CutPrefix(text, oci.Host+"/")
	first, _, nested := strings.Cut(rest, "/")
	switch {
	case !full && nested && (strings.ContainsAny(first, ".:") || first == "localhost"):
		return nil, fmt.Errorf("image %s is in the registry %s, and this command is for the cluster's own: leave the registry out, or use a tool such as crane", text, first)
	case rest == "":
		return nil, errors.New("the image's name is empty: say NAME[:TAG]")
	case !full || !nested:
		rest = r.namespace + "/" + rest
	}
	ref, err := name.ParseReference(oci.Host+"/"+rest, name.WithDefaultTag("latest"))
	if err != nil {
		return nil, fmt.Errorf("image %q is not NAME[:TAG] in lower-case letters, digits and single separators: %w", text, err)
	}
	return ref, nil
}

// explain turns the registry's answers into words for the user.
func (r *registryClient) explain(what string, err error) error {
	var fault *transport.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ECONNREFUSED):
		return &url.Error{Op: "connect", URL: r.transport.base.String(), Err: syscall.ECONNREFUSED}
	case errors.As(err, &fault) && len(fault.Errors) > 0:
		var messages []string
		for _, e := range fault.Errors {
			messages = append(messages, e.Message)
		}
		return fmt.Errorf("%s: %s", what, strings.Join(messages, "; "))
	}
	return fmt.Errorf("%s: %w", what, err)
}
