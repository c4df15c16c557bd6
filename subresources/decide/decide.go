// Package decide decides which patches a call of start, stop or restart makes, or why it is
// rejected. It is pure: its inputs are the options, the VM and the VMI of its name.
//
// Codes and messages are KubeVirt's, because clients print and compare them. On purpose, it differs
// as follows: a pending request is a conflict and not an internal error; a rejected call changes
// nothing; a stop replaces a pending start; a start ends a back-off; and a VMI of another owner is
// left alone.
package decide

import (
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// VMResource is the resource of a VM in errors, in the singular as in KubeVirt.
var VMResource = schema.GroupResource{Group: "kubevirt.io", Resource: "virtualmachine"}

// Changes are the patches of a call. Every patch tests that its object has not changed since it was
// read.
type Changes struct {
	VMI      []Operation // patches the VMI, before the others: its grace period, or the condition Paused
	UndoVMI  []Operation // undoes VMI if a later patch fails
	VM       []Operation // patches the VM
	VMStatus []Operation // patches the status of the VM
}

// An Operation is an operation of a JSON patch.
type Operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

const recovery = "VM recovery required: Volume migration failed, leaving some volumes pointing to non-consistent targets; " +
	"manual intervention is needed to reassign them to their original volumes."

type call struct {
	vm       *kubevirtv1.VirtualMachine
	vmi      *kubevirtv1.VirtualMachineInstance // the VM's VMI, or an orphan that the VM will adopt; nil if there is none
	taken    bool                               // the VMI of the VM's name belongs to another owner
	strategy kubevirtv1.VirtualMachineRunStrategy
}

// newCall returns the call for a VM and the VMI of its name, which may be nil.
func newCall(vm *kubevirtv1.VirtualMachine, vmi *kubevirtv1.VirtualMachineInstance) (*call, error) {
	c := &call{vm: vm, vmi: vmi}
	if vm.DeletionTimestamp != nil {
		return nil, c.conflict("VM is being deleted")
	}
	if vmi != nil && !belongs(vm, vmi) {
		c.vmi, c.taken = nil, true
	}
	var err error
	if c.strategy, err = vm.RunStrategy(); err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return c, nil
}

// belongs reports whether a VMI is the VM's, or will be: the controller adopts VMIs without a
// controller that a controller created for a VM of this name.
func belongs(vm *kubevirtv1.VirtualMachine, vmi *kubevirtv1.VirtualMachineInstance) bool {
	if owner := metav1.GetControllerOfNoCopy(vmi); owner != nil {
		return owner.UID == vm.UID
	}
	return v1alpha1.CreatedByController(vmi)
}

// conflict returns an error of code 409, with the prefix that clients expect.
func (c *call) conflict(format string, args ...any) error {
	return apierrors.NewConflict(VMResource, c.vm.Name, fmt.Errorf(format, args...))
}

func (c *call) ended() bool {
	return c.vmi != nil && (c.vmi.Status.Phase == kubevirtv1.Succeeded || c.vmi.Status.Phase == kubevirtv1.Failed)
}

func (c *call) runs() bool { return c.vmi != nil && !c.ended() }

func (c *call) has(condition kubevirtv1.VirtualMachineConditionType) bool {
	return slices.ContainsFunc(c.vm.Status.Conditions, func(is kubevirtv1.VirtualMachineCondition) bool {
		return is.Type == condition && is.Status == "True"
	})
}
