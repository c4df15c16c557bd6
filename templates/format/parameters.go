package format

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/templates/blueprint"
)

// ParameterInfo describes a parameter of a template.
type ParameterInfo struct {
	Name, Default string
	From          string // the expression from which a value is generated; empty if none is
	Required      bool
	// Type is the type of values in JSON: that of the note, or else that of the default; "any" if
	// it is unknown.
	Type string
	// Paths are the places that refer to the parameter: fields, keys below a path ("data (key)"),
	// labels of the template, and its message.
	Paths []string
}

// ListParameters lists the parameters of a template of any format, in its order.
func ListParameters(template *unstructured.Unstructured) ([]ParameterInfo, error) {
	d, err := read(template)
	if err != nil {
		return nil, err
	}
	in := newInput(d, nil, nil)
	list := make([]ParameterInfo, len(d.Parameters))
	for i, p := range d.Parameters {
		list[i] = ParameterInfo{Name: p.Name, Default: p.Value, Required: p.Required, Type: string(blueprint.String)}
		if p.Generate != "" {
			list[i].From = p.From
		}
	}
	in.allReferences(func(name string, at location) {
		i, known := in.index[name]
		switch {
		case !known, at.whole && at.inKey:
		case at.whole:
			list[i].Type = cmp.Or(string(in.typeOf(d.Parameters[i])), "any")
			list[i].Paths = append(list[i].Paths, at.path)
		case !slices.Contains(list[i].Paths, at.path):
			list[i].Paths = append(list[i].Paths, at.path)
		}
	})
	for i := range list {
		if n, noted := in.notes[list[i].Name]; noted {
			list[i].Type = string(n.Type)
		}
	}
	return list, nil
}

// allReferences calls f for every reference in objects, labels and message, with a path for people.
func (in input) allReferences(f func(name string, at location)) {
	below := func(prefix string) func(string, location) {
		return func(name string, at location) {
			if prefix != "" && at.path != "" && at.path[0] != '[' {
				at.path = "." + at.path
			}
			at.path = prefix + at.path
			if at.inKey {
				at.path = strings.TrimPrefix(at.path+" (key)", " ")
			}
			f(name, at)
		}
	}
	for i, object := range in.Objects {
		prefix := ""
		if len(in.Objects) > 1 {
			prefix = fmt.Sprintf("objects[%d]", i)
		}
		visitReferences(object, location{object: i}, below(prefix))
	}
	visitReferences(anyOf(in.Labels), location{}, below("labels"))
	visitReferences(in.Message, location{}, below("message"))
}

var parameterName = regexp.MustCompile(`^[a-zA-Z0-9_]+$`)

// ValidateNames returns an error that lists invalid and duplicate names of parameters.
func ValidateNames(list []ParameterInfo) error {
	var names []string
	for _, p := range list {
		names = append(names, p.Name)
	}
	problems := invalidNames(names)
	if len(problems) == 0 {
		return nil
	}
	slices.Sort(problems)
	return errors.New(strings.Join(slices.Compact(problems), "\n"))
}

func invalidNames(names []string) []string {
	var problems []string
	seen := map[string]bool{}
	for _, name := range names {
		if seen[name] {
			problems = append(problems, name+": Duplicate value: the template defines this parameter twice")
		}
		if !parameterName.MatchString(name) {
			problems = append(problems, fmt.Sprintf("%q: invalid parameter name: use letters, digits and underscores", name))
		}
		seen[name] = true
	}
	return problems
}

const (
	maxSuggestions = 5
	maxCompared    = 200 // bounds the time of a comparison
)

// suggestion names the parameters that resemble an unknown name, or else some of all.
func suggestion(name string, known []string) string {
	similar := slices.DeleteFunc(slices.Clone(known), func(other string) bool { return !resembles(strings.ToUpper(name), strings.ToUpper(other)) })
	switch {
	case len(known) == 0:
		return "the template defines none"
	case len(similar) > 0:
		return "did you mean " + some(similar) + "?"
	}
	return "the template defines " + some(known)
}

func some(names []string) string {
	slices.Sort(names)
	return tree.List(names, maxSuggestions)
}

func resembles(a, b string) bool {
	if a == "" || b == "" || len(a) > maxCompared || len(b) > maxCompared {
		return false
	}
	return strings.Contains(b, a) || strings.Contains(a, b) || levenshtein.ComputeDistance(a, b) <= max(len(a), len(b))/4
}
