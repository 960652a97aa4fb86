package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"edgepod/server/store"
)

// figures shows what a part of the server counts to Prometheus: read takes all of it at once, when it is asked for.
type figures[S any] struct {
	list []figure[S]
	read func() S
}

// figure is one of them.
type figure[S any] struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(S) float64
}

func newFigure[S any](name, help string, kind prometheus.ValueType, value func(S) float64) figure[S] {
	return figure[S]{prometheus.NewDesc(name, help, nil, nil), kind, value}
}

// Describe implements prometheus.Collector.
func (f figures[S]) Describe(descs chan<- *prometheus.Desc) {
	for _, one := range f.list {
		descs <- one.desc
	}
}

// Collect implements prometheus.Collector.
func (f figures[S]) Collect(metrics chan<- prometheus.Metric) {
	stats := f.read()
	for _, one := range f.list {
		metrics <- prometheus.MustNewConstMetric(one.desc, one.kind, one.value(stats))
	}
}

// storeFigures are the store's.
var storeFigures = []figure[store.Stats]{
	newFigure("edgepod_store_revision", "Newest resourceVersion.", prometheus.GaugeValue, func(s store.Stats) float64 { return float64(s.Revision) }),
	newFigure("edgepod_store_objects", "Objects stored.", prometheus.GaugeValue, func(s store.Stats) float64 { return float64(s.Entries) }),
	newFigure("edgepod_store_history_events", "Changes that watches can still replay.", prometheus.GaugeValue, func(s store.Stats) float64 { return float64(s.HistoryEvents) }),
	newFigure("edgepod_store_history_bytes", "Memory that the changes take.", prometheus.GaugeValue, func(s store.Stats) float64 { return float64(s.HistoryBytes) }),
	newFigure("edgepod_store_file_bytes", "Size of the database file.", prometheus.GaugeValue, func(s store.Stats) float64 { return float64(s.FileBytes) }),
	newFigure("edgepod_store_commits_total", "Transactions on disk.", prometheus.CounterValue, func(s store.Stats) float64 { return float64(s.Commits) }),
	newFigure("edgepod_store_commit_seconds_total", "Time that the transactions took.", prometheus.CounterValue, func(s store.Stats) float64 { return s.CommitTime.Seconds() }),
	newFigure("edgepod_store_commits_failed_total", "Transactions that the disk refused.", prometheus.CounterValue, func(s store.Stats) float64 { return float64(s.FailedCommits) }),
	newFigure("edgepod_store_records_total", "Changes written in transactions.", prometheus.CounterValue, func(s store.Stats) float64 { return float64(s.Records) }),
	newFigure("edgepod_store_writes_total", "Writes done.", prometheus.CounterValue, func(s store.Stats) float64 { return float64(s.Writes) }),
	newFigure("edgepod_store_writes_volatile_total", "Writes done that waited for no disk.", prometheus.CounterValue, func(s store.Stats) float64 { return float64(s.VolatileWrites) }),
	newFigure("edgepod_store_writes_refused_total", "Writes refused for the object's state.", prometheus.CounterValue, func(s store.Stats) float64 { return float64(s.RefusedWrites) }),
}
