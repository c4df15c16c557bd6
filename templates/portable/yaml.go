// Package portable encodes objects as YAML that all parsers decode alike.
package portable

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	yaml2 "go.yaml.in/yaml/v2"
	yaml3 "go.yaml.in/yaml/v3"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// YAML encodes an object as YAML that parsers of YAML 1.1 and YAML 1.2 decode to the same
// object. It falls back to JSON, for example for some control characters. The error is for objects
// that YAML cannot express, for example with keys of more than 1000 characters.
func YAML(object map[string]any) ([]byte, error) {
	if isPlain(object) {
		return yaml2.Marshal(object)
	}
	encoded, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("cannot encode the object as YAML: %w", err)
	}
	if manifest, err := yaml2.Marshal(object); err == nil {
		if manifest = quoted(manifest); readsAs(manifest, encoded) {
			return manifest, nil
		}
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, encoded, "", "  "); err != nil {
		return nil, fmt.Errorf("cannot encode the object as YAML: %w", err)
	}
	manifest := []byte(escaped(indented.String()) + "\n")
	if !readsAs(manifest, encoded) {
		return nil, errors.New("cannot encode the object as YAML: parsers would decode another object")
	}
	return manifest, nil
}

// isPlain reports whether all YAML encoders and parsers agree on a value: it has no text that needs
// escapes, may be folded or has a special meaning, and no number with a fraction.
func isPlain(value any) bool {
	switch value := value.(type) {
	case string:
		return isPlainText(value)
	case map[string]any:
		for key, member := range value {
			if !isPlainText(key) || !isPlain(member) {
				return false
			}
		}
		return true
	case []any:
		return !slices.ContainsFunc(value, func(element any) bool { return !isPlain(element) })
	case bool, int64, nil:
		return true
	}
	return false
}

func isPlainText(text string) bool {
	const unfolded = 60 // encoders may fold longer texts at spaces
	folded := len(text) > unfolded && strings.Contains(text, " ")
	return !folded && !slices.Contains(special, text) &&
		!strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r >= unicode.MaxASCII })
}

// special are texts that the encoder does not quote although YAML 1.1 gives them a meaning: the
// merge key and the default value.
var special = []string{"<<", "="}

func quoted(manifest []byte) []byte {
	maybe := func(text string) bool { return bytes.Contains(manifest, []byte(text)) }
	if !maybe("<<") && !maybe(" =") && !maybe("\n=") && !maybe("=:") { // parsing is slow
		return manifest
	}
	var root yaml3.Node
	if err := yaml3.Unmarshal(manifest, &root); err != nil || !quote(&root) {
		return manifest
	}
	var out bytes.Buffer
	encoder := yaml3.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(&root); err != nil {
		return manifest
	}
	return out.Bytes()
}

// quote quotes special texts at and below a node, and reports whether there are any.
func quote(n *yaml3.Node) bool {
	found := n.Kind == yaml3.ScalarNode && n.Style == 0 && slices.Contains(special, n.Value)
	if found {
		n.Tag, n.Style = "!!str", yaml3.DoubleQuotedStyle
	}
	for _, c := range n.Content {
		found = quote(c) || found
	}
	return found
}

// readsAs reports whether a manifest decodes to the same object as canonical JSON.
func readsAs(manifest, encoded []byte) bool {
	if read, err := yaml.YAMLToJSON(manifest); err == nil && bytes.Equal(read, encoded) {
		return true
	}
	read, err := Decode(manifest) // without converting large integers
	if err != nil {
		return false
	}
	again, err := json.Marshal(read)
	return err == nil && bytes.Equal(again, encoded)
}

// Decode decodes YAML without converting integers to floats.
func Decode(manifest []byte) (map[string]any, error) {
	encoded, err := yaml.YAMLToJSON(manifest)
	if err != nil {
		return nil, err
	}
	content := map[string]any{}
	err = kjson.UnmarshalCaseSensitivePreserveInts(encoded, &content)
	return content, err
}

// escaped escapes characters in JSON that YAML does not allow in texts.
func escaped(text string) string {
	var out strings.Builder
	for _, r := range text {
		if r > unicode.MaxASCII && r <= 0xffff && !unicode.IsPrint(r) || r == 0x7f {
			fmt.Fprintf(&out, "\\u%04x", r)
		} else {
			out.WriteRune(r)
		}
	}
	return out.String()
}
