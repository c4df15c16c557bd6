package format

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// exact is the largest integer up to which a float64, in which OpenShift reads
// values, holds every one.
const exact = 1 << 53

// Process makes the objects of a template of any of the forms (recognized by
// apiVersion and kind; of a ConfigMap its key template.yaml). given are values of
// parameters by name, labels are added to every object. The error is every
// problem at once, each naming the parameter and what would be right. It does
// not panic, whatever the template says. It changes neither argument.
func Process(template *unstructured.Unstructured, given, labels map[string]string) (objects []*unstructured.Unstructured, message string, err error) {
	defer func() {
		if recover() != nil {
			objects, message, err = nil, "", errors.New("cannot process the template: reading it ends in a panic")
		}
	}()
	d, err := read(template)
	if err != nil {
		return nil, "", err
	}
	in := newInput(d, given, labels)
	if problems := in.check(); len(problems) > 0 {
		return nil, "", all(append(problems, in.trial(problems)...))
	}
	r, err := d.run(given)
	if err != nil {
		return nil, "", all([]string{err.Error()})
	}
	objects = objectsOf(r)
	problems := in.mistyped(objects, r.values)
	for i, object := range objects {
		problems = append(problems, in.label(i, object)...)
	}
	if len(problems) > 0 {
		return nil, "", all(problems)
	}
	return objects, r.message, nil
}

func objectsOf(r result) []*unstructured.Unstructured {
	var objects []*unstructured.Unstructured
	for _, content := range r.objects {
		objects = append(objects, &unstructured.Unstructured{Object: integral(content).(map[string]any)})
	}
	return objects
}

// label adds the labels to an object, and says what of its own are none.
func (in input) label(i int, object *unstructured.Unstructured) []string {
	if len(in.labels) == 0 {
		return nil
	}
	own, found, err := unstructured.NestedFieldNoCopy(object.Object, "metadata", "labels")
	fields, ok := own.(map[string]any)
	if err != nil || found && own != nil && !ok {
		return []string{in.nameOf(i) + ": metadata.labels is no object, so no label can be added"}
	}
	merged := map[string]string{}
	var problems []string
	for key, value := range fields {
		text, ok := value.(string)
		if !ok {
			problems = append(problems, fmt.Sprintf("%s: the label %q is no text, so no label can be added", in.nameOf(i), key))
		}
		merged[key] = text
	}
	if len(problems) == 0 {
		maps.Copy(merged, in.labels)
		object.SetLabels(merged)
	}
	return problems
}

// trial processes with what is valid, to tell all problems at once: it adds
// those that only what comes out shows. What is wrong has its default.
func (in input) trial(problems []string) []string {
	wrong := map[string]bool{}
	for _, problem := range problems {
		name, _, _ := strings.Cut(problem, ": ")
		wrong[name] = true
	}
	d := *in.document
	d.Parameters = slices.Clone(d.Parameters)
	for i := range d.Parameters {
		d.Parameters[i].Required = false
	}
	given := maps.Clone(in.given)
	maps.DeleteFunc(given, func(name, _ string) bool { _, known := in.index[name]; return wrong[name] || !known })
	r, err := d.run(given)
	if err != nil {
		return nil // it is what is told already
	}
	in.wrong = wrong
	return in.mistyped(objectsOf(r), r.values)
}

// all is the error of every problem, sorted.
func all(problems []string) error {
	slices.Sort(problems)
	return fmt.Errorf("cannot process the template: %s", strings.Join(slices.Compact(problems), "\n"))
}

// integral copies a value of JSON, with an int64 for every number that is one.
func integral(value any) any {
	switch value := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(value))
		for key, child := range value {
			out[key] = integral(child)
		}
		return out
	case []any:
		out := make([]any, len(value))
		for i, child := range value {
			out[i] = integral(child)
		}
		return out
	case float64:
		if value == math.Trunc(value) && math.Abs(value) <= exact {
			return int64(value)
		}
	}
	return value
}
