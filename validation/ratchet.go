package validation

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/presets"
)

// New returns those of problems that m has and its Old, on an update, did not
// have. They are of no rule, which Validate ratchets itself.
func (m *Machine) New(problems, before field.ErrorList) field.ErrorList {
	if m.Old == nil || len(before) == 0 {
		return problems
	}
	var out field.ErrorList
	for _, p := range newIn(ruleless(problems), m, ruleless(before), m.Old) {
		out = append(out, p.err)
	}
	return out
}

func ruleless(problems field.ErrorList) []problem {
	out := make([]problem, 0, len(problems))
	for _, err := range problems {
		out = append(out, problem{rule: &Rule{}, err: err})
	}
	return out
}

// newIn returns the problems of now that were not there before. What is
// forbidden altogether may stay as it is or become less.
func newIn(now []problem, m *Machine, before []problem, old *Machine) []problem {
	if len(before) == 0 {
		return now
	}
	known := map[string][]any{} // what lay at the path, by identity
	root := old.names()
	for _, p := range before {
		id, at := p.identity(root)
		known[id] = append(known[id], at)
	}
	root = m.names()
	var out []problem
	for _, p := range now {
		id, at := p.identity(root)
		was := known[id]
		if len(was) == 0 || p.err.Type == field.ErrorTypeForbidden && presets.Grows(was[0], at) {
			out = append(out, p)
			continue
		}
		known[id] = was[1:]
	}
	return out
}

// identity tells one problem from another, whatever the order of lists, and
// returns what lies at its path.
func (p problem) identity(root any) (id string, at any) {
	path, at := named(root, p.err.Field)
	return p.rule.ID + "\n" + path + "\n" + fmt.Sprint(p.err.BadValue) + "\n" + p.err.Detail, at
}

// names is the machine as decoded JSON, in which elements have names.
func (m *Machine) names() any {
	var root any
	_ = kjson.UnmarshalCaseSensitivePreserveInts(m.raw, &root) // it was read before
	return root
}

// named is path with the names of elements instead of their positions, as far
// as they have names, and what lies there.
func named(v any, path string) (string, any) {
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
			v, index = element(v, index)
			out.WriteString("[" + index + "]")
		}
	}
	return out.String(), v
}

// element is what lies at index of a list, with its name.
func element(v any, index string) (any, string) {
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
