package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"edgepod/server/oci"
)

// imageFigures are the image registry's.
var imageFigures = []figure[oci.Stats]{
	newFigure("edgepod_registry_repositories", "Repositories of images.", prometheus.GaugeValue, func(s oci.Stats) float64 { return float64(s.Repositories) }),
	newFigure("edgepod_registry_manifests", "Manifests in all repositories.", prometheus.GaugeValue, func(s oci.Stats) float64 { return float64(s.Manifests) }),
	newFigure("edgepod_registry_tags", "Tags in all repositories.", prometheus.GaugeValue, func(s oci.Stats) float64 { return float64(s.Tags) }),
	newFigure("edgepod_registry_contents", "Contents on disk, each once.", prometheus.GaugeValue, func(s oci.Stats) float64 { return float64(s.Contents) }),
	newFigure("edgepod_registry_bytes", "Size of the contents on disk.", prometheus.GaugeValue, func(s oci.Stats) float64 { return float64(s.Bytes) }),
	newFigure("edgepod_registry_uploads", "Uploads that are not finished.", prometheus.GaugeValue, func(s oci.Stats) float64 { return float64(s.Uploads) }),
	newFigure("edgepod_registry_pulls_total", "Manifests handed out.", prometheus.CounterValue, func(s oci.Stats) float64 { return float64(s.Pulls) }),
	newFigure("edgepod_registry_pushes_total", "Manifests taken in.", prometheus.CounterValue, func(s oci.Stats) float64 { return float64(s.Pushes) }),
	newFigure("edgepod_registry_sent_bytes_total", "Bytes of blobs sent.", prometheus.CounterValue, func(s oci.Stats) float64 { return float64(s.BytesOut) }),
	newFigure("edgepod_registry_received_bytes_total", "Bytes of blobs received.", prometheus.CounterValue, func(s oci.Stats) float64 { return float64(s.BytesIn) }),
	newFigure("edgepod_registry_collected_total", "Contents removed because nothing named them any more.", prometheus.CounterValue, func(s oci.Stats) float64 { return float64(s.Collected) }),
	newFigure("edgepod_registry_collected_bytes_total", "Size of the contents removed.", prometheus.CounterValue, func(s oci.Stats) float64 { return float64(s.CollectedBytes) }),
	newFigure("edgepod_registry_abandoned_uploads_total", "Uploads given up because nothing came any more.", prometheus.CounterValue, func(s oci.Stats) float64 { return float64(s.Abandoned) }),
	newFigure("edgepod_registry_damaged_total", "Contents that were found damaged.", prometheus.CounterValue, func(s oci.Stats) float64 { return float64(s.Damaged) }),
}
