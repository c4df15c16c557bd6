package condition

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/presets/vmschema"
)

// UnknownSelections reports fields that conditions and computed values select, and that no VM has.
// An optional selection of such a field never has a value.
func (s Set) UnknownSelections() field.ErrorList {
	var errs field.ErrorList
	for _, x := range s.expressions() {
		p := abstractEval{analysis: &analysis{steps: AllSteps, origins: x.origins}, unknown: map[string]string{}}
		p.eval(x.syntax, nil)
		for _, selection := range slices.Sorted(maps.Keys(p.unknown)) {
			errs = append(errs, field.Invalid(x.at, x.Text, p.unknown[selection]))
		}
	}
	return errs
}

// noteUnknown notes the selection of a field that the schema of a VM lacks.
func (p *abstractEval) noteUnknown(of, name string) {
	if p.unknown == nil || of == "" || p.origins[p.at] != nil { // the variable itself is reported
		return
	}
	if s := schemaOfSelection(of); s != nil && s.Shape == vmschema.Object && len(s.Fields) > 0 && s.Fields[name] == nil {
		p.unknown[of+pathSeparator+name] = celPath(of) + ": " + vmschema.UnknownField(name, s, nil)
	}
}
