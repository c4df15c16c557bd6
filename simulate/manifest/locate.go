package manifest

import (
	"slices"
	"strconv"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
)

// A Text is the content of one file. It finds the lines of fields.
type Text struct {
	documents []Document
	roots     map[int]*yamlv3.Node
	err       error
}

// NewText splits the content of a file, which need not exist. The user did not name the file.
func NewText(file string, content []byte) *Text {
	documents, err := split(file, content, false)
	return &Text{documents, map[int]*yamlv3.Node{}, err}
}

// Objects returns the objects of all readable documents, and an error for each problem. Problems of
// documents are DocumentErrors.
func (t *Text) Objects() (out []Object, problems []error) {
	for _, d := range t.documents {
		found, err := d.Objects()
		out = append(out, found...)
		if joined, several := err.(interface{ Unwrap() []error }); several {
			problems = append(problems, joined.Unwrap()...)
		} else if err != nil {
			problems = append(problems, err)
		}
	}
	if t.err != nil {
		problems = append(problems, t.err)
	}
	return out, problems
}

// Locate returns the line and column, counted from 1, of a field's value, or of its name if onKey
// is set. It accepts paths of virtwright and of API servers. For a path that does not exist, it
// returns the position of the name of the deepest existing parent, or of the object's kind. It
// returns zeros if the file is not YAML.
func (t *Text) Locate(at Position, path string, onKey bool) (line, column int) {
	root, before := t.document(at.Document)
	if root == nil {
		return 0, 0
	}
	if at.Item > 0 {
		items, _, _ := child(root, provenance.Segment{Name: "items"}, false)
		if items == nil || len(items.Content) < at.Item {
			return before + root.Line, root.Column
		}
		root = items.Content[at.Item-1]
	}
	parsed, err := provenance.ParsePath(strings.TrimPrefix(path, "<nil>"))
	if err != nil {
		return before + root.Line, root.Column
	}
	found, name, isMissing := find(root, parsed)
	expression, _, isComputed := child(found, provenance.Segment{Name: presets.ComputedKey}, false)
	switch {
	case onKey && !isMissing && name != nil:
		found = name
	case isComputed:
		found = expression
	case isMissing && name != nil:
		found = name
	}
	line, column = beginOf(found)
	return before + line, column
}

// beginOf returns the position of a value. The text of a block begins below its indicator.
func beginOf(n *yamlv3.Node) (line, column int) {
	if n.Style&(yamlv3.LiteralStyle|yamlv3.FoldedStyle) != 0 {
		return n.Line + 1, 1
	}
	return n.Line, n.Column
}

// find returns the value at a path, or else that of its deepest existing parent, with its key. The
// key of the whole object is that of its kind; elements of lists have none.
func find(root *yamlv3.Node, path provenance.Path) (value, key *yamlv3.Node, isMissing bool) {
	_, key, _ = child(root, provenance.Segment{Name: "kind"}, false)
	inPartial := len(path) > 1 && (path[1].Name == "defaults" || path[1].Name == "overrides")
	value = root
	for _, seg := range path {
		below, name, ok := child(value, seg, inPartial)
		if !ok {
			return value, key, true
		}
		value, key = below, name
	}
	return value, key, false
}

// Lines returns the lines of the elements of a top-level list, from 1; nil if it is not YAML.
func Lines(content []byte, at Position, list string) []int {
	root, before := NewText(at.File, content).document(at.Document)
	if root == nil || at.Item > 0 {
		return nil
	}
	elements, _, _ := child(root, provenance.Segment{Name: list}, false)
	if elements == nil {
		return nil
	}
	out := make([]int, 0, len(elements.Content))
	for _, element := range elements.Content {
		out = append(out, before+element.Line)
	}
	return out
}

// document returns the root of a document, counted from 1, and the number of lines before it.
func (t *Text) document(number int) (*yamlv3.Node, int) {
	if number < 1 || number > len(t.documents) {
		return nil, 0
	}
	d := t.documents[number-1]
	root, known := t.roots[number]
	if !known {
		var node yamlv3.Node
		if err := yamlv3.Unmarshal(d.text, &node); err == nil && len(node.Content) > 0 {
			root = node.Content[0]
		}
		t.roots[number] = root
	}
	return root, d.before
}

// Elements are found by index if it is a number, but first by name in partial VMs.
func child(n *yamlv3.Node, seg provenance.Segment, byName bool) (value, key *yamlv3.Node, ok bool) {
	for n.Kind == yamlv3.AliasNode {
		n = n.Alias
	}
	switch n.Kind {
	case yamlv3.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == seg.Name {
				return n.Content[i+1], n.Content[i], true
			}
		}
	case yamlv3.SequenceNode:
		position, isComputed := strings.CutPrefix(seg.Name, "#") // of an element whose name is computed
		at, err := strconv.Atoi(position)
		byName = byName && !isComputed || err != nil
		i := slices.IndexFunc(n.Content, func(element *yamlv3.Node) bool { return byName && isNamed(element, seg.Name) })
		if err == nil && i < 0 {
			i = at
		}
		if i >= 0 && i < len(n.Content) {
			return n.Content[i], nil, true
		}
	}
	return nil, nil, false
}

// isNamed reports whether an element has the given key, which may combine several fields.
func isNamed(element *yamlv3.Node, name string) bool {
	if element.Kind != yamlv3.MappingNode {
		return false
	}
	var values []string
	for i := 0; i+1 < len(element.Content); i += 2 {
		if v := element.Content[i+1]; v.Kind == yamlv3.ScalarNode {
			if element.Content[i].Value == "name" && v.Value == name {
				return true
			}
			values = append(values, v.Value)
		} else if element.Content[i].Value == "metadata" && isNamed(v, name) { // of a DataVolume
			return true
		}
	}
	for part := range strings.SplitSeq(name, ",") {
		if part != "" && !slices.Contains(values, part) {
			return false
		}
	}
	return name != ""
}
