package api

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"

	"edgepod/server/registry/upstream"
)

// event is one frame of a watch as a client reads it.
type event struct {
	Type   string
	Object map[string]any
}

func (e event) String() string {
	meta, _ := e.Object["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	return strings.TrimSpace(e.Type + " " + name)
}

func events(t *testing.T, answer *http.Response) func() (event, error) {
	t.Helper()
	if answer.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(answer.Body)
		t.Fatalf("got %s: %s", answer.Status, body)
	}
	lines := bufio.NewReader(answer.Body)
	return func() (event, error) {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return event{}, err
		}
		var e event
		return e, json.Unmarshal(line, &e)
	}
}

func want(t *testing.T, next func() (event, error), texts ...string) (last event) {
	t.Helper()
	for _, text := range texts {
		e, err := next()
		if err != nil || e.String() != text {
			t.Fatalf("got %v, %v, want %s", e, err, text)
		}
		last = e
	}
	return last
}

func TestWatchShowsWhatIsThereAndWhatHappens(t *testing.T) {
	c := newCluster(t, nil)
	s := c.serve()
	c.must(201, call{method: "POST", path: configMapsPath, body: configMapJSON("old", "1")})
	for _, path := range []string{
		configMapsPath + "?watch=true", "/api/v1/watch/namespaces/default/configmaps", "/api/v1/configmaps?watch=1&fieldSelector=metadata.namespace%3Ddefault",
	} {
		next := events(t, open(t.Context(), t, s, path, nil))
		want(t, next, "ADDED old")
		c.must(201, call{method: "POST", path: configMapsPath, body: configMapJSON("new", "1")})
		c.must(200, call{method: "PUT", path: configMapsPath + "/new", body: configMapJSON("new", "2")})
		c.must(200, call{method: "DELETE", path: configMapsPath + "/new"})
		e := want(t, next, "ADDED new", "MODIFIED new", "DELETED new")
		if e.Object["kind"] != "ConfigMap" || e.Object["apiVersion"] != "v1" {
			t.Errorf("%s: got %v", path, e)
		}
	}
	one := events(t, open(t.Context(), t, s, "/api/v1/watch/namespaces/default/configmaps/other", nil))
	c.must(201, call{method: "POST", path: configMapsPath, body: configMapJSON("another", "1")})
	c.must(201, call{method: "POST", path: configMapsPath, body: configMapJSON("other", "1")})
	want(t, one, "ADDED other")
}

func TestWatchSelectorsTurnChangesIntoComingAndGoing(t *testing.T) {
	c := newCluster(t, nil)
	next := events(t, open(t.Context(), t, c.serve(), configMapsPath+"?watch=true&labelSelector=on%3Dyes", nil))
	label := func(value string) call {
		return call{method: "PATCH", path: configMapsPath + "/x", body: `{"metadata":{"labels":{"on":"` + value + `"}}}`, header: map[string]string{"Content-Type": "application/merge-patch+json"}}
	}
	c.must(201, call{method: "POST", path: configMapsPath, body: configMapJSON("x", "1")})
	for _, value := range []string{"yes", "no", "yes"} {
		c.must(200, label(value))
	}
	want(t, next, "ADDED x", "DELETED x", "ADDED x")
}

func TestWatchListEndsTheBeginningWithABookmark(t *testing.T) {
	c := newCluster(t, nil)
	s := c.serve()
	c.must(201, call{method: "POST", path: configMapsPath, body: configMapJSON("old", "1")})
	query := "?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
	next := events(t, open(t.Context(), t, s, configMapsPath+query+"&allowWatchBookmarks=true", nil))
	e := want(t, next, "ADDED old", "BOOKMARK")
	meta := e.Object["metadata"].(map[string]any)
	if meta["annotations"].(map[string]any)[metav1.InitialEventsAnnotationKey] != "true" || meta["resourceVersion"] == "" {
		t.Errorf("got %v", e)
	}
	c.must(201, call{method: "POST", path: configMapsPath, body: configMapJSON("new", "1")})
	want(t, next, "ADDED new")
	c.must(422, call{path: configMapsPath + "?watch=true&sendInitialEvents=true"})
	c.must(422, call{path: configMapsPath + "?sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=1"})
}

func TestWatchEndsInTimeWithABookmark(t *testing.T) {
	c := newCluster(t, nil)
	next := events(t, open(t.Context(), t, c.serve(), configMapsPath+"?watch=true&timeoutSeconds=1&allowWatchBookmarks=true", nil))
	want(t, next, "BOOKMARK")
	if e, err := next(); err != io.EOF {
		t.Errorf("got %v, %v", e, err)
	}
}

func TestWatchSendsBookmarksNowAndThen(t *testing.T) {
	c := newCluster(t, func(config *Config) { config.Limits.Bookmark = time.Millisecond })
	s := c.serve()
	next := events(t, open(t.Context(), t, s, podsPath+"?watch=true&allowWatchBookmarks=true", nil))
	want(t, next, "BOOKMARK", "BOOKMARK", "BOOKMARK")
	made := c.must(201, call{method: "POST", path: configMapsPath, body: configMapJSON("x", "1")})
	version := made["metadata"].(map[string]any)["resourceVersion"]
	for {
		e := want(t, next, "BOOKMARK")
		if e.Object["kind"] != "Pod" {
			t.Fatalf("got %v", e)
		}
		if e.Object["metadata"].(map[string]any)["resourceVersion"] == version {
			return // the bookmark follows what happens to other resources
		}
	}
}

func TestWatchOfALostRevisionEndsWithAStatus(t *testing.T) {
	c := newSmallCluster(t, 10)
	for range 40 {
		c.must(201, call{method: "POST", path: configMapsPath, body: `{"metadata":{"generateName":"x-"}}`})
	}
	next := events(t, open(t.Context(), t, c.serve(), configMapsPath+"?watch=true&resourceVersion=3", nil))
	e := want(t, next, "ERROR")
	if e.Object["reason"] != "Expired" || e.Object["code"] != 410.0 || e.Object["kind"] != "Status" {
		t.Errorf("got %v", e)
	}
	if e, err := next(); err != io.EOF {
		t.Errorf("got %v, %v", e, err)
	}
}

func TestWatchShowsTables(t *testing.T) {
	c := newCluster(t, nil)
	accept := map[string]string{"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
	next := events(t, open(t.Context(), t, c.serve(), podsPath+"?watch=true&allowWatchBookmarks=true&timeoutSeconds=2", accept))
	c.must(201, call{method: "POST", path: podsPath, body: podJSON("x")})
	c.must(201, call{method: "POST", path: podsPath, body: podJSON("y")})
	first, second := want(t, next, "ADDED"), want(t, next, "ADDED")
	if first.Object["kind"] != "Table" || first.Object["columnDefinitions"] == nil || second.Object["columnDefinitions"] != nil {
		t.Errorf("got %v, %v", first, second)
	}
	if name := second.Object["rows"].([]any)[0].(map[string]any)["cells"].([]any)[0]; name != "y" {
		t.Errorf("got %v", second)
	}
	if e := want(t, next, "BOOKMARK"); e.Object["kind"] != "Table" {
		t.Errorf("got %v", e)
	}
}

func TestWatchInProtobuf(t *testing.T) {
	c := newCluster(t, nil)
	answer := open(t.Context(), t, c.serve(), podsPath+"?watch=true", map[string]string{"Accept": "application/vnd.kubernetes.protobuf"})
	if kind := answer.Header.Get("Content-Type"); kind != "application/vnd.kubernetes.protobuf;stream=watch" {
		t.Errorf("Content-Type %q", kind)
	}
	c.must(201, call{method: "POST", path: podsPath, body: podJSON("x")})
	frames := protobuf.LengthDelimitedFramer.NewFrameReader(answer.Body)
	buf := make([]byte, 1<<16)
	n, err := frames.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	var e metav1.WatchEvent
	if err := e.Unmarshal(buf[:n]); err != nil {
		t.Fatal(err)
	}
	object, err := runtime.Decode(upstream.Codecs.UniversalDeserializer(), e.Object.Raw)
	if err != nil {
		t.Fatal(err)
	}
	if pod, ok := object.(*corev1.Pod); !ok || pod.Name != "x" || e.Type != "ADDED" {
		t.Errorf("got %s %v", e.Type, object)
	}
}

// A watcher that does not read holds nobody up.
func TestSlowWatcherHoldsNobodyUp(t *testing.T) {
	c := newCluster(t, nil)
	s := c.serve()
	slow := open(t.Context(), t, s, configMapsPath+"?watch=true", nil)
	quick := events(t, open(t.Context(), t, s, configMapsPath+"?watch=true", nil))
	big := strings.Repeat("x", 100_000)
	for i := range 26 {
		name := "m" + string(rune('a'+i))
		c.must(201, call{method: "POST", path: configMapsPath, body: configMapJSON(name, big)})
		want(t, quick, "ADDED "+name)
	}
	want(t, events(t, slow), "ADDED ma", "ADDED mb")
}

func TestWatchEndsWithItsClient(t *testing.T) {
	c := newCluster(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	answer := open(ctx, t, c.serve(), configMapsPath+"?watch=true", nil)
	cancel()
	if _, err := io.ReadAll(answer.Body); err == nil {
		t.Error("the watch went on")
	}
	for range 1000 {
		c.api.gate.mu.Lock()
		left := len(c.api.gate.streams)
		c.api.gate.mu.Unlock()
		if left == 0 {
			return
		}
		c.must(200, call{path: configMapsPath})
	}
	t.Error("the server still counts the watch")
}

// deadlines remembers the deadline that was set last.
type deadlines struct {
	*httptest.ResponseRecorder
	set  int
	last time.Time
}

func (d *deadlines) SetWriteDeadline(t time.Time) error {
	d.set++
	d.last = t
	return nil
}

func TestWatchLeavesItsConnectionAsItWas(t *testing.T) {
	c := newCluster(t, nil)
	c.must(201, call{method: "POST", path: configMapsPath, body: configMapJSON("x", "1")})
	w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	c.api.ServeHTTP(w, call{path: configMapsPath + "?watch&timeoutSeconds=1"}.request())
	if w.set < 2 || !w.last.IsZero() || w.Body.Len() == 0 {
		t.Errorf("a deadline was set %d times, at last to %v", w.set, w.last)
	}
}
