package presetcache

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// States of presets, as they stand in metrics.
const (
	stateReady   = "ready"
	stateInvalid = "invalid"
	stateOff     = "off"
)

// Metrics of presets. A nil *Metrics measures nothing.
type Metrics struct {
	presets *prometheus.GaugeVec
}

// NewMetrics makes the metrics of presets and registers them.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{presets: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "virtwright_presets",
		Help: "Presets of every kind that this process knows, by state: ready (in use), invalid (not in use; its status says why) or off (its mode is Off).",
	}, []string{"state"})}
	registry.MustRegister(m.presets)
	return m
}

func (m *Metrics) count(s set) {
	if m == nil {
		return
	}
	counts := map[string]int{stateReady: 0, stateInvalid: 0, stateOff: 0}
	for key, v := range s {
		if key.Kind != v1alpha1.KindPresetException {
			counts[v.state()]++
		}
	}
	for state, n := range counts {
		m.presets.WithLabelValues(state).Set(float64(n))
	}
}

func (v Verdict) state() string {
	switch {
	case len(v.Problems) > 0:
		return stateInvalid
	case v.compiled.Mode == v1alpha1.ModeOff:
		return stateOff
	}
	return stateReady
}
