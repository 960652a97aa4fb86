package remote

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"edgepod/wasmrt/sandbox"
)

// basic demands a user's name and a password that is the same.
func basic(users ...string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		user, password, ok := r.BasicAuth()
		for _, allowed := range users {
			if ok && user == allowed && password == allowed || !ok && allowed == "" && r.URL.Path != "/v2/" {
				return false
			}
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
}

func TestCredentialsAreTriedInTheirOrderAndThenNone(t *testing.T) {
	cred := func(user string) sandbox.Credential {
		return sandbox.Credential{Server: "127.0.0.1*:*", Username: user, Password: user}
	}
	for name, tt := range map[string]struct {
		users []string
		given []string
		proof string
		want  error
	}{
		"second is right":     {[]string{"b"}, []string{"a", "b", "c"}, "b", nil},
		"first is right":      {[]string{"a", "b"}, []string{"a", "b"}, "a", nil},
		"none is needed":      {[]string{""}, []string{"a", "b"}, "", nil},
		"all are wrong":       {[]string{"z"}, []string{"a", "b"}, "", ErrRefused},
		"none is given":       {[]string{"z"}, nil, "", ErrUnauthorized},
		"none given or asked": {[]string{""}, nil, "", nil},
	} {
		f := newFake(t, basic(tt.users...))
		var given []sandbox.Credential
		for _, user := range tt.given {
			c := cred(user)
			c.Server = f.host()
			given = append(given, c)
		}
		r := repository(t, newClient(t, nil), f.host()+"/app", given...)
		m, err := r.Manifest(t.Context(), "v1")
		if tt.want != nil {
			if !errors.Is(err, tt.want) || !errors.Is(err, ErrUnauthorized) {
				t.Errorf("%s: %v, want %v", name, err, tt.want)
			}
			continue
		}
		if err != nil || string(m.Raw) != manifestText || r.Proof().Username != tt.proof {
			t.Errorf("%s: %q, %v, proof %+v", name, m.Raw, err, r.Proof())
		}
		if text, _, err := readBlob(t, r, 0); err != nil || text != blobText {
			t.Errorf("%s: blob %q, %v", name, text, err)
		}
	}
}

// bearer demands tokens, which are issued at /token, or at the realm, for the user "u"; each is good for so many requests.
func bearer(realm string, uses int) func(http.ResponseWriter, *http.Request) bool {
	issued, left := 0, 0
	var mu sync.Mutex
	return func(w http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		if r.URL.Path == "/token" {
			user, _, _ := r.BasicAuth()
			if user != "u" || r.URL.Query().Get("scope") != "repository:app:pull" {
				w.WriteHeader(http.StatusUnauthorized)
				return true
			}
			issued++
			left = uses
			_, _ = fmt.Fprintf(w, `{"token":"t%d"}`, issued)
			return true
		}
		if r.Header.Get("Authorization") == fmt.Sprintf("Bearer t%d", issued) && left > 0 {
			left--
			return false
		}
		if realm == "" {
			realm = "http://" + r.Host + "/token"
		}
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm=%q,service="s"`, realm))
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
}

func TestTokensAreFetchedAndRenewed(t *testing.T) {
	f := newFake(t, bearer("", 2))
	r := repository(t, newClient(t, nil), f.host()+"/app", sandbox.Credential{Server: f.host(), Username: "u", Password: "p"})
	if _, err := r.Manifest(t.Context(), "v1"); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if text, _, err := readBlob(t, r, 0); err != nil || text != blobText {
			t.Fatalf("blob %q, %v\n%s", text, err, f.seen())
		}
	}
	if n := strings.Count(f.seen(), "/token "); n != 3 {
		t.Errorf("%d tokens were fetched, want 3:\n%s", n, f.seen())
	}
}

func TestNoCredentialsGoToAnotherHost(t *testing.T) {
	secret := func(text string) bool { return strings.Contains(text, "Basic") || strings.Contains(text, "Bearer") }
	var other *fake
	redirect := func(w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, other.URL+r.URL.Path, http.StatusTemporaryRedirect)
		return true
	}
	for name, tt := range map[string]struct {
		handle     func(own *fake) func(http.ResponseWriter, *http.Request) bool
		credential sandbox.Credential
		fails      bool
	}{
		"blobs redirected": {func(*fake) func(http.ResponseWriter, *http.Request) bool {
			return func(w http.ResponseWriter, r *http.Request) bool {
				return basic("u")(w, r) || strings.Contains(r.URL.Path, "/blobs/") && redirect(w, r)
			}
		}, sandbox.Credential{Username: "u", Password: "u"}, false},
		"manifests redirected": {func(*fake) func(http.ResponseWriter, *http.Request) bool {
			return func(w http.ResponseWriter, r *http.Request) bool {
				return basic("u")(w, r) || strings.Contains(r.URL.Path, "/manifests/") && redirect(w, r)
			}
		}, sandbox.Credential{Username: "u", Password: "u"}, false},
		"blobs redirected, with a token": {func(*fake) func(http.ResponseWriter, *http.Request) bool {
			tokens := bearer("", 100)
			return func(w http.ResponseWriter, r *http.Request) bool {
				return tokens(w, r) || strings.Contains(r.URL.Path, "/blobs/") && redirect(w, r)
			}
		}, sandbox.Credential{Username: "u", Password: "p"}, false},
		"realm elsewhere": {
			func(*fake) func(http.ResponseWriter, *http.Request) bool { return bearer(other.URL+"/token", 100) },
			sandbox.Credential{Username: "u", Password: "p"},
			true,
		},
		"realm elsewhere, with a refresh token": {
			func(*fake) func(http.ResponseWriter, *http.Request) bool { return bearer(other.URL+"/token", 100) },
			sandbox.Credential{IdentityToken: "refresh-secret"},
			true,
		},
		"tokens redirected": {func(*fake) func(http.ResponseWriter, *http.Request) bool {
			return func(w http.ResponseWriter, r *http.Request) bool {
				return r.URL.Path == "/token" && redirect(w, r) || bearer("", 100)(w, r)
			}
		}, sandbox.Credential{Username: "u", Password: "p"}, true},
		"refresh token redirected": {func(*fake) func(http.ResponseWriter, *http.Request) bool {
			return func(w http.ResponseWriter, r *http.Request) bool {
				return r.URL.Path == "/token" && redirect(w, r) || bearer("", 100)(w, r)
			}
		}, sandbox.Credential{IdentityToken: "refresh-secret"}, true},
		"other asks for them": {func(*fake) func(http.ResponseWriter, *http.Request) bool {
			return func(w http.ResponseWriter, r *http.Request) bool {
				return basic("u")(w, r) || strings.Contains(r.URL.Path, "/blobs/private") && redirect(w, r)
			}
		}, sandbox.Credential{Username: "u", Password: "u"}, false},
	} {
		stolen := ""
		other = newFake(t, func(_ http.ResponseWriter, r *http.Request) bool {
			body, err := io.ReadAll(r.Body)
			if err != nil || strings.Contains(string(body)+r.URL.String()+fmt.Sprint(r.Header), "refresh-secret") {
				stolen = string(body)
			}
			return false
		})
		own := newFake(t, nil)
		own.handle = tt.handle(own)
		c := tt.credential
		c.Server = own.host()
		r := repository(t, newClient(t, nil), own.host()+"/app", c)
		_, err := r.Manifest(t.Context(), "v1")
		if err == nil {
			_, _, err = readBlob(t, r, 0)
		}
		if (err != nil) != tt.fails {
			t.Errorf("%s: %v, want it to fail: %v", name, err, tt.fails)
		}
		if secret(other.seen()) || stolen != "" {
			t.Errorf("%s: the other host was sent %q %q", name, other.seen(), stolen)
		}
		if !tt.fails && !secret(own.seen()) {
			t.Errorf("%s: the registry itself was sent no credentials: %s", name, own.seen())
		}
	}
}

func TestTokenHostsAreTrustedByDomainOrConfiguration(t *testing.T) {
	for _, tt := range []struct {
		registry, realm string
		want            bool
	}{
		{"index.docker.io", "auth.docker.io", true},
		{"registry.gitlab.com", "gitlab.com", true},
		{"ghcr.io", "ghcr.io", true},
		{"registry.example:5000", "registry.example:5000", true},
		{"registry.example", "auth.partner.example", false},
		{"a.github.io", "b.github.io", false}, // different owners below a public suffix
		{"team.co.uk", "evil.co.uk", false},
		{"registry.example", "configured.elsewhere", true},
		{"127.0.0.1:5000", "127.0.0.1:5001", false},
		{"localhost:5000", "localhost:5001", false},
		{"10.0.0.1", "10.0.0.2", false},
		{"docker.io", "auth.docker.io.evil.example", false},
	} {
		e := &endpoint{host: tt.registry, tokenHosts: []string{"configured.elsewhere"}}
		if got := e.trusts(tt.realm); got != tt.want {
			t.Errorf("%s may have tokens from %s: %v, want %v", tt.registry, tt.realm, got, tt.want)
		}
	}
}

func TestManyRequestsAtOnceFetchOneToken(t *testing.T) {
	f := newFake(t, bearer("", 1000))
	r := repository(t, newClient(t, nil), f.host()+"/app", sandbox.Credential{Server: f.host(), Username: "x", Password: "p"}, sandbox.Credential{Server: f.host(), Username: "u", Password: "p"})
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if text, _, err := readBlob(t, r, 0); err != nil || text != blobText {
				t.Errorf("blob %q, %v", text, err)
			}
		})
	}
	all.Wait()
	if n := strings.Count(f.seen(), "/token "); n > 4 {
		t.Errorf("%d tokens were asked for", n)
	}
}
