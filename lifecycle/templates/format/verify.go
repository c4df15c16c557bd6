package format

import (
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

// leaks finds values of secrets in what the template took from the VM.
func (d *document) leaks(b *blueprint.Blueprint) []error {
	s := search{tracer: b.Tracer(), leaked: map[string]bool{}, parameters: map[string]blueprint.Parameter{}}
	for _, p := range b.Parameters {
		s.parameters[p.Name] = p
	}
	for _, p := range d.Parameters {
		s.parameter(p)
	}
	s.labels(d.Labels)
	for _, object := range d.Objects {
		s.object(object)
	}
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(s.leaked)) {
		problems = append(problems, fmt.Errorf("the template holds the value of the secret parameter %s", name))
	}
	return problems
}

// A search finds secrets in what a template took from the VM: not in its kind,
// nor in references to parameters.
type search struct {
	tracer     *blueprint.Tracer
	parameters map[string]blueprint.Parameter
	leaked     map[string]bool
}

func (s search) parameter(p parameter) {
	labels := map[string]string{}
	switch of := s.parameters[p.Name]; {
	case of.Class == blueprint.Labels && json.Unmarshal([]byte(p.Value), &labels) == nil:
		s.labels(labels)
	case of.Path == "metadata.generateName":
		s.name(p.Value)
	default:
		s.value(p.Value)
	}
}

func (s search) value(text string) {
	if name, found := s.tracer.InValue(text); found {
		s.leaked[name] = true
	}
}

func (s search) name(text string) {
	if name, found := s.tracer.InName(text); found {
		s.leaked[name] = true
	}
}

func (s search) labels(labels map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		s.name(key)
		s.name(labels[key])
	}
}

func (s search) object(object any) {
	fields, _ := object.(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		switch key {
		case "apiVersion", "kind":
		case "metadata":
			s.metadata(fields[key])
		default:
			s.in("", key, fields[key])
		}
	}
}

func (s search) metadata(value any) {
	meta, ok := value.(map[string]any)
	if !ok {
		s.in("", "metadata", value)
	}
	for _, key := range slices.Sorted(maps.Keys(meta)) {
		if text, ok := meta[key].(string); ok && key == "generateName" {
			s.name(s.without(text))
		} else {
			s.in("metadata", key, meta[key])
		}
	}
}

// in searches a field, and what is in it.
func (s search) in(parent, key string, value any) {
	if blueprint.Invented(parent, key) {
		s.name(key)
	}
	s.below(key, value)
}

func (s search) below(key string, value any) {
	switch value := value.(type) {
	case map[string]any:
		for _, inner := range slices.Sorted(maps.Keys(value)) {
			s.in(key, inner, value[inner])
		}
	case []any:
		for _, item := range value {
			s.below(key, item)
		}
	case string:
		if s.suffixed(value) {
			s.name(s.without(value))
		} else {
			s.value(s.without(value))
		}
	default:
		encoded, _ := json.Marshal(value) // scalars of JSON encode
		s.name(string(encoded))
	}
}

// apart takes the place of references: no text of JSON has it.
const apart = "\xff"

var anyToken = regexp.MustCompile(`\$\{\{?([A-Z0-9_]+)\}`)

// without is a text without references to parameters.
func (s search) without(text string) string {
	if !strings.Contains(text, "${") {
		return text
	}
	return anyToken.ReplaceAllStringFunc(text, func(token string) string {
		if _, known := s.parameters[strings.Trim(token, "${}")]; known {
			return apart
		}
		return token
	})
}

// suffixed says whether a text is a name that gets a generated suffix.
func (s search) suffixed(text string) bool {
	for _, found := range anyToken.FindAllStringSubmatch(text, -1) {
		if s.parameters[found[1]].Class == blueprint.Generated {
			return true
		}
	}
	return false
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
