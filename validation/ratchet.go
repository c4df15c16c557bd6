package validation

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/presets/tree"
)

// OnlyNew returns the problems that are not in before, the problems of the stored object. It is for
// problems without a rule; Validate does the same for those of rules.
func (vm *ExpandedVM) OnlyNew(problems, before field.ErrorList) field.ErrorList {
	if vm.Old == nil || len(before) == 0 {
		return problems
	}
	var out field.ErrorList
	for _, p := range newProblems(withoutRule(problems), vm, withoutRule(before), vm.Old) {
		out = append(out, p.err)
	}
	return out
}

func withoutRule(problems field.ErrorList) []problem {
	out := make([]problem, 0, len(problems))
	for _, err := range problems {
		out = append(out, problem{rule: &Rule{}, err: err})
	}
	return out
}

// newProblems returns the problems of now that are not in before. A forbidden field may keep its
// values or lose some of them.
func newProblems(now []problem, vm *ExpandedVM, before []problem, old *ExpandedVM) []problem {
	if len(before) == 0 {
		return now
	}
	known := map[string][]any{} // old values at the path, by identity
	root := old.decoded()
	for _, p := range before {
		id, at := p.identity(root)
		known[id] = append(known[id], at)
	}
	root = vm.decoded()
	var out []problem
	for _, p := range now {
		id, at := p.identity(root)
		was := known[id]
		if len(was) == 0 || p.err.Type == field.ErrorTypeForbidden && tree.HasNewValues(was[0], at) {
			out = append(out, p)
			continue
		}
		known[id] = was[1:]
	}
	return out
}

// identity returns a key of the problem that does not depend on the order of lists, and the value
// at its path.
func (p problem) identity(root any) (id string, at any) {
	path, at := namedPath(root, p.err.Field)
	return p.rule.ID + "\n" + path + "\n" + fmt.Sprint(p.err.BadValue) + "\n" + p.err.Detail, at
}

func (vm *ExpandedVM) decoded() any {
	var root any
	_ = kjson.UnmarshalCaseSensitivePreserveInts(vm.raw, &root) // decoded without error before
	return root
}

// sends reports whether the JSON has a value at a path. KubeVirt's schema requires some fields
// whose zero value it admits.
func (vm *ExpandedVM) sends(at *field.Path) bool {
	if vm.root == nil {
		vm.root = vm.decoded()
	}
	_, value := namedPath(vm.root, at.String())
	return value != nil
}

// namedPath returns path with the names of list elements in place of their positions, if they have
// names, and the value at path.
func namedPath(v any, path string) (string, any) {
	var out strings.Builder
	for step := range strings.SplitSeq(path, ".") {
		name, rest, _ := strings.Cut(step, "[")
		fields, _ := v.(map[string]any)
		v = fields[name]
		out.WriteString("." + name)
		for rest != "" {
			var index string
			index, rest, _ = strings.Cut(rest, "]")
			rest = strings.TrimPrefix(rest, "[")
			v, index = elementAt(v, index)
			out.WriteString("[" + index + "]")
		}
	}
	return out.String(), v
}

// elementAt returns the list element at an index, and its name if it has one.
func elementAt(v any, index string) (any, string) {
	list, _ := v.([]any)
	i, err := strconv.Atoi(index)
	if err != nil || i < 0 || i >= len(list) {
		return nil, index
	}
	fields, _ := list[i].(map[string]any)
	if name, ok := fields["name"].(string); ok && name != "" {
		return list[i], name
	}
	return list[i], index
}
