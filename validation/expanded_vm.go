package validation

import (
	"bytes"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/presets"
)

// An ExpandedVM is a VM or a VMI after presets have expanded it, as rules see it.
type ExpandedVM struct {
	// VM is nil for a VMI.
	VM *kubevirtv1.VirtualMachine
	// VMI is nil for a VM.
	VMI *kubevirtv1.VirtualMachineInstance
	// Meta is the metadata of the VMI, or of the VM's template.
	Meta *metav1.ObjectMeta
	// Spec is the spec of the VMI, or of the VM's template; nil for a VM without a template.
	Spec *kubevirtv1.VirtualMachineInstanceSpec
	// Old is the stored object on an update; nil on a create.
	Old *ExpandedVM
	// InstancetypeExists is true if the VM's instancetype is known to exist.
	InstancetypeExists bool
	// Config is the configuration of the cluster.
	Config *Config

	raw []byte
	// root is raw as decoded JSON, once sends has needed it.
	root         any
	templatePath *field.Path
	byName       indexes
}

// indexes find elements of the VMI's lists by their names, once they were needed.
type indexes struct {
	volumes     map[string]*kubevirtv1.Volume
	networks    map[string]*kubevirtv1.Network
	disks       map[string]*kubevirtv1.Disk
	filesystems map[string]*kubevirtv1.Filesystem
	claims      map[string]*kubevirtv1.VirtualMachineInstanceResourceClaim
}

// find returns the element with a name, or nil. Of several it is the last one.
func find[T any](index *map[string]*T, list []T, nameOf func(*T) string, name string) *T {
	if *index == nil {
		*index = make(map[string]*T, len(list))
		for i := range list {
			(*index)[nameOf(&list[i])] = &list[i]
		}
	}
	return (*index)[name]
}

// NewVirtualMachine decodes the JSON of a VM.
func NewVirtualMachine(raw []byte) (*ExpandedVM, error) {
	vm := &ExpandedVM{VM: &kubevirtv1.VirtualMachine{}, raw: raw, templatePath: field.NewPath("spec", "template")}
	if err := decode(presets.VirtualMachine, raw, vm.VM); err != nil {
		return nil, err
	}
	if template := vm.VM.Spec.Template; template != nil {
		vm.Meta, vm.Spec = &template.ObjectMeta, &template.Spec
	}
	return vm, nil
}

// NewVirtualMachineInstance decodes the JSON of a VMI.
func NewVirtualMachineInstance(raw []byte) (*ExpandedVM, error) {
	vm := &ExpandedVM{VMI: &kubevirtv1.VirtualMachineInstance{}, raw: raw}
	if err := decode(presets.VirtualMachineInstance, raw, vm.VMI); err != nil {
		return nil, err
	}
	vm.Meta, vm.Spec = &vm.VMI.ObjectMeta, &vm.VMI.Spec
	return vm, nil
}

// ReplaceTemplate replaces the VM's template with a VMI, in JSON, that presets expanded at launch.
func (vm *ExpandedVM) ReplaceTemplate(raw []byte) error {
	vmi, err := NewVirtualMachineInstance(raw)
	if err != nil {
		return err
	}
	vm.Meta, vm.Spec = vmi.Meta, vmi.Spec
	vm.byName = indexes{}
	return nil
}

// decode decodes an object. The error is a *presets.Rejection if parsing a quantity would take too
// long.
func decode(kind presets.Kind, raw []byte, into any) error {
	if bytes.Count(raw, []byte("{")) > presets.MaxValues || bytes.Count(raw, []byte(",")) > presets.MaxValues {
		return fmt.Errorf("cannot read the %s: it has more than %d parts", kind, presets.MaxValues)
	}
	safe, err := presets.SafeQuantities(kind, raw)
	if err != nil {
		return err
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(safe, into); err != nil {
		return fmt.Errorf("cannot read the %s: %w", kind, err)
	}
	return nil
}

// Path returns the path of a field of Meta or Spec, as in Path("spec", "domain", "cpu").
func (vm *ExpandedVM) Path(first string, more ...string) *field.Path {
	if vm.templatePath == nil {
		return field.NewPath(first, more...)
	}
	return vm.templatePath.Child(first, more...)
}

// PrefixPaths changes paths that begin at the root of the VMI to paths in the validated object.
func (vm *ExpandedVM) PrefixPaths(problems field.ErrorList) field.ErrorList {
	if vm.templatePath == nil {
		return problems
	}
	for _, p := range problems {
		p.Field = vm.templatePath.String() + "." + p.Field
	}
	return problems
}

// Domain returns the path of a field of spec.domain.
func (vm *ExpandedVM) Domain(more ...string) *field.Path {
	return vm.Path("spec", append([]string{"domain"}, more...)...)
}

// Device returns the path of a field of spec.domain.devices.
func (vm *ExpandedVM) Device(more ...string) *field.Path {
	return vm.Path("spec", append([]string{"domain", "devices"}, more...)...)
}

// Architecture returns the architecture in the spec, or else the default of the cluster.
func (vm *ExpandedVM) Architecture() string {
	switch {
	case vm.Spec != nil && vm.Spec.Architecture != "":
		return vm.Spec.Architecture
	case vm.Config != nil && vm.Config.Architecture != "":
		return vm.Config.Architecture
	}
	return "amd64"
}

// hasInstancetype reports whether an instancetype sets CPU and memory, which rules cannot see.
func (vm *ExpandedVM) hasInstancetype() bool { return vm.VM != nil && vm.VM.Spec.Instancetype != nil }

// hasPreference reports whether a preference sets fields that are unset here.
func (vm *ExpandedVM) hasPreference() bool { return vm.VM != nil && vm.VM.Spec.Preference != nil }

// lacksDefaults reports whether KubeVirt sets unset fields later: alongside KubeVirt, a VM is
// stored without defaults.
func (vm *ExpandedVM) lacksDefaults() bool {
	return vm.VM != nil && vm.Config != nil && vm.Config.Addon
}

func volumeName(v *kubevirtv1.Volume) string { return v.Name }

func networkName(n *kubevirtv1.Network) string { return n.Name }

// Volume returns the volume with a name, or nil.
func (vm *ExpandedVM) Volume(name string) *kubevirtv1.Volume {
	return find(&vm.byName.volumes, vm.Spec.Volumes, volumeName, name)
}

// Network returns the network with a name, or nil.
func (vm *ExpandedVM) Network(name string) *kubevirtv1.Network {
	return find(&vm.byName.networks, vm.Spec.Networks, networkName, name)
}

func (vm *ExpandedVM) hasDisk(name string) bool {
	return find(&vm.byName.disks, disksOf(vm), func(d *kubevirtv1.Disk) string { return d.Name }, name) != nil
}

func (vm *ExpandedVM) hasFilesystem(name string) bool {
	return find(&vm.byName.filesystems, vm.Spec.Domain.Devices.Filesystems, func(f *kubevirtv1.Filesystem) string { return f.Name }, name) != nil
}
