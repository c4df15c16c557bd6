package validation

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

var hypervRules = []Rule{{
	ID:          "hyperv-needs-met",
	Requirement: "A Hyper-V enlightenment is enabled only with those that it requires: evmcs requires vapic; ipi, tlbflush and synic require vpindex; synictimer requires synic.",
	Strictness:  EarlierThanKubeVirt,
	Check: func(vm *ExpandedVM, r *Report) {
		hyperv := featuresOf(vm).Hyperv
		if hyperv == nil {
			return
		}
		for _, need := range hypervNeeds(hyperv) {
			if need.unmet() {
				r.Add(field.Forbidden(vm.Domain("features", "hyperv", need.feature), fmt.Sprintf("needs hyperv.%s.enabled: true", need.needs)))
			}
		}
	},
}, {
	ID:          "hyperv-evmcs-needs-vmx",
	Requirement: "The Hyper-V enlightenment evmcs needs the CPU feature vmx with the policy require.",
	Strictness:  EarlierThanKubeVirt,
	Check: func(vm *ExpandedVM, r *Report) {
		hyperv := featuresOf(vm).Hyperv
		if hyperv == nil || !enabled(hyperv.EVMCS) {
			return
		}
		for i, feature := range cpuOf(vm).Features {
			if feature.Name != "vmx" {
				continue
			}
			if feature.Policy != "require" {
				r.Add(field.Invalid(vm.Domain("cpu", "features").Index(i).Child("policy"), feature.Policy, "must be require for features.hyperv.evmcs"))
			}
			return
		}
		// Defaults add vmx once the requirements of all enlightenments are met.
		if !vm.lacksDefaults() && !slices.ContainsFunc(hypervNeeds(hyperv), requirement.unmet) {
			r.Add(field.Required(vm.Domain("cpu", "features"), "must have vmx with policy: require for features.hyperv.evmcs"))
		}
	},
}, {
	ID:          "hyperv-or-passthrough",
	Requirement: "Hyper-V enlightenments are either listed or passed through.",
	Strictness:  EarlierThanKubeVirt,
	Check: func(vm *ExpandedVM, r *Report) {
		if features := featuresOf(vm); features.Hyperv != nil && features.HypervPassthrough != nil {
			r.Add(field.Forbidden(vm.Domain("features", "hypervPassthrough"), "must be left out where features.hyperv lists enlightenments"))
		}
	},
}}

// A requirement is an enlightenment that another one requires.
type requirement struct {
	feature, needs string
	on             bool
	other          *kubevirtv1.FeatureState
}

func hypervNeeds(hyperv *kubevirtv1.FeatureHyperv) []requirement {
	return []requirement{
		{"evmcs", "vapic", enabled(hyperv.EVMCS), hyperv.VAPIC},
		{"ipi", "vpindex", enabled(hyperv.IPI), hyperv.VPIndex},
		{"tlbflush", "vpindex", hyperv.TLBFlush != nil && enabled(&hyperv.TLBFlush.FeatureState), hyperv.VPIndex},
		{"synictimer", "synic", hyperv.SyNICTimer != nil && enabled(&hyperv.SyNICTimer.FeatureState), hyperv.SyNIC},
		{"synic", "vpindex", enabled(hyperv.SyNIC), hyperv.VPIndex},
	}
}

// unmet reports whether the required enlightenment is disabled; unset ones are enabled by default.
func (n requirement) unmet() bool { return n.on && n.other != nil && !enabled(n.other) }
