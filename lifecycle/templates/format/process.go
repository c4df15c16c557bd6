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
		return nil, "", all(problems)
	}
	r, err := d.run(given)
	if err != nil {
		return nil, "", all([]string{err.Error()})
	}
	for _, content := range r.objects {
		object := &unstructured.Unstructured{Object: integral(content).(map[string]any)}
		if len(labels) > 0 {
			merged := object.GetLabels()
			if merged == nil {
				merged = map[string]string{}
			}
			maps.Copy(merged, labels)
			object.SetLabels(merged)
		}
		objects = append(objects, object)
	}
	if problems := in.mistyped(objects, r.values); len(problems) > 0 {
		return nil, "", all(problems)
	}
	return objects, r.message, nil
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
