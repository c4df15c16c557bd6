package manifest

import (
	"bytes"
	"encoding/json"
	"reflect"

	yamlv3 "go.yaml.in/yaml/v3"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Prune reduces objects of a file to parts of them, by the number of the document. All other text
// stays as it is: comments, order, and quotes. Documents in flow style are encoded again.
func Prune(file string, content []byte, parts map[int]map[string]any) ([]byte, error) {
	documents, err := split(file, content, true)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	done := 0
	for _, d := range documents {
		text := d.text
		if part, has := parts[d.Where.Document]; has {
			if text, err = d.prune(part); err != nil {
				return nil, err
			}
		}
		out.Write(content[done:d.at])
		out.Write(text)
		done = d.at + len(d.text)
	}
	out.Write(content[done:])
	return out.Bytes(), nil
}

func (d Document) prune(part map[string]any) ([]byte, error) {
	if d.json {
		return encodeJSON(part)
	}
	var root yamlv3.Node
	if err := yamlv3.Unmarshal(d.text, &root); err != nil || len(root.Content) == 0 {
		return nil, &DocumentError{Where: d.Where, Message: "cannot edit the YAML"}
	}
	p := &pruner{lines: bytes.SplitAfter(d.text, []byte("\n"))}
	p.gone, p.dashes = make([]bool, len(p.lines)), map[int][]byte{}
	p.value(root.Content[0], part, len(p.lines)+1)
	if text := p.text(); isDocument(text, part) {
		return text, nil
	}
	var again bytes.Buffer
	encoder := yamlv3.NewEncoder(&again)
	encoder.SetIndent(2)
	if bytes.ContainsAny(d.text[:1], " \t\r\n") { // the rest of a line that separates documents
		again.WriteByte('\n')
	}
	if err := encoder.Encode(&root); err == nil && isDocument(again.Bytes(), part) {
		if bytes.Contains(d.text, []byte("\r\n")) {
			return bytes.ReplaceAll(again.Bytes(), []byte("\n"), []byte("\r\n")), nil
		}
		return again.Bytes(), nil
	}
	return nil, &DocumentError{Where: d.Where, Message: "cannot edit the document in place, for example because it has anchors: print it with -o yaml; the file is unchanged"}
}

func encodeJSON(object map[string]any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(object)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}

// A pruner removes lines of a YAML document, and the same nodes of its tree.
type pruner struct {
	lines [][]byte
	gone  []bool
	// dashes begin the lines of fields that become the first ones of list elements.
	dashes map[int][]byte
}

func (p *pruner) value(node *yamlv3.Node, part any, end int) {
	switch part := part.(type) {
	case map[string]any:
		p.mapping(node, part, end)
	case []any:
		p.sequence(node, part, end)
	}
}

// mapping removes fields. End is the line behind the mapping.
func (p *pruner) mapping(node *yamlv3.Node, part map[string]any, end int) {
	var kept []*yamlv3.Node
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value, next := node.Content[i], node.Content[i+1], end
		if i+2 < len(node.Content) {
			next = node.Content[i+2].Line
		}
		sub, stays := part[key.Value]
		if !stays && key.Value != "<<" { // which has fields of an anchor
			p.remove(key.Line, next, key.Column)
			continue
		}
		if first := node.Content[0]; len(kept) == 0 && i > 0 && p.isElement(first) {
			p.dashes[key.Line] = p.lines[first.Line-1][:first.Column-1]
		}
		p.value(value, sub, next)
		kept = append(kept, key, value)
	}
	node.Content = kept
}

// isElement reports whether the line of a field begins with the dash of a list element.
func (p *pruner) isElement(first *yamlv3.Node) bool {
	line := p.lines[first.Line-1]
	return first.Column <= len(line) && bytes.HasPrefix(bytes.TrimLeft(line[:first.Column-1], " "), []byte("-"))
}

// sequence removes elements: those that are left are parts of elements in the same order.
func (p *pruner) sequence(node *yamlv3.Node, part []any, end int) {
	var kept []*yamlv3.Node
	for i, element := range node.Content {
		next := end
		if i+1 < len(node.Content) {
			next = p.dashOf(node.Content[i+1], node.Column)
		}
		if len(part) > 0 && isPart(part[0], decoded(element)) {
			p.value(element, part[0], next)
			kept, part = append(kept, element), part[1:]
			continue
		}
		p.remove(p.dashOf(element, node.Column), next, node.Column)
	}
	node.Content = kept
}

// dashOf returns the line of the dash before an element, which may be above it.
func (p *pruner) dashOf(element *yamlv3.Node, column int) int {
	for line := element.Line; line > 0; line-- {
		if text := p.lines[line-1]; len(text) >= column && text[column-1] == '-' {
			return line
		}
	}
	return element.Line
}

// remove removes the lines of a field or an element, which begins in a column, with the comment
// above it. Comments behind it belong to what follows.
func (p *pruner) remove(from, to, column int) {
	for to > from+1 && p.isOutside(to-1, column) {
		to--
	}
	for from > 1 && p.isComment(from-1) && p.indent(from-1) == column-1 {
		from--
	}
	for line := from; line < to; line++ {
		p.gone[line-1] = true
	}
}

func (p *pruner) isOutside(line, column int) bool {
	isBlank := len(bytes.TrimSpace(p.lines[line-1])) == 0
	return isBlank || p.isComment(line) && p.indent(line) < column
}

func (p *pruner) isComment(line int) bool {
	return bytes.HasPrefix(bytes.TrimLeft(p.lines[line-1], " "), []byte("#"))
}

func (p *pruner) indent(line int) int {
	return len(p.lines[line-1]) - len(bytes.TrimLeft(p.lines[line-1], " "))
}

func (p *pruner) text() []byte {
	var out bytes.Buffer
	for i, line := range p.lines {
		if p.gone[i] {
			continue
		}
		if dash, has := p.dashes[i+1]; has && len(line) >= len(dash) {
			out.Write(dash)
			line = line[len(dash):]
		}
		out.Write(line)
	}
	return out.Bytes()
}

// isPart reports whether a value can be the rest of another one.
func isPart(part, of any) bool {
	switch part := part.(type) {
	case map[string]any:
		fields, is := of.(map[string]any)
		for name, sub := range part {
			is = is && isPart(sub, fields[name])
		}
		return is
	case []any:
		list, _ := of.([]any)
		for _, element := range list {
			if len(part) > 0 && isPart(part[0], element) {
				part = part[1:]
			}
		}
		return len(part) == 0
	}
	return reflect.DeepEqual(part, of)
}

// decoded returns the value of a node as JSON has it; nil if it has none.
func decoded(node *yamlv3.Node) any {
	text, err := yamlv3.Marshal(node)
	if err != nil {
		return nil
	}
	return valueOf(text)
}

func valueOf(text []byte) (out any) {
	raw, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil
	}
	_ = kjson.UnmarshalCaseSensitivePreserveInts(raw, &out) // the converter wrote it
	return out
}

func isDocument(text []byte, is map[string]any) bool {
	raw, err := json.Marshal(is)
	if err != nil {
		return false
	}
	return reflect.DeepEqual(valueOf(text), valueOf(raw))
}
