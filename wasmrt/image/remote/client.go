package remote

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/name"

	"edgepod/wasmrt/sandbox"
)

// Config of a Client.
type Config struct {
	Registries Registries
	// Direct carries the requests to some hosts, and sees to their authentication itself. Neither credentials nor mirrors
	// are used for them, and they are spoken to with https URLs.
	Direct map[string]http.RoundTripper
	// Stall is how long a registry may send nothing; 0: a minute.
	Stall time.Duration
	// Pause is what the waits between attempts begin with; 0: half a second.
	Pause time.Duration
}

// Client fetches from registries. Its methods may be called at the same time.
type Client struct {
	cfg Config

	mu         sync.Mutex
	transports map[string]http.RoundTripper // by host
	idle       []func()
}

// New returns a client. It reaches out to nobody.
func New(cfg Config) (*Client, error) {
	if cfg.Stall == 0 {
		cfg.Stall = time.Minute
	}
	if cfg.Pause == 0 {
		cfg.Pause = time.Second / 2
	}
	if err := cfg.Registries.Validate(); err != nil {
		return nil, err
	}
	return &Client{cfg: cfg, transports: map[string]http.RoundTripper{}}, nil
}

// Close lets go of connections that are kept for later pulls. The client can still be used.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, closeIdle := range c.idle {
		closeIdle()
	}
}

// Repository returns the repository, as it is reached with these credentials: those that match it are tried in the
// kubelet's order, then none.
func (c *Client) Repository(repo name.Repository, credentials []sandbox.Credential) (*Repository, error) {
	host := repo.RegistryStr()
	if direct, ok := c.cfg.Direct[host]; ok {
		e := &endpoint{host: host, repo: repo.RepositoryStr(), scheme: "https", direct: true, transport: c.wrap(direct)}
		return &Repository{name: repo.Name(), endpoints: []*endpoint{e}}, nil
	}
	r := &Repository{name: repo.Name()}
	for _, mirror := range c.cfg.Registries.host(host).Mirrors {
		e, err := c.mirror(mirror, repo, credentials)
		if err != nil {
			return nil, err
		}
		r.endpoints = append(r.endpoints, e)
	}
	own, err := c.endpoint(host, repo.RepositoryStr(), c.cfg.Registries.host(host), credentials)
	if err != nil {
		return nil, err
	}
	r.endpoints = append(r.endpoints, own)
	return r, nil
}

// mirror is the endpoint of a repository's copy below the path of a mirror's URL.
func (c *Client) mirror(mirror string, repo name.Repository, credentials []sandbox.Credential) (*endpoint, error) {
	u, err := url.Parse(mirror)
	if err != nil {
		return nil, err
	}
	host := c.cfg.Registries.host(u.Host)
	host.PlainHTTP = host.PlainHTTP || u.Scheme == "http"
	path := strings.Trim(u.Path, "/")
	if path != "" {
		path += "/"
	}
	return c.endpoint(u.Host, path+repo.RepositoryStr(), host, credentials)
}

func (c *Client) endpoint(host, repo string, how Host, credentials []sandbox.Credential) (*endpoint, error) {
	transport, err := c.transport(host, how)
	if err != nil {
		return nil, err
	}
	return &endpoint{
		host: host, repo: repo, plain: how.PlainHTTP, tokenHosts: how.TokenHosts, transport: transport,
		turn: make(chan struct{}, 1), credentials: append(Matching(credentials, host+"/"+repo), sandbox.Credential{}),
	}, nil
}

// transport returns the one for a host, whose connections later pulls use again.
func (c *Client) transport(host string, how Host) (http.RoundTripper, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t, ok := c.transports[host]; ok {
		return t, nil
	}
	trust := &tls.Config{InsecureSkipVerify: how.SkipVerify, MinVersion: tls.VersionTLS12} // the operator's choice, host by host
	if how.CAFile != "" {
		pool, err := authorities(how.CAFile)
		if err != nil {
			return nil, fmt.Errorf("registry %s: %w", host, err)
		}
		trust.RootCAs = pool
	}
	dialer := &net.Dialer{Timeout: dialTimeout}
	base := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, TLSClientConfig: trust, TLSHandshakeTimeout: dialTimeout,
		ForceAttemptHTTP2: true, MaxIdleConns: 8, IdleConnTimeout: time.Minute, DisableCompression: true,
		MaxResponseHeaderBytes: 1 << 20,
	}
	c.idle = append(c.idle, base.CloseIdleConnections)
	t := c.wrap(&schemeGuard{inner: base, host: host, plain: how.PlainHTTP || loopback(host)})
	c.transports[host] = t
	return t, nil
}

// dialTimeout is how long it may take to reach a host, and again to agree with it on encryption.
const dialTimeout = 15 * time.Second

// wrap adds what holds for every request.
func (c *Client) wrap(inner http.RoundTripper) http.RoundTripper {
	return &retrier{inner: &watchman{inner: inner, stall: c.cfg.Stall}, pause: c.cfg.Pause}
}

func authorities(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("no certificate in PEM is in %s", file)
	}
	return pool, nil
}

// schemeGuard keeps requests from going without encryption to a host that is not meant to be reached so.
type schemeGuard struct {
	inner http.RoundTripper
	host  string
	plain bool
}

func (g *schemeGuard) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "https" && req.URL.Host == g.host && !g.plain {
		return nil, errPlain
	}
	return g.inner.RoundTrip(req)
}

var errPlain = errors.New("plain HTTP is not allowed for this registry (plainHTTP in the node's configuration of registries allows it)")

// loopback tells whether a host, perhaps with a port, is this machine.
func loopback(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || ip != nil && ip.IsLoopback()
}

// redirects is http.Client.CheckRedirect: few, never from an encrypted connection to one that is not, and not from a host
// elsewhere to this machine, nor to an address of its own link, where clouds have what only the machine may ask.
func redirects(req *http.Request, via []*http.Request) error {
	const most = 5
	from := via[len(via)-1].URL
	switch {
	case len(via) > most:
		return fmt.Errorf("it redirected more than %d times", most)
	case req.URL.Scheme != "https" && from.Scheme == "https":
		return fmt.Errorf("it redirected to %s, which is not encrypted", req.URL.Host)
	case !loopback(via[0].URL.Host) && inward(req.URL.Hostname()):
		return fmt.Errorf("it redirected to %s, an address of this machine", req.URL.Host)
	}
	return nil
}

func inward(host string) bool {
	ip := net.ParseIP(host)
	return loopback(host) || ip != nil && (ip.IsLinkLocalUnicast() || ip.IsUnspecified())
}
