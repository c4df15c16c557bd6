package validation

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

var hypervRules = []Rule{{
	ID:    "hyperv-needs-met",
	Says:  "A Hyper-V enlightenment needs those that it rests on: evmcs vapic; ipi, tlbflush and synic vpindex; synictimer synic.",
	Reach: EarlierThanKubeVirt,
	Check: hypervNeedsMet,
}, {
	ID:    "hyperv-evmcs-needs-vmx",
	Says:  "The Hyper-V enlightenment evmcs needs the CPU feature vmx with the policy require.",
	Reach: EarlierThanKubeVirt,
	Check: hypervEVMCSNeedsVMX,
}, {
	ID:    "hyperv-or-passthrough",
	Says:  "Hyper-V enlightenments are either listed or passed through.",
	Reach: EarlierThanKubeVirt,
	Check: hypervOrPassthrough,
}}

// A need is that of an enlightenment for another.
type need struct {
	feature, needs string
	on             bool
	other          *kubevirtv1.FeatureState
}

func hypervNeeds(hyperv *kubevirtv1.FeatureHyperv) []need {
	return []need{
		{"evmcs", "vapic", enabled(hyperv.EVMCS), hyperv.VAPIC},
		{"ipi", "vpindex", enabled(hyperv.IPI), hyperv.VPIndex},
		{"tlbflush", "vpindex", hyperv.TLBFlush != nil && enabled(&hyperv.TLBFlush.FeatureState), hyperv.VPIndex},
		{"synictimer", "synic", hyperv.SyNICTimer != nil && enabled(&hyperv.SyNICTimer.FeatureState), hyperv.SyNIC},
		{"synic", "vpindex", enabled(hyperv.SyNIC), hyperv.VPIndex},
	}
}

// unmet reports whether the need is turned off; what is left out is turned on by default.
func (n need) unmet() bool { return n.on && n.other != nil && !enabled(n.other) }

func hypervNeedsMet(m *Machine, r *Report) {
	hyperv := featuresOf(m).Hyperv
	if hyperv == nil {
		return
	}
	for _, need := range hypervNeeds(hyperv) {
		if need.unmet() {
			r.Add(field.Forbidden(m.Domain("features", "hyperv", need.feature), fmt.Sprintf("needs hyperv.%s.enabled: true", need.needs)))
		}
	}
}

func hypervEVMCSNeedsVMX(m *Machine, r *Report) {
	hyperv := featuresOf(m).Hyperv
	if hyperv == nil || !enabled(hyperv.EVMCS) {
		return
	}
	for i, feature := range cpuOf(m).Features {
		if feature.Name != "vmx" {
			continue
		}
		if feature.Policy != "require" {
			r.Add(field.Invalid(m.Domain("cpu", "features").Index(i).Child("policy"), feature.Policy, "must be require for features.hyperv.evmcs"))
		}
		return
	}
	// It is added by default, once the needs of enlightenments are met.
	if !m.Sparse() && !slices.ContainsFunc(hypervNeeds(hyperv), need.unmet) {
		r.Add(field.Required(m.Domain("cpu", "features"), "must have vmx with policy: require for features.hyperv.evmcs"))
	}
}

func hypervOrPassthrough(m *Machine, r *Report) {
	if features := featuresOf(m); features.Hyperv != nil && features.HypervPassthrough != nil {
		r.Add(field.Forbidden(m.Domain("features", "hypervPassthrough"), "must be left out where features.hyperv lists enlightenments"))
	}
}
