package templates

import (
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
)

// Metrics counts what becomes of requests. A nil *Metrics counts nothing.
type Metrics struct {
	outcomes *prometheus.CounterVec
}

// NewMetrics makes the metrics and registers them.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "virtwright_template_requests_total",
		Help: "Times that a request for a template came to a reason of its condition Ready: Reconciled (the template is there), or why not (yet).",
	}, []string{"format", "reason"})}
	registry.MustRegister(m.outcomes)
	return m
}

func (m *Metrics) told(request *sspv1alpha1.VirtualMachineTemplateRequest, condition *metav1.Condition) {
	if m == nil || condition.Reason == sspv1alpha1.ReasonReconciling {
		return
	}
	format, _, _ := request.Spec.Target.Format()
	m.outcomes.WithLabelValues(format.Name, condition.Reason).Inc()
}
