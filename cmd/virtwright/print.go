package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

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
	list := &listWriter{out: p.out, output: p.output}
	for _, object := range p.objects {
		text, err := rendered(p.output, object)
		if err != nil {
			return fmt.Errorf("cannot print objects: %w", err)
		}
		if err := list.add(text); err != nil {
			return fmt.Errorf("cannot print objects: %w", err)
		}
	}
	return list.end()
}

// A listWriter writes objects while they come: one as itself, several as a List. Output diff has no List.
type listWriter struct {
	out    io.Writer
	output string
	// first is held until there is a second.
	first string
	count int
}

// add writes an object that rendered printed.
func (w *listWriter) add(text string) error {
	w.count++
	switch {
	case w.output == "diff":
		_, err := io.WriteString(w.out, styleOf(w.out).difference(text))
		return err
	case w.count == 1:
		w.first = text
		return nil
	case w.count == 2:
		head := "apiVersion: v1\nitems:\n"
		if w.output == "json" {
			head = "{\n  \"apiVersion\": \"v1\",\n  \"items\": [\n"
		}
		if _, err := io.WriteString(w.out, head+w.item(w.first)); err != nil {
			return err
		}
	}
	separator := ""
	if w.output == "json" {
		separator = ",\n"
	}
	_, err := io.WriteString(w.out, separator+w.item(text))
	return err
}

// item is an object as an element of the List.
func (w *listWriter) item(text string) string {
	text = strings.TrimPrefix(text, "---\n")
	if w.output == "json" {
		return "    " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n    ")
	}
	var out strings.Builder
	indent := "- "
	for line := range strings.Lines(text) {
		if line != "\n" {
			out.WriteString(indent)
		}
		out.WriteString(line)
		indent = "  "
	}
	return out.String()
}

// end writes what is left.
func (w *listWriter) end() error {
	text := ""
	switch {
	case w.output == "diff" || w.count == 0:
	case w.count == 1:
		text = w.first
	case w.output == "json":
		text = "\n  ],\n  \"kind\": \"List\"\n}\n"
	default:
		text = "kind: List\n"
	}
	if _, err := io.WriteString(w.out, text); err != nil {
		return fmt.Errorf("cannot print objects: %w", err)
	}
	return nil
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
