package api

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics count requests under the names that Kubernetes' dashboards know.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	long     *prometheus.GaugeVec
	panics   prometheus.Counter
}

func newMetrics() *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_request_total", Help: "Requests answered, by verb, resource, scope and HTTP code.",
		}, []string{"verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_request_duration_seconds", Help: "How long answers took, without watches and logs.",
			Buckets: []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component"}),
		long: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "apiserver_longrunning_requests", Help: "Watches and logs that are open.",
		}, []string{"verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component"}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "apiserver_request_panics_total", Help: "Requests whose handler panicked.",
		}),
	}
	m.registry.MustRegister(m.requests, m.duration, m.long, m.panics,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// watchInFlight adds the numbers of requests being served.
func (m *metrics) watchInFlight(g *gate) {
	for kind, room := range map[string]chan struct{}{"mutating": g.mutating, "readOnly": g.reading} {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "apiserver_current_inflight_requests", Help: "Requests being served, without watches and logs.",
			ConstLabels: prometheus.Labels{"request_kind": kind},
		}, func() float64 { return float64(len(room)) }))
	}
}

// labels name only what the server knows, never what a client invents.
func (r *request) labels() [8]string {
	verb, dryRun, scope := r.metricVerb(), "", "cluster"
	if strings.Contains(r.Request().URL.RawQuery, "dryRun=All") {
		dryRun = "All"
	}
	if r.resource == nil {
		return [8]string{verb, dryRun, "", "", "", "", "", "apiserver"}
	}
	switch {
	case r.name != "":
		scope = "resource"
	case r.namespace != "":
		scope = "namespace"
	}
	subresource := r.subresource
	if _, known := subresourceVerbs(r.resource, subresource); !known {
		subresource = ""
	}
	return [8]string{verb, dryRun, r.resource.Kind.Group, r.resource.Kind.Version, r.resource.Name, subresource, scope, "apiserver"}
}

func (r *request) metricVerb() string {
	switch r.verb {
	case "get", "head", "options":
		return "GET"
	case "list":
		return "LIST"
	case "watch":
		return "WATCH"
	case "create", "post":
		return "POST"
	case "update", "put":
		return "PUT"
	case "patch":
		return "PATCH"
	case "delete":
		return "DELETE"
	case "deletecollection":
		return "DELETECOLLECTION"
	}
	return "other"
}

func (m *metrics) observe(r *request, code int, took time.Duration) {
	l := r.labels()
	m.requests.WithLabelValues(l[0], l[1], l[2], l[3], l[4], l[5], l[6], l[7], strconv.Itoa(code)).Inc()
	if !r.following {
		m.duration.WithLabelValues(l[:]...).Observe(took.Seconds())
	}
}

func (m *metrics) longRunning(r *request, change float64) {
	l := r.labels()
	m.long.WithLabelValues(l[:]...).Add(change)
}

func (a *API) serveMetrics(r *request) error {
	gatherers := prometheus.Gatherers{a.metrics.registry}
	if a.Metrics != nil {
		gatherers = append(gatherers, a.Metrics)
	}
	handler := promhttp.HandlerFor(gatherers, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
	handler.ServeHTTP(r.Response(), r.Request())
	return nil
}

var _ http.Handler = (*API)(nil)
