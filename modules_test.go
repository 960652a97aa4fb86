package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// podsOfTwoPages answers for pods that name the images as an API server does, in two pages.
func podsOfTwoPages(asked *int, images ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		*asked++
		list := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
		image := images[0]
		if r.URL.Query().Get("continue") == "" {
			list.Continue = "more"
		} else {
			image = images[1]
		}
		list.Items = []corev1.Pod{{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: image}}}}}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(list) // a test that does not get it fails
	}
}

func TestCopiesThatNoPodNamesAreRemoved(t *testing.T) {
	folder := t.TempDir()
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, age := range map[string]time.Duration{
		"named.wasm": 48 * time.Hour, "elsewhere.wasm": 48 * time.Hour, "unnamed.wasm": 25 * time.Hour, "new.wasm": 23 * time.Hour,
		importPrefix + "half": 25 * time.Hour, importPrefix + "begun": time.Minute, "notes.txt": 48 * time.Hour,
	} {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, now.Add(-age), now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	asked := 0
	api := httptest.NewServer(podsOfTwoPages(&asked, filepath.Join(folder, "named.wasm"), "file:///other/way/elsewhere.wasm"))
	defer api.Close()
	core, err := coreClient(&rest.Config{Host: api.URL})
	if err != nil {
		t.Fatal(err)
	}
	if err := removeOldModules(t.Context(), core, folder, now); err != nil {
		t.Fatal(err)
	}
	want := []string{importPrefix + "begun", "elsewhere.wasm", "named.wasm", "new.wasm", "notes.txt"}
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, entry := range entries {
		got = append(got, entry.Name())
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files that are left (-want +got):\n%s", diff)
	}
}

func TestPodsAreAskedForOnlyWhereACopyIsOld(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "new.wasm"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{folder, filepath.Join(folder, "none")} {
		if err := removeOldModules(t.Context(), nil, dir, time.Now()); err != nil {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

// TestNothingIsRemovedWhereThePodsAreNotKnown has an API that refuses.
func TestNothingIsRemovedWhereThePodsAreNotKnown(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "old.wasm")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	api := httptest.NewServer(http.NotFoundHandler())
	defer api.Close()
	core, err := coreClient(&rest.Config{Host: api.URL})
	if err != nil {
		t.Fatal(err)
	}
	if err := removeOldModules(t.Context(), core, folder, time.Now().Add(48*time.Hour)); err == nil {
		t.Error("no error")
	}
	if !exists(path) {
		t.Error("the copy is gone")
	}
}
