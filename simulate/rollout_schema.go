package simulate

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// checkRolloutSchema rejects what authors get wrong and what API servers reject by the schema of
// the CRD, before they call webhooks. It does not know the limits of numbers of items.
func checkRolloutSchema(r *v1alpha1.PresetRollout) (out field.ErrorList) {
	at, spec := field.NewPath("spec"), &r.Spec
	if len(spec.Presets) == 0 {
		out = append(out, field.Required(at.Child("presets"), "must name the presets"))
	}
	seen := sets.New[string]()
	for i, ref := range spec.Presets {
		at := at.Child("presets").Index(i)
		if !rolloutPreset.MatchString(ref) {
			out = append(out, field.Invalid(at, ref, "must be cluster/ and the name of a ClusterVirtualMachinePreset"))
		}
		if seen.Has(ref) {
			out = append(out, field.Duplicate(at, ref))
		}
		seen.Insert(ref)
	}
	out = append(out, notOneOf(at.Child("restart"), spec.Restart, v1alpha1.RestartWhenStopped, v1alpha1.RestartRolling)...)
	out = append(out, checkAmounts(at, spec)...)
	if len(spec.Waves) == 0 {
		return append(out, field.Required(at.Child("waves"), "must have a wave"))
	}
	seen = sets.New[string]()
	for i := range spec.Waves {
		at := at.Child("waves").Index(i)
		if out = append(out, checkWaveSchema(at, &spec.Waves[i])...); seen.Has(spec.Waves[i].Name) {
			out = append(out, field.Duplicate(at.Child("name"), spec.Waves[i].Name))
		}
		seen.Insert(spec.Waves[i].Name)
	}
	if last := spec.Waves[len(spec.Waves)-1]; last.VMs != nil || last.Namespaces != nil {
		out = append(out, field.Invalid(at.Child("waves"), last.Name, "the last wave takes all other VMs: add a wave without vms and namespaces"))
	}
	return out
}

var rolloutPreset = regexp.MustCompile(`^cluster/[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`)

var amount = regexp.MustCompile(`^(\d+|(100|[1-9]?[0-9])%)$`)

// checkAmounts rejects limits that are neither numbers nor percentages, and times that pass at
// once.
func checkAmounts(at *field.Path, spec *v1alpha1.PresetRolloutSpec) (out field.ErrorList) {
	check := func(at *field.Path, value *intstr.IntOrString) {
		if value != nil && !amount.MatchString(value.String()) {
			out = append(out, field.Invalid(at, value.String(), "must be a number, or a percentage such as 2%"))
		}
	}
	check(at.Child("failure", "maxFailed"), spec.Failure.MaxFailed)
	if d := spec.Health.VMDeadline; d != nil && d.Duration <= 0 {
		out = append(out, field.Invalid(at.Child("health", "vmDeadline"), d.Duration.String(), "must be a duration such as 20m"))
	}
	for i := range spec.Budgets {
		b, at := &spec.Budgets[i], at.Child("budgets").Index(i)
		check(at.Child("maxUnavailable"), &b.MaxUnavailable)
		out = append(out, notOneOf(at.Child("per"), b.Per, v1alpha1.BudgetPerNamespace)...)
		if (b.Schedule == "") != (b.Duration == nil) || b.TimeZone != "" && b.Schedule == "" {
			out = append(out, field.Invalid(at, b.Schedule, "schedule and duration need each other, and timeZone needs schedule"))
		}
		if b.Duration != nil && b.Duration.Duration < time.Minute {
			out = append(out, field.Invalid(at.Child("duration"), b.Duration.Duration.String(), "must be a duration of at least a minute, such as 12h"))
		}
	}
	return out
}

var step = regexp.MustCompile(`^(100|[1-9][0-9]?)%$`)

func checkWaveSchema(at *field.Path, w *v1alpha1.RolloutWave) (out field.ErrorList) {
	for _, why := range validation.IsDNS1123Label(w.Name) {
		out = append(out, field.Invalid(at.Child("name"), w.Name, why))
	}
	out = append(out, notOneOf(at.Child("approval"), w.Approval, v1alpha1.ApprovalNone, v1alpha1.ApprovalRequired)...)
	if w.Bake != nil && w.Bake.Duration < 0 {
		out = append(out, field.Invalid(at.Child("bake"), w.Bake.Duration.String(), "must be a duration such as 90m"))
	}
	before := 0
	for i, text := range w.Steps {
		percent, _ := strconv.Atoi(strings.TrimSuffix(text, "%")) // the pattern is checked
		switch at := at.Child("steps").Index(i); {
		case !step.MatchString(text):
			out = append(out, field.Invalid(at, text, "must be a percentage from 1% to 100%"))
		case percent <= before:
			out = append(out, field.Invalid(at, text, "each step must be larger than the one before"))
		case i == len(w.Steps)-1 && percent < 100:
			out = append(out, field.Invalid(at, text, "the last step must be 100%"))
		}
		before = percent
	}
	return out
}

// notOneOf rejects a value that is neither empty nor known.
func notOneOf[T ~string](at *field.Path, value T, known ...T) field.ErrorList {
	if value == "" || slices.Contains(known, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(at, value, known)}
}
