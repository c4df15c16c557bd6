package presets

import (
	"fmt"
	"maps"
	"slices"

	"github.com/google/cel-go/common/ast"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/presets/provenance"
)

// UnknownSelections reports fields that conditions and computed values select, and that no VM has.
// An optional selection of such a field never has a value.
func (c *Compiled) UnknownSelections() field.ErrorList {
	var errs field.ErrorList
	for at, x := range c.expressions {
		p := probe{analysis: &analysis{steps: AllSteps, origins: x.origins}, unknown: map[string]string{}}
		p.eval(x.syntax, nil)
		for _, selection := range slices.Sorted(maps.Keys(p.unknown)) {
			errs = append(errs, field.Invalid(at, x.text, p.unknown[selection]))
		}
	}
	return errs
}

// ReadsOfComputed reports computed defaults that read another value which the preset computes,
// without a fallback for VMs that lack it. Such defaults are skipped.
func (c *Compiled) ReadsOfComputed() field.ErrorList {
	computed := map[string]bool{}
	for _, action := range c.Actions() {
		if action.Computed {
			computed[action.Path.String()] = true
		}
	}
	var errs field.ErrorList
	visitLeaves(c.defaults, func(leaf *fieldNode) {
		if leaf.computed == nil || hasFallback(leaf.computed.syntax) {
			return
		}
		ast.PostOrderVisit(leaf.computed.syntax, ast.NewExprVisitor(func(e ast.Expr) {
			path := plainSelection(e)
			if len(path) < 2 {
				return
			}
			if read := provenance.Of(path[1:]...); computed[read.String()] && !read.Equal(leaf.path) {
				errs = append(errs, field.Invalid(field.NewPath("spec", "defaults").Child(leaf.text), leaf.computed.text,
					fmt.Sprintf("reads %s, which the preset computes: expressions see the VM without computed values", read)))
			}
		}))
	})
	return errs
}

// hasFallback reports whether an expression tests a field, or has a value for absent ones.
func hasFallback(e ast.Expr) bool {
	found := false
	ast.PostOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		isTest := e.Kind() == ast.SelectKind && e.AsSelect().IsTestOnly()
		isOptional := e.Kind() == ast.CallKind && slices.Contains([]string{"orValue", "or", "hasValue", "optMap"}, e.AsCall().FunctionName())
		found = found || isTest || isOptional
	}))
	return found
}

// noteUnknown notes the selection of a field that the schema of a VM lacks.
func (p *probe) noteUnknown(of, name string) {
	if p.unknown == nil || of == "" || p.origins[p.at] != nil { // the variable itself is reported
		return
	}
	if s := schemaOfSelection(of); s != nil && s.shape == shapeObject && len(s.fields) > 0 && s.fields[name] == nil {
		p.unknown[of+pathSeparator+name] = celPath(of) + ": " + unknownField(name, s, nil)
	}
}
