// Package partialobject has partial types of VMs, VMIs and DataVolumes for caches: only the fields
// that controllers read. Other fields are not decoded, so they cost no memory. A value that CRDs
// admit, but that Go cannot decode, costs only its field: otherwise one object would end
// the lists and watches of all. The package also has errors and events that controllers of VMs
// share.
package partialobject

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/presets/vmschema"
	"github.com/virtwright/virtwright/validation/names"
)

// A VirtualMachine has the fields of a VM that caches hold.
type VirtualMachine struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec struct {
		Running             *bool                                 `json:"running,omitempty"`
		RunStrategy         *kubevirtv1.VirtualMachineRunStrategy `json:"runStrategy,omitempty"`
		DataVolumeTemplates []dataVolumeTemplate                  `json:"dataVolumeTemplates,omitempty"`
		Template            *Template                             `json:"template,omitempty"`
	} `json:"spec"`
	Status VirtualMachineStatus `json:"status,omitzero"`

	// invalidSpec is true if a field of the spec cannot be decoded.
	invalidSpec bool
	Record      `json:"-"`
	// Selecting are the labels by which presets select the VM, if a preset has set labels.
	Selecting map[string]string `json:"-"`
}

// UnmarshalJSON decodes a VM. A field of spec or status that cannot be decoded is empty.
func (vm *VirtualMachine) UnmarshalJSON(raw []byte) error {
	type plain VirtualMachine
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, (*plain)(vm)); err == nil {
		return nil
	}
	*vm = VirtualMachine{}
	isValid, err := decodeParts(raw, &vm.TypeMeta, &vm.ObjectMeta, &vm.Spec, &vm.Status)
	vm.invalidSpec = !isValid
	return err
}

// UnmarshalJSON decodes a VMI. A field of spec or status that cannot be decoded is empty.
func (vmi *VirtualMachineInstance) UnmarshalJSON(raw []byte) error {
	type plain VirtualMachineInstance
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, (*plain)(vmi)); err == nil {
		return nil
	}
	*vmi = VirtualMachineInstance{}
	_, err := decodeParts(raw, &vmi.TypeMeta, &vmi.ObjectMeta, &vmi.Spec, &vmi.Status)
	return err
}

// decodeParts decodes metadata, and the fields of spec and status that can be decoded. It reports
// whether these are all of the spec.
func decodeParts[S, T any](raw []byte, kind *metav1.TypeMeta, metadata *metav1.ObjectMeta, spec *S, status *T) (isValid bool, err error) {
	parts := struct {
		*metav1.TypeMeta `json:",inline"`
		Metadata         *metav1.ObjectMeta `json:"metadata"`
		Spec             json.RawMessage    `json:"spec"`
		Status           json.RawMessage    `json:"status"`
	}{TypeMeta: kind, Metadata: metadata}
	err = kjson.UnmarshalCaseSensitivePreserveInts(raw, &parts)
	decodeFields(parts.Status, status)
	return decodeFields(parts.Spec, spec), err
}

// decodeFields decodes the fields that can be decoded, and reports whether these are all.
func decodeFields[T any](raw []byte, out *T) bool {
	var fields map[string]json.RawMessage
	if len(raw) > 0 && kjson.UnmarshalCaseSensitivePreserveInts(raw, &fields) != nil {
		return false
	}
	isValid := true
	for name, value := range fields {
		field, err := json.Marshal(map[string]json.RawMessage{name: value})
		if err == nil {
			err = kjson.UnmarshalCaseSensitivePreserveInts(field, new(T))
		}
		if err != nil {
			isValid = false
			continue
		}
		_ = kjson.UnmarshalCaseSensitivePreserveInts(field, out) // it has just been decoded
	}
	return isValid
}

// VirtualMachineStatus has the fields of a VM's status that virtwright writes.
type VirtualMachineStatus struct {
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

// A VirtualMachineInstance has the fields of a VMI that caches hold.
type VirtualMachineInstance struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   vmiSpec                      `json:"spec"`
	Status VirtualMachineInstanceStatus `json:"status,omitzero"`

	Record `json:"-"`
}

// VirtualMachineInstanceStatus has the fields of a VMI's status that virtwright writes.
type VirtualMachineInstanceStatus struct {
	Phase                     kubevirtv1.VirtualMachineInstancePhase                      `json:"phase,omitempty"`
	Reason                    string                                                      `json:"reason,omitempty"`
	Conditions                []kubevirtv1.VirtualMachineInstanceCondition                `json:"conditions,omitempty"`
	PhaseTransitionTimestamps []kubevirtv1.VirtualMachineInstancePhaseTransitionTimestamp `json:"phaseTransitionTimestamps,omitempty"`
	NodeName                  string                                                      `json:"nodeName,omitempty"`
	ActivePods                map[types.UID]string                                        `json:"activePods,omitempty"`
	QOSClass                  corev1.PodQOSClass                                          `json:"qosClass,omitempty"`
	Interfaces                []kubevirtv1.VirtualMachineInstanceNetworkInterface         `json:"interfaces,omitempty"`
	// Facts about the guest when its pod was created.
	Machine            *kubevirtv1.Machine       `json:"machine,omitempty"`
	Memory             *kubevirtv1.MemoryStatus  `json:"memory,omitempty"`
	CurrentCPUTopology *kubevirtv1.CPUTopology   `json:"currentCPUTopology,omitempty"`
	VolumeStatus       []kubevirtv1.VolumeStatus `json:"volumeStatus,omitempty"`
}

// Condition returns the condition of a type, or nil.
func (s *VirtualMachineInstanceStatus) Condition(kind kubevirtv1.VirtualMachineInstanceConditionType) *kubevirtv1.VirtualMachineInstanceCondition {
	return Find(s.Conditions, func(c *kubevirtv1.VirtualMachineInstanceCondition) bool { return c.Type == kind })
}

// Find returns the first element of a list that matches, or nil.
func Find[T any](list []T, matches func(*T) bool) *T {
	for i := range list {
		if matches(&list[i]) {
			return &list[i]
		}
	}
	return nil
}

// IsTrue reports whether a condition is true.
func (s *VirtualMachineInstanceStatus) IsTrue(kind kubevirtv1.VirtualMachineInstanceConditionType) bool {
	c := s.Condition(kind)
	return c != nil && c.Status == corev1.ConditionTrue
}

// A DataVolume has the fields of a DataVolume that caches hold.
type DataVolume struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Status struct {
		Phase cdiv1.DataVolumePhase `json:"phase,omitempty"`
	} `json:"status,omitzero"`
}

// A Template has the fields of a VM's template that caches hold.
type Template struct {
	Metadata struct {
		Labels templateLabels `json:"labels,omitempty"`
	} `json:"metadata,omitzero"`
	Spec vmiSpec `json:"spec"`
	// Hash and Values are the TemplateHashes.
	Hash   string `json:"-"`
	Values string `json:"-"`
}

// templateLabels are the labels that are strings. CRDs do not validate the metadata of templates.
type templateLabels map[string]string

// UnmarshalJSON never fails.
func (l *templateLabels) UnmarshalJSON(raw []byte) error {
	var all map[string]any
	_ = json.Unmarshal(raw, &all)
	*l = templateLabels{}
	for key, value := range all {
		if text, is := value.(string); is {
			(*l)[key] = text
		}
	}
	return nil
}

// UnmarshalJSON decodes the fields, and computes the hash from all fields.
func (t *Template) UnmarshalJSON(raw []byte) error {
	type plain Template
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, (*plain)(t)); err != nil {
		return err
	}
	var all any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &all); err != nil {
		return err
	}
	t.Hash, t.Values = TemplateHashes(all)
	return nil
}

// TemplateHashes returns the hash of a template as it is written, given as decoded JSON, and one
// that is the same for equal quantities.
func TemplateHashes(template any) (written, values string) {
	return hashOf(template), hashOf(vmschema.VM().At(vmschema.Template).Canonical(template))
}

func hashOf(template any) string {
	text, err := json.Marshal(template)
	if err != nil { // unreachable: it was JSON before
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:12])
}

// A dataVolumeTemplate has raw metadata, because KubeVirt's CRD does not validate it.
type dataVolumeTemplate struct {
	Metadata json.RawMessage `json:"metadata,omitempty"`
}

// name is empty if there is no valid name.
func (t *dataVolumeTemplate) name() string {
	var metadata struct {
		Name any `json:"name"`
	}
	_ = json.Unmarshal(t.Metadata, &metadata)
	name, _ := metadata.Name.(string)
	return name
}

// A vmiSpec has the fields of the spec of a VMI, or of a template, that caches hold.
type vmiSpec struct {
	StartStrategy                 *kubevirtv1.StartStrategy    `json:"startStrategy,omitempty"`
	TerminationGracePeriodSeconds *int64                       `json:"terminationGracePeriodSeconds,omitempty"`
	EvictionStrategy              *kubevirtv1.EvictionStrategy `json:"evictionStrategy,omitempty"`
	Domain                        struct {
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
	Name       string                    `json:"name"`
	MacAddress string                    `json:"macAddress,omitempty"`
	State      kubevirtv1.InterfaceState `json:"state,omitempty"`
}

// RunStrategy returns the run strategy that the spec means; empty if running and runStrategy are
// both set, or if the spec is invalid.
func (vm *VirtualMachine) RunStrategy() kubevirtv1.VirtualMachineRunStrategy {
	if vm.invalidSpec {
		return ""
	}
	full := kubevirtv1.VirtualMachine{Spec: kubevirtv1.VirtualMachineSpec{Running: vm.Spec.Running, RunStrategy: vm.Spec.RunStrategy}}
	strategy, _ := full.RunStrategy() // empty with an error
	return strategy
}

// Names returns the names and identifiers of a VM that may collide with those of other VMs.
func (vm *VirtualMachine) Names() names.Identity {
	full := &kubevirtv1.VirtualMachine{ObjectMeta: vm.ObjectMeta}
	for i := range vm.Spec.DataVolumeTemplates {
		full.Spec.DataVolumeTemplates = append(full.Spec.DataVolumeTemplates,
			kubevirtv1.DataVolumeTemplateSpec{ObjectMeta: metav1.ObjectMeta{Name: vm.Spec.DataVolumeTemplates[i].name()}})
	}
	if vm.Spec.Template != nil {
		full.Spec.Template = &kubevirtv1.VirtualMachineInstanceTemplateSpec{Spec: vm.Spec.Template.Spec.identifiers()}
	}
	return names.OfVirtualMachine(full)
}

// Names returns the names and identifiers of a VMI that may collide with those of other VMIs.
func (vmi *VirtualMachineInstance) Names() names.Identity {
	return names.OfVirtualMachineInstance(&kubevirtv1.VirtualMachineInstance{ObjectMeta: vmi.ObjectMeta, Spec: vmi.Spec.identifiers()})
}

func (s *vmiSpec) identifiers() kubevirtv1.VirtualMachineInstanceSpec {
	var out kubevirtv1.VirtualMachineInstanceSpec
	if f := s.Domain.Firmware; f != nil {
		out.Domain.Firmware = &kubevirtv1.Firmware{UUID: f.UUID, Serial: f.Serial}
	}
	for _, n := range s.Domain.Devices.Interfaces {
		out.Domain.Devices.Interfaces = append(out.Domain.Devices.Interfaces, kubevirtv1.Interface{Name: n.Name, MacAddress: n.MacAddress})
	}
	return out
}
