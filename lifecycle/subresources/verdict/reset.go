package verdict

import (
	"encoding/json"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// InstanceResource is what errors call an instance, which KubeVirt does in the
// singular.
var InstanceResource = schema.GroupResource{Group: "kubevirt.io", Resource: "virtualmachineinstance"}

const (
	annotationsPath = "/metadata/annotations"
	// powerPath is annotationsPath and v1alpha1.AnnotationPowerRequest, escaped.
	powerPath = annotationsPath + "/virtwright.dev~1power-request"
)

// Reset decides about a reset of a running instance, under an ID of its own,
// asked for at a time.
// The error is an *apierrors.StatusError.
func Reset(vmi *kubevirtv1.VirtualMachineInstance, id string, at time.Time) (*Changes, error) {
	return ask(vmi, v1alpha1.PowerRequest{ID: id, Action: v1alpha1.PowerReset, At: &metav1.Time{Time: at}})
}

// SoftReboot decides about a reboot that the guest itself is asked for, as Reset
// does.
func SoftReboot(vmi *kubevirtv1.VirtualMachineInstance, id string, at time.Time) (*Changes, error) {
	changes, err := ask(vmi, v1alpha1.PowerRequest{ID: id, Action: v1alpha1.PowerSoftReboot, At: &metav1.Time{Time: at}})
	switch {
	case err != nil:
		return nil, err
	case holds(vmi, kubevirtv1.VirtualMachineInstancePaused):
		return nil, contrary(vmi, "VMI is paused")
	case !holds(vmi, kubevirtv1.VirtualMachineInstanceAgentConnected) && withoutACPI(vmi):
		return nil, contrary(vmi, "VMI neither have the agent connected nor the ACPI feature enabled")
	}
	return changes, nil
}

// ask has the agent of the instance's node do something with what runs: the
// patch fails once another instance, or anything of this one, is there instead.
func ask(vmi *kubevirtv1.VirtualMachineInstance, request v1alpha1.PowerRequest) (*Changes, error) {
	switch {
	case vmi.DeletionTimestamp != nil:
		return nil, contrary(vmi, "VMI is being deleted")
	case vmi.Status.Phase != kubevirtv1.Running:
		return nil, contrary(vmi, "VMI is not running")
	case vmi.Status.NodeName == "":
		return nil, contrary(vmi, "no node agent runs the VMI, which could do it: status.nodeName is empty")
	}
	text, err := json.Marshal(request)
	if err != nil { // unreachable: strings can be encoded
		return nil, apierrors.NewInternalError(err)
	}
	write := Operation{Op: "add", Path: powerPath, Value: string(text)}
	if vmi.Annotations == nil {
		write = Operation{Op: "add", Path: annotationsPath, Value: map[string]string{v1alpha1.AnnotationPowerRequest: string(text)}}
	}
	return &Changes{Instance: []Operation{
		test("/metadata/uid", vmi.UID), test("/metadata/resourceVersion", vmi.ResourceVersion), write,
	}}, nil
}

// contrary is an error of code 409, as KubeVirt has it.
func contrary(vmi *kubevirtv1.VirtualMachineInstance, why string) error {
	return apierrors.NewConflict(InstanceResource, vmi.Name, errors.New(why))
}

// holds reports whether a condition of the instance is true.
func holds(vmi *kubevirtv1.VirtualMachineInstance, condition kubevirtv1.VirtualMachineInstanceConditionType) bool {
	for _, is := range vmi.Status.Conditions {
		if is.Type == condition {
			return is.Status == "True"
		}
	}
	return false
}

// withoutACPI reports whether the guest has no button that could be pressed.
func withoutACPI(vmi *kubevirtv1.VirtualMachineInstance) bool {
	features := vmi.Spec.Domain.Features
	return features != nil && !ptr.Deref(features.ACPI.Enabled, true)
}
