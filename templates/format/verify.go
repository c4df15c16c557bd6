package format

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/virtwright/virtwright/templates/blueprint"
)

// portableName matches the names in blueprints, which every engine and every shell supports.
var portableName = regexp.MustCompile(`^[A-Z_][A-Z0-9_]*$`)

// Verify processes a template with its defaults and the blueprint's secrets, and compares the
// result with the blueprint's source. The error names paths, but no values. Verify does not panic.
func (f Format) Verify(template *unstructured.Unstructured, b *blueprint.Blueprint) (err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("cannot verify the template: virtwright panicked")
		}
	}()
	if template == nil || b == nil || template.GroupVersionKind() != f.Kind {
		return fmt.Errorf("cannot verify the template: want kind %s", f.Kind.Kind)
	}
	d, err := read(template)
	if err != nil {
		return err
	}
	problems := append(d.inconsistencies(), d.leaks(b)...)
	r, err := d.run(b.Secrets())
	switch {
	case err != nil:
		problems = append(problems, err)
	case len(r.objects) != 1:
		problems = append(problems, fmt.Errorf("it has %d objects instead of one", len(r.objects)))
	default:
		problems = append(problems, differences(expected(b.VM, b.Source(), r.values), r.objects[0])...)
	}
	if len(problems) > 0 {
		return fmt.Errorf("cannot verify the template: %w", errors.Join(problems...))
	}
	return nil
}

func (d *document) inconsistencies() []error {
	var problems []error
	unused := map[string]bool{}
	for _, p := range d.Parameters {
		if unused[p.Name] {
			problems = append(problems, fmt.Errorf("parameter %s is defined twice", p.Name))
		}
		if !portableName.MatchString(p.Name) {
			problems = append(problems, fmt.Errorf("parameter %q has an invalid name", p.Name))
		}
		unused[p.Name] = true
	}
	known := maps.Clone(unused)
	d.references(func(name string, at location) {
		delete(unused, name)
		if !known[name] && !at.inKey {
			problems = append(problems, fmt.Errorf("%s: reference to undefined parameter %s", at.path, name))
		}
		if known[name] && at.inKey {
			problems = append(problems, fmt.Errorf("%s: a key contains a reference to parameter %s", at.path, name))
		}
	})
	for _, name := range slices.Sorted(maps.Keys(unused)) {
		problems = append(problems, fmt.Errorf("parameter %s is unused", name))
	}
	return problems
}

func (d *document) leaks(b *blueprint.Blueprint) []error {
	s := search{finder: b.SecretFinder(), leaked: map[string]bool{}, parameters: map[string]blueprint.Parameter{}}
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
		problems = append(problems, fmt.Errorf("the template contains the value of secret parameter %s", name))
	}
	return problems
}

// A search finds secrets in the content that comes from the VM, which excludes its kind and
// references to parameters.
type search struct {
	finder     *blueprint.SecretFinder
	parameters map[string]blueprint.Parameter
	leaked     map[string]bool
}

func (s search) parameter(p parameter) {
	labels := map[string]string{}
	switch of := s.parameters[p.Name]; {
	case of.Class == blueprint.Labels && json.Unmarshal([]byte(p.Value), &labels) == nil:
		s.labels(labels)
	default:
		s.text(p.Value, of.Path == "metadata.generateName")
	}
}

func (s search) text(text string, isName bool) {
	if parameter, found := s.finder.Find(text, isName); found {
		s.leaked[parameter] = true
	}
}

func (s search) labels(labels map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		s.text(key, true)
		s.text(labels[key], true)
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
			s.text(s.without(text), true)
		} else {
			s.in("metadata", key, meta[key])
		}
	}
}

// in searches a field: its key, if users choose it, and its value.
func (s search) in(parent, key string, value any) {
	if blueprint.IsFreeFormKey(parent, key) {
		s.text(key, true)
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
		s.text(s.without(value), s.suffixed(value))
	default:
		encoded, _ := json.Marshal(value) // scalars have an encoding
		s.text(string(encoded), true)
	}
}

// separator replaces references. It is not valid UTF-8, so no text contains it.
const separator = "\xff"

var anyToken = regexp.MustCompile(`\$\{\{?([A-Z0-9_]+)\}`)

// without returns a text without references to parameters.
func (s search) without(text string) string {
	if !strings.Contains(text, "${") {
		return text
	}
	return anyToken.ReplaceAllStringFunc(text, func(token string) string {
		if _, known := s.parameters[strings.Trim(token, "${}")]; known {
			return separator
		}
		return token
	})
}

func (s search) suffixed(text string) bool {
	for _, found := range anyToken.FindAllStringSubmatch(text, -1) {
		if s.parameters[found[1]].Class == blueprint.Generated {
			return true
		}
	}
	return false
}

// expected returns the source with the generated suffixes of the blueprint.
func expected(vm, source any, values map[string]string) any {
	switch vm := vm.(type) {
	case map[string]any:
		fields, _ := source.(map[string]any)
		out := make(map[string]any, len(vm))
		for key, child := range vm {
			out[key] = expected(child, fields[key], values)
		}
		return out
	case []any:
		items, _ := source.([]any)
		out := make([]any, len(vm))
		for i, child := range vm {
			if i < len(items) {
				out[i] = expected(child, items[i], values)
			}
		}
		return out
	case blueprint.Reference:
		if vm.Prefix != "" {
			return vm.Prefix + values[vm.Parameter]
		}
	}
	return source
}

const maxDifferences = 20

// differences lists the paths where two values of JSON differ, but not the values.
func differences(want, got any) []error {
	c := comparison{}
	c.compare("", want, got)
	if more := len(c.found) - maxDifferences; more > 0 {
		return append(c.found[:maxDifferences], fmt.Errorf("and %d more differences", more))
	}
	return c.found
}

type comparison struct{ found []error }

func (c *comparison) add(path, difference string) {
	c.found = append(c.found, fmt.Errorf("%s: %s", path, difference))
}

func (c *comparison) compare(path string, want, got any) {
	a, b := kindOf(want), kindOf(got)
	switch want := want.(type) {
	case map[string]any:
		if fields, ok := got.(map[string]any); ok {
			c.fields(path, want, fields)
			return
		}
	case []any:
		if items, ok := got.([]any); ok {
			c.items(path, want, items)
			return
		}
	}
	switch {
	case a != b:
		c.add(path, "is "+b+", not "+a)
	case integral(want) != integral(got):
		c.add(path, "has a different value")
	}
}

func (c *comparison) fields(path string, want, got map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if value, ok := got[key]; ok {
			c.compare(join(path, key), want[key], value)
		} else {
			c.add(join(path, key), "is missing")
		}
	}
	for _, key := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[key]; !ok {
			c.add(join(path, key), "is unexpected")
		}
	}
}

func (c *comparison) items(path string, want, got []any) {
	if len(want) != len(got) {
		c.add(path, fmt.Sprintf("has %d items, not %d", len(got), len(want)))
		return
	}
	for i := range want {
		c.compare(path+"["+strconv.Itoa(i)+"]", want[i], got[i])
	}
}

func kindOf(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case string:
		return "a string"
	case int64, float64:
		return "a number"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return "not JSON"
}

// integral converts a float64 without a fraction to an int64. Other values stay as they are.
func integral(value any) any {
	if f, ok := value.(float64); ok && f == math.Trunc(f) && f >= -1<<63 && f < 1<<63 {
		return int64(f)
	}
	return value
}
