package main

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/virtwright/virtwright/lifecycle/templates/format"
)

// A printer prints objects as YAML or JSON: one as itself, several as a List.
type printer struct {
	streams
	output  string
	objects []any
}

func (p *printer) add(object any) { p.objects = append(p.objects, object) }

// print prints what was added.
func (p *printer) print() error {
	var all any
	switch len(p.objects) {
	case 0:
		return nil
	case 1:
		all = p.objects[0]
	default:
		all = map[string]any{"apiVersion": "v1", "kind": "List", "items": p.objects}
	}
	text, err := rendered(p.output, all)
	if err != nil {
		return fmt.Errorf("cannot print objects: %w", err)
	}
	_, err = fmt.Fprint(p.out, text)
	return err
}

// rendered is an object as it is read again. A separator before YAML in the form of
// JSON tells readers that it is YAML.
func rendered(output string, object any) (string, error) {
	fields, ok := object.(map[string]any)
	if !ok || output == "json" {
		return indented(object)
	}
	text, err := format.Manifest(fields)
	if bytes.HasPrefix(text, []byte("{")) {
		return "---\n" + string(text), err
	}
	return string(text), err
}

func indented(value any) (string, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(value)
	return out.String(), err
}
