package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"edgepod/server/oci"
)

// imageMetrics shows the image registry's figures to Prometheus, read when they are asked for.
type imageMetrics struct{ images *oci.Registry }

// imageMetric is one figure of the image registry.
type imageMetric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(oci.Stats) float64
}

func imageFigure(name, help string, kind prometheus.ValueType, value func(oci.Stats) float64) imageMetric {
	return imageMetric{prometheus.NewDesc("edgepod_registry_"+name, help, nil, nil), kind, value}
}

var imageFigures = [...]imageMetric{
	imageFigure("repositories", "Repositories of images.", prometheus.GaugeValue, func(s oci.Stats) float64 { return float64(s.Repositories) }),
	imageFigure("manifests", "Manifests in all repositories.", prometheus.GaugeValue, func(s oci.Stats) float64 { return float64(s.Manifests) }),
	imageFigure("tags", "Tags in all repositories.", prometheus.GaugeValue, func(s oci.Stats) float64 { return float64(s.Tags) }),
	imageFigure("contents", "Contents on disk, each once.", prometheus.GaugeValue, func(s oci.Stats) float64 { return float64(s.Contents) }),
	imageFigure("bytes", "Size of the contents on disk.", prometheus.GaugeValue, func(s oci.Stats) float64 { return float64(s.Bytes) }),
	imageFigure("uploads", "Uploads that are not finished.", prometheus.GaugeValue, func(s oci.Stats) float64 { return float64(s.Uploads) }),
	imageFigure("pulls_total", "Manifests handed out.", prometheus.CounterValue, func(s oci.Stats) float64 { return float64(s.Pulls) }),
	imageFigure("pushes_total", "Manifests taken in.", prometheus.CounterValue, func(s oci.Stats) float64 { return float64(s.Pushes) }),
	imageFigure("sent_bytes_total", "Bytes of blobs sent.", prometheus.CounterValue, func(s oci.Stats) float64 { return float64(s.BytesOut) }),
	imageFigure("received_bytes_total", "Bytes of blobs received.", prometheus.CounterValue, func(s oci.Stats) float64 { return float64(s.BytesIn) }),
	imageFigure("collected_total", "Contents removed because nothing named them any more.", prometheus.CounterValue, func(s oci.Stats) float64 { return float64(s.Collected) }),
	imageFigure("collected_bytes_total", "Size of the contents removed.", prometheus.CounterValue, func(s oci.Stats) float64 { return float64(s.CollectedBytes) }),
	imageFigure("abandoned_uploads_total", "Uploads given up because nothing came any more.", prometheus.CounterValue, func(s oci.Stats) float64 { return float64(s.Abandoned) }),
	imageFigure("damaged_total", "Contents that were found damaged.", prometheus.CounterValue, func(s oci.Stats) float64 { return float64(s.Damaged) }),
}

// Describe implements prometheus.Collector.
func (imageMetrics) Describe(descs chan<- *prometheus.Desc) {
	for _, m := range imageFigures {
		descs <- m.desc
	}
}

// Collect implements prometheus.Collector.
func (m imageMetrics) Collect(metrics chan<- prometheus.Metric) {
	stats := m.images.Stats()
	for _, f := range imageFigures {
		metrics <- prometheus.MustNewConstMetric(f.desc, f.kind, f.value(stats))
	}
}
