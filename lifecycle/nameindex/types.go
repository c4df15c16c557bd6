package nameindex

import (
	"encoding/json"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/validation/names"
)

// groupVersion is that in which machines are read.
var groupVersion = schema.GroupVersion{Group: "kubevirt.io", Version: "v1"}

// A VirtualMachine has of one only what names and conditions take. What is not
// here is not even decoded: caches stay small, and no field that somebody wrote
// can make reading slow.
type VirtualMachine struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec struct {
		DataVolumeTemplates []template `json:"dataVolumeTemplates,omitempty"`
		Template            *struct {
			Spec spec `json:"spec"`
		} `json:"template,omitempty"`
	} `json:"spec"`
	Status struct {
		Conditions []kubevirtv1.VirtualMachineCondition `json:"conditions,omitempty"`
	} `json:"status,omitzero"`
}

// An Instance has of a VirtualMachineInstance what names take.
type Instance struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec spec `json:"spec"`
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

// Trim takes from a machine that is to be cached the labels and annotations
// that nobody reads.
func Trim(object any) (any, error) {
	switch m := object.(type) {
	case *VirtualMachine:
		trim(&m.ObjectMeta)
	case *Instance:
		trim(&m.ObjectMeta)
	}
	return object, nil
}

func trim(meta *metav1.ObjectMeta) {
	meta.ManagedFields, meta.Labels = nil, nil
	kept := map[string]string{}
	for key, value := range meta.Annotations {
		if strings.HasPrefix(key, "kubevirt.io/vm-generation") || key == v1alpha1.AnnotationInstanceOf {
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
	return &out
}

// DeepCopyObject copies the instance; what its spec holds never changes once read.
func (i *Instance) DeepCopyObject() runtime.Object {
	out := *i
	i.DeepCopyInto(&out.ObjectMeta)
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
