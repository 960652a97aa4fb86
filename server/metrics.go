package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"edgepod/server/store"
)

// storeMetrics shows the store's figures to Prometheus, read when they are asked for.
type storeMetrics struct{ store *store.Bolt }

// storeMetric is one figure of the store.
type storeMetric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(store.Stats) float64
}

func figure(name, help string, kind prometheus.ValueType, value func(store.Stats) float64) storeMetric {
	return storeMetric{prometheus.NewDesc("edgepod_store_"+name, help, nil, nil), kind, value}
}

var storeFigures = [...]storeMetric{
	figure("revision", "Newest resourceVersion.", prometheus.GaugeValue, func(s store.Stats) float64 { return float64(s.Revision) }),
	figure("objects", "Objects stored.", prometheus.GaugeValue, func(s store.Stats) float64 { return float64(s.Entries) }),
	figure("history_events", "Changes that watches can still replay.", prometheus.GaugeValue, func(s store.Stats) float64 { return float64(s.HistoryEvents) }),
	figure("history_bytes", "Memory that the changes take.", prometheus.GaugeValue, func(s store.Stats) float64 { return float64(s.HistoryBytes) }),
	figure("file_bytes", "Size of the database file.", prometheus.GaugeValue, func(s store.Stats) float64 { return float64(s.FileBytes) }),
	figure("commits_total", "Transactions on disk.", prometheus.CounterValue, func(s store.Stats) float64 { return float64(s.Commits) }),
	figure("commit_seconds_total", "Time that the transactions took.", prometheus.CounterValue, func(s store.Stats) float64 { return s.CommitTime.Seconds() }),
	figure("commits_failed_total", "Transactions that the disk refused.", prometheus.CounterValue, func(s store.Stats) float64 { return float64(s.FailedCommits) }),
	figure("records_total", "Changes written in transactions.", prometheus.CounterValue, func(s store.Stats) float64 { return float64(s.Records) }),
	figure("writes_total", "Writes done.", prometheus.CounterValue, func(s store.Stats) float64 { return float64(s.Writes) }),
	figure("writes_volatile_total", "Writes done that waited for no disk.", prometheus.CounterValue, func(s store.Stats) float64 { return float64(s.VolatileWrites) }),
	figure("writes_refused_total", "Writes refused for the object's state.", prometheus.CounterValue, func(s store.Stats) float64 { return float64(s.RefusedWrites) }),
}

// Describe implements prometheus.Collector.
func (storeMetrics) Describe(descs chan<- *prometheus.Desc) {
	for _, m := range storeFigures {
		descs <- m.desc
	}
}

// Collect implements prometheus.Collector.
func (m storeMetrics) Collect(metrics chan<- prometheus.Metric) {
	stats := m.store.Stats()
	for _, f := range storeFigures {
		metrics <- prometheus.MustNewConstMetric(f.desc, f.kind, f.value(stats))
	}
}
