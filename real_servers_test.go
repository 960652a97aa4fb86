//go:build linux

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// testRealServers runs servers and clients in their pod's own network.
func testRealServers(t *testing.T, r *realRuntime) {
	for name, run := range map[string]func(*testing.T, *realRuntime){
		"two containers": testJavaScriptPair, "a port has one holder": testPortHasOneHolder, "input ends": testInputEnds,
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); run(t, r) })
	}
}

// exampleFiles are those of the ConfigMap that an example's manifest begins with.
func exampleFiles(t testing.TB, manifest string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("examples", manifest))
	check(t, err)
	var files corev1.ConfigMap
	first, _, _ := bytes.Cut(data, []byte("\n---\n"))
	check(t, yaml.UnmarshalStrict(first, &files))
	return files.Data
}

func testJavaScriptPair(t *testing.T, r *realRuntime) {
	pod := r.pod(t, exampleFiles(t, "javascript/pod.yaml"))
	log, err := pod.start(t, realContainer{name: "server", image: "./quickjs.wasm", args: []string{"/work/server.js"}, memory: 128 << 20})
	check(t, err)
	out, exit := pod.run(t, realContainer{name: "client", image: "./quickjs.wasm", args: []string{"/work/client.js"}, memory: 128 << 20})
	wantEnd(t, out, exit, 0, `{"path":"/words/one","word":"one"}`, `{"path":"/words/three","word":"three"}`)
	check(t, pod.Stop(t.Context(), "server", scriptTimeout))
	wantEnd(t, readLog(t, log), pod.await(t, "server"), 143, "listening on port 8080\n", "answered /words/three\n")
}

// testPortHasOneHolder starts a second server on a port, in vain, and another one when the first is dead.
func testPortHasOneHolder(t *testing.T, r *realRuntime) {
	pod := r.pod(t, exampleFiles(t, "javascript/pod.yaml"))
	server := realContainer{image: "./quickjs.wasm", args: []string{"/work/server.js"}, memory: 128 << 20}
	for _, name := range []string{"first", "second", "third"} {
		server.name = name
		log, err := pod.start(t, server)
		check(t, err)
		if name == "second" {
			wantEnd(t, readLog(t, log), pod.await(t, name), 0)
			if out := readLog(t, log); !strings.Contains(out, "Address in use") {
				t.Errorf("the second server said %q", out)
			}
			check(t, pod.Stop(t.Context(), "first", 0))
			continue
		}
		awaitLog(t, log, "listening on port 8080\n")
	}
}

// awaitLog waits until a log contains the text.
func awaitLog(t testing.TB, path, text string) {
	t.Helper()
	deadline := time.Now().Add(scriptTimeout)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !strings.Contains(readLog(t, path), text) {
		if time.Now().After(deadline) {
			t.Fatalf("%q was not logged but:\n%s", text, readLog(t, path))
		}
		<-tick.C
	}
}

// testInputEnds asks a script to stop that reads its input.
func testInputEnds(t *testing.T, r *realRuntime) {
	pod := r.pod(t, nil)
	log, err := pod.start(t, realContainer{image: "./python.wasm", stdin: true, memory: 256 << 20, args: []string{
		"-c", "import sys; print('waiting', flush=True); read = sys.stdin.read(); print('stopping', repr(read)); sys.exit(3)",
	}})
	check(t, err)
	awaitLog(t, log, "waiting\n")
	check(t, pod.Stop(t.Context(), "python", scriptTimeout))
	wantEnd(t, readLog(t, log), pod.await(t, "python"), 3, "stopping ''\n")
}
