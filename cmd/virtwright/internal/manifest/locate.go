package manifest

import (
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
)

// Locate returns the line and the column, from 1, of a field of the object at a position in the
// content of its file: of its value, or of its name where onKey is set. The path is one of
// virtwright's, or of an API server. Of a path that does not exist, as much is followed as does.
// The zeros mean that the file is no YAML.
func Locate(content []byte, at Position, path string, onKey bool) (line, column int) {
	root, before := documentOf(at.File, content, at.Document)
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
	found := root
	for i, seg := range parsed {
		inPartial := len(parsed) > 1 && (parsed[1].Name == "defaults" || parsed[1].Name == "overrides")
		value, key, ok := child(found, seg, inPartial)
		if !ok {
			break
		}
		if found = value; i == len(parsed)-1 && onKey && key != nil {
			found = key
		}
	}
	if expression, _, isComputed := child(found, provenance.Segment{Name: presets.ComputedKey}, false); isComputed {
		found = expression
	}
	return before + found.Line, found.Column
}

// documentOf returns the root of a document, counted from 1, and the number of lines before it.
func documentOf(file string, content []byte, number int) (*yaml.Node, int) {
	documents, _ := split(file, content, false) // those before a broken one count
	if number < 1 || number > len(documents) {
		return nil, 0
	}
	d := documents[number-1]
	var node yaml.Node
	if err := yaml.Unmarshal(d.text, &node); err != nil || len(node.Content) == 0 {
		return nil, 0
	}
	return node.Content[0], d.before
}

// child returns the value, and the key if it is a field, of a step from a node. Elements are found by
// name only in partial VMs; elsewhere paths have their positions.
func child(n *yaml.Node, seg provenance.Segment, byName bool) (value, key *yaml.Node, ok bool) {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == seg.Name {
				return n.Content[i+1], n.Content[i], true
			}
		}
	case yaml.SequenceNode:
		i := slices.IndexFunc(n.Content, func(element *yaml.Node) bool { return byName && isNamed(element, seg.Name) })
		if at, err := strconv.Atoi(seg.Name); err == nil && i < 0 {
			i = at
		}
		if i >= 0 && i < len(n.Content) {
			return n.Content[i], nil, true
		}
	}
	return nil, nil, false
}

// isNamed reports whether a key of an element, which may be made of several fields, is name.
func isNamed(element *yaml.Node, name string) bool {
	if element.Kind != yaml.MappingNode {
		return false
	}
	var values []string
	for i := 0; i+1 < len(element.Content); i += 2 {
		if v := element.Content[i+1]; v.Kind == yaml.ScalarNode {
			if element.Content[i].Value == "name" && v.Value == name {
				return true
			}
			values = append(values, v.Value)
		}
	}
	for part := range strings.SplitSeq(name, ",") {
		if part != "" && !slices.Contains(values, part) {
			return false
		}
	}
	return name != ""
}
