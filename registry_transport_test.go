package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"
)

func TestAnswersOfTheRegistryAreOfTheHostThatWasAsked(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Seen", r.Host+r.URL.Path)
	}))
	defer api.Close()
	transport, err := newRegistryTransport(&rest.Config{Host: api.URL + "/edge"})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: transport}).Get("https://registry.local/v2/")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got, want := resp.Header.Get("Seen"), api.Listener.Addr().String()+"/edge/v2/"; got != want {
		t.Errorf("the API server was asked for %s, want %s", got, want)
	}
	if got := resp.Request.URL.String(); got != "https://registry.local/v2/" {
		t.Errorf("the answer is said to be of %s", got)
	}
}
