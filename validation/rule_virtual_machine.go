package validation

import (
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var virtualMachineRules = []Rule{{
	ID:          "template-given",
	Requirement: "A VirtualMachine has a template.",
	Scope:       VirtualMachines,
	Check: func(vm *ExpandedVM, r *Report) {
		if vm.Spec == nil {
			r.Add(field.Required(field.NewPath("spec", "template"), "must be the template of the VMI"))
		}
	},
}, {
	ID:          "template-metadata",
	Requirement: "Labels and annotations of a VM's template are valid, as Kubernetes requires of the VMI.",
	Scope:       VirtualMachines,
	Strictness:  EarlierThanKubeVirt,
	Check: func(vm *ExpandedVM, r *Report) {
		if vm.Spec == nil {
			return
		}
		checkMetadata(r, vm.Meta, func() *field.Path { return vm.Path("metadata") })
	},
}, {
	ID:          "machine-metadata",
	Requirement: "Labels and annotations of a VirtualMachine are valid, also those that presets compute.",
	Scope:       VirtualMachines,
	Check: func(vm *ExpandedVM, r *Report) {
		checkMetadata(r, &vm.VM.ObjectMeta, func() *field.Path { return field.NewPath("metadata") })
	},
}, {
	ID:          "name-length",
	Requirement: "The name of a VirtualMachine has at most 63 characters, the limit of labels and host names (a warning on create).",
	Scope:       VirtualMachines,
	Strictness:  StricterThanKubeVirt,
	Check: func(vm *ExpandedVM, r *Report) {
		if n := len(vm.VM.Name); vm.Old == nil && n > maxLabel {
			r.Warn("metadata.name: has %d characters; labels and host names allow at most %d, so some features will fail", n, maxLabel)
		}
	},
}}

func checkMetadata(r *Report, meta *metav1.ObjectMeta, at func() *field.Path) {
	for _, key := range slices.Sorted(maps.Keys(meta.Labels)) {
		checkLabelKey(r, key, func() *field.Path { return at().Child("labels") })
		checkLabelValue(r, meta.Labels[key], func() *field.Path { return at().Child("labels").Key(key) })
	}
	for _, key := range slices.Sorted(maps.Keys(meta.Annotations)) {
		if len(validation.IsQualifiedName(strings.ToLower(key))) > 0 { // as API servers do
			r.Add(field.Invalid(at().Child("annotations"), key, "must be the key of an annotation, such as note or example.com/note"))
		}
	}
}

// maxLabel is the maximum length of a label value.
const maxLabel = 63

var metadataRules = []Rule{{
	ID:          "ignition-enabled",
	Requirement: "Ignition data is given only if feature gate ExperimentalIgnitionSupport is enabled.",
	Gate:        GateIgnition,
	Check:       func(vm *ExpandedVM, r *Report) { annotationEnabled(vm, r, ignitionAnnotation) },
}, {
	ID:          "sidecar-enabled",
	Requirement: "Hook sidecars are given only if feature gate Sidecar is enabled.",
	Gate:        GateSidecar,
	Check:       func(vm *ExpandedVM, r *Report) { annotationEnabled(vm, r, sidecarAnnotation) },
}}

const (
	ignitionAnnotation = "kubevirt.io/ignitiondata"
	sidecarAnnotation  = "hooks.kubevirt.io/hookSidecars"
)

func annotationEnabled(vm *ExpandedVM, r *Report, annotation string) {
	if vm.Meta.Annotations[annotation] != "" {
		r.addDisabled(vm.Path("metadata", "annotations").Key(annotation))
	}
}
