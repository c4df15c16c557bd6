package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// A Document is one document of a file, which is not decoded yet.
type Document struct {
	Where Position
	// named says that the user named the file.
	named bool
	text  []byte
	json  bool
	// before is how many lines of the file come before it.
	before int
	err    error
}

// Objects are the objects of the document: one, those of a list, or none.
func (d Document) Objects() ([]Object, error) {
	switch {
	case d.err != nil:
		return nil, d.err
	case d.json:
		return objects(d.text, d.Where, d.named)
	}
	raw, err := yaml.YAMLToJSONStrict(d.text)
	if err != nil {
		return nil, fmt.Errorf("%s, %s", d.Where, d.complaint(err))
	}
	if bytes.Equal(raw, []byte("null")) {
		return nil, nil
	}
	return objects(raw, d.Where, d.named)
}

var (
	kindLine    = regexp.MustCompile(`(?m)^kind:[ \t]+VirtualMachine(Instance)?[ \t\r]*$`)
	versionLine = regexp.MustCompile(`(?m)^apiVersion:[ \t]+kubevirt\.io/`)
)

// isVM reports whether a document is a VM or a VMI, as far as its text shows without decoding it.
func (d Document) isVM() bool {
	return !d.json && kindLine.Match(d.text) && versionLine.Match(d.text)
}

// split finds the documents of a file that are not empty.
func split(file string, content []byte, named bool) ([]Document, error) {
	if trimmed := bytes.TrimSpace(content); strings.HasSuffix(file, ".json") || bytes.HasPrefix(trimmed, []byte("{")) && json.Valid(firstOf(trimmed)) {
		return splitJSON(file, content, named)
	}
	return splitYAML(file, content, named), nil
}

// firstOf is the first JSON value of a stream, which tells JSON from a YAML
// flow mapping.
func firstOf(content []byte) []byte {
	var first json.RawMessage
	if err := json.NewDecoder(bytes.NewReader(content)).Decode(&first); err != nil {
		return nil
	}
	return first
}

func splitJSON(file string, content []byte, named bool) ([]Document, error) {
	var out []Document
	decoder := json.NewDecoder(bytes.NewReader(content))
	for {
		var document json.RawMessage
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			at := decoder.InputOffset()
			if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
				at = syntax.Offset
			}
			line := 1 + bytes.Count(content[:min(at, int64(len(content)))], []byte("\n"))
			return out, fmt.Errorf("%s, document %d, line %d: cannot read the JSON: %w", file, len(out)+1, line, err)
		}
		if !bytes.Equal(document, []byte("null")) {
			out = append(out, Document{Where: Position{File: file, Document: len(out) + 1}, named: named, text: document, json: true})
		}
	}
}

// splitYAML splits where kubectl does: at lines that begin with three dashes.
func splitYAML(file string, content []byte, named bool) []Document {
	var out []Document
	add := func(text []byte, before int) {
		if !isBlank(text) {
			out = append(out, Document{Where: Position{File: file, Document: len(out) + 1}, named: named, text: text, before: before})
		}
	}
	lines, before, start, offset := 0, 0, 0, 0
	for line := range bytes.Lines(content) {
		lines++
		if rest, ok := bytes.CutPrefix(line, []byte("---")); ok {
			if rest = bytes.TrimSpace(rest); len(rest) == 0 || rest[0] == '#' {
				add(content[start:offset], before)
				start, before = offset+len(line), lines
			}
		}
		offset += len(line)
	}
	add(content[start:], before)
	return out
}

// isBlank reports whether a YAML document has nothing in it.
func isBlank(text []byte) bool {
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		if len(line) > 0 && line[0] != '#' && !bytes.Equal(line, []byte("null")) && !bytes.Equal(line, []byte("~")) {
			return false
		}
	}
	return true
}

var lineNumber = regexp.MustCompile(`line (\d+): `)

// complaint is what the parser says, with the lines of the file.
func (d Document) complaint(err error) string {
	text := err.Error()
	for _, prefix := range []string{"error converting YAML to JSON: ", "yaml: ", "unmarshal errors:\n  "} {
		text = strings.TrimPrefix(text, prefix)
	}
	if !lineNumber.MatchString(text) {
		return fmt.Sprintf("line %d: cannot read the YAML: %s", d.before+1, text)
	}
	found := lineNumber.FindStringSubmatchIndex(text)
	return lineNumber.ReplaceAllStringFunc(text[:found[1]], d.ofFile) + "cannot read the YAML: " +
		lineNumber.ReplaceAllStringFunc(text[found[1]:], d.ofFile)
}

func (d Document) ofFile(match string) string {
	line, err := strconv.Atoi(lineNumber.FindStringSubmatch(match)[1])
	if err != nil {
		return match
	}
	return fmt.Sprintf("line %d: ", d.before+line)
}
