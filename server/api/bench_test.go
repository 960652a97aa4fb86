package api

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

func benchCluster(b *testing.B) *cluster {
	return newCluster(b, func(config *Config) { config.Log = slog.New(slog.DiscardHandler) })
}

// repeat does a request again and again, in this goroutine, without a network.
func (c *cluster) repeat(b *testing.B, code int, make func(i int) call) {
	b.Helper()
	b.ReportAllocs()
	defer reportCPU(b)()
	for i := 0; b.Loop(); i++ {
		w := &discard{header: http.Header{}}
		c.api.ServeHTTP(w, make(i).request())
		if w.code != code {
			b.Fatalf("got %d", w.code)
		}
	}
}

// reportCPU tells how much time of the processors the whole process took for one operation, which a busy machine and waits
// for the disk leave alone.
func reportCPU(b *testing.B) func() {
	used := func() time.Duration {
		var usage syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
			b.Fatal(err)
		}
		return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	before := used()
	return func() { b.ReportMetric(float64((used()-before).Microseconds())/float64(b.N), "cpu-µs/op") }
}

// discard is a ResponseWriter that keeps only the code.
type discard struct {
	header http.Header
	code   int
	size   int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(code int)        { d.code = code }
func (d *discard) Write(p []byte) (int, error) { d.size += len(p); return len(p), nil }
func (d *discard) Flush()                      {}

// fullPod is a pod of the size that real ones have.
func fullPod(name string) string {
	return strings.Replace(podJSON(name), `"image":"edgepod.dev/hello"`, `"image":"edgepod.dev/hello","args":["serve","--port=8080"],
		"env":[{"name":"A","value":"1"},{"name":"B","value":"2"}],"ports":[{"containerPort":8080}],
		"resources":{"requests":{"cpu":"100m","memory":"32Mi"},"limits":{"memory":"64Mi"}},
		"readinessProbe":{"httpGet":{"path":"/","port":8080}}`, 1)
}

func BenchmarkGet(b *testing.B) {
	c := benchCluster(b)
	c.must(201, call{method: "POST", path: podsPath, body: fullPod("x")})
	c.repeat(b, 200, func(int) call { return call{path: podsPath + "/x"} })
}

func BenchmarkList2000(b *testing.B) {
	c := benchCluster(b)
	for i := range 2000 {
		c.must(201, call{method: "POST", path: podsPath, body: fullPod(fmt.Sprint("pod-", i))})
	}
	for _, form := range []struct{ name, accept string }{
		{"JSON", "application/json"}, {"Protobuf", mediaProtobuf.String()}, {"Table", "application/json;as=Table;v=v1;g=meta.k8s.io"},
	} {
		b.Run(form.name, func(b *testing.B) {
			c.repeat(b, 200, func(int) call { return call{path: podsPath, header: map[string]string{"Accept": form.accept}} })
		})
	}
	b.Run("TLS", func(b *testing.B) {
		s := c.serve()
		for b.Loop() {
			answer := open(b.Context(), b, s, podsPath, nil)
			if _, err := io.Copy(io.Discard, answer.Body); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkCreate(b *testing.B) {
	c := benchCluster(b)
	c.repeat(b, 201, func(i int) call {
		return call{method: "POST", path: podsPath + "?fieldManager=bench&fieldValidation=Strict", body: fullPod(fmt.Sprint("pod-", i))}
	})
}

func BenchmarkPatch(b *testing.B) {
	for _, kind := range []string{"json-patch", "merge-patch", "strategic-merge-patch"} {
		b.Run(kind, func(b *testing.B) {
			c := benchCluster(b)
			c.must(201, call{method: "POST", path: podsPath, body: fullPod("x")})
			c.repeat(b, 200, func(i int) call {
				body := fmt.Sprintf(`{"metadata":{"labels":{"n":"%d"}}}`, i)
				if kind == "json-patch" {
					body = fmt.Sprintf(`[{"op":"add","path":"/metadata/labels/n","value":"%d"}]`, i)
				}
				return call{method: "PATCH", path: podsPath + "/x", body: body, header: map[string]string{"Content-Type": "application/" + kind + "+json"}}
			})
		})
	}
}

// BenchmarkTLS has 32 clients on one machine with the server: what is measured is both.
func BenchmarkTLS(b *testing.B) {
	c := benchCluster(b)
	c.must(201, call{method: "POST", path: podsPath, body: fullPod("x")})
	for i := range 64 {
		c.must(201, call{method: "POST", path: podsPath, body: fullPod(fmt.Sprint("patched-", i))})
	}
	s := c.serve()
	var n atomic.Int64
	for name, make := range map[string]func() call{
		"Get": func() call { return call{path: podsPath + "/x"} },
		"Patch": func() call {
			i := n.Add(1)
			return call{
				method: "PATCH", path: podsPath + fmt.Sprint("/patched-", i%64), body: fmt.Sprintf(`{"metadata":{"labels":{"n":"%d"}}}`, i),
				header: map[string]string{"Content-Type": "application/strategic-merge-patch+json"},
			}
		},
		"Create": func() call { return call{method: "POST", path: podsPath, body: fullPod(fmt.Sprint("tls-", n.Add(1)))} },
	} {
		b.Run(name, func(b *testing.B) {
			b.SetParallelism(16)
			b.ReportAllocs()
			defer reportCPU(b)()
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					send(b, s, make())
				}
			})
		})
	}
}

func send(b *testing.B, s *httptest.Server, q call) {
	r := q.request()
	r.RequestURI, r.URL.Scheme, r.URL.Host = "", "https", s.Listener.Addr().String()
	answer, err := s.Client().Do(r)
	if err != nil {
		b.Error(err)
		return
	}
	if _, err := io.Copy(io.Discard, answer.Body); err != nil || answer.StatusCode > 201 {
		b.Errorf("got %s, %v", answer.Status, err)
	}
	answer.Body.Close()
}

// BenchmarkWatch100 is a change of one pod until the last of 100 watchers over TLS has it.
func BenchmarkWatch100(b *testing.B) {
	const watchers = 100
	for name, accept := range map[string]string{"JSON": mediaJSON.String(), "Protobuf": mediaProtobuf.String()} {
		b.Run(name, func(b *testing.B) {
			c := benchCluster(b)
			s := c.serve()
			made := c.must(201, call{method: "POST", path: podsPath, body: fullPod("x")})
			version := made["metadata"].(map[string]any)["resourceVersion"].(string)
			seen := make(chan int, watchers)
			for range watchers {
				answer := open(b.Context(), b, s, podsPath+"?watch=true&resourceVersion="+version, map[string]string{"Accept": accept})
				go count(answer.Body, seen)
			}
			i := 0
			for b.Loop() {
				mark := fmt.Sprintf("mark-%d-x", i)
				c.must(200, call{
					method: "PATCH", path: podsPath + "/x", body: `{"metadata":{"labels":{"n":"` + mark + `"}}}`,
					header: map[string]string{"Content-Type": "application/merge-patch+json"},
				})
				for range watchers {
					if got := <-seen; got != i {
						b.Fatalf("a watcher saw change %d, want %d", got, i)
					}
				}
				i++
			}
			b.ReportMetric(float64(watchers*b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// count tells of each mark that comes by, in whatever encoding.
func count(body io.Reader, seen chan<- int) {
	var text []byte
	buf := make([]byte, 64<<10)
	for {
		n, err := body.Read(buf)
		text = append(text, buf[:n]...)
		for {
			_, rest, found := bytes.Cut(text, []byte("mark-"))
			number, rest, ended := bytes.Cut(rest, []byte("-"))
			if !found || !ended {
				break
			}
			mark, failed := strconv.Atoi(string(number))
			if failed != nil {
				mark = -1
			}
			seen <- mark
			text = rest
		}
		if err != nil {
			return
		}
	}
}
