package api

import (
	"net/http"
	"strings"
	"testing"

	"edgepod/server/registry"
)

func TestAllowed(t *testing.T) {
	admin := registry.Caller{Name: "admin", Groups: []string{groupMasters, groupAuthenticated}}
	node := registry.Caller{Name: "system:node:n1", Groups: []string{groupNodes, groupAuthenticated}}
	jane := registry.Caller{Name: "jane", Groups: []string{groupAuthenticated}}
	anybody := registry.Caller{Name: userAnonymous, Groups: []string{groupUnauthenticated}}
	impostor := registry.Caller{Name: "jane", Groups: []string{groupNodes, groupAuthenticated}}
	of := func(verb, resource, namespace, name string) action {
		resource, subresource, _ := strings.Cut(resource, "/")
		resource, group, _ := strings.Cut(resource, ".")
		return action{verb: verb, group: group, resource: resource, subresource: subresource, namespace: namespace, nameOfIt: name}
	}
	path := func(path string) action { return action{verb: "get", path: path} }
	for _, test := range []struct {
		who    registry.Caller
		what   action
		want   bool
		reason string
	}{
		{admin, of("deletecollection", "secrets", "kube-system", ""), true, ""},
		{admin, path("/metrics"), true, ""},
		{anybody, path("/livez"), true, ""},
		{anybody, path("/readyz/ready"), true, ""},
		{anybody, path("/version"), true, ""},
		{anybody, path("/versions"), false, ""},
		{anybody, path("/api"), false, ""},
		{anybody, path("/metrics"), false, ""},
		{anybody, action{verb: "post", path: "/version"}, false, ""},
		{anybody, of("get", "pods", "default", "x"), false, ""},
		{anybody, of("create", "selfsubjectreviews.authentication.k8s.io", "", ""), false, ""},
		{jane, of("create", "selfsubjectreviews.authentication.k8s.io", "", ""), true, ""},
		{jane, path("/apis/apps/v1"), true, ""},
		{jane, path("/openapi/v3"), true, ""},
		{jane, path("/metrics"), false, ""},
		{jane, of("list", "pods", "default", ""), false, ""},
		{node, of("list", "pods", "", ""), true, ""},
		{node, of("create", "pods", "default", ""), false, ""},
		{node, of("delete", "pods", "default", "x"), true, onlyOwnPods},
		{node, of("patch", "pods/status", "default", "x"), true, onlyOwnPods},
		{node, of("update", "pods", "default", "x"), false, ""},
		{node, of("create", "nodes", "", ""), true, onlyItself},
		{node, of("patch", "nodes/status", "", "n1"), true, onlyItself},
		{node, of("patch", "nodes/status", "", "n2"), false, onlyItself},
		{node, of("delete", "nodes", "", "n1"), false, ""},
		{node, of("update", "leases.coordination.k8s.io", "kube-node-lease", "n1"), true, onlyItself},
		{node, of("update", "leases.coordination.k8s.io", "kube-node-lease", "n2"), false, onlyItself},
		{node, of("update", "leases.coordination.k8s.io", "kube-system", "n1"), false, ""},
		{node, of("create", "events", "default", ""), true, ""},
		{node, of("list", "events", "default", ""), false, ""},
		{node, of("get", "secrets", "default", "x"), true, onlyNeeded},
		{node, of("watch", "configmaps", "default", "x"), true, onlyNeeded},
		{node, of("create", "secrets", "default", ""), false, ""},
		{impostor, of("list", "pods", "", ""), false, ""},
	} {
		if got, reason := allowed(test.who, test.what); got != test.want || reason != test.reason {
			t.Errorf("%s %+v: got %v %q, want %v %q", test.who.Name, test.what, got, reason, test.want, test.reason)
		}
	}
}

// Every route is closed to strangers and to bad tokens, except those that are open on purpose.
func TestEveryRouteAsksWhoCalls(t *testing.T) {
	c := newCluster(t, nil)
	open := map[string]bool{"/version": true, "/livez": true, "/readyz": true, "/healthz": true, "/livez/:check": true, "/readyz/:check": true, "/healthz/:check": true}
	fill := strings.NewReplacer(":version", "v1", ":group", "coordination.k8s.io", ":resource", "pods", ":namespace", "default", ":name", "x", ":subresource", "status", ":check", "ping", "*", "x")
	tried := 0
	for _, route := range c.api.echo.Routes() {
		if route.Method == http.MethodConnect || !strings.HasPrefix(route.Path, "/") || strings.HasPrefix(route.Method, "echo_") {
			continue
		}
		tried++
		path := fill.Replace(route.Path)
		if w := c.do(call{method: route.Method, path: path, token: "wrong"}); w.Code != 401 {
			t.Errorf("%s %s with a bad token: got %d", route.Method, path, w.Code)
		}
		want := 403
		if open[route.Path] && (route.Method == "GET" || route.Method == "HEAD") {
			want = 200
		}
		if w := c.do(call{method: route.Method, path: path, token: "none"}); w.Code != want {
			t.Errorf("%s %s without a token: got %d, want %d", route.Method, path, w.Code, want)
		}
	}
	if tried < 200 {
		t.Errorf("only %d routes tried", tried)
	}
	c.must(403, call{path: "/somewhere/else", token: "none"})
}

func TestNodesChangeOnlyPodsThatAreTheirs(t *testing.T) {
	c := newCluster(t, nil)
	c.must(201, call{method: "POST", path: podsPath, body: podJSON("x")})
	merge := map[string]string{"Content-Type": "application/merge-patch+json"}
	status := call{method: "PATCH", path: podsPath + "/x/status", token: nodeToken, body: `{"status":{"phase":"Running"}}`, header: merge}
	c.must(403, status)
	bind := `{"apiVersion":"v1","kind":"Binding","metadata":{"name":"x"},"target":{"kind":"Node","name":"n1"}}`
	c.must(201, call{method: "POST", path: podsPath + "/x/binding", body: bind})
	c.must(200, status)
	c.must(404, call{method: "DELETE", path: podsPath + "/none", token: nodeToken})
	const leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
	for _, path := range []string{"/api/v1/nodes", leases} {
		c.must(403, call{method: "POST", path: path, token: nodeToken, body: `{"metadata":{"name":"n2"}}`})
		c.must(403, call{method: "POST", path: path, token: nodeToken, body: `{"metadata":{"generateName":"n1"}}`})
		c.must(201, call{method: "POST", path: path, token: nodeToken, body: `{"metadata":{"name":"n1"}}`})
	}
}

func TestNodesReadOnlyWhatTheirPodsReferTo(t *testing.T) {
	c := newCluster(t, nil)
	const secretsPath = "/api/v1/namespaces/default/secrets"
	for _, name := range []string{"pull", "env", "other"} {
		c.must(201, call{method: "POST", path: secretsPath, body: `{"metadata":{"name":"` + name + `"}}`})
	}
	c.must(201, call{method: "POST", path: configMapsPath, body: configMapJSON("vol", "1")})
	c.must(201, call{method: "POST", path: configMapsPath, body: configMapJSON("env", "1")})
	c.must(201, call{method: "POST", path: podsPath, body: `{"metadata":{"name":"x"},"spec":{"imagePullSecrets":[{"name":"pull"},{"name":"absent"}],
		"volumes":[{"name":"v","configMap":{"name":"vol"}}],
		"containers":[{"name":"c","image":"i","envFrom":[{"secretRef":{"name":"env"}},{"configMapRef":{"name":"env"}}]}]}}`})
	byName := "?fieldSelector=metadata.name%3D"
	needed := []string{
		secretsPath + "/pull", secretsPath + "/env", secretsPath + byName + "pull", secretsPath + byName + "absent",
		configMapsPath + "/vol", configMapsPath + byName + "vol", configMapsPath + "/env",
	}
	for _, path := range needed {
		c.must(403, call{path: path, token: nodeToken})
	}
	bind := `{"apiVersion":"v1","kind":"Binding","metadata":{"name":"x"},"target":{"kind":"Node","name":"n1"}}`
	c.must(201, call{method: "POST", path: podsPath + "/x/binding", body: bind})
	for _, path := range needed {
		c.must(200, call{path: path, token: nodeToken})
	}
	for _, path := range []string{
		secretsPath, "/api/v1/secrets", "/api/v1/secrets" + byName + "pull", secretsPath + "/other", secretsPath + "/vol", configMapsPath + "/pull",
		secretsPath + byName + "other", secretsPath + "?fieldSelector=metadata.name!%3Dother", secretsPath + "?fieldSelector=((",
		"/api/v1/namespaces/kube-system/secrets/pull", secretsPath + "?watch=true", secretsPath + byName + "other&watch=true",
	} {
		c.must(403, call{path: path, token: nodeToken})
	}
}

func TestRequestsFromWebPagesAndUnderOtherNamesAreRefused(t *testing.T) {
	c := newCluster(t, func(config *Config) { config.Hosts = []string{"example.com", "::1"} })
	post := call{method: "POST", path: configMapsPath, body: configMapJSON("x", "1")}
	with := func(q call, name, value string) call {
		q.header = map[string]string{name: value}
		return q
	}
	c.must(403, with(post, "Sec-Fetch-Site", "cross-site"))
	c.must(403, with(post, "Origin", "https://evil.example"))
	c.must(415, with(post, "Content-Type", "application/x-www-form-urlencoded"))
	c.must(201, with(post, "Sec-Fetch-Site", "same-origin"))
	for host, code := range map[string]int{"example.com": 200, "EXAMPLE.com:6443": 200, "[::1]:6443": 200, "evil.example": 421, "": 421, "127.0.0.1": 421} {
		q := call{path: "/version"}.request()
		q.Host = host
		w := do(c, q)
		if w.Code != code {
			t.Errorf("Host %q: got %d, want %d", host, w.Code, code)
		}
	}
	header := c.do(call{path: "/version"}).Header()
	for name, value := range map[string]string{"X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache, private", "X-Frame-Options": "DENY"} {
		if header.Get(name) != value {
			t.Errorf("%s: got %q", name, header.Get(name))
		}
	}
	if id := header.Get("Audit-Id"); len(id) != 36 {
		t.Errorf("Audit-Id %q", id)
	}
}

func TestReviewsOfOneself(t *testing.T) {
	c := newCluster(t, nil)
	who := c.must(201, call{method: "POST", path: "/apis/authentication.k8s.io/v1/selfsubjectreviews", token: userToken, body: `{}`})
	if info := who["status"].(map[string]any)["userInfo"].(map[string]any); info["username"] != "jane" {
		t.Errorf("got %v", who)
	}
	ask := func(token, verb string) any {
		may := c.must(201, call{
			method: "POST", path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", token: token,
			body: `{"spec":{"resourceAttributes":{"namespace":"default","verb":"` + verb + `","resource":"pods"}}}`,
		})
		return may["status"].(map[string]any)["allowed"]
	}
	if ask(adminToken, "create") != true || ask(userToken, "create") != false || ask(nodeToken, "list") != true {
		t.Error("a wrong answer about what somebody may do")
	}
	c.must(405, call{path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"})
	nothing := c.must(422, call{method: "POST", path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body: `{"spec":{}}`})
	if text := nothing["message"].(string); !strings.Contains(text, "exactly one of nonResourceAttributes or resourceAttributes must be specified") {
		t.Errorf("got %v", nothing)
	}
}

func TestAdministratorsMayActAsOthers(t *testing.T) {
	c := newCluster(t, nil)
	as := func(token string, pairs ...string) call {
		q := call{path: podsPath, token: token, header: map[string]string{}}
		for i := 0; i < len(pairs); i += 2 {
			q.header[pairs[i]] = pairs[i+1]
		}
		return q
	}
	c.must(403, as(adminToken, headerAsUser, "jane"))
	c.must(200, as(adminToken, headerAsUser, "jane", headerAsGroup, groupMasters))
	c.must(200, as(adminToken, headerAsUser, "system:node:n1", headerAsGroup, groupNodes))
	c.must(400, as(adminToken, headerAsGroup, groupMasters))
	w := c.do(as(userToken, headerAsUser, "admin", headerAsGroup, groupMasters))
	if want := `users \"admin\" is forbidden: User \"jane\" cannot impersonate resource \"users\" in API group \"\" at the cluster scope`; w.Code != 403 || !strings.Contains(w.Body.String(), want) {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	who := c.must(201, call{
		method: "POST", path: "/apis/authentication.k8s.io/v1/selfsubjectreviews", body: `{}`,
		header: map[string]string{headerAsUser: "jane", headerAsUID: "7", "Impersonate-Extra-Shoe": "left"},
	})
	info := who["status"].(map[string]any)["userInfo"].(map[string]any)
	if info["uid"] != "7" || info["extra"].(map[string]any)["shoe"].([]any)[0] != "left" {
		t.Errorf("got %v", info)
	}
}
