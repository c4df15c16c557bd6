package fleet

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/validation"
)

// CheckPreset reports values that no VM may have, and expressions that fail for some VMs, in one
// preset that compiles.
func CheckPreset(rules *validation.Config, p v1alpha1.Preset, compiled *presets.Compiled) []Finding {
	unguarded := compiled.Unguarded()
	var out []Finding
	for _, problem := range rules.ValidatePreset(p, compiled).Errors {
		check := InvalidValue
		if slices.ContainsFunc(unguarded, func(e *field.Error) bool { return e.Field == problem.Field }) {
			check = Unguarded
		}
		out = append(out, Finding{
			Check: check, Preset: presets.PresetName{Namespace: compiled.Namespace, Ref: compiled.Ref},
			Field: problem.Field, Message: problem.ErrorBody(),
		})
	}
	return out
}
