package condition

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/presets/provenance"
)

// A Set holds the expressions of one preset. Its methods analyse them together.
type Set struct {
	Variables  []*Variable
	Conditions []Expression
	// Defaults and Overrides are the computed values.
	Defaults, Overrides []Computed
	// Overridden are the fields to which overrides give a value that is not computed.
	Overridden []provenance.Path
	// Labels and Namespaces select VMs and namespaces; nil selects all.
	Labels, Namespaces labels.Selector
}

// A Computed is the expression of a value.
type Computed struct {
	Expression
	Field string // in the VM
}

// An expressionAt is an expression with its field in the preset.
type expressionAt struct {
	Expression
	at *field.Path
}

// expressions lists the variables, conditions and computed values.
func (s Set) expressions() []expressionAt {
	var out []expressionAt
	for _, v := range s.Variables {
		out = append(out, expressionAt{v.Expression, v.path()})
	}
	for i, condition := range s.Conditions {
		out = append(out, expressionAt{condition, conditionPath(i)})
	}
	for _, x := range s.Defaults {
		out = append(out, expressionAt{x.Expression, field.NewPath("spec", "defaults").Child(x.Field)})
	}
	for _, x := range s.Overrides {
		out = append(out, expressionAt{x.Expression, overridePath(x)})
	}
	return out
}

func conditionPath(i int) *field.Path {
	return field.NewPath("spec", "match", "conditions").Index(i).Child("expression")
}

func overridePath(x Computed) *field.Path { return field.NewPath("spec", "overrides").Child(x.Field) }

// ReadsNamespace reports whether a condition or a computed value reads the namespace of a VM.
func (s Set) ReadsNamespace() bool {
	used := s.expressions()[len(s.Variables):] // they contain the texts of their variables
	return slices.ContainsFunc(used, func(x expressionAt) bool { return strings.Contains(x.Text, "namespaceObject") })
}
