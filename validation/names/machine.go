package names

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/validation/protection"
)

// A Machine is what tells a VirtualMachine, or an instance, from others.
type Machine struct {
	Kind            presets.Kind
	Namespace, Name string
	UID             types.UID
	Created         metav1.Time
	Deleting        bool
	// Controller is the controlling owner reference; nil for none.
	Controller *metav1.OwnerReference
	// Proven says that a lifecycle controller made the instance.
	Proven bool
	// DataVolumes are the names in dataVolumeTemplates.
	DataVolumes []string
	// Record is the provenance of a VirtualMachine, as it is stored.
	Record string
	// Identifiers should be of no other machine.
	Identifiers []Identifier
}

// An Identifier is something by which guests or networks tell machines apart.
type Identifier struct {
	What  What
	Value string
	// Field is where it stands, from the root of the object.
	Field string
}

// What an Identifier is.
type What string

// Identifiers that are looked at.
const (
	MAC            What = "MAC address"
	FirmwareUUID   What = "firmware UUID"
	FirmwareSerial What = "firmware serial"
)

// OfVirtualMachine is what tells a VirtualMachine from others.
func OfVirtualMachine(vm *kubevirtv1.VirtualMachine) Machine {
	m := of(presets.VirtualMachine, vm)
	for _, t := range vm.Spec.DataVolumeTemplates {
		m.DataVolumes = append(m.DataVolumes, t.Name) // "" keeps the positions; nothing else has that name
	}
	m.Record = vm.Annotations[v1alpha1.AnnotationProvenance]
	if vm.Spec.Template != nil {
		m.Identifiers = identifiers(&vm.Spec.Template.Spec, "spec.template.")
	}
	return m
}

// OfInstance is what tells an instance from others.
func OfInstance(vmi *kubevirtv1.VirtualMachineInstance) Machine {
	m := of(presets.VirtualMachineInstance, vmi)
	m.Identifiers = identifiers(&vmi.Spec, "")
	return m
}

func of(kind presets.Kind, object metav1.Object) Machine {
	return Machine{
		Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(),
		Created: object.GetCreationTimestamp(), Deleting: object.GetDeletionTimestamp() != nil,
		Controller: metav1.GetControllerOfNoCopy(object),
		Proven:     Proven(object),
	}
}

// Proven reports whether a lifecycle controller made an instance: ours and
// KubeVirt's leave annotations that nobody else may write.
func Proven(instance metav1.Object) bool {
	annotations := instance.GetAnnotations()
	return annotations[v1alpha1.AnnotationInstanceOf] != "" || annotations[protection.VMGeneration] != ""
}

func identifiers(spec *kubevirtv1.VirtualMachineInstanceSpec, prefix string) []Identifier {
	var out []Identifier
	if firmware := spec.Domain.Firmware; firmware != nil {
		if firmware.UUID != "" {
			out = append(out, Identifier{FirmwareUUID, strings.ToLower(string(firmware.UUID)), prefix + "spec.domain.firmware.uuid"})
		}
		if firmware.Serial != "" {
			out = append(out, Identifier{FirmwareSerial, firmware.Serial, prefix + "spec.domain.firmware.serial"})
		}
	}
	for _, nic := range spec.Domain.Devices.Interfaces {
		if nic.MacAddress != "" {
			mac := strings.ReplaceAll(strings.ToLower(nic.MacAddress), "-", ":")
			out = append(out, Identifier{MAC, mac, prefix + "spec.domain.devices.interfaces[" + nic.Name + "].macAddress"})
		}
	}
	return out
}

// owned reports whether a VirtualMachine controls the instance.
func (m *Machine) owned() bool {
	return m.Controller != nil && m.Controller.Kind == string(presets.VirtualMachine) &&
		strings.HasPrefix(m.Controller.APIVersion, "kubevirt.io/")
}

// BelongsTo reports whether an instance is a VirtualMachine's: controlled by
// it, or an orphan that a lifecycle controller made for a VM of this name.
func (m *Machine) BelongsTo(vm *Machine) bool {
	switch {
	case m.Name != vm.Name || m.Namespace != vm.Namespace:
		return false
	case m.Controller == nil:
		return m.Proven
	}
	return m.owned() && m.Controller.UID == vm.UID
}

// leaving reports whether an instance goes, or is about to: the VM of this name
// that controls it is another than the one there is now.
func (m *Machine) leaving() bool { return m.Deleting || m.owned() && m.Controller.Name == m.Name }
