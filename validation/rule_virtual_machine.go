package validation

import (
	"maps"
	"slices"
	"strings"

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
		labels := func() *field.Path { return vm.Path("metadata", "labels") }
		for _, key := range slices.Sorted(maps.Keys(vm.Meta.Labels)) {
			checkLabelKey(r, key, labels)
			checkLabelValue(r, vm.Meta.Labels[key], func() *field.Path { return labels().Key(key) })
		}
		for _, key := range slices.Sorted(maps.Keys(vm.Meta.Annotations)) {
			if len(validation.IsQualifiedName(strings.ToLower(key))) > 0 { // as API servers do
				r.Add(field.Invalid(vm.Path("metadata", "annotations"), key, "must be the key of an annotation, such as note or example.com/note"))
			}
		}
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
