package format

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand"
	"strings"

	templatev1 "github.com/openshift/api/template/v1"
	"github.com/openshift/library-go/pkg/template/generator"
	"github.com/openshift/library-go/pkg/template/templateprocessing"
	"k8s.io/apimachinery/pkg/runtime"
)

// openshift processes with OpenShift's own code, which panics of some input.
func (d *document) openshift(given map[string]string) (r result, err error) {
	defer func() {
		if recover() != nil {
			r, err = result{}, errors.New("OpenShift's engine panics of it")
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
			// Only where: what else it says may have values in it.
			texts = append(texts, fmt.Errorf("%s: OpenShift's engine refuses it (%s)", problem.Field, strings.ToLower(problem.Type.String())))
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
			return result{}, fmt.Errorf("objects[%d] is no object", i)
		}
		r.objects = append(r.objects, content.UnstructuredContent())
	}
	return r, nil
}

// template is the document in OpenShift's type, which the engine changes.
func (d *document) template(given map[string]string) (*templatev1.Template, error) {
	t := &templatev1.Template{Message: d.Message}
	for _, p := range d.Parameters {
		q := templatev1.Parameter{Name: p.Name, Value: p.Value, Generate: p.Generate, From: p.From, Required: p.Required}
		if value, ok := given[p.Name]; ok {
			q.Value, q.Generate = value, ""
		}
		t.Parameters = append(t.Parameters, q)
	}
	for i, object := range d.Objects {
		raw, err := json.Marshal(object)
		if err != nil {
			return nil, fmt.Errorf("objects[%d] is no value of JSON", i)
		}
		t.Objects = append(t.Objects, runtime.RawExtension{Raw: raw})
	}
	t.ObjectLabels = maps.Clone(d.Labels)
	return t, nil
}

// expressions generates values; they are no secrets.
func expressions() generator.Generator {
	return generator.NewExpressionValueGenerator(rand.New(rand.NewSource(rand.Int63())))
}

// generate makes a value of a parameter's expression.
func generate(p parameter) (value string, err error) {
	defer func() {
		if recover() != nil {
			value, err = "", fmt.Errorf("cannot generate a value of the parameter %s: its expression is invalid", p.Name)
		}
	}()
	if p.Generate != "expression" {
		return "", fmt.Errorf("cannot generate a value of the parameter %s: there is no generator %q", p.Name, p.Generate)
	}
	made, err := expressions().GenerateValue(p.From)
	if err != nil {
		return "", fmt.Errorf("cannot generate a value of the parameter %s: its expression is invalid", p.Name)
	}
	value, _ = made.(string)
	return value, nil
}
