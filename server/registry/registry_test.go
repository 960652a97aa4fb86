package registry

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"edgepod/server/store"
)

// fixture is a registry on a real store in a temporary folder, with a clock that tests set.
type fixture struct {
	*Registry
	tb  testing.TB
	now time.Time
}

func newFixture(tb testing.TB, configure ...func(*store.Config)) *fixture {
	tb.Helper()
	config := store.Config{Path: filepath.Join(tb.TempDir(), "state.db")}
	for _, f := range configure {
		f(&config)
	}
	s, err := store.Open(config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	f := &fixture{tb: tb, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	f.Registry, err = New(Config{Store: s, Now: func() time.Time { return f.now }})
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

func (f *fixture) res(name string) *Resource {
	f.tb.Helper()
	res := f.Resource("", name)
	if name == "leases" {
		res = f.Resource("coordination.k8s.io", name)
	}
	if res == nil {
		f.tb.Fatalf("no resource %s", name)
	}
	return res
}

// create stores an object, which must work.
func (f *fixture) create(resource string, obj runtime.Object) *Object {
	f.tb.Helper()
	result, err := f.Create(context.Background(), f.res(resource), CreateRequest{Object: obj})
	if err != nil {
		f.tb.Fatalf("create %s: %v", resource, err)
	}
	return result.Object
}

// update changes an object in place, which must work.
func (f *fixture) update(resource, subresource, namespace, name string, change func(obj runtime.Object)) Result {
	f.tb.Helper()
	result, err := f.Update(context.Background(), f.res(resource), UpdateRequest{
		Namespace: namespace, Name: name, Subresource: subresource,
		Modify: func(live runtime.Object) (runtime.Object, error) {
			change(live)
			return live, nil
		},
	})
	if err != nil {
		f.tb.Fatalf("update %s %s/%s: %v", resource, namespace, name, err)
	}
	return result
}

func (f *fixture) get(resource, namespace, name string) *Object {
	f.tb.Helper()
	o, err := f.Get(context.Background(), f.res(resource), namespace, name)
	if err != nil {
		f.tb.Fatalf("get %s %s/%s: %v", resource, namespace, name, err)
	}
	return o
}

func newPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "edgepod.dev/hello"}}},
	}
}

func newConfigMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Data:       map[string]string{"key": "value"},
	}
}

func (f *fixture) delete(resource, namespace, name string, options *metav1.DeleteOptions) Result {
	f.tb.Helper()
	result, err := f.Delete(context.Background(), f.res(resource), DeleteRequest{Namespace: namespace, Name: name, Options: options})
	if err != nil {
		f.tb.Fatalf("delete %s %s/%s: %v", resource, namespace, name, err)
	}
	return result
}

// gone checks that there is no such object.
func (f *fixture) gone(resource, namespace, name string) {
	f.tb.Helper()
	if _, err := f.Get(context.Background(), f.res(resource), namespace, name); !apierrors.IsNotFound(err) {
		f.tb.Errorf("get %s %s/%s: %v, want not found", resource, namespace, name, err)
	}
}

// wantStatus checks a status error: its message begins as given.
func wantStatus(tb testing.TB, err error, code int32, reason metav1.StatusReason, message string) {
	tb.Helper()
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		tb.Fatalf("got %v, want a status error: %d %s", err, code, message)
	}
	if got := status.Status(); got.Code != code || got.Reason != reason || !strings.HasPrefix(got.Message, message) {
		tb.Errorf("got  %d %s: %s\nwant %d %s: %s", got.Code, got.Reason, got.Message, code, reason, message)
	}
}
