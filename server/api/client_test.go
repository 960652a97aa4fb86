package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

func restConfig(s *httptest.Server, contentType string) *rest.Config {
	return &rest.Config{
		Host: s.URL, BearerToken: adminToken, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: certificatePEM(s.Certificate().Raw)},
		ContentConfig:   rest.ContentConfig{ContentType: contentType},
	}
}

func newPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "edgepod.dev/hello"}}},
	}
}

func TestTypedClient(t *testing.T) {
	s := newCluster(t, nil).serve()
	for i, contentType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf, runtime.ContentTypeYAML} {
		t.Run(contentType, func(t *testing.T) {
			client, err := typedcorev1.NewForConfig(restConfig(s, contentType))
			if err != nil {
				t.Fatal(err)
			}
			pods, ctx, name := client.Pods("default"), t.Context(), "p"+strconv.Itoa(i)
			made, err := pods.Create(ctx, newPod(name), metav1.CreateOptions{FieldManager: "test"})
			if err != nil || made.UID == "" {
				t.Fatalf("create: %v, %v", made, err)
			}
			if _, err := pods.Create(ctx, newPod(name), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
				t.Errorf("create again: %v", err)
			}
			made.Labels["more"] = "yes"
			updated, err := pods.Update(ctx, made, metav1.UpdateOptions{})
			if err != nil || updated.Labels["more"] != "yes" {
				t.Fatalf("update: %v, %v", updated, err)
			}
			if _, err := pods.Update(ctx, made, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
				t.Errorf("update of an old version: %v", err)
			}
			patched, err := pods.Patch(ctx, name, types.StrategicMergePatchType, []byte(`{"status":{"phase":"Running"}}`), metav1.PatchOptions{}, "status")
			if err != nil || patched.Status.Phase != corev1.PodRunning {
				t.Fatalf("patch: %v, %v", patched, err)
			}
			list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: "more=yes", FieldSelector: "metadata.name=" + name})
			if err != nil || len(list.Items) != 1 || list.ResourceVersion == "" {
				t.Errorf("list: %v, %v", list, err)
			}
			zero := int64(0)
			if err := pods.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &zero, Preconditions: metav1.NewUIDPreconditions(string(made.UID))}); err != nil {
				t.Errorf("delete: %v", err)
			}
			if _, err := pods.Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("get: %v", err)
			}
		})
	}
}

func TestDynamicAndMetadataClients(t *testing.T) {
	s := newCluster(t, nil).serve()
	client, err := dynamic.NewForConfig(restConfig(s, ""))
	if err != nil {
		t.Fatal(err)
	}
	maps := client.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace("default")
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"generateName": "x-"}}}
	made, err := maps.Create(t.Context(), object, metav1.CreateOptions{})
	if err != nil || made.GetName() == "" {
		t.Fatalf("create: %v, %v", made, err)
	}
	list, err := maps.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 || list.Items[0].GetKind() != "ConfigMap" {
		t.Errorf("list: %v, %v", list, err)
	}
	meta, err := metadata.NewForConfig(restConfig(s, ""))
	if err != nil {
		t.Fatal(err)
	}
	partial, err := meta.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace("default").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(partial.Items) != 1 || partial.Items[0].UID != made.GetUID() {
		t.Errorf("metadata: %v, %v", partial, err)
	}
}

func TestDiscoveryClient(t *testing.T) {
	c := newCluster(t, nil)
	s := c.serve()
	client, err := clientdiscovery.NewDiscoveryClientForConfig(restConfig(s, ""))
	if err != nil {
		t.Fatal(err)
	}
	groups, resources, err := client.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	client.UseLegacyDiscovery = true
	oldGroups, oldResources, err := client.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	if len(groups) != len(oldGroups) || len(resources) != len(oldResources) || len(groups) < 2 {
		t.Errorf("new clients see %d groups and %d versions, old ones %d and %d", len(groups), len(resources), len(oldGroups), len(oldResources))
	}
	for _, list := range resources {
		i := slices.IndexFunc(oldResources, func(old *metav1.APIResourceList) bool { return old.GroupVersion == list.GroupVersion })
		if i < 0 || len(list.APIResources) != len(oldResources[i].APIResources) || len(list.APIResources) == 0 {
			t.Errorf("%s: new clients see %v, old ones %v", list.GroupVersion, list.APIResources, oldResources)
		}
	}
	version, err := client.ServerVersion()
	if err != nil || version.Minor != "37" || version.GitVersion != "v1.37.2+edgepod" {
		t.Errorf("got %v, %v", version, err)
	}
}

// informer runs an informer of the default namespace's pods until it has synced, and returns its store.
func informer(t *testing.T, config *rest.Config) cache.Store {
	t.Helper()
	config.GroupVersion, config.APIPath = &corev1.SchemeGroupVersion, "/api"
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	watch := cache.NewListWatchFromClient(client, "pods", "default", fields.Everything())
	store, controller := cache.NewInformerWithOptions(cache.InformerOptions{ListerWatcher: watch, ObjectType: &corev1.Pod{}, Handler: cache.ResourceEventHandlerFuncs{}})
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		controller.RunWithContext(ctx)
	}()
	t.Cleanup(func() { cancel(); <-stopped })
	if !cache.WaitForCacheSync(t.Context().Done(), controller.HasSynced) {
		t.Fatal("the informer did not sync")
	}
	return store
}

func TestInformersFollow(t *testing.T) {
	c := newCluster(t, nil)
	s := c.serve()
	for i := range 20 {
		c.must(201, call{method: "POST", path: podsPath, body: podJSON("before-" + strconv.Itoa(i))})
	}
	for _, contentType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		store := informer(t, restConfig(s, contentType))
		if got := len(store.ListKeys()); got < 20 {
			t.Errorf("%s: the informer synced with %d pods", contentType, got)
		}
		name := "after-" + contentType[len(contentType)-4:]
		c.must(201, call{method: "POST", path: podsPath, body: podJSON(name)})
		until(t, func() bool { _, found, _ := store.GetByKey("default/" + name); return found })
		c.must(200, call{method: "DELETE", path: podsPath + "/" + name + "?gracePeriodSeconds=0"})
		until(t, func() bool { _, found, _ := store.GetByKey("default/" + name); return !found })
	}
}

// until waits for what another goroutine does.
func until(t *testing.T, done func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-t.Context().Done():
			t.Fatal("it did not happen")
		case <-tick.C:
		}
	}
}

func TestCertificatesNameTheirHolders(t *testing.T) {
	ca := newAuthority(t)
	c := newCluster(t, func(config *Config) { config.Authenticator = NewCredentials(ca.pool()) })
	s := httptest.NewUnstartedServer(nil)
	s.Config = HTTPServer(c.api, nil)
	s.EnableHTTP2 = true
	s.TLS = ca.serverConfig()
	s.StartTLS()
	t.Cleanup(s.Close)
	for _, test := range []struct {
		user, group string
		code        int
	}{
		{"admin", groupMasters, http.StatusOK},
		{"system:node:n1", groupNodes, http.StatusForbidden},
		{"jane", "people", http.StatusForbidden},
	} {
		cert, key := ca.client(t, test.user, test.group)
		config := restConfig(s, "")
		config.BearerToken, config.CertData, config.KeyData = "", cert, key
		client, err := typedcorev1.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "x-"}}, metav1.CreateOptions{})
		if code := codeOf(err); code != test.code {
			t.Errorf("%s of %s: got %d (%v), want %d", test.user, test.group, code, err, test.code)
		}
	}
}

func codeOf(err error) int {
	if status, ok := err.(apierrors.APIStatus); ok {
		return int(status.Status().Code)
	}
	if err != nil {
		return 0
	}
	return http.StatusOK
}
