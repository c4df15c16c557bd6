package names

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
)

// An Identity holds the names and identifiers of a VM or a VMI.
type Identity struct {
	Kind            presets.Kind
	Namespace, Name string
	UID             types.UID
	Created         metav1.Time
	Deleting        bool
	// Controller is the controlling owner reference; nil for none.
	Controller *metav1.OwnerReference
	// CreatedByController is true for a VMI that a lifecycle controller created.
	CreatedByController bool
	// DataVolumes are the names in dataVolumeTemplates.
	DataVolumes []string
	// Provenance is the stored provenance annotation of a VM.
	Provenance string
	// Identifiers should be unique.
	Identifiers []Identifier
}

// An Identifier identifies a guest, or its interface in a network.
type Identifier struct {
	Kind  IdentifierKind
	Value string
	// Field is its path in the object.
	Field string
}

// An IdentifierKind is the kind of an [Identifier].
type IdentifierKind string

const (
	kindMAC            IdentifierKind = "MAC address"
	kindFirmwareUUID   IdentifierKind = "firmware UUID"
	kindFirmwareSerial IdentifierKind = "firmware serial"
)

// OfVirtualMachine returns the identity of a VM.
func OfVirtualMachine(vm *kubevirtv1.VirtualMachine) Identity {
	m := of(presets.VirtualMachine, vm)
	for _, t := range vm.Spec.DataVolumeTemplates {
		m.DataVolumes = append(m.DataVolumes, t.Name) // "" keeps the positions
	}
	m.Provenance = vm.Annotations[v1alpha1.AnnotationProvenance]
	if vm.Spec.Template != nil {
		m.Identifiers = identifiers(&vm.Spec.Template.Spec, "spec.template.")
	}
	return m
}

// OfVirtualMachineInstance returns the identity of a VMI.
func OfVirtualMachineInstance(vmi *kubevirtv1.VirtualMachineInstance) Identity {
	m := of(presets.VirtualMachineInstance, vmi)
	m.Identifiers = identifiers(&vmi.Spec, "")
	return m
}

func of(kind presets.Kind, object metav1.Object) Identity {
	return Identity{
		Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(),
		Created: object.GetCreationTimestamp(), Deleting: object.GetDeletionTimestamp() != nil,
		Controller:          metav1.GetControllerOfNoCopy(object),
		CreatedByController: v1alpha1.CreatedByController(object),
	}
}

func identifiers(spec *kubevirtv1.VirtualMachineInstanceSpec, prefix string) []Identifier {
	var out []Identifier
	if firmware := spec.Domain.Firmware; firmware != nil {
		if firmware.UUID != "" {
			out = append(out, Identifier{kindFirmwareUUID, strings.ToLower(string(firmware.UUID)), prefix + "spec.domain.firmware.uuid"})
		}
		if firmware.Serial != "" {
			out = append(out, Identifier{kindFirmwareSerial, firmware.Serial, prefix + "spec.domain.firmware.serial"})
		}
	}
	for _, nic := range spec.Domain.Devices.Interfaces {
		if nic.MacAddress != "" {
			mac := strings.ReplaceAll(strings.ToLower(nic.MacAddress), "-", ":")
			out = append(out, Identifier{kindMAC, mac, prefix + "spec.domain.devices.interfaces[" + nic.Name + "].macAddress"})
		}
	}
	return out
}

// hasVMController reports whether a VM controls the VMI.
func (m *Identity) hasVMController() bool {
	return m.Controller != nil && m.Controller.Kind == string(presets.VirtualMachine) &&
		strings.HasPrefix(m.Controller.APIVersion, "kubevirt.io/")
}

// BelongsTo reports whether a VMI belongs to a VM: the VM controls it, or it is an orphan that a
// lifecycle controller created for a VM of this name.
func (m *Identity) BelongsTo(vm *Identity) bool {
	switch {
	case m.Name != vm.Name || m.Namespace != vm.Namespace:
		return false
	case m.Controller == nil:
		return m.CreatedByController
	}
	return m.hasVMController() && m.Controller.UID == vm.UID
}

// isLeaving reports whether a VMI is being deleted, or will be, because an earlier VM of this name
// controls it.
func (m *Identity) isLeaving() bool {
	return m.Deleting || m.hasVMController() && m.Controller.Name == m.Name
}
