// Package verdict decides what a call of start, stop or restart changes, or why
// it is refused. It is pure: what is asked, the VirtualMachine and the instance
// of its name come in as values, and patches go out.
//
// Codes and messages are those of KubeVirt's API, which clients print and some
// compare. It differs where KubeVirt's answer was an accident: a request that is
// still pending is a conflict and not an internal error, a call that is refused
// has changed nothing, a stop comes instead of a start that is still waiting, a
// start does not wait for the end of a back-off, and an instance that belongs to
// somebody else is left alone.
package verdict

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// Resource is what errors call a VirtualMachine, which KubeVirt does in the singular.
var Resource = schema.GroupResource{Group: "kubevirt.io", Resource: "virtualmachine"}

// Changes are what a call does, one JSON patch for each object. Every patch
// tests what the verdict was about: it fails when that has changed meanwhile.
type Changes struct {
	// Instance is for the VirtualMachineInstance, and comes first: the time that
	// its guest has to end.
	Instance []Operation
	// Undo takes Instance back, when what comes next cannot be done.
	Undo []Operation
	// Machine is for the VirtualMachine.
	Machine []Operation
	// Status is for the VirtualMachine's subresource status.
	Status []Operation
}

// An Operation is one of a JSON patch.
type Operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

const recovery = "VM recovery required: Volume migration failed, leaving some volumes pointing to non-consistent targets; " +
	"manual intervention is needed to reassign them to their original volumes."

// A call is what a verdict is about.
type call struct {
	vm *kubevirtv1.VirtualMachine
	// vmi is the instance of the VM's name that is the VM's, or an orphan that it
	// will adopt; nil for none.
	vmi *kubevirtv1.VirtualMachineInstance
	// taken says that something else has the name.
	taken    bool
	strategy kubevirtv1.VirtualMachineRunStrategy
}

// about is a call for a VM and the instance of its name, which may be nil.
func about(vm *kubevirtv1.VirtualMachine, vmi *kubevirtv1.VirtualMachineInstance) (*call, error) {
	c := &call{vm: vm, vmi: vmi}
	if vm.DeletionTimestamp != nil {
		return nil, c.conflict("VM is being deleted")
	}
	if vmi != nil && !belongs(vm, vmi) {
		c.vmi, c.taken = nil, true
	}
	running, strategy := vm.Spec.Running, vm.Spec.RunStrategy
	switch {
	case running != nil && strategy != nil:
		return nil, apierrors.NewInternalError(errors.New("running and runstrategy are mutually exclusive"))
	case strategy != nil:
		c.strategy = *strategy
	case running != nil && *running:
		c.strategy = kubevirtv1.RunStrategyAlways
	default:
		c.strategy = kubevirtv1.RunStrategyHalted
	}
	return c, nil
}

// belongs reports whether an instance is a VM's, or will be: the controller
// adopts what a controller made for a VM of this name and nobody controls. Tests
// hold this against validation/names.
func belongs(vm *kubevirtv1.VirtualMachine, vmi *kubevirtv1.VirtualMachineInstance) bool {
	if owner := metav1.GetControllerOfNoCopy(vmi); owner != nil {
		return owner.UID == vm.UID
	}
	return vmi.Annotations[v1alpha1.AnnotationInstanceOf] != "" || vmi.Annotations[kubevirtv1.VirtualMachineGenerationAnnotation] != ""
}

// conflict is an error of code 409, with the message's beginning that clients know.
func (c *call) conflict(format string, args ...any) error {
	return apierrors.NewConflict(Resource, c.vm.Name, fmt.Errorf(format, args...))
}

// ended reports whether there is an instance that does not run any more.
func (c *call) ended() bool {
	return c.vmi != nil && (c.vmi.Status.Phase == kubevirtv1.Succeeded || c.vmi.Status.Phase == kubevirtv1.Failed)
}

// lives reports whether there is an instance that has not ended.
func (c *call) lives() bool { return c.vmi != nil && !c.ended() }

// has reports whether a condition of the VM is true.
func (c *call) has(condition kubevirtv1.VirtualMachineConditionType) bool {
	for _, is := range c.vm.Status.Conditions {
		if is.Type == condition {
			return is.Status == "True"
		}
	}
	return false
}
