package presets

import (
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"

	"github.com/virtwright/virtwright/presets/vmschema"
)

// anyText stands for the part of a pattern that differs between VMs.
const anyText = "*"

// patternOf returns the literal texts that an expression joins, with * for its other parts.
func patternOf(e ast.Expr) string {
	switch e.Kind() {
	case ast.LiteralKind:
		if text, ok := e.AsLiteral().Value().(string); ok {
			return text
		}
	case ast.CallKind:
		if call := e.AsCall(); call.FunctionName() == operators.Add && len(call.Args()) == 2 {
			return strings.ReplaceAll(patternOf(call.Args()[0])+patternOf(call.Args()[1]), anyText+anyText, anyText)
		}
	}
	return anyText
}

// ComputedKeys returns the patterns of the computed keys of list elements, by the path of the
// element in Actions.
func (c *Compiled) ComputedKeys() map[string]string {
	out := map[string]string{}
	c.defaults.collectKeys(out)
	c.overrides.collectKeys(out)
	return out
}

func (f *fieldNode) collectKeys(out map[string]string) {
	if f == nil {
		return
	}
	for _, kid := range f.children {
		kid.collectKeys(out)
	}
	for _, kid := range f.unkeyed {
		fields := map[string]any{}
		visitLeaves(kid, func(leaf *fieldNode) {
			value := leaf.value
			if leaf.computed != nil {
				value = patternOf(leaf.computed.syntax)
			}
			if leaf.isKey {
				setField(fields, leaf.path[len(kid.path):], value, true)
			}
		})
		out[kid.text], _ = vmschema.ElementKey(f.schema.Keys, fields)
		kid.collectKeys(out)
	}
}

// SelectsNamespace reports whether the preset may apply to VMs of a namespace.
func (c *Compiled) SelectsNamespace(n Namespace) bool {
	return (c.Cluster() || c.Namespace == n.Name) && matches(c.namespaces, n.Labels)
}

// ReadsNamespace reports whether an expression of the preset reads the namespace of a VM.
func (c *Compiled) ReadsNamespace() bool {
	reads := func(x expression) bool { return strings.Contains(x.text, "namespaceObject") }
	found := false
	for _, x := range c.conditions {
		found = found || reads(x)
	}
	c.leaves(func(_ string, leaf *fieldNode) {
		found = found || leaf.computed != nil && reads(leaf.computed.expression)
	})
	return found
}
