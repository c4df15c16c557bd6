package templates

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/lifecycle/machine"
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

// tell tells what became of a request: about it, and about the VM whose
// annotation it is for. Messages have no values of VMs.
func (c *Controller) tell(request *sspv1alpha1.VirtualMachineTemplateRequest, condition *metav1.Condition) {
	kind := corev1.EventTypeWarning
	if condition.Status == metav1.ConditionTrue || condition.Reason == sspv1alpha1.ReasonReconciling {
		kind = corev1.EventTypeNormal
	}
	c.Events.Eventf(request, nil, kind, condition.Reason, actionGenerate, "%s", machine.Note(condition.Message))
	if owner := annotated(request); owner != nil && condition.Reason != sspv1alpha1.ReasonReconciling {
		c.Events.Eventf(owner, request, kind, condition.Reason, actionGenerate, "%s", machine.Note("request "+request.Name+": "+condition.Message))
	}
	c.Metrics.told(request, condition)
}

// annotated is the VM whose annotation a request is for; nil for none.
func annotated(request *sspv1alpha1.VirtualMachineTemplateRequest) runtime.Object {
	if request.Annotations[v1alpha1.AnnotationTrigger] == "" {
		return nil
	}
	for _, owner := range request.OwnerReferences {
		if owner.Kind == machines.Kind {
			vm := &machine.VirtualMachine{}
			vm.SetGroupVersionKind(machines)
			vm.Namespace, vm.Name, vm.UID = request.Namespace, owner.Name, owner.UID
			return vm
		}
	}
	return nil
}
