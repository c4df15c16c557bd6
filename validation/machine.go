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

// A Machine is what rules look at: a VirtualMachine or an instance, expanded.
type Machine struct {
	// VM is nil for an instance.
	VM *kubevirtv1.VirtualMachine
	// VMI is nil for a VirtualMachine.
	VMI *kubevirtv1.VirtualMachineInstance
	// Meta is the metadata of the instance: the template's, or its own.
	Meta *metav1.ObjectMeta
	// Spec is what runs; nil for a VirtualMachine without a template.
	Spec *kubevirtv1.VirtualMachineInstanceSpec
	// Old is what is stored, on an update; nil on a create.
	Old *Machine
	// Config is how the cluster is set up.
	Config *Config

	raw     []byte
	at      *field.Path
	volumes map[string]*kubevirtv1.Volume
	sources map[string]*kubevirtv1.Network
	shares  map[string]bool
}

// NewVirtualMachine reads the JSON of a VirtualMachine.
func NewVirtualMachine(raw []byte) (*Machine, error) {
	m := &Machine{VM: &kubevirtv1.VirtualMachine{}, raw: raw, at: field.NewPath("spec", "template")}
	if err := decode(presets.VirtualMachine, raw, m.VM); err != nil {
		return nil, err
	}
	if template := m.VM.Spec.Template; template != nil {
		m.Meta, m.Spec = &template.ObjectMeta, &template.Spec
	}
	return m, nil
}

// NewInstance reads the JSON of a VirtualMachineInstance.
func NewInstance(raw []byte) (*Machine, error) {
	m := &Machine{VMI: &kubevirtv1.VirtualMachineInstance{}, raw: raw}
	if err := decode(presets.VirtualMachineInstance, raw, m.VMI); err != nil {
		return nil, err
	}
	m.Meta, m.Spec = &m.VMI.ObjectMeta, &m.VMI.Spec
	return m, nil
}

// Launched makes rules look at an instance that presets have completed at
// launch, in the place of the template of the VirtualMachine m.
func (m *Machine) Launched(raw []byte) error {
	instance, err := NewInstance(raw)
	if err != nil {
		return err
	}
	m.Meta, m.Spec = instance.Meta, instance.Spec
	m.volumes, m.sources, m.shares = nil, nil, nil
	return nil
}

// decode reads an object. The error is a *presets.Refusal where quantities
// cannot be read in reasonable time.
func decode(kind presets.Kind, raw []byte, into any) error {
	if bytes.Count(raw, []byte("{")) > presets.MaxParts || bytes.Count(raw, []byte(",")) > presets.MaxParts {
		return fmt.Errorf("cannot read the %s: it has more than %d parts", kind, presets.MaxParts)
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

// Path is where the metadata or spec of the instance lies that fields name, as in
// Path("spec", "domain", "cpu").
func (m *Machine) Path(first string, more ...string) *field.Path {
	if m.at == nil {
		return field.NewPath(first, more...)
	}
	return m.at.Child(first, more...)
}

// Placed gives problems of the instance, with paths from its root, the paths
// that they have in the machine.
func (m *Machine) Placed(problems field.ErrorList) field.ErrorList {
	if m.at == nil {
		return problems
	}
	for _, p := range problems {
		p.Field = m.at.String() + "." + p.Field
	}
	return problems
}

// Domain is the path of something beneath spec.domain.
func (m *Machine) Domain(more ...string) *field.Path {
	return m.Path("spec", append([]string{"domain"}, more...)...)
}

// Device is the path of something beneath spec.domain.devices.
func (m *Machine) Device(more ...string) *field.Path {
	return m.Path("spec", append([]string{"domain", "devices"}, more...)...)
}

// Architecture is the machine's, or the cluster's default.
func (m *Machine) Architecture() string {
	switch {
	case m.Spec != nil && m.Spec.Architecture != "":
		return m.Spec.Architecture
	case m.Config != nil && m.Config.Architecture != "":
		return m.Config.Architecture
	}
	return "amd64"
}

// SizedElsewhere reports whether an instancetype gives CPU and memory, which
// rules then cannot see.
func (m *Machine) SizedElsewhere() bool { return m.VM != nil && m.VM.Spec.Instancetype != nil }

// PreferencesElsewhere reports whether a preference fills in what is left out.
func (m *Machine) PreferencesElsewhere() bool { return m.VM != nil && m.VM.Spec.Preference != nil }

// Sparse reports whether what is left out is yet to be filled in: beside
// KubeVirt, a VirtualMachine is stored as it was written.
func (m *Machine) Sparse() bool { return m.VM != nil && m.Config != nil && m.Config.Addon }

// Volume is the volume of a name; nil where there is none.
func (m *Machine) Volume(name string) *kubevirtv1.Volume {
	if m.volumes == nil {
		m.volumes = make(map[string]*kubevirtv1.Volume, len(m.Spec.Volumes))
		for i := range m.Spec.Volumes {
			m.volumes[m.Spec.Volumes[i].Name] = &m.Spec.Volumes[i]
		}
	}
	return m.volumes[name]
}

// Network is the network of a name; nil where there is none.
func (m *Machine) Network(name string) *kubevirtv1.Network {
	if m.sources == nil {
		m.sources = make(map[string]*kubevirtv1.Network, len(m.Spec.Networks))
		for i := range m.Spec.Networks {
			m.sources[m.Spec.Networks[i].Name] = &m.Spec.Networks[i]
		}
	}
	return m.sources[name]
}

// Filesystem reports whether there is a file system of a name.
func (m *Machine) Filesystem(name string) bool {
	filesystems := m.Spec.Domain.Devices.Filesystems
	if len(filesystems) == 0 {
		return false
	}
	if m.shares == nil {
		m.shares = make(map[string]bool, len(filesystems))
		for i := range filesystems {
			m.shares[filesystems[i].Name] = true
		}
	}
	return m.shares[name]
}
