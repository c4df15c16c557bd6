package format

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	kjson "sigs.k8s.io/json"
)

// A result is what processing a document gives.
type result struct {
	objects []map[string]any
	message string
	values  map[string]string // of all parameters
}

// run processes a document with values given for its parameters. It does not
// panic, and no error has a value in it.
func (d *document) run(given map[string]string) (result, error) {
	if d.strict {
		return d.kubevirt(given)
	}
	return d.openshift(given)
}

// kubevirt processes as the engine of template.kubevirt.io does: references to
// what is no parameter, duplicates and nulls are errors, and no labels are
// merged.
func (d *document) kubevirt(given map[string]string) (result, error) {
	values, err := d.values(given)
	if err != nil {
		return result{}, err
	}
	s := substitution{values: values}
	r := result{values: values, message: s.text(d.Message)}
	for _, object := range d.Objects {
		fields, ok := s.in(object).(map[string]any)
		if !ok {
			return result{}, errors.New("the VirtualMachine is no object")
		}
		r.objects = append(r.objects, fields)
	}
	if s.err != nil {
		return result{}, s.err
	}
	return r, nil
}

// values are those of all parameters: given, of the template, or generated.
func (d *document) values(given map[string]string) (map[string]string, error) {
	values := map[string]string{}
	for _, p := range d.Parameters {
		if _, twice := values[p.Name]; twice {
			return nil, fmt.Errorf("the parameter %s is there twice", p.Name)
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
			return nil, fmt.Errorf("the parameter %s must be given", p.Name)
		}
		values[p.Name] = value
	}
	for name := range given {
		if _, known := values[name]; !known {
			return nil, fmt.Errorf("%q is no parameter", name)
		}
	}
	return values, nil
}

// A substitution puts values in the place of references; err is the first
// problem that it met.
type substitution struct {
	values map[string]string
	err    error
}

func (s *substitution) problem(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf(format, args...)
	}
}

func (s *substitution) in(value any) any {
	switch value := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(value))
		for key, child := range value {
			if jsonToken.MatchString(key) {
				s.problem("a reference of the form ${{NAME}} stands for a key")
			}
			out[s.text(key)] = s.in(child)
		}
		return out
	case []any:
		out := make([]any, len(value))
		for i, child := range value {
			out[i] = s.in(child)
		}
		return out
	case string:
		if found := jsonToken.FindStringSubmatch(value); found != nil {
			return s.json(found[1])
		}
		return s.text(value)
	default:
		return value
	}
}

// json is the value of a parameter as JSON, or a text if it is none.
func (s *substitution) json(name string) any {
	text, ok := s.values[name]
	if !ok {
		s.problem("it refers to the parameter %s, which there is not", name)
		return nil
	}
	value, ok := parsed(text)
	if !ok {
		return text
	}
	if value == nil {
		s.problem("the value of the parameter %s is null", name)
	}
	return value
}

func (s *substitution) text(text string) string {
	if !strings.Contains(text, "${") {
		return text
	}
	return textToken.ReplaceAllStringFunc(text, func(token string) string {
		name := token[2 : len(token)-1]
		value, ok := s.values[name]
		if !ok {
			s.problem("it refers to the parameter %s, which there is not", name)
		}
		return value
	})
}

// parsed reads JSON, with integers as they are.
func parsed(text string) (any, bool) {
	if !json.Valid([]byte(text)) {
		return nil, false
	}
	var value any
	if err := kjson.UnmarshalCaseSensitivePreserveInts([]byte(text), &value); err != nil {
		return nil, false
	}
	return value, true
}
