package registry

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"edgepod/server/store"

	"github.com/google/go-cmp/cmp"
)

func mustLabels(tb testing.TB, s string) labels.Selector {
	tb.Helper()
	sel, err := labels.Parse(s)
	if err != nil {
		tb.Fatal(err)
	}
	return sel
}

func mustFields(tb testing.TB, s string) fields.Selector {
	tb.Helper()
	sel, err := fields.ParseSelector(s)
	if err != nil {
		tb.Fatal(err)
	}
	return sel
}

func names(objects []*Object) []string {
	out := []string{}
	for _, o := range objects {
		out = append(out, o.Meta().GetName())
	}
	return out
}

// zoo has pods a to h in three namespaces, some bound, some labelled.
func zoo(tb testing.TB, configure ...func(*store.Config)) *fixture {
	f := newFixture(tb, configure...)
	for _, ns := range []string{"east", "west"} {
		f.create("namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	}
	for i, name := range strings.Split("abcdefgh", "") {
		pod := newPod(name)
		pod.Namespace = []string{"default", "east", "west"}[i%3]
		if i%2 == 1 {
			pod.Labels = map[string]string{"app": "web"}
		}
		if i > 4 {
			pod.Spec.NodeName = "n1"
		}
		f.create("pods", pod)
	}
	return f
}

func TestListSelects(t *testing.T) {
	f := zoo(t)
	tests := []struct {
		name, namespace, label, field string
		want                          string // in order of namespace and name
	}{
		{"everything", "", "", "", "a d g b e h c f"},
		{"a namespace", "east", "", "", "b e h"},
		{"a label", "", "app=web", "", "d b h f"},
		{"no label", "", "!app", "", "a g e c"},
		{"a node", "", "", "spec.nodeName=n1", "g h f"},
		{"the old name of a node", "", "", "spec.host=n1", "g h f"},
		{"no node", "", "", "spec.nodeName=", "a d b e c"},
		{"a name", "west", "", "metadata.name=c", "c"},
		{"a name in all namespaces", "", "", "metadata.name=c", "c"},
		{"a name and a label that it has not", "", "app=web", "metadata.name=c", ""},
		{"another name", "east", "", "metadata.name!=b", "e h"},
		{"a namespace by field", "", "", "metadata.namespace=east", "b e h"},
		{"another namespace by field", "west", "", "metadata.namespace=east", ""},
		{"a phase and a label", "", "app=web", "status.phase=Pending,spec.nodeName=n1", "h f"},
		{"a boolean", "", "", "spec.hostNetwork=true", ""},
		{"a namespace without objects", "kube-public", "", "", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for limit := range int64(4) {
				req := ListRequest{Namespace: test.namespace, Label: mustLabels(t, test.label), Field: mustFields(t, test.field), Limit: limit}
				got := strings.Join(listAll(t, f, "pods", req), " ")
				if got != test.want {
					t.Errorf("with limit %d: got %q, want %q", limit, got, test.want)
				}
			}
		})
	}
}

// listAll follows continue tokens to the end, and checks each page.
func listAll(tb testing.TB, f *fixture, resource string, req ListRequest) []string {
	tb.Helper()
	all, selective := []string{}, req.Label != nil && !req.Label.Empty() || req.Field != nil && !req.Field.Empty()
	total, revision := int64(-1), ""
	for {
		list, err := f.List(context.Background(), f.res(resource), req)
		if err != nil {
			tb.Fatalf("list %+v: %v", req, err)
		}
		all = append(all, names(list.Items)...)
		if req.Limit > 0 && int64(len(list.Items)) > req.Limit {
			tb.Fatalf("%d objects in a page of %d", len(list.Items), req.Limit)
		}
		if revision != "" && revision != list.ResourceVersion {
			tb.Fatalf("pages of revisions %s and %s", revision, list.ResourceVersion)
		}
		revision = list.ResourceVersion
		if list.Continue == "" {
			if list.Remaining != nil {
				tb.Fatalf("%d remain after the last page", *list.Remaining)
			}
			if total >= 0 && int64(len(all)) != total {
				tb.Fatalf("%d objects, and %d were announced", len(all), total)
			}
			return all
		}
		if selective != (list.Remaining == nil) {
			tb.Fatalf("remainingItemCount is %v with selectors %v", list.Remaining, selective)
		}
		if list.Remaining != nil {
			total = int64(len(all)) + *list.Remaining
		}
		req.Continue = list.Continue
	}
}

func TestPagesShowOneRevision(t *testing.T) {
	f := zoo(t)
	first, err := f.List(context.Background(), f.res("pods"), ListRequest{Limit: 2})
	if err != nil {
		t.Fatal(err)
	}
	f.delete("pods", "default", "g", &metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
	late := newPod("z")
	late.Namespace = "west"
	f.create("pods", late)
	got := strings.Join(listAll(t, f, "pods", ListRequest{Continue: first.Continue}), " ")
	if got != "g b e h c f" {
		t.Errorf("second page shows %q, want the objects as the first page knew them", got)
	}
	// The same as a snapshot without pages.
	exact := ListRequest{ResourceVersion: first.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact}
	if got := strings.Join(listAll(t, f, "pods", exact), " "); got != "a d g b e h c f" {
		t.Errorf("exactly at %s: %q", first.ResourceVersion, got)
	}
	newer := ListRequest{ResourceVersion: first.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan}
	if got := strings.Join(listAll(t, f, "pods", newer), " "); got != "a d b e h c f z" {
		t.Errorf("not older than %s: %q", first.ResourceVersion, got)
	}
}

func TestContinueTokensAreThoseOfKubernetes(t *testing.T) {
	f := zoo(t)
	for namespace, want := range map[string]string{
		"":     `{"v":"meta.k8s.io/v1","rv":%s,"start":"default/a\u0000"}`,
		"east": `{"v":"meta.k8s.io/v1","rv":%s,"start":"b\u0000"}`,
	} {
		list, err := f.List(context.Background(), f.res("pods"), ListRequest{Namespace: namespace, Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		token, err := base64.RawURLEncoding.DecodeString(list.Continue)
		if want = fmt.Sprintf(want, list.ResourceVersion); err != nil || string(token) != want {
			t.Errorf("token is %s, want %s", token, want)
		}
	}
}

func TestListRefuses(t *testing.T) {
	f := zoo(t)
	token := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	tests := []struct {
		name    string
		req     ListRequest
		code    int32
		reason  metav1.StatusReason
		message string
	}{
		{"a field that isn't selectable", ListRequest{Field: mustFields(t, "spec.color=red")}, 400, metav1.StatusReasonBadRequest, "field label not supported: spec.color"},
		{"a version that isn't one", ListRequest{ResourceVersion: "x"}, 400, metav1.StatusReasonBadRequest, "resourceVersion: Invalid value: \"x\""},
		{"a version of the future", ListRequest{ResourceVersion: "1000000"}, 504, metav1.StatusReasonTimeout, "Timeout: Too large resource version: 1000000, current: "},
		{"a token that isn't one", ListRequest{Continue: "%"}, 400, metav1.StatusReasonBadRequest, "invalid continue token: continue key is not valid: illegal base64"},
		{"a token that isn't JSON", ListRequest{Continue: token("x")}, 400, metav1.StatusReasonBadRequest, "invalid continue token: continue key is not valid: invalid character"},
		{"a token of another version", ListRequest{Continue: token(`{"v":"v2","rv":1,"start":"a\u0000"}`)}, 400, metav1.StatusReasonBadRequest, "invalid continue token: continue key is not valid: server does not recognize this encoded version v2"},
		{"a token without a revision", ListRequest{Continue: token(`{"v":"meta.k8s.io/v1","start":"a\u0000"}`)}, 400, metav1.StatusReasonBadRequest, "invalid continue token: continue key is not valid: incorrect encoded start resourceVersion"},
		{"a token without a place", ListRequest{Continue: token(`{"v":"meta.k8s.io/v1","rv":1}`)}, 400, metav1.StatusReasonBadRequest, "invalid continue token: continue key is not valid: encoded start key empty"},
		{"a token that climbs", ListRequest{Continue: token(`{"v":"meta.k8s.io/v1","rv":1,"start":"../a\u0000"}`)}, 400, metav1.StatusReasonBadRequest, "invalid continue token: continue key is not valid: ../a"},
		{"a token and a version", ListRequest{Continue: token(`{"v":"meta.k8s.io/v1","rv":1,"start":"a\u0000"}`), ResourceVersion: "3"}, 400, metav1.StatusReasonBadRequest, "specifying resource version is not allowed when using continue"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := f.List(context.Background(), f.res("pods"), test.req)
			wantStatus(t, err, test.code, test.reason, test.message)
		})
	}
	_, err := f.List(context.Background(), f.res("pods"), ListRequest{ResourceVersion: "1000000"})
	if !apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
		t.Errorf("%v lacks the cause that clients look for", err)
	}
	if seconds, ok := apierrors.SuggestsClientDelay(err); !ok || seconds != 1 {
		t.Errorf("%v suggests a delay of %d", err, seconds)
	}
}

func TestExpiredPagesCanBeContinuedInconsistently(t *testing.T) {
	f := zoo(t, func(c *store.Config) { c.HistoryEvents = 4 })
	first, err := f.List(context.Background(), f.res("pods"), ListRequest{Limit: 2})
	if err != nil {
		t.Fatal(err)
	}
	f.create("configmaps", newConfigMap("c"))
	for i := range 10 {
		f.update("pods", "", "east", "b", func(obj runtime.Object) { obj.(*corev1.Pod).Labels = map[string]string{"n": fmt.Sprint(i)} })
	}
	_, err = f.List(context.Background(), f.res("pods"), ListRequest{
		ResourceVersion: first.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact,
	})
	wantStatus(t, err, 410, metav1.StatusReasonExpired, "The resourceVersion for the provided list is too old.")
	_, err = f.List(context.Background(), f.res("pods"), ListRequest{Limit: 2, Continue: first.Continue})
	wantStatus(t, err, 410, metav1.StatusReasonExpired, "The provided continue parameter is too old to display a consistent list result.")
	again := err.(apierrors.APIStatus).Status().Continue
	if got := strings.Join(listAll(t, f, "pods", ListRequest{Continue: again}), " "); got != "g b e h c f" {
		t.Errorf("continued inconsistently: %q", got)
	}
}

func TestStoredFormIsTheAnswer(t *testing.T) {
	f := zoo(t)
	list, err := f.List(context.Background(), f.res("pods"), ListRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range list.Items {
		again, err := objectOf(o.Resource(), &store.Entry{Value: o.JSON(), Revision: o.Revision()})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(o.Runtime(), again.Runtime()); diff != "" {
			t.Errorf("what the writer handed over differs from what is stored (-writer +stored):\n%s", diff)
		}
		if _, err := again.Protobuf(); err != nil {
			t.Error(err)
		}
	}
}
