package fleet

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/condition"
	"github.com/virtwright/virtwright/validation"
)

// A Severity is error, warning or note.
type Severity string

const (
	// Error is for presets that a cluster rejects, that reject VMs, or for which only names decide
	// conflicts.
	Error Severity = "error"
	// Warning is for presets, or parts of them, without effect.
	Warning Severity = "warning"
	// Note is for presets that the other mode needs.
	Note Severity = "note"
)

// A Check is one kind of finding. IDs never change; the first digit is the class.
type Check struct {
	ID, Name string
	Severity Severity
	// Summary describes the finding, Reason why it matters, and Fix what to do.
	Summary, Reason, Fix string
}

// The checks: 1xx rejected presets, 2xx presets without effect, 3xx conflicts between presets, 4xx
// expressions, 5xx instancetypes.
var (
	UnknownField = &Check{
		ID: "VW101", Name: "unknown-field", Severity: Error,
		Summary: "The preset names a field that does not exist.",
		Reason:  "The cluster rejects the preset. Without the check, a misspelt field would be dropped, and no VM would get it.",
		Fix:     "Correct the name. The message suggests the nearest field.",
	}
	InvalidPreset = &Check{
		ID: "VW102", Name: "invalid-preset", Severity: Error,
		Summary: "The preset is invalid: an invalid selector, an expression that does not compile, an unknown path, a wrong type.",
		Reason:  "The cluster rejects the preset.",
		Fix:     "Correct the field that the message names.",
	}
	invalidValue = &Check{
		ID: "VW103", Name: "invalid-value", Severity: Error,
		Summary: "The preset sets a value that is invalid for every VM.",
		Reason:  "The cluster rejects the preset. A VM with the value would be rejected.",
		Fix:     "Use a supported value. The message lists them, or suggests the nearest one.",
	}
	invalidVM = &Check{
		ID: "VW104", Name: "invalid-vm", Severity: Error,
		Summary: "The preset makes every VM that it matches invalid.",
		Reason:  "The VMs are rejected, although their authors made no mistake. lint found it by validating a VM that the preset matches.",
		Fix:     "Correct the field that the message names.",
	}
	incompleteVM = &Check{
		ID: "VW108", Name: "incomplete-value", Severity: Note,
		Summary: "The preset sets a value that requires another field, which no preset of the set gives: a VM whose author does not set that field is rejected.",
		Reason:  "The VMs are rejected, unless their authors know what the preset needs. If they do, leave it as it is: a note does not change the exit code.",
		Fix:     "Set the other field in the preset, too, or require it with a message.",
	}
	warnedValue = &Check{
		ID: "VW105", Name: "warned-value", Severity: Warning,
		Summary: "Reported only with --mode addon: alongside KubeVirt, virtwright warns about every VM that the preset matches.",
		Reason:  "KubeVirt admits the VMs, but they cannot start, or the field has no effect.",
		Fix:     "Correct the field that the message names.",
	}
	unsupported = &Check{
		ID: "VW106", Name: "unsupported", Severity: Note,
		Summary: "In mode standalone: the preset sets a field that the launcher does not support.",
		Reason:  "VMs with the field are rejected in standalone mode. KubeVirt supports it, so presets for both modes may set it. A note does not change the exit code.",
		Fix:     "Remove the field, or check presets for use alongside KubeVirt with --mode addon.",
	}
	selectsNothing = &Check{
		ID: "VW207", Name: "selects-nothing", Severity: Note,
		Summary: "The VMs or namespaces of the files have a label that a selector requires, with another value that resembles the required one; or an override adds an element only to VMs whose author sets its partner.",
		Reason:  "The selector, or the element, has no effect on the objects of the files. A cluster may have others, so a note does not change the exit code.",
		Fix:     "Correct the selector, or the labels.",
	}
	idleException = &Check{
		ID: "VW208", Name: "idle-exception", Severity: Warning,
		Summary: "An exception has expired, misspells the name of a preset, or names one that does not act in its namespace.",
		Reason:  "The exception exempts no VM.",
		Fix:     "Correct the exception, or delete it.",
	}
	suspiciousValue = &Check{
		ID: "VW107", Name: "suspicious-value", Severity: Warning,
		Summary: "The preset sets a value that is valid, but probably a mistake: a name, address or UUID that each VM needs for itself, an unknown time zone, " +
			"a misspelt label of nodes or of VMs, user data that cloud-init ignores, a node affinity that the node selector excludes.",
		Reason: "The preset is admitted. VMs with the value cannot start, cannot run on any node, or the value has no effect.",
		Fix:    "Correct the value. Compute names from the name of the VM with $cel.",
	}
	Unreachable = &Check{
		ID: "VW201", Name: "unreachable", Severity: Warning,
		Summary: "The preset can match no VM: its selectors contradict each other, or a condition is always false.",
		Reason:  "The preset has no effect. Often, a selector was copied and changed only in part.",
		Fix:     "Correct the selector or the condition, or delete the preset.",
	}
	NoOp = &Check{
		ID: "VW202", Name: "no-op", Severity: Warning,
		Summary: "The preset has no defaults, overrides, remove, forbid or require; or it always sets what it requires.",
		Reason:  "The preset, or its rule, has no effect.",
		Fix:     "Add fields to the preset, or delete it. To make authors set a field, require it, and set no default.",
	}
	Shadowed = &Check{
		ID: "VW203", Name: "shadowed", Severity: Warning,
		Summary: "Stronger presets overrule everything that the preset sets, on each matching VM that does not exclude them; or an override always replaces a default.",
		Reason:  "The preset, or the default, has no effect.",
		Fix:     "Raise its priority, narrow the match of the other preset, or delete it.",
	}
	unpairedElement = &Check{
		ID: "VW204", Name: "unpaired-element", Severity: Warning,
		Summary: "The preset sets a disk without its volume, or an interface without its network, or the reverse, and another name is probably meant.",
		Reason: "A disk and its volume share a name, and so do an interface and its network. Presets add an element only to VMs that have, or get, its partner. " +
			"An element without a partner in the presets can complete one of the VM's author. " +
			"lint warns if its name resembles that of a partner in the presets, or if one preset has both halves under different names.",
		Fix: "Give both elements the same name. If the names differ on purpose, add the missing elements, or split the preset.",
	}
	misspeltSelector = &Check{
		ID: "VW205", Name: "misspelt-selector", Severity: Warning,
		Summary: "A selector has a label key or value that no other preset uses, and that resembles one that others use.",
		Reason:  "A misspelt selector matches no VM, or too few, without a message.",
		Fix:     "Correct the key or the value. If it is right, choose names that differ more.",
	}
	selectsPresetValue = &Check{
		ID: "VW206", Name: "selects-preset-value", Severity: Note,
		Summary: "A selector requires a label that another preset sets, or a condition requires such a field.",
		Reason:  "Selectors and conditions read the VM as its author wrote it. VMs that get the label or the field from a preset do not match.",
		Fix:     "Select by what the other preset selects. If authors write the label or the field too, leave it as it is: a note does not change the exit code.",
	}
	Conflicting = &Check{
		ID: "VW301", Name: "conflict", Severity: Error,
		Summary: "Two presets of one scope, layer and priority set a field to different values, and can match the same VM.",
		Reason:  "Only the names of the presets decide which value the VM gets. With presetConflicts: reject, the VM is rejected.",
		Fix:     "Give the presets different priorities, or make their selectors exclude each other.",
	}
	removesStronger = &Check{
		ID: "VW302", Name: "removes-stronger", Severity: Warning,
		Summary: "The preset removes a field that a stronger preset overrides on every VM that it matches.",
		Reason:  "The stronger preset wins, so the field stays.",
		Fix:     "Raise the priority of the removal, or remove the override from the other preset.",
	}
	Forbidden = &Check{
		ID: "VW303", Name: "forbidden", Severity: Error,
		Summary: "The preset sets, or requires, a field that a preset of the set forbids, and both can match the same VM; or it forbids a field that platform defaults set.",
		Reason:  "The VM is rejected, although its author made no mistake.",
		Fix:     "Make the selectors exclude each other, or remove the field or the forbid rule.",
	}
	invalidTogether = &Check{
		ID: "VW304", Name: "invalid-together", Severity: Error,
		Summary: "Two presets are valid alone, but together they make every VM invalid that both match.",
		Reason:  "The VMs are rejected, although their authors made no mistake.",
		Fix:     "Make the selectors exclude each other, or change one of the fields.",
	}
	// RejectedVM is reported for VMs in the files of presets.
	RejectedVM = &Check{
		ID: "VW305", Name: "rejected-vm", Severity: Error,
		Summary: "With the presets, a VM of the files is rejected.",
		Reason:  "A cluster with these presets rejects the VM. The message is that of validate.",
		Fix:     "Correct the preset or the VM.",
	}
	// IncompleteVM is reported like RejectedVM.
	IncompleteVM = &Check{
		ID: "VW306", Name: "incomplete-vm", Severity: Note,
		Summary: "With the presets, a VM of the files lacks a value, or names a preset that is not there.",
		Reason:  "A cluster with only these presets rejects the VM. Another preset of the cluster may set the value, so a note does not change the exit code.",
		Fix:     "Correct the preset or the VM, or add the other presets to -f.",
	}
	unguardedExpression = &Check{
		ID: "VW401", Name: "unguarded-expression", Severity: Error,
		Summary: "A condition, or a computed override, fails for VMs that lack a field; or a computed default fails for every VM.",
		Reason: "The cluster rejects the preset. An override would reject each VM without the field. Namespace labels that match.namespaces requires need no test. " +
			"A finding in a variable means that an expression uses it without a test.",
		Fix: "Use the optional form that the message shows.",
	}
	unknownSelection = &Check{
		ID: "VW402", Name: "unknown-selection", Severity: Warning,
		Summary: "A condition, a computed value or a variable reads a field that no VM has.",
		Reason:  "Behind ?, the field is always absent, so that the fallback always applies and the condition never changes.",
		Fix:     "Correct the name. The message suggests the nearest field.",
	}
	mistakenComparison = &Check{
		ID: "VW403", Name: "mistaken-comparison", Severity: Warning,
		Summary: "A comparison of a condition or a computed value has the same result for every VM, or compares quantities as texts.",
		Reason:  "The condition does not select what its author meant.",
		Fix:     "Compare values of one type, quantities by quantity(…).compareTo(…), and join several != by &&.",
	}
	unusedVariable = &Check{
		ID: "VW404", Name: "unused-variable", Severity: Warning,
		Summary: "No condition, computed value or other variable uses a variable.",
		Reason:  "The variable has no effect. Often, an expression should use it, but repeats its text or names another one.",
		Fix:     "Use the variable, or delete it.",
	}
	underInstancetypeCheck = &Check{
		ID: "VW501", Name: "default-under-instancetype", Severity: Warning,
		Summary: "The preset sets CPU or memory of VMs that get an instancetype from a preset.",
		Reason:  "The instancetype owns these fields. They are applied only if the author of the VM sets CPU or memory, so that the instancetype is not used.",
		Fix:     "Remove the field or the instancetype.",
	}
	// undoneAtLaunch is reported for mode addon only.
	undoneAtLaunch = &Check{
		ID: "VW502", Name: "launch-live-update", Severity: Warning,
		Summary: "Reported only with --mode addon: a preset with applyAt: Launch sets a field that KubeVirt updates on running VMIs.",
		Reason: "With the rollout strategy LiveUpdate, KubeVirt's default, virt-controller sets nodeSelector, tolerations, affinity, sockets and guest memory of a VMI to the VM's values, " +
			"soon after it created the VMI. The VMI loses the value of the preset, or needs a restart for ever.",
		Fix: "Use applyAt: Definition, or the rollout strategy Stage.",
	}
)

// Checks lists all checks by ID.
var Checks = []*Check{
	UnknownField, InvalidPreset, invalidValue, invalidVM, warnedValue, unsupported, suspiciousValue, incompleteVM, Unreachable, NoOp, Shadowed, unpairedElement, misspeltSelector, selectsPresetValue, selectsNothing, idleException,
	Conflicting, removesStronger, Forbidden, invalidTogether, RejectedVM, IncompleteVM, unguardedExpression, unknownSelection, mistakenComparison, unusedVariable, underInstancetypeCheck,
	undoneAtLaunch,
}

// CheckPreset reports invalid values, and expressions that fail for some VMs, in a compiled preset.
func CheckPreset(rules *validation.Config, p v1alpha1.Preset, compiled *presets.Compiled) []Finding {
	unguarded, _ := compiled.Expressions().Unguarded(condition.AllSteps)
	var out []Finding
	for _, problem := range rules.ValidatePreset(p, compiled, condition.AllSteps).Errors {
		check := invalidValue
		if slices.ContainsFunc(unguarded, func(e *field.Error) bool { return e.Field == problem.Field }) {
			check = unguardedExpression
		}
		out = append(out, Finding{
			Check: check, Preset: compiled.Name(),
			Field: problem.Field, Message: problem.ErrorBody(), problem: problem,
		})
	}
	for _, kind := range []struct {
		*Check
		found field.ErrorList
	}{
		{unknownSelection, compiled.Expressions().UnknownSelections()},
		{mistakenComparison, compiled.Expressions().MistakenComparisons()},
		{unusedVariable, compiled.Expressions().UnusedVariables()},
	} {
		for _, problem := range kind.found {
			out = append(out, Finding{Check: kind.Check, Preset: compiled.Name(), Field: problem.Field, Message: problem.Detail})
		}
	}
	if i := compiled.Expressions().TrueCondition(); i >= 0 {
		at := field.NewPath("spec", "match", "conditions").Index(i).Child("expression")
		out = append(out, Finding{Check: mistakenComparison, Preset: compiled.Name(), Field: at.String(), Message: "the condition is true for every VM; join != by && instead of ||"})
	}
	if namespace := p.GetNamespace(); compiled.Cluster() && namespace != "" {
		out = append(out, Finding{
			Check: suspiciousValue, Preset: compiled.Name(), Field: "metadata.namespace",
			Message: fmt.Sprintf("a cluster preset has no namespace, and acts in all of them; use a VirtualMachinePreset, or select namespace %s by match.namespaces", namespace),
		})
	}
	if rules.Addon && !rules.NoLiveUpdate {
		out = append(out, undone(compiled)...)
	}
	return out
}

// undone reports what KubeVirt undoes on running VMIs, each list once.
func undone(compiled *presets.Compiled) []Finding {
	var out []Finding
	for _, path := range compiled.UndoneByLiveUpdate() {
		list, _, isElement := strings.Cut(path, "[")
		f := Finding{Check: undoneAtLaunch, Preset: compiled.Name(), Field: "spec." + path, Message: validation.UndoneByLiveUpdate}
		if isElement {
			f.Field, f.OnKey = "spec."+list, true
		}
		if !slices.ContainsFunc(out, func(o Finding) bool { return o.Field == f.Field }) {
			out = append(out, f)
		}
	}
	return out
}
