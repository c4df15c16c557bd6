package presets

import (
	"github.com/virtwright/virtwright/presets/condition"
	"github.com/virtwright/virtwright/presets/provenance"
)

// An expressionCompiler compiles the expressions of one preset. It counts the computed values.
type expressionCompiler struct {
	condition.Compiler
	computed int
}

// Expressions returns the expressions of the preset, for analyses.
func (c *Compiled) Expressions() condition.Set {
	out := condition.Set{Variables: c.variables, Conditions: c.conditions, Labels: c.labels, Namespaces: c.namespaces}
	out.Defaults, _ = dividedLeaves(c.defaults)
	out.Overrides, out.Overridden = dividedLeaves(c.overrides)
	return out
}

// dividedLeaves returns the computed leaves, and the paths of the others.
func dividedLeaves(root *fieldNode) (computed []condition.Computed, others []provenance.Path) {
	visitLeaves(root, func(leaf *fieldNode) {
		if leaf.computed != nil {
			computed = append(computed, condition.Computed{Expression: leaf.computed.Expression, Field: leaf.text})
		} else {
			others = append(others, leaf.path)
		}
	})
	return computed, others
}

// NeverActs says why the preset can never act; empty if it can.
func (c *Compiled) NeverActs() string {
	if c.defaults == nil && c.overrides == nil && len(c.removes) == 0 && !c.HasRules() {
		return "it has no defaults, overrides, remove, forbid or require"
	}
	expressions := c.Expressions()
	if i := expressions.FalseCondition(); i >= 0 {
		return c.conditions[i].Name + " is always false"
	}
	if i, why := expressions.Contradiction(); i >= 0 {
		return c.conditions[i].Name + " is " + why
	}
	return ""
}
