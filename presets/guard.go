package presets

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/presets/provenance"
)

// maxAdvised is how many selections a message names.
const maxAdvised = 3

// Unguarded reports the conditions, and the computed values of overrides, that fail for
// some VMs: they select a field that a VM, or its namespace, may lack. Such a condition
// refuses every VM without the field. Each problem shows what to write instead.
func (c *Compiled) Unguarded() field.ErrorList {
	var errs field.ErrorList
	a := analysis{left: maxProbeSteps}
	at := field.NewPath("spec", "match", "conditions")
	for i, condition := range c.conditions {
		why, checked := a.complaint(condition)
		if why != "" {
			errs = append(errs, field.Invalid(at.Index(i).Child("expression"), condition.text, why))
		}
		if checked != nil {
			a.guards = append(a.guards, checked) // the next is evaluated only if this is true
		}
	}
	if c.overrides == nil {
		return errs
	}
	a.given = givenBy(c.overrides)
	visitLeaves(c.overrides, func(leaf *fieldNode) {
		if leaf.computed == nil {
			return
		}
		if why, _ := a.complaint(leaf.computed.expression); why != "" {
			errs = append(errs, field.Invalid(field.NewPath("spec", "overrides").Child(leaf.path), leaf.computed.text, why))
		}
	})
	return errs
}

// givenBy are the selections that every VM has once a preset's own plain overrides have
// acted, which computed values see.
func givenBy(overrides *fieldNode) map[string]bool {
	out := map[string]bool{}
	visitLeaves(overrides, func(leaf *fieldNode) {
		if leaf.computed != nil {
			return
		}
		names := []string{"object"}
		for _, seg := range leaf.at {
			if seg.Kind != provenance.Field {
				return
			}
			names = append(names, seg.Name)
			out[strings.Join(names, pathSeparator)] = true
		}
	})
	return out
}

// complaint says why an expression may fail, and what to write instead; empty where it
// cannot. It also returns the compiled expression, unless that is constant.
func (a *analysis) complaint(x expression) (string, ast.Expr) {
	if x.isConstant() {
		e := evaluation{ctx: context.Background(), left: conditionCost}
		if _, err := e.value(x); err != nil {
			return "always fails: " + err.Error(), nil
		}
		return "", nil
	}
	_, checked, err := checkExpression(x.text)
	if err != nil {
		return "", nil // compiling refuses it
	}
	e := checked.NativeRep().Expr()
	return guardAdvice(a.unguarded(e)), e
}

// NeverActs says why the preset can never act; empty where it can.
func (c *Compiled) NeverActs() string {
	if c.defaults == nil && c.overrides == nil && len(c.removes) == 0 && len(c.forbids) == 0 {
		return "it has no defaults, overrides, remove or forbid"
	}
	if i := c.FalseCondition(); i >= 0 {
		return c.conditions[i].name + " is always false"
	}
	return ""
}

// FalseCondition returns the index of a condition that is false for every VM; -1 without one.
func (c *Compiled) FalseCondition() int {
	return slices.IndexFunc(c.conditions, func(condition expression) bool {
		if !condition.isConstant() {
			return false
		}
		e := evaluation{ctx: context.Background(), left: conditionCost}
		holds, err := e.holds(condition)
		return err == nil && !holds
	})
}

// isConstant reports whether an expression reads nothing of the VM or its namespace.
func (x expression) isConstant() bool {
	return !strings.Contains(x.text, "object") && !strings.Contains(x.text, "namespaceObject")
}

// guardAdvice says which selections may be absent, and what to write instead of them.
func guardAdvice(selections []string) string {
	// One that others lie in is guarded with them.
	longest := slices.DeleteFunc(slices.Clone(selections), func(s string) bool {
		return slices.ContainsFunc(selections, func(o string) bool {
			return strings.HasPrefix(o, s+pathSeparator) || strings.HasPrefix(o, s+"[]"+pathSeparator)
		})
	})
	if len(longest) == 0 {
		return ""
	}
	var absent, instead []string
	for _, s := range longest[:min(len(longest), maxAdvised)] {
		absent = append(absent, celPath(s))
		instead = append(instead, optionalForm(s))
	}
	return fmt.Sprintf("fails for VMs without %s; write %s instead", strings.Join(absent, " or "), strings.Join(instead, " and "))
}

// optionalForm is a selection that has a value also where the field is absent. An element of
// a list is called x.
func optionalForm(selection string) string {
	names := strings.Split(selection, pathSeparator)
	start := 1
	if i := strings.LastIndex(selection, "[]"+pathSeparator); i >= 0 {
		start = strings.Count(selection[:i], pathSeparator) + 1
	}
	var out strings.Builder
	out.WriteString(names[0])
	if start > 1 {
		out.Reset()
		out.WriteString("x")
	}
	optional := false
	for i, name := range names[start:] {
		optional = optional || !isAlwaysPresent(strings.Join(names[:start+i+1], pathSeparator))
		switch {
		case optional && name == anyKey:
			out.WriteString("[?KEY]")
		case optional && isIdentifier(name):
			out.WriteString(".?" + name)
		case optional:
			out.WriteString("[?'" + name + "']")
		default:
			out.WriteString("." + name)
		}
	}
	return out.String() + ".orValue(" + zeroOf(selection) + ")"
}

// zeroOf is the value that stands for an absent field of the selection's type.
func zeroOf(selection string) string {
	s := schemaOfSelection(selection)
	if s == nil {
		return "''"
	}
	switch s.shape {
	case shapeBool:
		return "false"
	case shapeInteger:
		return "0"
	case shapeNumber:
		return "0.0"
	case shapeObject, shapeMap, shapeAny:
		return "{}"
	case shapeKeyed, shapeAtomic:
		return "[]"
	}
	return "''"
}

// schemaOfSelection is the schema of what a selection from object is; nil for others.
func schemaOfSelection(selection string) *schema {
	names := strings.Split(selection, pathSeparator)
	if names[0] != "object" {
		return nil
	}
	s := vmSchema()
	for _, name := range names[1:] {
		plain := strings.TrimSuffix(name, "[]")
		if s.shape == shapeMap {
			s = s.elem
		} else {
			s = s.fields[plain]
		}
		if s != nil && plain != name {
			s = s.elem
		}
		if s == nil {
			return nil
		}
	}
	return s
}

const (
	// pathSeparator stands between the names of a selection; labels may contain dots.
	pathSeparator = "\x00"
	// anyKey is a key of a map that only the evaluation shows.
	anyKey = "*"
)

// celPath is a selection as CEL writes it.
func celPath(selection string) string {
	var out strings.Builder
	for i, name := range strings.Split(selection, pathSeparator) {
		switch {
		case i == 0:
			out.WriteString(name)
		case name == anyKey:
			out.WriteString("[KEY]")
		case isIdentifier(strings.TrimSuffix(name, "[]")):
			out.WriteString("." + name)
		default:
			out.WriteString("['" + name + "']")
		}
	}
	return out.String()
}

var celReserved = strings.Fields("true false null in as break const continue else for function if import let loop package namespace return var void while")

func isIdentifier(name string) bool {
	for i := range len(name) {
		b := name[i]
		if b != '_' && (b|0x20 < 'a' || b|0x20 > 'z') && (i == 0 || b < '0' || b > '9') {
			return false
		}
	}
	return name != "" && !slices.Contains(celReserved, name)
}

// isAlwaysPresent reports whether expressions find a selection on every VM and its
// namespace: some are filled in for them, and some the schema requires where they are.
func isAlwaysPresent(selection string) bool {
	if filledIn[selection] {
		return true
	}
	cut := strings.LastIndex(selection, pathSeparator)
	if cut < 0 {
		return false
	}
	parent := schemaOfSelection(selection[:cut])
	return parent != nil && parent.required[selection[cut+len(pathSeparator):]]
}

var filledIn = func() map[string]bool {
	out := map[string]bool{}
	for _, path := range []string{
		"object.apiVersion", "object.kind", "object.metadata.namespace", "object.spec.template.spec.domain.devices",
		"namespaceObject.apiVersion", "namespaceObject.kind", "namespaceObject.metadata.name",
		"namespaceObject.metadata.labels", "namespaceObject.metadata.annotations",
	} {
		names := strings.Split(path, ".")
		for i := range names {
			out[strings.Join(names[:i+1], pathSeparator)] = true
		}
	}
	out[strings.Join([]string{"namespaceObject", "metadata", "labels", "kubernetes.io/metadata.name"}, pathSeparator)] = true
	return out
}()

// An analysis looks for selections that make expressions of one preset fail.
type analysis struct {
	// left is how many evaluations may follow; a probe that runs out makes no claim.
	left int
	// guards are conditions that are true where the expression is evaluated.
	guards []ast.Expr
	// given are selections that the preset itself sets.
	given map[string]bool
}

const (
	// maxProbes is how many field selections of an expression are probed.
	maxProbes = 128
	// maxProbeSteps bounds the work on all expressions of a preset; what is left is not probed.
	maxProbeSteps = 500_000
)

// unguarded lists the selections of an expression that make it fail where they alone are
// absent, with everything that they lie in present.
func (a *analysis) unguarded(e ast.Expr) []string {
	survey := probe{analysis: a, seen: map[string]bool{}}
	survey.eval(e, nil)
	var out []string
	for _, selection := range survey.order[:min(len(survey.order), maxProbes)] {
		if a.fails(e, selection) {
			out = append(out, selection)
		}
	}
	return out
}

// fails reports whether an expression may fail for VMs that lack a selection, where all
// guards are true.
func (a *analysis) fails(e ast.Expr, selection string) bool {
	p := probe{analysis: a, absent: selection}
	for _, guard := range a.guards {
		if p.eval(guard, nil).may&isTrue == 0 {
			return false
		}
	}
	return p.eval(e, nil).may&fails != 0 && a.left > 0
}
