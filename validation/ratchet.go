package validation

import (
	"fmt"
	"strconv"
	"strings"

	kjson "sigs.k8s.io/json"
)

// newIn returns the problems of now that were not there before.
func newIn(now []problem, m *Machine, before []problem, old *Machine) []problem {
	if len(before) == 0 {
		return now
	}
	known := map[string]int{}
	names := old.names()
	for _, p := range before {
		known[p.identity(names)]++
	}
	names = m.names()
	var out []problem
	for _, p := range now {
		id := p.identity(names)
		if known[id] > 0 {
			known[id]--
			continue
		}
		out = append(out, p)
	}
	return out
}

// identity tells one problem from another, whatever the order of lists.
func (p problem) identity(root any) string {
	return p.rule.ID + "\n" + named(root, p.err.Field) + "\n" + fmt.Sprint(p.err.BadValue) + "\n" + p.err.Detail
}

// names is the machine as decoded JSON, in which elements have names.
func (m *Machine) names() any {
	var root any
	_ = kjson.UnmarshalCaseSensitivePreserveInts(m.raw, &root) // it was read before
	return root
}

// named is path with the names of elements instead of their positions, as far
// as they have names.
func named(v any, path string) string {
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
	return out.String()
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
