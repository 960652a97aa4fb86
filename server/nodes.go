package server

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"edgepod/server/pki"
	"edgepod/server/registry"
)

// nodes reaches the agents: one in this process over a pipe, others at the address that their Node gives.
type nodes struct {
	verbs  registry.Verbs
	client *pki.Renewing

	mu     sync.Mutex
	local  map[string]http.RoundTripper
	remote map[string]remoteNode
}

type remoteNode struct {
	address, pin string
	transport    *http.Transport
}

func newNodes(verbs registry.Verbs, authority *pki.Authority) *nodes {
	return &nodes{verbs: verbs, client: pki.NewClient(authority, pki.AgentClient), local: map[string]http.RoundTripper{}, remote: map[string]remoteNode{}}
}

func (n *nodes) attach(name string, transport http.RoundTripper) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.local[name] = transport
}

// Node returns how to send a request to the node's agent. The error is a status error.
func (n *nodes) Node(ctx context.Context, name string) (*url.URL, http.RoundTripper, error) {
	n.mu.Lock()
	local := n.local[name]
	n.mu.Unlock()
	if local != nil {
		return &url.URL{Scheme: "http", Host: name}, local, nil
	}
	object, err := n.verbs.Get(ctx, n.verbs.Resource("", "nodes"), "", name)
	if err != nil {
		return nil, nil, err
	}
	address, pin, err := servingAddress(object.Runtime().(*corev1.Node))
	if err != nil {
		return nil, nil, apierrors.NewServiceUnavailable(fmt.Sprintf("node %s cannot be reached: %v", name, err))
	}
	transport, err := n.transport(name, address, pin)
	if err != nil {
		return nil, nil, apierrors.NewInternalError(err)
	}
	return &url.URL{Scheme: "https", Host: address}, transport, nil
}

func servingAddress(node *corev1.Node) (address, pin string, err error) {
	port := node.Status.DaemonEndpoints.KubeletEndpoint.Port
	pin = node.Annotations[pki.ServingCertAnnotation]
	if port == 0 || pin == "" {
		return "", "", errors.New("its agent does not listen for the server (start it with --listen)")
	}
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return net.JoinHostPort(a.Address, strconv.Itoa(int(port))), pin, nil
		}
	}
	return "", "", errors.New("it has no InternalIP address")
}

func (n *nodes) transport(name, address, pin string) (*http.Transport, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	old, known := n.remote[name]
	if known && old.address == address && old.pin == pin {
		return old.transport, nil
	}
	want, err := hex.DecodeString(pin)
	if err != nil {
		return nil, fmt.Errorf("annotation %s of node %s: %w", pki.ServingCertAnnotation, name, err)
	}
	if known {
		old.transport.CloseIdleConnections()
	}
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{
			MinVersion:           tls.VersionTLS13,
			GetClientCertificate: n.client.ForServer,
			// The certificate is the agent's own, so its hash is compared and not its chain.
			InsecureSkipVerify: true,
			VerifyConnection:   pinned(want),
		},
		TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConnsPerHost: 4,
		IdleConnTimeout:     time.Minute,
	}
	n.remote[name] = remoteNode{address: address, pin: pin, transport: transport}
	return transport, nil
}

func pinned(want []byte) func(tls.ConnectionState) error {
	return func(state tls.ConnectionState) error {
		if len(state.PeerCertificates) == 0 {
			return errors.New("the agent shows no certificate")
		}
		sum := sha256.Sum256(state.PeerCertificates[0].Raw)
		if subtle.ConstantTimeCompare(sum[:], want) != 1 {
			return errors.New("the agent shows another certificate than its Node announces")
		}
		return nil
	}
}
