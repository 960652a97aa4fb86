package api

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"edgepod/server/registry"
)

// echoImages tells who asks, once the body has come.
type echoImages struct{ entered chan struct{} }

func (e echoImages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.entered <- struct{}{}
	_, err := io.Copy(io.Discard, r.Body)
	fmt.Fprintln(w, CallerFrom(r.Context()).Name, err)
}

func (e echoImages) Refuse(w http.ResponseWriter, status int, message string) {
	http.Error(w, "refused: "+message, status)
}

func TestImagesAreServedToWhomTheAPIKnows(t *testing.T) {
	images := echoImages{make(chan struct{}, 100)}
	c := newCluster(t, func(config *Config) { config.Images, config.Hosts = images, []string{"example.com"} })
	basic := func(password string) map[string]string {
		r, _ := http.NewRequest(http.MethodGet, "/", nil)
		r.SetBasicAuth("whoever", password)
		return map[string]string{"Authorization": r.Header.Get("Authorization")}
	}
	for name, tt := range map[string]struct {
		call call
		code int
		body string
	}{
		"token":                  {call{path: "/v2/"}, http.StatusOK, "admin <nil>"},
		"without a slash":        {call{path: "/v2"}, http.StatusOK, "admin <nil>"},
		"token as a password":    {call{path: "/v2/a/b/tags/list", header: basic(nodeToken)}, http.StatusOK, "system:node:n1 <nil>"},
		"a wrong password":       {call{path: "/v2/", header: basic("wrong")}, http.StatusUnauthorized, "refused: Unauthorized"},
		"nobody":                 {call{path: "/v2/", token: "none"}, http.StatusUnauthorized, "refused: authentication is needed"},
		"a password for the API": {call{path: "/api", header: basic(adminToken)}, http.StatusUnauthorized, `"kind":"Status"`},
		"another path":           {call{path: "/v2x"}, http.StatusForbidden, `"kind":"Status"`},
		"as another":             {call{path: "/v2/", header: map[string]string{"Impersonate-User": "jane"}}, http.StatusOK, "jane <nil>"},
		"as another, not allowed": {
			call{path: "/v2/", token: nodeToken, header: map[string]string{"Impersonate-User": "admin"}},
			http.StatusForbidden,
			"refused: users",
		},
		"another site": {
			call{method: http.MethodPost, path: "/v2/a/b/blobs/uploads/", header: map[string]string{"Sec-Fetch-Site": "cross-site"}},
			http.StatusForbidden, "refused: ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "another path" {
				tt.call.token = userToken
			}
			if w := c.do(tt.call); w.Code != tt.code || !strings.Contains(w.Body.String(), tt.body) {
				t.Errorf("%d %s, want %d %s", w.Code, w.Body, tt.code, tt.body)
			}
		})
	}
	if MayUseImages(registry.Caller{Groups: []string{groupNodes}}, true) || !MayUseImages(registry.Caller{Groups: []string{groupNodes}}, false) ||
		!MayUseImages(registry.Caller{Groups: []string{groupMasters}}, true) || MayUseImages(registry.Caller{Name: "jane"}, false) {
		t.Error("masters do everything with images, nodes pull, and others nothing")
	}
}

func TestLongUploadsTakeNoPlacesOfTheAPI(t *testing.T) {
	images := echoImages{make(chan struct{})}
	c := newCluster(t, func(config *Config) { config.Images, config.Limits.Mutating = images, 1 })
	s := c.serve()
	body, feed := io.Pipe()
	r, err := http.NewRequest(http.MethodPatch, s.URL+"/v2/a/b/blobs/uploads/x", body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+adminToken)
	ended := make(chan error, 1)
	go func() {
		answer, err := s.Client().Do(r)
		if err == nil {
			answer.Body.Close()
		}
		ended <- err
	}()
	<-images.entered
	c.must(http.StatusCreated, call{method: http.MethodPost, path: configMapsPath, body: configMapJSON("m", "v")})
	feed.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
