package validation

import "k8s.io/apimachinery/pkg/util/validation/field"

var virtualMachineRules = []Rule{{
	ID:    "template-given",
	Says:  "A VirtualMachine has a template.",
	Scope: VirtualMachines,
	Check: templateGiven,
}, {
	ID:    "name-length",
	Says:  "The name of a VirtualMachine has at most 63 characters, so that labels and host names can hold it; a longer one is warned of when it is created.",
	Scope: VirtualMachines,
	Reach: BeyondKubeVirt,
	Check: nameLength,
}}

func templateGiven(m *Machine, r *Report) {
	if m.Spec == nil {
		r.Add(field.Required(field.NewPath("spec", "template"), "must say what the machine is"))
	}
}

// maxLabel is how long the value of a label may be.
const maxLabel = 63

func nameLength(m *Machine, r *Report) {
	if n := len(m.VM.Name); m.Old == nil && n > maxLabel {
		r.Warn("metadata.name: has %d characters; more than %d fit neither labels nor host names, and some features will fail", n, maxLabel)
	}
}
