package validation

import (
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
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
		for _, err := range metav1validation.ValidateLabels(vm.Meta.Labels, vm.Path("metadata", "labels")) {
			r.Add(err)
		}
		for _, err := range apivalidation.ValidateAnnotations(vm.Meta.Annotations, vm.Path("metadata", "annotations")) {
			r.Add(err)
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
