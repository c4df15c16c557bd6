package nameconflict

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
)

// Metrics counts VirtualMachines that collide with others. A nil *Metrics
// counts nothing.
type Metrics struct {
	leads func() bool

	mu  sync.Mutex
	now map[types.NamespacedName]bool
}

// NewMetrics registers the metrics. Who does not lead knows of no conflict: what
// it knew may be solved.
func NewMetrics(registry prometheus.Registerer, leads func() bool) *Metrics {
	m := &Metrics{now: map[types.NamespacedName]bool{}, leads: leads}
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "virtwright_name_conflicts",
		Help: "VirtualMachines whose name or disk another machine has too.",
	}, m.count))
	return m
}

func (m *Metrics) count() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.leads() {
		return 0
	}
	return float64(len(m.now))
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
}
