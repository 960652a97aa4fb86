package agent_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"edgepod/server/agent"
	"edgepod/server/pki"
)

// ask asks the agent's handler and returns code and body.
func ask(h http.Handler, path string) (int, string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, strings.TrimSpace(w.Body.String())
}

func (c *cluster) output(pod *corev1.Pod, id, line string) {
	c.t.Helper()
	if err := c.runtime.Output(string(pod.UID), id, "stdout", line); err != nil {
		c.t.Fatal(err)
	}
}

func TestLogsOfThisAndThePreviousAttempt(t *testing.T) {
	c := newCluster(t)
	a, _ := c.startReady()
	h := a.Handler()
	pod := c.create(web("Always"))
	c.wait("web", "ready", ready)
	c.output(pod, "main-0", "one")
	c.output(pod, "main-0", "two")
	type answer struct {
		code int
		body string
	}
	for path, want := range map[string]answer{
		"/containerLogs/default/web/main":                    {200, "one\ntwo"},
		"/containerLogs/default/web/main?tailLines=1":        {200, "two"},
		"/containerLogs/default/web/main?limitBytes=2":       {200, "on"},
		"/containerLogs/default/web/main?sinceSeconds=3600":  {200, "one\ntwo"},
		"/containerLogs/default/web/main?previous=true":      {400, `previous terminated container "main" in pod "web" not found`},
		"/containerLogs/default/web/other":                   {404, `container "other" not found in pod "web"`},
		"/containerLogs/default/none/main":                   {404, `pod "none" does not exist`},
		"/containerLogs/default/web/main?tailLines=-1":       {400, "tailLines must be a number that is not negative"},
		"/containerLogs/default/web/main?sinceTime=tomorrow": {400, "sinceTime must be a time such as 2006-01-02T15:04:05Z"},
		"/containerLogs/default/..%2f..%2fx/main":            {404, `pod "../../x" does not exist`},
		"/healthz": {200, "ok"},
	} {
		if code, body := ask(h, path); (answer{code, body}) != want {
			t.Errorf("%s: got %d %q, want %+v", path, code, body, want)
		}
	}
	c.exit(pod, "main-0", 1)
	c.wait("web", "restarted", restarted(1))
	c.output(pod, "main-1", "three")
	if code, body := ask(h, "/containerLogs/default/web/main?previous=true"); code != 200 || body != "one\ntwo" {
		t.Errorf("previous log: %d %q", code, body)
	}
	c.exit(pod, "main-1", 1)
	c.wait("web", "restarted again", restarted(2))
	logs, err := filepath.Glob(filepath.Join(c.dir, "agent/pods/*/main/*.log"))
	if err != nil || len(logs) != 1 || filepath.Base(logs[0]) != "1.log" {
		t.Errorf("logs kept: %q, %v; want that of attempt 1 alone, as attempt 2 has written nothing", logs, err)
	}
}

func TestFollowedLogEndsWithItsContainer(t *testing.T) {
	c := newCluster(t)
	a, _ := c.startReady()
	web0 := httptest.NewServer(a.Handler())
	defer web0.Close()
	pod := c.create(web("Never"))
	c.wait("web", "ready", ready)
	c.output(pod, "main-0", "one")
	answer, err := http.Get(web0.URL + "/containerLogs/default/web/main?follow=true")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	lines := bufio.NewReader(answer.Body)
	read := func(want string) {
		t.Helper()
		if line, err := lines.ReadString('\n'); err != nil || line != want+"\n" {
			t.Fatalf("read %q, %v; want %q", line, err, want)
		}
	}
	read("one")
	c.output(pod, "main-0", "two")
	read("two")
	c.output(pod, "main-0", "last")
	c.exit(pod, "main-0", 0)
	read("last")
	if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 {
		t.Errorf("after the end: %q, %v", rest, err)
	}
}

func TestLogThatIsALinkIsNotRead(t *testing.T) {
	c := newCluster(t)
	a, _ := c.startReady()
	pod := c.create(web("Always"))
	c.wait("web", "ready", ready)
	c.output(pod, "main-0", "one")
	logs, _ := filepath.Glob(filepath.Join(c.dir, "agent/pods/*/main/0.log"))
	secret := filepath.Join(c.dir, "secret")
	if err := os.WriteFile(secret, []byte("2026-01-02T12:00:00Z stdout F secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	inPod := filepath.Join(filepath.Dir(filepath.Dir(logs[0])), "state.json")
	for _, target := range []string{secret, inPod, "../state.json"} {
		if err := os.Remove(logs[0]); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, logs[0]); err != nil {
			t.Fatal(err)
		}
		for _, query := range []string{"", "?follow=true", "?tailLines=5"} {
			if code, body := ask(a.Handler(), "/containerLogs/default/web/main"+query); code != http.StatusInternalServerError || strings.Contains(body, "secret") {
				t.Errorf("log linked to %s, %s: %d %q", target, query, code, body)
			}
		}
	}
}

func TestWaitingContainerSaysWhyItHasNoLog(t *testing.T) {
	c := newCluster(t)
	a, _ := c.startReady()
	c.create(`
metadata: {name: web}
spec: {containers: [{name: main, image: edgepod.dev/web, envFrom: [{secretRef: {name: none}}]}]}
`)
	c.wait("web", "waiting", func(p *corev1.Pod) bool {
		cs := p.Status.ContainerStatuses
		return len(cs) > 0 && cs[0].State.Waiting != nil && cs[0].State.Waiting.Reason == "CreateContainerConfigError"
	})
	code, body := ask(a.Handler(), "/containerLogs/default/web/main")
	if want := `container "main" in pod "web" is waiting to start: CreateContainerConfigError`; code != 400 || body != want {
		t.Errorf("got %d %q, want 400 %q", code, body, want)
	}
}

func TestOwnPortLetsOnlyTheServerIn(t *testing.T) {
	authority, err := pki.OpenAuthority(t.TempDir(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	other, err := pki.OpenAuthority(t.TempDir(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	c := newCluster(t)
	c.config = func(config *agent.Config) { config.ClientCA = authority.PEM() }
	a, _ := c.startReady()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Serve(ctx, listener) }()
	pin := c.getNode().Annotations["edgepod.dev/serving-cert-sha256"]
	get := func(client *pki.Renewing) error {
		transport := &http.Transport{TLSClientConfig: &tls.Config{
			InsecureSkipVerify: true, // the pin is compared below
			VerifyConnection: func(s tls.ConnectionState) error {
				if sum := sha256.Sum256(s.PeerCertificates[0].Raw); hex.EncodeToString(sum[:]) != pin {
					t.Error("the agent shows another certificate than its node announces")
				}
				return nil
			},
		}}
		if client != nil {
			transport.TLSClientConfig.GetClientCertificate = client.ForServer
		}
		defer transport.CloseIdleConnections()
		answer, err := (&http.Client{Transport: transport}).Get("https://" + listener.Addr().String() + "/healthz")
		if err != nil {
			return err
		}
		return answer.Body.Close()
	}
	if err := get(pki.NewClient(authority, "edgepod-server")); err != nil {
		t.Errorf("the server is not let in: %v", err)
	}
	for name, client := range map[string]*pki.Renewing{
		"nobody": nil, "an agent": pki.NewClient(authority, "system:node:n1"), "another cluster": pki.NewClient(other, "edgepod-server"),
	} {
		if err := get(client); err == nil {
			t.Errorf("%s is let in", name)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("serve: %v", err)
	}
}
