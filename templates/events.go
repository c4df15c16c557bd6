package templates

import (
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/lifecycle/partialobject"
)

// Actions of events.
const (
	actionGenerate = "GenerateTemplate"
	actionRequest  = "RequestTemplate"
)

// Reasons of events about VMs.
const (
	reasonRequested    = "TemplateRequested"
	reasonNotRequested = "TemplateNotRequested"
)

// report emits events about a new reason of Ready, for the request and for the VM with the
// annotation, and counts it. Messages have no values of VMs.
func (c *Controller) report(request *sspv1alpha1.VirtualMachineTemplateRequest, condition *metav1.Condition) {
	started := condition.Reason == sspv1alpha1.ReasonReconciling
	kind := corev1.EventTypeWarning
	if started || condition.Status == metav1.ConditionTrue {
		kind = corev1.EventTypeNormal
	}
	c.Events.Eventf(request, nil, kind, condition.Reason, actionGenerate, "%s", partialobject.EventNote(condition.Message))
	if started {
		return
	}
	if vm := annotatedVM(request); vm != nil {
		c.Events.Eventf(vm, request, kind, condition.Reason, actionGenerate, "%s", partialobject.EventNote("request "+request.Name+": "+condition.Message))
	}
	c.Metrics.count(request, condition.Reason)
}

func annotatedVM(request *sspv1alpha1.VirtualMachineTemplateRequest) runtime.Object {
	if request.Annotations[v1alpha1.AnnotationTriggerHash] == "" {
		return nil
	}
	for _, owner := range request.OwnerReferences {
		if owner.Kind == vmKind.Kind {
			vm := &partialobject.VirtualMachine{}
			vm.SetGroupVersionKind(vmKind)
			vm.Namespace, vm.Name, vm.UID = request.Namespace, owner.Name, owner.UID
			return vm
		}
	}
	return nil
}

// Metrics counts outcomes of requests. A nil *Metrics counts nothing.
type Metrics struct{ outcomes *prometheus.CounterVec }

// NewMetrics registers the metrics.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "virtwright_template_requests_total",
		Help: "Changes of the reason of Ready of requests for templates: Reconciled (the template exists), or why it does not exist (yet).",
	}, []string{"format", "reason"})}
	registry.MustRegister(m.outcomes)
	return m
}

func (m *Metrics) count(request *sspv1alpha1.VirtualMachineTemplateRequest, reason string) {
	if m != nil {
		format, _, _ := request.Spec.Target.Format()
		m.outcomes.WithLabelValues(format.Name, reason).Inc()
	}
}
