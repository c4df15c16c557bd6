package partialobject

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/validation/protection"
)

// A List is a list of one of the partial types.
type List[T any, P interface {
	*T
	runtime.Object
}] struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []T `json:"items"`
}

// Lists of the partial types.
type (
	// VirtualMachineList is a list of VMs.
	VirtualMachineList = List[VirtualMachine, *VirtualMachine]
	// VirtualMachineInstanceList is a list of VMIs.
	VirtualMachineInstanceList = List[VirtualMachineInstance, *VirtualMachineInstance]
)

// DeepCopyObject copies the list.
func (l *List[T, P]) DeepCopyObject() runtime.Object {
	out := &List[T, P]{TypeMeta: l.TypeMeta, Items: make([]T, len(l.Items))}
	l.DeepCopyInto(&out.ListMeta)
	for i := range l.Items {
		out.Items[i] = *P(&l.Items[i]).DeepCopyObject().(P)
	}
	return out
}

// AddToScheme lets clients read VMs, VMIs and DataVolumes as the partial types.
func AddToScheme(s *runtime.Scheme) error {
	for kind, object := range map[string]runtime.Object{
		"VirtualMachine": &VirtualMachine{}, "VirtualMachineList": &VirtualMachineList{},
		"VirtualMachineInstance": &VirtualMachineInstance{}, "VirtualMachineInstanceList": &VirtualMachineInstanceList{},
	} {
		s.AddKnownTypeWithName(kubevirtv1.GroupVersion.WithKind(kind), object)
	}
	s.AddKnownTypeWithName(cdiv1.SchemeGroupVersion.WithKind("DataVolume"), &DataVolume{})
	s.AddKnownTypeWithName(cdiv1.SchemeGroupVersion.WithKind("DataVolumeList"), &List[DataVolume, *DataVolume]{})
	metav1.AddToGroupVersion(s, kubevirtv1.GroupVersion)
	metav1.AddToGroupVersion(s, cdiv1.SchemeGroupVersion)
	return nil
}

// MetricAnnotations are KubeVirt's annotations of VMIs that are labels of kubevirt_vmi_info.
var MetricAnnotations = []string{"vm.kubevirt.io/os", "vm.kubevirt.io/workload", "vm.kubevirt.io/flavor"}

var cachedAnnotations = []string{
	protection.VMGeneration, v1alpha1.AnnotationOwnerUID, v1alpha1.AnnotationTemplateHash, v1alpha1.AnnotationTemplateValues, kubevirtv1.ImmediateDataVolumeCreation,
	v1alpha1.AnnotationGenerateTemplate, v1alpha1.AnnotationTemplateRequester,
}

// rolloutAnnotations of a VM say whether a rollout updates and restarts it.
var rolloutAnnotations = []string{v1alpha1.AnnotationRolledOut, v1alpha1.AnnotationRolloutWaited, v1alpha1.AnnotationRollout, v1alpha1.AnnotationPresets}

// Trim removes from an object for a cache what controllers do not read. It replaces the record of
// presets by the names in it.
func Trim(object any) (any, error) {
	switch o := object.(type) {
	case *VirtualMachine:
		o.read(o.Annotations)
		o.readLabels()
		set := o.Labels
		trim(&o.ObjectMeta, slices.Concat(cachedAnnotations, rolloutAnnotations))
		o.Labels = set
	case *VirtualMachineInstance:
		o.read(o.Annotations)
		trim(&o.ObjectMeta, slices.Concat(cachedAnnotations, MetricAnnotations))
	case *corev1.Pod:
		trim(&o.ObjectMeta, cachedAnnotations)
		trimPod(o)
	}
	return object, nil
}

// readLabels fills Selecting if the record may name labels.
func (vm *VirtualMachine) readLabels() {
	text := vm.Annotations[v1alpha1.AnnotationProvenance]
	if !strings.Contains(text, `"labels":`) {
		return
	}
	if record, err := provenance.Decode(text); err == nil {
		vm.Selecting = presets.SelectingLabels(vm.Labels, vm.templateLabels(), record)
	}
}

// SelectingLabels are the labels by which presets select the VM.
func (vm *VirtualMachine) SelectingLabels() map[string]string {
	if vm.Selecting != nil {
		return vm.Selecting
	}
	return presets.SelectingLabels(vm.Labels, vm.templateLabels(), nil)
}

func (vm *VirtualMachine) templateLabels() map[string]string {
	if vm.Spec.Template == nil {
		return nil
	}
	return vm.Spec.Template.Metadata.Labels
}

// trimPod keeps the node, the grace period and the resources of containers.
func trimPod(pod *corev1.Pod) {
	var containers []corev1.Container
	for i := range pod.Spec.Containers {
		containers = append(containers, corev1.Container{Name: pod.Spec.Containers[i].Name, Resources: pod.Spec.Containers[i].Resources})
	}
	pod.Spec = corev1.PodSpec{NodeName: pod.Spec.NodeName, TerminationGracePeriodSeconds: pod.Spec.TerminationGracePeriodSeconds, Containers: containers}
}

func trim(meta *metav1.ObjectMeta, keep []string) {
	meta.ManagedFields, meta.Labels = nil, nil
	annotations := map[string]string{}
	for key, value := range meta.Annotations {
		if slices.Contains(keep, key) {
			annotations[key] = value
		}
	}
	meta.Annotations = annotations
}

// DeepCopyObject copies the VM except for its spec, which must not be changed in place.
func (vm *VirtualMachine) DeepCopyObject() runtime.Object {
	out := *vm
	vm.DeepCopyInto(&out.ObjectMeta)
	out.Status.Conditions = slices.Clone(vm.Status.Conditions)
	out.Status.StateChangeRequests = slices.Clone(vm.Status.StateChangeRequests)
	out.Status.StartFailure = vm.Status.StartFailure.DeepCopy()
	return &out
}

// DeepCopyObject copies the VMI except for its spec and parts of its status, which must not be
// changed in place.
func (vmi *VirtualMachineInstance) DeepCopyObject() runtime.Object {
	out := *vmi
	vmi.DeepCopyInto(&out.ObjectMeta)
	out.Status.Conditions = slices.Clone(vmi.Status.Conditions)
	out.Status.PhaseTransitionTimestamps = slices.Clip(vmi.Status.PhaseTransitionTimestamps)
	out.Status.ActivePods = maps.Clone(vmi.Status.ActivePods)
	return &out
}

// DeepCopyObject copies the DataVolume.
func (v *DataVolume) DeepCopyObject() runtime.Object {
	out := *v
	v.DeepCopyInto(&out.ObjectMeta)
	return &out
}
