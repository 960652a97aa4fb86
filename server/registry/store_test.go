package registry

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"edgepod/server/store"

	"github.com/google/go-cmp/cmp"
)

func openRegistry(t *testing.T, path string) (*Registry, *store.Bolt) {
	t.Helper()
	s, err := store.Open(store.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(Config{Store: s})
	if err != nil {
		t.Fatal(err)
	}
	return r, s
}

func TestObjectsAreTheSameAfterARestart(t *testing.T) {
	path, ctx := filepath.Join(t.TempDir(), "state.db"), context.Background()
	r, s := openRegistry(t, path)
	objects := map[string]runtime.Object{
		"pods": newPod("x"), "configmaps": newConfigMap("x"), "leases": newLease("x"),
		"secrets":         &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"}, StringData: map[string]string{"a": "b"}},
		"serviceaccounts": &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"}},
		"events":          &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"}, InvolvedObject: corev1.ObjectReference{Namespace: "default"}},
		"nodes":           &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "x"}},
		"namespaces":      &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "x"}},
	}
	if len(objects) != len(r.Resources()) {
		t.Fatalf("%d kinds are tried of %d", len(objects), len(r.Resources()))
	}
	before := map[string]*Object{}
	for _, res := range r.Resources() {
		result, err := r.Create(ctx, res, CreateRequest{Object: objects[res.Name]})
		if err != nil {
			t.Fatal(err)
		}
		before[res.Name] = result.Object
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Get(ctx, r.pods, "default", "x"); err != nil {
		wantStatus(t, err, 503, metav1.StatusReasonServiceUnavailable, "the store is closed: the server is stopping")
	}
	r, s = openRegistry(t, path)
	defer s.Close()
	for _, res := range r.Resources() {
		old := before[res.Name]
		got, err := r.Get(ctx, res, old.Meta().GetNamespace(), "x")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(old.Runtime(), got.Runtime()); diff != "" || string(old.JSON()) != string(got.JSON()) || old.Revision() != got.Revision() {
			t.Errorf("%s after a restart (-before +after):\n%s", res.Name, diff)
		}
		// Nothing has changed, so nothing is written.
		result, err := r.Update(ctx, res, UpdateRequest{
			Namespace: old.Meta().GetNamespace(), Name: "x", Modify: func(live runtime.Object) (runtime.Object, error) { return live, nil },
		})
		if err != nil || result.Object.Revision() != old.Revision() {
			t.Errorf("%s: an update without a change made a revision: %v", res.Name, err)
		}
	}
}

func TestAnObjectThatCantBeReadIsAnErrorThatNamesIt(t *testing.T) {
	f := newFixture(t)
	ctx := context.Background()
	_, err := f.store.Commit(ctx, store.Op{
		Verb: store.Create, Key: f.pods.key("default", "broken"),
		Encode: func(int64) ([]byte, any) { return []byte(`{"kind":"Pod","spec":`), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	const want = "Internal error occurred: stored pods default/broken can't be read: "
	_, err = f.Get(ctx, f.pods, "default", "broken")
	wantStatus(t, err, 500, metav1.StatusReasonInternalError, want)
	_, err = f.List(ctx, f.pods, ListRequest{})
	wantStatus(t, err, 500, metav1.StatusReasonInternalError, want)
	_, err = f.Watch(ctx, f.pods, WatchRequest{})
	wantStatus(t, err, 500, metav1.StatusReasonInternalError, want)
	_, err = f.Delete(ctx, f.pods, DeleteRequest{Namespace: "default", Name: "broken", Options: &metav1.DeleteOptions{}})
	wantStatus(t, err, 500, metav1.StatusReasonInternalError, want)
}

// crowded is a store in which every name is taken.
type crowded struct {
	store.Store
	tries int
}

func (c *crowded) Commit(ctx context.Context, op store.Op) (*store.Entry, error) {
	c.tries++
	return nil, store.ErrExists
}

// interrupted is a store in which something happens just before an object is created.
type interrupted struct {
	store.Store
	before func()
}

func (i *interrupted) Commit(ctx context.Context, op store.Op) (*store.Entry, error) {
	if before := i.before; op.Verb == store.Create && before != nil {
		i.before = nil
		before()
	}
	return i.Store.Commit(ctx, op)
}

func TestNothingIsLeftInANamespaceThatEndsMeanwhile(t *testing.T) {
	for _, finalized := range []bool{false, true} {
		f := newFixture(t)
		f.create("namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}})
		f.Registry.store = &interrupted{Store: f.store, before: func() {
			f.delete("namespaces", "", "team", &metav1.DeleteOptions{})
			if finalized {
				f.update("namespaces", "finalize", "", "team", func(obj runtime.Object) { obj.(*corev1.Namespace).Spec.Finalizers = nil })
			}
		}}
		_, err := f.Create(context.Background(), f.res("configmaps"), CreateRequest{Namespace: "team", Object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}})
		if finalized {
			wantStatus(t, err, 404, metav1.StatusReasonNotFound, `namespaces "team" not found`)
		} else {
			wantStatus(t, err, 403, metav1.StatusReasonForbidden, `configmaps "c" is forbidden: unable to create new content in namespace team`)
		}
		f.gone("configmaps", "team", "c")
	}
}

func TestGeneratingANameIsGivenUpAfterEightTries(t *testing.T) {
	f := newFixture(t)
	full := &crowded{Store: f.store}
	f.Registry.store = full
	_, err := f.Create(context.Background(), f.res("configmaps"), CreateRequest{
		Object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "c-"}},
	})
	wantStatus(t, err, 409, metav1.StatusReasonAlreadyExists, `configmaps "c-`)
	if !strings.HasSuffix(err.Error(), "already exists, the server was not able to generate a unique name for the object") || full.tries != 8 {
		t.Errorf("after %d tries: %v", full.tries, err)
	}
}

func TestSpliceFindsTheObjectsOwnVersion(t *testing.T) {
	f := newFixture(t)
	cm := newConfigMap("c")
	cm.Labels = map[string]string{"resourceVersion": "1"}
	cm.Annotations = map[string]string{"x": `"resourceVersion":"7"`, "resourceVersion": "8"}
	cm.Data = map[string]string{"resourceVersion": "9"}
	o := f.create("configmaps", cm)
	again := splice(o.JSON(), 123456789)
	back, err := objectOf(o.Resource(), &store.Entry{Value: again})
	if err != nil {
		t.Fatal(err)
	}
	want := o.Runtime().DeepCopyObject().(*corev1.ConfigMap)
	want.ResourceVersion = "123456789"
	if diff := cmp.Diff(want, back.Runtime()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func FuzzContinueTokens(f *testing.F) {
	f.Add(continueAfter(store.Key{Namespace: "default", Name: "a"}, "", 7))
	f.Add("")
	f.Add("eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhIn0")
	f.Fuzz(func(t *testing.T, s string) {
		token, err := parseContinue(s)
		if err != nil {
			return
		}
		again, err := parseContinue(token.String())
		if err != nil || again != token {
			t.Errorf("%q became %+v and then %+v, %v", s, token, again, err)
		}
		for _, namespace := range []string{"", "default"} {
			if key := token.after(pods(), namespace); strings.Contains(key.Namespace, "/") || strings.Contains(token.Start, "..") && key.Name == ".." {
				t.Errorf("%q leads to %+v", s, key)
			}
		}
	})
}
