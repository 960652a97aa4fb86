package api

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// agents is the NodeDialer of one node, whose agent is a handler.
type agents struct{ server *httptest.Server }

func newAgents(t *testing.T, handler http.HandlerFunc) agents {
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return agents{s}
}

func (a agents) Node(_ context.Context, name string) (*url.URL, http.RoundTripper, error) {
	if name != "n1" {
		return nil, nil, apierrors.NewServiceUnavailable("node " + name + " cannot be reached")
	}
	base, err := url.Parse(a.server.URL)
	return base, a.server.Client().Transport, err
}

func bound(c *cluster, name, node string, containers ...string) {
	list := make([]string, len(containers))
	for i, container := range containers {
		list[i] = `{"name":"` + container + `","image":"edgepod.dev/hello"}`
	}
	spec := `{"containers":[` + strings.Join(list, ",") + `]`
	if node != "" {
		spec += `,"nodeName":"` + node + `"`
	}
	c.must(201, call{method: "POST", path: podsPath, body: `{"metadata":{"name":"` + name + `"},"spec":` + spec + `}}`})
}

func TestLogsComeFromTheNodesAgent(t *testing.T) {
	nodes := newAgents(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/waiting"):
			http.Error(w, `container "waiting" in pod "x" is waiting to start: ContainerCreating`, http.StatusBadRequest)
		case strings.HasSuffix(r.URL.Path, "/lost"):
			http.NotFound(w, r)
		case strings.HasSuffix(r.URL.Path, "/broken"):
			http.Error(w, "the disk is on fire", http.StatusInternalServerError)
		default:
			fmt.Fprintf(w, "%s?%s", r.URL.Path, r.URL.RawQuery)
		}
	})
	c := newCluster(t, func(config *Config) { config.Nodes = nodes })
	bound(c, "one", "n1", "main")
	bound(c, "x", "n1", "a", "b", "waiting", "lost", "broken")
	bound(c, "far", "n2", "main")
	bound(c, "unbound", "", "main")
	c.must(201, call{method: "POST", path: podsPath, body: `{"metadata":{"name":"prepared"},"spec":{"nodeName":"n1","initContainers":[{"name":"first","image":"edgepod.dev/hello"}],` +
		`"containers":[{"name":"main","image":"edgepod.dev/hello"}]}}`})
	for _, test := range []struct {
		path string
		code int
		want string
	}{
		{"one/log", 200, "/containerLogs/default/one/main?"},
		{"x/log?container=b&tailLines=5&timestamps=true&previous=true", 200, "/containerLogs/default/x/b?previous=true&tailLines=5&timestamps=true"},
		{"x/log?container=a&sinceSeconds=9&limitBytes=7", 200, "/containerLogs/default/x/a?limitBytes=7&sinceSeconds=9"},
		{"x/log?container=a&sinceTime=2026-01-02T03:04:05Z", 200, "/containerLogs/default/x/a?sinceTime=2026-01-02T03%3A04%3A05Z"},
		{"x/log", 400, `a container name must be specified for pod x, choose one of: [a b waiting lost broken]`},
		{"prepared/log", 200, "/containerLogs/default/prepared/main?"},
		{"prepared/log?container=first", 200, "/containerLogs/default/prepared/first?"},
		{"x/log?container=c", 400, `container c is not valid for pod x`},
		{"x/log?container=waiting", 400, `container \"waiting\" in pod \"x\" is waiting to start: ContainerCreating`},
		{"x/log?container=lost", 404, `"code":404`},
		{"x/log?container=broken", 500, `the disk is on fire`},
		{"x/log?container=a&tailLines=-1", 422, `tailLines: Invalid value: -1`},
		{"x/log?container=a&sinceSeconds=1&sinceTime=2026-01-02T03:04:05Z", 422, "at most one of `sinceTime` or `sinceSeconds` may be specified"},
		{"x/log?container=a&tailLines=many", 400, `"reason":"BadRequest"`},
		{"far/log", 503, `node n2 cannot be reached`},
		{"unbound/log", 204, ""},
		{"none/log", 404, `pods \"none\" not found`},
	} {
		w := c.do(call{path: podsPath + "/" + test.path})
		if w.Code != test.code || !strings.Contains(w.Body.String(), test.want) {
			t.Errorf("%s: got %d %s, want %d with %s", test.path, w.Code, w.Body, test.code, test.want)
		}
	}
	if kind := c.do(call{path: podsPath + "/one/log"}).Header().Get("Content-Type"); kind != "text/plain" {
		t.Errorf("Content-Type %q", kind)
	}
}

func TestFollowedLogsComeLineByLine(t *testing.T) {
	lines := make(chan string)
	nodes := newAgents(t, func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).Flush()
		for line := range lines {
			fmt.Fprintln(w, line)
			http.NewResponseController(w).Flush()
		}
		if r.URL.Query().Get("tailLines") == "1" {
			panic(http.ErrAbortHandler)
		}
	})
	c := newCluster(t, func(config *Config) { config.Nodes = nodes })
	bound(c, "x", "n1", "main")
	s := c.serve()
	answer := open(t.Context(), t, s, podsPath+"/x/log?follow=true", nil)
	reader := bufio.NewReader(answer.Body)
	for _, line := range []string{"one", "two"} {
		lines <- line
		if got, err := reader.ReadString('\n'); err != nil || got != line+"\n" {
			t.Fatalf("got %q, %v", got, err)
		}
	}
	close(lines)
	if rest, err := io.ReadAll(reader); err != nil || len(rest) > 0 {
		t.Errorf("at the end: %q, %v", rest, err)
	}
	broken := open(t.Context(), t, s, podsPath+"/x/log?follow=true&tailLines=1", nil)
	if _, err := io.ReadAll(broken.Body); err == nil {
		t.Error("a log that broke off looks complete")
	}
}
