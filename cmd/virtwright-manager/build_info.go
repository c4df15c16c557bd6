package main

import (
	"cmp"
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
)

// buildInfo returns the metric that says what this replica was built from, and its mode.
func buildInfo(mode string) prometheus.Collector {
	built, _ := debug.ReadBuildInfo()
	var version, revision string
	if built != nil {
		version = built.Main.Version
		for _, setting := range built.Settings {
			if setting.Key == "vcs.revision" {
				revision = setting.Value
			}
		}
	}
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "virtwright_build_info", Help: "1, with what the replica was built from, and its mode.",
		ConstLabels: prometheus.Labels{
			"version": cmp.Or(version, "(devel)"), "revision": revision, "goversion": runtime.Version(), "mode": mode,
		},
	}, func() float64 { return 1 })
}
