package nameconflict

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
)

// Metrics counts VirtualMachines that collide with others. A nil *Metrics
// counts nothing.
type Metrics struct {
	conflicts prometheus.Gauge

	mu  sync.Mutex
	now map[types.NamespacedName]bool
}

// NewMetrics registers the metrics.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{now: map[types.NamespacedName]bool{}, conflicts: prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "virtwright_name_conflicts",
		Help: "VirtualMachines whose name or disk another machine has too.",
	})}
	registry.MustRegister(m.conflicts)
	return m
}

func (m *Metrics) set(vm types.NamespacedName, conflict bool) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if conflict {
		m.now[vm] = true
	} else {
		delete(m.now, vm)
	}
	m.conflicts.Set(float64(len(m.now)))
}
