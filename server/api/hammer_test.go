package api

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// Writers, readers and watchers of every form at once; in the end each watcher has seen what is stored.
func TestHammer(t *testing.T) {
	c := newCluster(t, nil)
	s := c.serve()
	const writers, rounds = 4, 30
	const last = "ADDED end"
	var watchers, clients sync.WaitGroup
	seen := make([]map[string]string, 6)
	for i := range seen {
		next := events(t, open(t.Context(), t, s, configMapsPath+"?watch=true&allowWatchBookmarks=true", nil))
		seen[i] = map[string]string{}
		watchers.Go(func() { follow(t, next, seen[i], last) })
	}
	tables := open(t.Context(), t, s, configMapsPath+"?watch=true", map[string]string{"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"})
	binary := open(t.Context(), t, s, configMapsPath+"?watch=true&timeoutSeconds=2", map[string]string{"Accept": mediaProtobuf.String()})
	for _, answer := range []*http.Response{tables, binary} {
		go io.Copy(io.Discard, answer.Body)
	}
	for w := range writers {
		clients.Go(func() { write(c, w, rounds) })
		clients.Go(func() { read(c, rounds) })
	}
	clients.Wait()
	c.must(201, call{method: "POST", path: configMapsPath, body: configMapJSON("end", "1")})
	watchers.Wait()
	stored := map[string]string{}
	list := c.must(200, call{path: configMapsPath})
	for _, item := range list["items"].([]any) {
		note(stored, item.(map[string]any))
	}
	for i := range seen {
		if fmt.Sprint(seen[i]) != fmt.Sprint(stored) {
			t.Errorf("watcher %d saw %v, stored is %v", i, seen[i], stored)
		}
	}
}

func note(into map[string]string, object map[string]any) {
	meta := object["metadata"].(map[string]any)
	into[meta["name"].(string)] = meta["resourceVersion"].(string)
}

func follow(t *testing.T, next func() (event, error), into map[string]string, last string) {
	for {
		e, err := next()
		if err != nil {
			t.Errorf("a watch ended: %v", err)
			return
		}
		switch e.Type {
		case "DELETED":
			delete(into, e.Object["metadata"].(map[string]any)["name"].(string))
		case "ADDED", "MODIFIED":
			note(into, e.Object)
		}
		if e.String() == last {
			return
		}
	}
}

// write creates, changes and deletes objects that other writers change too.
func write(c *cluster, writer, rounds int) {
	merge := map[string]string{"Content-Type": "application/merge-patch+json"}
	for i := range rounds {
		own := fmt.Sprintf("w%d-%d", writer, i)
		for _, q := range []call{
			{method: "POST", path: configMapsPath, body: configMapJSON(own, "1")},
			{method: "POST", path: configMapsPath, body: configMapJSON("shared", "1")},
			{method: "PATCH", path: configMapsPath + "/shared", body: fmt.Sprintf(`{"data":{"w%d":"%d"}}`, writer, i), header: merge},
			{method: "PUT", path: configMapsPath + "/" + own, body: configMapJSON(own, "2")},
		} {
			if code := do(c, q.request()).Code; code >= 400 && !strings.Contains(q.path+q.body, "shared") {
				c.t.Errorf("%s %s: got %d", q.method, q.path, code)
			}
		}
		if i%2 == 0 {
			do(c, call{method: "DELETE", path: configMapsPath + "/" + own}.request())
		}
		if i%5 == 0 {
			do(c, call{method: "DELETE", path: configMapsPath + "/shared"}.request())
		}
	}
}

func read(c *cluster, rounds int) {
	for range rounds {
		for _, accept := range []string{"", mediaProtobuf.String(), mediaYAML.String(), "application/json;as=Table;v=v1;g=meta.k8s.io"} {
			for _, path := range []string{configMapsPath, configMapsPath + "?limit=3", "/metrics"} {
				w := do(c, call{path: path, header: map[string]string{"Accept": accept}}.request())
				if w.Code != 200 || accept == "" && path == configMapsPath && !json.Valid(w.Body.Bytes()) {
					c.t.Errorf("%s as %q: got %d", path, accept, w.Code)
				}
			}
		}
	}
}
