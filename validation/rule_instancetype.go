package validation

import (
	"iter"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

var instancetypeRules = []Rule{{
	ID: "instancetype-sizes",
	Requirement: "A VirtualMachine with an instancetype sets no CPU topology, CPU or memory resources, or guest memory " +
		"(alongside KubeVirt a warning until the instancetype exists).",
	Scope: VirtualMachines,
	Check: func(vm *ExpandedVM, r *Report) {
		// Ignores an inferred instancetype if failures to infer it are ignored.
		matcher := vm.VM.Spec.Instancetype
		if matcher == nil || vm.Spec == nil || matcher.InferFromVolume != "" && ignoresFailure(matcher) {
			return
		}
		strictness := StricterThanKubeVirt // KubeVirt admits a VM whose instancetype does not exist
		if vm.InstancetypeExists {
			strictness = SameAsKubeVirt
		}
		for _, size := range sizeFields {
			if size.set(&vm.Spec.Domain) {
				r.addStricter(strictness, field.Forbidden(vm.Domain(size.at...), "must be left out: the instancetype sets it"))
			}
		}
	},
}, {
	ID:          "matcher-given",
	Requirement: "An instancetype or preference is named, or inferred from a volume.",
	Scope:       VirtualMachines,
	Check: func(vm *ExpandedVM, r *Report) {
		for name, matcher := range matchers(vm.VM) {
			if matcher.Name == "" && matcher.InferFromVolume == "" {
				r.Add(field.Required(field.NewPath("spec", name, "name"), "must be set, unless inferFromVolume is set"))
			}
		}
	},
}, {
	ID:          "matcher-named-or-inferred",
	Requirement: "An instancetype or preference that is inferred from a volume has neither name nor kind.",
	Scope:       VirtualMachines,
	Check: func(vm *ExpandedVM, r *Report) {
		for name, matcher := range matchers(vm.VM) {
			if matcher.InferFromVolume == "" {
				continue
			}
			if matcher.Name != "" {
				r.Add(field.Forbidden(field.NewPath("spec", name, "name"), "must be left out where inferFromVolume is given"))
			}
			if matcher.Kind != "" {
				r.Add(field.Forbidden(field.NewPath("spec", name, "kind"), "must be left out where inferFromVolume is given"))
			}
		}
	},
}, {
	ID:          "matcher-failure-policy",
	Leaf:        true,
	Requirement: "inferFromVolumeFailurePolicy of an instancetype or preference is Reject or Ignore.",
	Scope:       VirtualMachines,
	Check: func(vm *ExpandedVM, r *Report) {
		for name, matcher := range matchers(vm.VM) {
			if policy := matcher.InferFromVolumeFailurePolicy; policy != nil {
				at := func() *field.Path { return field.NewPath("spec", name, "inferFromVolumeFailurePolicy") }
				valueSet{"Reject", "Ignore"}.check(r, string(*policy), at)
			}
		}
	},
}, {
	ID:          "matcher-revision",
	Requirement: "An update that names another instancetype or preference does not keep the old revisionName.",
	Scope:       VirtualMachines,
	Check: func(vm *ExpandedVM, r *Report) {
		if vm.Old == nil || vm.Old.VM == nil {
			return
		}
		for name, matcher := range matchers(vm.VM) {
			for before, old := range matchers(vm.Old.VM) {
				if before == name && matcher.Name != old.Name && matcher.RevisionName != "" && matcher.RevisionName == old.RevisionName {
					r.Add(field.Invalid(field.NewPath("spec", name, "revisionName"), matcher.RevisionName,
						"must be left out: it is a revision of "+quoted(old.Name)))
				}
			}
		}
	},
}}

// matchers yields the instancetype and the preference of a VM, with their field names. The
// conversion compiles only while both types have the same fields.
func matchers(vm *kubevirtv1.VirtualMachine) iter.Seq2[string, *kubevirtv1.InstancetypeMatcher] {
	return func(yield func(string, *kubevirtv1.InstancetypeMatcher) bool) {
		if vm.Spec.Instancetype != nil && !yield("instancetype", vm.Spec.Instancetype) {
			return
		}
		if vm.Spec.Preference != nil {
			yield("preference", (*kubevirtv1.InstancetypeMatcher)(vm.Spec.Preference))
		}
	}
}

// sizeFields lists the fields that every instancetype sets.
var sizeFields = []struct {
	at  []string // below spec.domain
	set func(d *kubevirtv1.DomainSpec) bool
}{
	{[]string{"cpu", "sockets"}, func(d *kubevirtv1.DomainSpec) bool { return d.CPU != nil && d.CPU.Sockets != 0 }},
	{[]string{"cpu", "cores"}, func(d *kubevirtv1.DomainSpec) bool { return d.CPU != nil && d.CPU.Cores != 0 }},
	{[]string{"cpu", "threads"}, func(d *kubevirtv1.DomainSpec) bool { return d.CPU != nil && d.CPU.Threads != 0 }},
	{[]string{"resources", "requests", "cpu"}, func(d *kubevirtv1.DomainSpec) bool { return has(d.Resources.Requests, corev1.ResourceCPU) }},
	{[]string{"resources", "limits", "cpu"}, func(d *kubevirtv1.DomainSpec) bool { return has(d.Resources.Limits, corev1.ResourceCPU) }},
	{[]string{"resources", "requests", "memory"}, func(d *kubevirtv1.DomainSpec) bool { return has(d.Resources.Requests, corev1.ResourceMemory) }},
	{[]string{"resources", "limits", "memory"}, func(d *kubevirtv1.DomainSpec) bool { return has(d.Resources.Limits, corev1.ResourceMemory) }},
	{[]string{"memory", "guest"}, func(d *kubevirtv1.DomainSpec) bool { return d.Memory != nil && d.Memory.Guest != nil }},
}

func has(list corev1.ResourceList, name corev1.ResourceName) bool {
	_, found := list[name]
	return found
}

func ignoresFailure(matcher *kubevirtv1.InstancetypeMatcher) bool {
	policy := matcher.InferFromVolumeFailurePolicy
	return policy != nil && *policy == kubevirtv1.IgnoreInferFromVolumeFailure
}
