package format

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/virtwright/virtwright/lifecycle/templates/blueprint"
)

// parameterName is what names of parameters we write are like: any engine, and
// any shell, takes them.
var parameterName = regexp.MustCompile(`^[A-Z_][A-Z0-9_]*$`)

// Verify processes a template with its defaults and the blueprint's secrets, and
// compares what comes out with the blueprint's source. The error names paths,
// never values. It does not panic.
func (f Format) Verify(template *unstructured.Unstructured, b *blueprint.Blueprint) (err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("cannot verify the template: reading it ends in a panic")
		}
	}()
	w, err := f.writer()
	if err != nil {
		return err
	}
	if template == nil || b == nil || template.GroupVersionKind() != w.Kind {
		return fmt.Errorf("cannot verify the template: it is no %s", w.Kind.Kind)
	}
	d, err := read(template)
	if err != nil {
		return err
	}
	problems := append(d.sound(), d.leaks(b)...)
	r, err := d.run(b.Secrets())
	switch {
	case err != nil:
		problems = append(problems, err)
	case len(r.objects) != 1:
		problems = append(problems, fmt.Errorf("it has %d objects, not one", len(r.objects)))
	default:
		problems = append(problems, differences(wanted(b.VM, b.Source(), r.values), r.objects[0])...)
	}
	if len(problems) > 0 {
		return fmt.Errorf("cannot verify the template: %w", errors.Join(problems...))
	}
	return nil
}

// sound says whether names are unique and well-formed, all parameters are used,
// and nothing else is.
func (d *document) sound() []error {
	var problems []error
	unused := map[string]bool{}
	for _, p := range d.Parameters {
		if unused[p.Name] {
			problems = append(problems, fmt.Errorf("the parameter %s is there twice", p.Name))
		}
		if !parameterName.MatchString(p.Name) {
			problems = append(problems, fmt.Errorf("the parameter %q has an invalid name", p.Name))
		}
		unused[p.Name] = true
	}
	known := maps.Clone(unused)
	d.references(func(name string, at place) {
		delete(unused, name)
		if !known[name] && !at.key {
			problems = append(problems, fmt.Errorf("%s: there is no parameter %s", at.at, name))
		}
		if known[name] && at.key {
			problems = append(problems, fmt.Errorf("%s: a key would be taken for the parameter %s", at.at, name))
		}
	})
	for _, name := range slices.Sorted(maps.Keys(unused)) {
		problems = append(problems, fmt.Errorf("the parameter %s is used nowhere", name))
	}
	return problems
}

// traceable is the shortest secret that is looked for: shorter ones would be
// found by chance.
const traceable = 8

// leaks finds values of secrets in what the template took from the VM.
func (d *document) leaks(b *blueprint.Blueprint) []error {
	said := d.said()
	var problems []error
	for _, p := range b.Parameters {
		value := b.Secrets()[p.Name]
		if p.Class != blueprint.Secret || len(value) < traceable {
			continue
		}
		forms := []string{value, base64.RawStdEncoding.EncodeToString([]byte(value)), base64.RawURLEncoding.EncodeToString([]byte(value))}
		if slices.ContainsFunc(forms, func(form string) bool { return strings.Contains(said, form) }) {
			problems = append(problems, fmt.Errorf("the template holds the value of the secret parameter %s", p.Name))
		}
	}
	return problems
}

// said is all that the template took from the VM: not its kind, nor references
// to parameters.
func (d *document) said() string {
	var ours, theirs []string
	known := map[string]bool{}
	for _, p := range d.Parameters {
		known[p.Name] = true
		theirs = append(theirs, p.Value)
	}
	for key, value := range d.Labels {
		theirs = append(theirs, key, value)
	}
	for _, object := range d.Objects {
		ours = contents(object, ours)
	}
	written := anyToken.ReplaceAllStringFunc(strings.Join(ours, apart), func(token string) string {
		if known[strings.Trim(token, "${}")] {
			return apart
		}
		return token
	})
	return written + apart + strings.Join(theirs, apart)
}

// apart separates texts, so that none is found across two: no text of JSON has it.
const apart = "\xff"

var anyToken = regexp.MustCompile(`\$\{\{?[A-Z0-9_]+\}`)

// contents adds keys and scalars of a tree, but for those that say its kind.
func contents(value any, texts []string) []string {
	switch value := value.(type) {
	case map[string]any:
		for key, child := range value {
			if key != "apiVersion" && key != "kind" {
				texts = append(texts, key)
				texts = contents(child, texts)
			}
		}
	case []any:
		for _, child := range value {
			texts = contents(child, texts)
		}
	case string:
		texts = append(texts, value)
	default:
		encoded, _ := json.Marshal(value) // scalars of JSON encode
		texts = append(texts, string(encoded))
	}
	return texts
}

// wanted is the source, with generated suffixes where the blueprint has them.
func wanted(vm, source any, values map[string]string) any {
	switch vm := vm.(type) {
	case map[string]any:
		fields, _ := source.(map[string]any)
		out := make(map[string]any, len(vm))
		for key, child := range vm {
			out[key] = wanted(child, fields[key], values)
		}
		return out
	case []any:
		items, _ := source.([]any)
		out := make([]any, len(vm))
		for i, child := range vm {
			if i < len(items) {
				out[i] = wanted(child, items[i], values)
			}
		}
		return out
	case blueprint.Reference:
		if vm.Before+vm.Behind != "" {
			return vm.Before + values[vm.Parameter] + vm.Behind
		}
	}
	return source
}
