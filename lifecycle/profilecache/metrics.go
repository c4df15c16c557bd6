package profilecache

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/domain"
)

// States of profiles, as they stand in metrics.
const (
	stateReady   = "ready"
	stateInvalid = "invalid"
)

// Metrics of profiles. A nil *Metrics measures nothing.
type Metrics struct {
	profiles *prometheus.GaugeVec
}

// NewMetrics makes the metrics of profiles and registers them.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{profiles: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "virtwright_profiles",
		Help: "Profiles of both kinds that this process knows, by kind and state: ready (in use) or invalid (not in use; the log says why).",
	}, []string{"kind", "state"})}
	registry.MustRegister(m.profiles)
	return m
}

func (m *Metrics) count(frontend []v1alpha1.FrontendProfile, backend []v1alpha1.BackendProfile) {
	if m == nil {
		return
	}
	set := func(kind string, all, invalid int) {
		m.profiles.WithLabelValues(kind, stateReady).Set(float64(all - invalid))
		m.profiles.WithLabelValues(kind, stateInvalid).Set(float64(invalid))
	}
	invalid := 0
	for i := range frontend {
		if len(domain.CheckFrontendProfile(&frontend[i])) > 0 {
			invalid++
		}
	}
	set(v1alpha1.KindFrontendProfile, len(frontend), invalid)
	invalid = 0
	for i := range backend {
		if len(domain.CheckBackendProfile(&backend[i])) > 0 {
			invalid++
		}
	}
	set(v1alpha1.KindBackendProfile, len(backend), invalid)
}
