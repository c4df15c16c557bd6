// Package machine has of VirtualMachines and instances what controllers read,
// for caches: what is not here is not even decoded. Caches stay small, and no
// field that somebody wrote can make reading slow.
package machine

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/validation/names"
	"github.com/virtwright/virtwright/validation/protection"
)

// groupVersion is that in which machines are read.
var groupVersion = schema.GroupVersion{Group: "kubevirt.io", Version: "v1"}

// A VirtualMachine has of one what names and its running state take.
type VirtualMachine struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec struct {
		Running             *bool                                 `json:"running,omitempty"`
		RunStrategy         *kubevirtv1.VirtualMachineRunStrategy `json:"runStrategy,omitempty"`
		DataVolumeTemplates []template                            `json:"dataVolumeTemplates,omitempty"`
		Template            *Template                             `json:"template,omitempty"`
	} `json:"spec"`
	Status Status `json:"status,omitzero"`

	// Presets are those that its record names; [Trim] reads them.
	Presets []PresetUse `json:"-"`
	// Exceptions are the names of the exceptions that its record names.
	Exceptions []string `json:"-"`
}

// Status is that of a VirtualMachine, as far as virtwright writes it.
type Status struct {
	Created             bool                                          `json:"created,omitempty"`
	Ready               bool                                          `json:"ready,omitempty"`
	PrintableStatus     kubevirtv1.VirtualMachinePrintableStatus      `json:"printableStatus,omitempty"`
	Conditions          []kubevirtv1.VirtualMachineCondition          `json:"conditions,omitempty"`
	StateChangeRequests []kubevirtv1.VirtualMachineStateChangeRequest `json:"stateChangeRequests,omitempty"`
	StartFailure        *kubevirtv1.VirtualMachineStartFailure        `json:"startFailure,omitempty"`
	RunStrategy         kubevirtv1.VirtualMachineRunStrategy          `json:"runStrategy,omitempty"`
	ObservedGeneration  int64                                         `json:"observedGeneration,omitempty"`
	DesiredGeneration   int64                                         `json:"desiredGeneration,omitempty"`
}

// An Instance has of a VirtualMachineInstance what names and running state take.
type Instance struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   spec           `json:"spec"`
	Status InstanceStatus `json:"status,omitzero"`

	// Presets are those that its record names; [Trim] reads them.
	Presets []PresetUse `json:"-"`
	// Exceptions are the names of the exceptions that its record names.
	Exceptions []string `json:"-"`
}

// InstanceStatus is how an instance is.
type InstanceStatus struct {
	Phase                     kubevirtv1.VirtualMachineInstancePhase                      `json:"phase,omitempty"`
	Reason                    string                                                      `json:"reason,omitempty"`
	Conditions                []kubevirtv1.VirtualMachineInstanceCondition                `json:"conditions,omitempty"`
	PhaseTransitionTimestamps []kubevirtv1.VirtualMachineInstancePhaseTransitionTimestamp `json:"phaseTransitionTimestamps,omitempty"`
}

// A Template is that of a VirtualMachine.
type Template struct {
	Spec spec `json:"spec"`
	// Hash stands for the whole template: two that differ have different ones.
	Hash string `json:"-"`
}

// UnmarshalJSON reads what is here, and all of it for its hash.
func (t *Template) UnmarshalJSON(raw []byte) error {
	type plain Template
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, (*plain)(t)); err != nil {
		return err
	}
	var all any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &all); err != nil {
		return err
	}
	t.Hash = Hash(all)
	return nil
}

// Hash is the hash of a template, given as decoded JSON.
func Hash(template any) string {
	text, err := json.Marshal(template)
	if err != nil { // unreachable: it was JSON before
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:12])
}

// template has metadata that no schema types: anything may be in it.
type template struct {
	Metadata json.RawMessage `json:"metadata,omitempty"`
}

// name is empty where there is none that can be read.
func (t *template) name() string {
	var metadata struct {
		Name any `json:"name"`
	}
	_ = json.Unmarshal(t.Metadata, &metadata) // what cannot be read has no name
	name, _ := metadata.Name.(string)
	return name
}

type spec struct {
	Domain struct {
		Firmware *struct {
			UUID   types.UID `json:"uuid,omitempty"`
			Serial string    `json:"serial,omitempty"`
		} `json:"firmware,omitempty"`
		Devices struct {
			Interfaces []nic `json:"interfaces,omitempty"`
		} `json:"devices"`
	} `json:"domain"`
}

type nic struct {
	Name       string `json:"name"`
	MacAddress string `json:"macAddress,omitempty"`
}

// A VirtualMachineList is a list of VirtualMachine.
type VirtualMachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []VirtualMachine `json:"items"`
}

// An InstanceList is a list of Instance.
type InstanceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []Instance `json:"items"`
}

// AddToScheme lets clients read machines as these types.
func AddToScheme(s *runtime.Scheme) error {
	kinds := map[string]runtime.Object{
		"VirtualMachine": &VirtualMachine{}, "VirtualMachineList": &VirtualMachineList{},
		"VirtualMachineInstance": &Instance{}, "VirtualMachineInstanceList": &InstanceList{},
	}
	s.AddKnownTypeWithName(volumeVersion.WithKind("DataVolume"), &DataVolume{})
	s.AddKnownTypeWithName(volumeVersion.WithKind("DataVolumeList"), &DataVolumeList{})
	metav1.AddToGroupVersion(s, volumeVersion)
	for kind, object := range kinds {
		s.AddKnownTypeWithName(groupVersion.WithKind(kind), object)
	}
	metav1.AddToGroupVersion(s, groupVersion)
	return nil
}

// Machine is what tells the VM from others.
func (vm *VirtualMachine) Machine() names.Machine {
	full := &kubevirtv1.VirtualMachine{ObjectMeta: vm.ObjectMeta}
	for i := range vm.Spec.DataVolumeTemplates {
		full.Spec.DataVolumeTemplates = append(full.Spec.DataVolumeTemplates,
			kubevirtv1.DataVolumeTemplateSpec{ObjectMeta: metav1.ObjectMeta{Name: vm.Spec.DataVolumeTemplates[i].name()}})
	}
	if vm.Spec.Template != nil {
		full.Spec.Template = &kubevirtv1.VirtualMachineInstanceTemplateSpec{Spec: vm.Spec.Template.Spec.full()}
	}
	return names.OfVirtualMachine(full)
}

// Machine is what tells the instance from others.
func (i *Instance) Machine() names.Machine {
	return names.OfInstance(&kubevirtv1.VirtualMachineInstance{ObjectMeta: i.ObjectMeta, Spec: i.Spec.full()})
}

func (s *spec) full() kubevirtv1.VirtualMachineInstanceSpec {
	var out kubevirtv1.VirtualMachineInstanceSpec
	if f := s.Domain.Firmware; f != nil {
		out.Domain.Firmware = &kubevirtv1.Firmware{UUID: f.UUID, Serial: f.Serial}
	}
	for _, n := range s.Domain.Devices.Interfaces {
		out.Domain.Devices.Interfaces = append(out.Domain.Devices.Interfaces, kubevirtv1.Interface{Name: n.Name, MacAddress: n.MacAddress})
	}
	return out
}

// VolumesOnStart is the annotation of KubeVirt's that, if "false", lets volumes
// be made for a start only.
const VolumesOnStart = kubevirtv1.ImmediateDataVolumeCreation

var readAnnotations = []string{
	protection.VMGeneration, v1alpha1.AnnotationInstanceOf, v1alpha1.AnnotationTemplate, VolumesOnStart,
	v1alpha1.AnnotationGenerateTemplate, v1alpha1.AnnotationTemplateRequester,
}

// Trim takes from a machine that is to be cached the labels and annotations that are not
// read, and keeps the presets of its record.
func Trim(object any) (any, error) {
	switch m := object.(type) {
	case *VirtualMachine:
		m.Presets, m.Exceptions = recorded(m.Annotations, m.Presets, m.Exceptions)
		trim(&m.ObjectMeta)
	case *Instance:
		m.Presets, m.Exceptions = recorded(m.Annotations, m.Presets, m.Exceptions)
		trim(&m.ObjectMeta)
	}
	return object, nil
}

func trim(meta *metav1.ObjectMeta) {
	meta.ManagedFields, meta.Labels = nil, nil
	kept := map[string]string{}
	for key, value := range meta.Annotations {
		if slices.Contains(readAnnotations, key) {
			kept[key] = value
		}
	}
	meta.Annotations = kept
}

// DeepCopyObject copies the VM; what its spec holds never changes once read.
func (vm *VirtualMachine) DeepCopyObject() runtime.Object {
	out := *vm
	vm.DeepCopyInto(&out.ObjectMeta)
	out.Status.Conditions = slices.Clone(vm.Status.Conditions)
	out.Status.StateChangeRequests = slices.Clone(vm.Status.StateChangeRequests)
	if f := vm.Status.StartFailure; f != nil {
		out.Status.StartFailure = f.DeepCopy()
	}
	return &out
}

// DeepCopyObject copies the instance; what its spec holds never changes once read.
func (i *Instance) DeepCopyObject() runtime.Object {
	out := *i
	i.DeepCopyInto(&out.ObjectMeta)
	out.Status.Conditions = slices.Clone(i.Status.Conditions)
	return &out
}

// DeepCopyObject copies the list.
func (l *VirtualMachineList) DeepCopyObject() runtime.Object {
	out := *l
	l.DeepCopyInto(&out.ListMeta)
	out.Items = make([]VirtualMachine, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*VirtualMachine)
	}
	return &out
}

// DeepCopyObject copies the list.
func (l *InstanceList) DeepCopyObject() runtime.Object {
	out := *l
	l.DeepCopyInto(&out.ListMeta)
	out.Items = make([]Instance, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*Instance)
	}
	return &out
}
