package format

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/virtwright/virtwright/lifecycle/templates/blueprint"
)

// A Listing is a parameter of a template, as lists of them show it.
type Listing struct {
	Name, Default string
	// From is the expression of which a value is generated; empty where none is.
	From     string
	Required bool
	// Type is that of its values in JSON: what its note says, or its default; any
	// where neither tells.
	Type string
	// Paths are where it stands: in the object, in keys below a path ("data
	// (key)"), in labels of the template, in its message.
	Paths []string
}

// unknownType is the type of values of which nothing tells.
const unknownType = "any"

// List lists the parameters of a template of any of the forms, in its order. The
// error says why the template cannot be read.
func List(template *unstructured.Unstructured) ([]Listing, error) {
	d, err := read(template)
	if err != nil {
		return nil, err
	}
	in := newInput(d, nil, nil)
	list := make([]Listing, len(d.Parameters))
	for i, p := range d.Parameters {
		list[i] = Listing{Name: p.Name, Default: p.Value, Required: p.Required, Type: string(blueprint.String)}
		if p.Generate != "" {
			list[i].From = p.From
		}
	}
	in.everywhere(func(name string, at place, path string) {
		i, known := in.index[name]
		switch {
		case !known, at.whole && at.key:
		case at.whole:
			list[i].Type = cmp.Or(string(in.typeOf(d.Parameters[i])), unknownType)
			list[i].Paths = append(list[i].Paths, path)
		case !slices.Contains(list[i].Paths, path):
			list[i].Paths = append(list[i].Paths, path)
		}
	})
	for i := range list {
		if n, noted := in.notes[list[i].Name]; noted {
			list[i].Type = string(n.Type)
		}
	}
	return list, nil
}

// everywhere calls f for every reference in objects, labels and message, with its
// path as lists show it.
func (in input) everywhere(f func(name string, at place, path string)) {
	shown := func(prefix string) func(string, place) {
		return func(name string, at place) {
			path := at.at
			switch {
			case path == "":
				path = prefix
			case prefix != "" && path[0] == '[':
				path = prefix + path
			case prefix != "":
				path = prefix + "." + path
			}
			if at.key {
				path = strings.TrimPrefix(path+" (key)", " ")
			}
			f(name, at, path)
		}
	}
	for i, object := range in.Objects {
		prefix := ""
		if len(in.Objects) > 1 {
			prefix = fmt.Sprintf("objects[%d]", i)
		}
		refer(object, place{object: i}, shown(prefix))
	}
	refer(anyOf(in.Labels), place{}, shown("labels"))
	refer(in.Message, place{}, shown("message"))
}

// Misnamed says which parameters nobody could give a value; nil for none.
func Misnamed(list []Listing) error {
	var names []string
	for _, p := range list {
		names = append(names, p.Name)
	}
	problems := misnamed(names)
	if len(problems) == 0 {
		return nil
	}
	slices.Sort(problems)
	return errors.New(strings.Join(slices.Compact(problems), "\n"))
}

// misnamed are problems with names of parameters.
func misnamed(names []string) []string {
	var problems []string
	seen := map[string]bool{}
	for _, name := range names {
		if seen[name] {
			problems = append(problems, name+": the template has two parameters of this name")
		}
		if !processable.MatchString(name) {
			problems = append(problems, fmt.Sprintf("%q: names of parameters consist of letters, digits and underscores", name))
		}
		seen[name] = true
	}
	return problems
}
