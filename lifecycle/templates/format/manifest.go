package format

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Manifest writes an object as YAML that reads as what was written: where the
// usual form does not (a key <<, some control characters), the form of it that
// is JSON. What no form can say, as keys of more than 1000 characters, is an error.
func Manifest(object map[string]any) ([]byte, error) {
	encoded, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("cannot write the object as YAML: %w", err)
	}
	if manifest, err := yaml.JSONToYAML(encoded); err == nil && readsAs(manifest, encoded) {
		return manifest, nil
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, encoded, "", "  "); err != nil {
		return nil, fmt.Errorf("cannot write the object as YAML: %w", err)
	}
	manifest := []byte(escaped(indented.String()) + "\n")
	if !readsAs(manifest, encoded) {
		return nil, errors.New("cannot write the object as YAML: it would not be read as what it is")
	}
	return manifest, nil
}

// readsAs says whether YAML is read as the JSON, which is canonical.
func readsAs(manifest, encoded []byte) bool {
	read, err := manifestIn(manifest)
	if err != nil {
		return false
	}
	again, err := json.Marshal(read)
	return err == nil && bytes.Equal(again, encoded)
}

// manifestIn reads YAML, with integers as they are.
func manifestIn(manifest []byte) (map[string]any, error) {
	encoded, err := yaml.YAMLToJSON(manifest)
	if err != nil {
		return nil, err
	}
	content := map[string]any{}
	err = kjson.UnmarshalCaseSensitivePreserveInts(encoded, &content)
	return content, err
}

// escaped writes JSON without what YAML takes for something else in texts.
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
