package presetcache

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
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
	// exceptions are those of the newest snapshot; the clock decides their state.
	exceptions atomic.Pointer[[]*presets.Exception]
}

// NewMetrics makes the metrics of presets and registers them.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{presets: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "virtwright_presets",
		Help: "Presets of every kind that this process knows, by state: ready (in use), invalid (not in use; its status says why) or off (its mode is Off).",
	}, []string{"state"})}
	registry.MustRegister(m.presets)
	for state, expired := range map[string]bool{"active": false, "expired": true} {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "virtwright_preset_exceptions", ConstLabels: prometheus.Labels{"state": state},
			Help: "Valid PresetExceptions by state: active, or expired (until is past).",
		}, func() float64 { return m.countExceptions(expired) }))
	}
	return m
}

func (m *Metrics) count(s set) {
	if m == nil {
		return
	}
	counts := map[string]int{stateReady: 0, stateInvalid: 0, stateOff: 0}
	var exceptions []*presets.Exception
	for key, v := range s {
		switch {
		case v.exception != nil:
			exceptions = append(exceptions, v.exception)
		case key.Kind != v1alpha1.KindPresetException:
			counts[v.state()]++
		}
	}
	for state, n := range counts {
		m.presets.WithLabelValues(state).Set(float64(n))
	}
	m.exceptions.Store(&exceptions)
}

func (m *Metrics) countExceptions(expired bool) float64 {
	n, now := 0, time.Now()
	if all := m.exceptions.Load(); all != nil {
		for _, e := range *all {
			if e.Expired(now) == expired {
				n++
			}
		}
	}
	return float64(n)
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
