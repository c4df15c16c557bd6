package format

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand"
	"slices"
	"strings"

	templatev1 "github.com/openshift/api/template/v1"
	"github.com/openshift/library-go/pkg/template/generator"
	"github.com/openshift/library-go/pkg/template/templateprocessing"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/templates/blueprint"
)

// A result is the outcome of processing a document.
type result struct {
	objects []map[string]any
	message string
	values  map[string]string // of all parameters
}

// run processes a document with values for its parameters. It does not panic, and errors contain no
// values.
func (d *document) run(given map[string]string) (result, error) {
	if d.strict {
		return d.kubevirt(given)
	}
	return d.openshift(given)
}

// kubevirt processes a document like the engine of template.kubevirt.io: undefined references,
// duplicate parameters and nulls are errors, and labels are not merged.
func (d *document) kubevirt(given map[string]string) (result, error) {
	values, err := d.values(given)
	if err != nil {
		return result{}, err
	}
	s := substitution{values: values}
	r := result{values: values, message: s.inText(d.Message)}
	for _, object := range d.Objects {
		fields, ok := s.in(object).(map[string]any)
		if !ok {
			return result{}, errors.New("spec.virtualMachine must be an object")
		}
		r.objects = append(r.objects, fields)
	}
	return r, s.err
}

func (d *document) values(given map[string]string) (map[string]string, error) {
	values := map[string]string{}
	for _, p := range d.Parameters {
		if _, duplicate := values[p.Name]; duplicate {
			return nil, fmt.Errorf("parameter %s is defined twice", p.Name)
		}
		value, ok := given[p.Name]
		if !ok {
			value = p.Value
		}
		if value == "" && !ok && p.Generate != "" {
			generated, err := generate(p)
			if err != nil {
				return nil, err
			}
			value = generated
		}
		if value == "" && p.Required {
			return nil, fmt.Errorf("parameter %s requires a value", p.Name)
		}
		values[p.Name] = value
	}
	for name := range given {
		if _, known := values[name]; !known {
			return nil, fmt.Errorf("undefined parameter %q", name)
		}
	}
	return values, nil
}

// A substitution replaces references by values. It keeps the first error.
type substitution struct {
	values map[string]string
	err    error
}

func (s *substitution) fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf(format, args...)
	}
}

func (s *substitution) in(tree any) any {
	return blueprint.MapTree(tree, s.inKey, func(value any) any {
		text, ok := value.(string)
		if !ok {
			return value
		}
		if found := jsonToken.FindStringSubmatch(text); found != nil {
			return s.jsonValue(found[1])
		}
		return s.inText(text)
	})
}

func (s *substitution) inKey(key string) string {
	if jsonToken.MatchString(key) {
		s.fail("a reference of the form ${{NAME}} cannot be a key")
	}
	return s.inText(key)
}

// jsonValue returns the value of a parameter as JSON, or as a string if it is not JSON.
func (s *substitution) jsonValue(name string) any {
	text, ok := s.values[name]
	if !ok {
		s.fail("reference to undefined parameter %s", name)
		return nil
	}
	value, ok := parseJSON(text)
	if !ok {
		return text
	}
	if value == nil {
		s.fail("the value of parameter %s is null", name)
	}
	return value
}

func (s *substitution) inText(text string) string {
	if !strings.Contains(text, "${") {
		return text
	}
	return textToken.ReplaceAllStringFunc(text, func(token string) string {
		name := token[2 : len(token)-1]
		value, ok := s.values[name]
		if !ok {
			s.fail("reference to undefined parameter %s", name)
		}
		return value
	})
}

// parseJSON decodes JSON without converting integers to floats.
func parseJSON(text string) (any, bool) {
	var value any
	if !json.Valid([]byte(text)) || kjson.UnmarshalCaseSensitivePreserveInts([]byte(text), &value) != nil {
		return nil, false
	}
	return value, true
}

// openshift processes a document with OpenShift's own code, which panics on some inputs.
func (d *document) openshift(given map[string]string) (r result, err error) {
	defer func() {
		if recover() != nil {
			r, err = result{}, errors.New("OpenShift's template engine panicked")
		}
	}()
	template, err := d.template(given)
	if err != nil {
		return result{}, err
	}
	processor := templateprocessing.NewProcessor(map[string]generator.Generator{"expression": expressions()})
	if problems := processor.Process(template); len(problems) > 0 {
		texts := make([]error, 0, len(problems))
		for _, problem := range problems {
			// The detail of the problem may contain values.
			texts = append(texts, fmt.Errorf("%s: rejected by OpenShift's template engine (%s)", problem.Field, strings.ToLower(problem.Type.String())))
		}
		return result{}, errors.Join(texts...)
	}
	r = result{message: template.Message, values: map[string]string{}}
	for _, p := range template.Parameters {
		r.values[p.Name] = p.Value
	}
	for i, object := range template.Objects {
		content, ok := object.Object.(runtime.Unstructured)
		if !ok {
			return result{}, fmt.Errorf("objects[%d] must be an object", i)
		}
		r.objects = append(r.objects, content.UnstructuredContent())
	}
	return r, nil
}

func (d *document) template(given map[string]string) (*templatev1.Template, error) {
	t := &templatev1.Template{Message: d.Message}
	for _, p := range d.Parameters {
		if err := p.checkLength(); err != nil {
			return nil, err
		}
		q := templatev1.Parameter{Name: p.Name, Value: p.Value, Generate: p.Generate, From: p.From, Required: p.Required}
		if value, ok := given[p.Name]; ok {
			q.Value, q.Generate = value, ""
		}
		t.Parameters = append(t.Parameters, q)
	}
	for i, object := range d.Objects {
		raw, err := json.Marshal(object)
		if err != nil {
			return nil, fmt.Errorf("objects[%d] must be JSON", i)
		}
		t.Objects = append(t.Objects, runtime.RawExtension{Raw: raw})
	}
	t.ObjectLabels = maps.Clone(d.Labels)
	return t, nil
}

// maxFrom is the length of an expression for generated values. Each part of it may give 255
// characters.
const maxFrom = 1_000

func (p parameter) checkLength() error {
	if len(p.From) > maxFrom {
		return fmt.Errorf("parameter %s: from has %d characters; at most %d are supported", p.Name, len(p.From), maxFrom)
	}
	return nil
}

// expressions returns the generator of values from expressions. They need not be secret.
func expressions() generator.Generator {
	return generator.NewExpressionValueGenerator(rand.New(rand.NewSource(rand.Int63())))
}

// generate generates a value of a parameter. The generator panics on some expressions.
func generate(p parameter) (value string, err error) {
	if p.Generate != "expression" {
		return "", fmt.Errorf("cannot generate a value for parameter %s: unsupported generator %q: use \"expression\"", p.Name, p.Generate)
	}
	if err := p.checkLength(); err != nil {
		return "", err
	}
	invalid := fmt.Errorf("cannot generate a value for parameter %s: invalid expression", p.Name)
	defer func() {
		if recover() != nil {
			value, err = "", invalid
		}
	}()
	generated, err := expressions().GenerateValue(p.From)
	if err != nil {
		return "", invalid
	}
	value, _ = generated.(string)
	return value, nil
}

// Process returns the objects of a template of any format, which follows from apiVersion and kind.
// It takes values of parameters by name, and labels that it adds to every object. The error reports
// all problems, each with the parameter and a remedy. Process does not panic and changes none of
// its arguments.
func Process(template *unstructured.Unstructured, given, labels map[string]string) (objects []*unstructured.Unstructured, message string, err error) {
	defer func() {
		if recover() != nil {
			objects, message, err = nil, "", errors.New("cannot process the template: virtwright panicked")
		}
	}()
	d, err := read(template)
	if err != nil {
		return nil, "", err
	}
	in := newInput(d, given, labels)
	if problems := in.check(); len(problems) > 0 {
		return nil, "", joined(append(problems, in.trial(problems)...))
	}
	r, err := d.run(given)
	if err != nil {
		return nil, "", joined([]string{err.Error()})
	}
	objects = objectsOf(r)
	problems := in.mistyped(objects, r.values)
	for i, object := range objects {
		problems = append(problems, in.label(i, object)...)
	}
	if len(problems) > 0 {
		return nil, "", joined(problems)
	}
	return objects, r.message, nil
}

// objectsOf returns the objects of a result, with an int64 for every exact integer.
func objectsOf(r result) []*unstructured.Unstructured {
	var objects []*unstructured.Unstructured
	for _, content := range r.objects {
		exact := blueprint.MapScalars(content, func(value any) any {
			if f, ok := value.(float64); ok && f == math.Trunc(f) && math.Abs(f) <= blueprint.MaxExact {
				return int64(f)
			}
			return value
		})
		objects = append(objects, &unstructured.Unstructured{Object: exact.(map[string]any)})
	}
	return objects
}

// label adds the labels to an object. It returns problems with the labels that the object has.
func (in input) label(i int, object *unstructured.Unstructured) []string {
	if len(in.labels) == 0 {
		return nil
	}
	at := in.pathOf(i) + ".metadata.labels"
	own, found, err := unstructured.NestedFieldNoCopy(object.Object, "metadata", "labels")
	fields, ok := own.(map[string]any)
	if err != nil || found && own != nil && !ok {
		return []string{at + " must be an object"}
	}
	merged := map[string]string{}
	var problems []string
	for key, value := range fields {
		text, ok := value.(string)
		if !ok {
			problems = append(problems, fmt.Sprintf("%s[%q] must be a string", at, key))
		}
		merged[key] = text
	}
	if len(problems) == 0 {
		maps.Copy(merged, in.labels)
		object.SetLabels(merged)
	}
	return problems
}

// trial processes the template with defaults in place of the values that have problems, to report
// also the problems that only the resulting objects show.
func (in input) trial(problems []string) []string {
	in.invalid = map[string]bool{}
	for _, problem := range problems {
		name, _, _ := strings.Cut(problem, ": ")
		in.invalid[name] = true
	}
	d := *in.document
	d.Parameters = slices.Clone(d.Parameters)
	for i := range d.Parameters {
		d.Parameters[i].Required = false
	}
	given := maps.Clone(in.given)
	maps.DeleteFunc(given, func(name, _ string) bool { _, known := in.index[name]; return in.invalid[name] || !known })
	r, err := d.run(given)
	if err != nil {
		return nil // the problems explain it
	}
	return in.mistyped(objectsOf(r), r.values)
}

func joined(problems []string) error {
	slices.Sort(problems)
	return fmt.Errorf("cannot process the template: %s", strings.Join(slices.Compact(problems), "\n"))
}
