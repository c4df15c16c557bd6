package main

import (
	"cmp"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
)

// buildInfo returns the metric that says what this replica was built from, and its mode.
func buildInfo(mode string) prometheus.Collector {
	version := "(devel)"
	if built, ok := debug.ReadBuildInfo(); ok {
		version = cmp.Or(built.Main.Version, version)
	}
	from := kubevirtVersion() // with the commit and Go of this program
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "virtwright_build_info", Help: "1, with what the replica was built from, and its mode.",
		ConstLabels: prometheus.Labels{
			"version": version, "revision": from.GitCommit, "goversion": from.GoVersion, "mode": mode,
		},
	}, func() float64 { return 1 })
}
