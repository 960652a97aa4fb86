package agent

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

func TestSecretsAreNotLogged(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","annotations":{"canary":"answer"}}}`)
	}))
	defer server.Close()
	c, err := newClient(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.Level(-100)}))
	ctx := klog.NewContext(t.Context(), clientLogger(t.Context(), log))
	klog.FromContext(ctx).V(7).Info("detail")
	if _, err := c.pod(ctx, "default", "p"); err != nil {
		t.Fatal(err)
	}
	if err := c.core.Post().Resource("pods").Body([]byte(`{"canary":"question"}`)).Do(ctx).Error(); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); strings.Contains(got, "canary") || !strings.Contains(got, "detail") {
		t.Errorf("log of the client:\n%s", got)
	}
}
