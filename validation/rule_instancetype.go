package validation

import (
	"iter"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

var instancetypeRules = []Rule{{
	ID:    "instancetype-sizes",
	Says:  "A VirtualMachine with an instancetype leaves CPU topology, CPU and memory resources, and guest memory to it.",
	Scope: VirtualMachines,
	// KubeVirt refuses it once the instancetype exists, and admits it before.
	Reach: BeyondKubeVirt,
	Check: instancetypeSizes,
}, {
	ID:    "matcher-given",
	Says:  "An instancetype or preference is named, or inferred from a volume.",
	Scope: VirtualMachines,
	Check: matcherGiven,
}, {
	ID:    "matcher-named-or-inferred",
	Says:  "An instancetype or preference that is inferred from a volume has neither name nor kind.",
	Scope: VirtualMachines,
	Check: matcherNamedOrInferred,
}, {
	ID:    "matcher-failure-policy",
	Leaf:  true,
	Says:  "What happens when an instancetype or preference cannot be inferred is Reject or Ignore.",
	Scope: VirtualMachines,
	Check: matcherFailurePolicy,
}, {
	ID:    "matcher-revision",
	Says:  "An update that names another instancetype or preference does not keep the revision of the former.",
	Scope: VirtualMachines,
	Check: matcherRevision,
}}

// matchers yields the matchers of a VirtualMachine with the fields that hold
// them. The two types have the same fields; a conversion says so to the compiler.
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

// sizeFields are what every instancetype sets, with whether the machine sets
// it too.
var sizeFields = []struct {
	at  []string // beneath spec.domain
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

// instancetypeSizes waits where the instancetype is yet to be inferred and may
// come to nothing.
func instancetypeSizes(m *Machine, r *Report) {
	matcher := m.VM.Spec.Instancetype
	if matcher == nil || m.Spec == nil || matcher.InferFromVolume != "" && ignoresFailure(matcher) {
		return
	}
	for _, size := range sizeFields {
		if size.set(&m.Spec.Domain) {
			r.Add(field.Forbidden(m.Domain(size.at...), "must be left out: the instancetype says it"))
		}
	}
}

func ignoresFailure(matcher *kubevirtv1.InstancetypeMatcher) bool {
	policy := matcher.InferFromVolumeFailurePolicy
	return policy != nil && *policy == kubevirtv1.IgnoreInferFromVolumeFailure
}

func matcherGiven(m *Machine, r *Report) {
	for name, matcher := range matchers(m.VM) {
		if matcher.Name == "" && matcher.InferFromVolume == "" {
			r.Add(field.Required(field.NewPath("spec", name, "name"), "must be given, or inferFromVolume must"))
		}
	}
}

func matcherNamedOrInferred(m *Machine, r *Report) {
	for name, matcher := range matchers(m.VM) {
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
}

func matcherFailurePolicy(m *Machine, r *Report) {
	for name, matcher := range matchers(m.VM) {
		if matcher.InferFromVolumeFailurePolicy == nil {
			continue
		}
		switch policy := *matcher.InferFromVolumeFailurePolicy; policy {
		case kubevirtv1.RejectInferFromVolumeFailure, kubevirtv1.IgnoreInferFromVolumeFailure:
		default:
			r.Add(r.unsupported(field.NewPath("spec", name, "inferFromVolumeFailurePolicy"), string(policy), "Reject", "Ignore"))
		}
	}
}

func matcherRevision(m *Machine, r *Report) {
	if m.Old == nil || m.Old.VM == nil {
		return
	}
	for name, matcher := range matchers(m.VM) {
		for before, old := range matchers(m.Old.VM) {
			if before == name && matcher.Name != old.Name && matcher.RevisionName != "" && matcher.RevisionName == old.RevisionName {
				r.Add(field.Invalid(field.NewPath("spec", name, "revisionName"), matcher.RevisionName,
					"must be left out: it is a revision of "+quoted(old.Name)))
			}
		}
	}
}
