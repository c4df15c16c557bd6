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

// split turns the content of a file into JSON documents, leaving out empty
// ones. It goes on after a document that cannot be read, which is nil.
func split(file string, content []byte) ([][]byte, error) {
	if trimmed := bytes.TrimSpace(content); strings.HasSuffix(file, ".json") || bytes.HasPrefix(trimmed, []byte("{")) && json.Valid(firstOf(trimmed)) {
		return splitJSON(file, content)
	}
	return splitYAML(file, content)
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

func splitJSON(file string, content []byte) ([][]byte, error) {
	var out [][]byte
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
			out = append(out, document)
		}
	}
}

func splitYAML(file string, content []byte) ([][]byte, error) {
	var out [][]byte
	var problems []error
	for _, d := range yamlDocuments(content) {
		document, err := yaml.YAMLToJSONStrict(d.text)
		if err == nil && bytes.Equal(document, []byte("null")) {
			continue
		}
		if err != nil {
			document = nil // keeps the count
			problems = append(problems, fmt.Errorf("%s, document %d, %s", file, len(out)+1, d.complaint(err)))
		}
		out = append(out, document)
	}
	return out, errors.Join(problems...)
}

// yamlDocument is a document of a YAML file.
type yamlDocument struct {
	text []byte
	// before is how many lines of the file come before it.
	before int
}

// yamlDocuments splits where kubectl does: at lines that begin with three dashes.
func yamlDocuments(content []byte) []yamlDocument {
	var out []yamlDocument
	var current yamlDocument
	lines := 0
	for line := range bytes.Lines(content) {
		lines++
		if rest, ok := bytes.CutPrefix(line, []byte("---")); ok {
			if rest = bytes.TrimSpace(rest); len(rest) == 0 || rest[0] == '#' {
				out = append(out, current)
				current = yamlDocument{before: lines}
				continue
			}
		}
		current.text = append(current.text, line...)
	}
	return append(out, current)
}

var lineNumber = regexp.MustCompile(`line (\d+): `)

// complaint is what the parser says, with the lines of the file.
func (d yamlDocument) complaint(err error) string {
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

func (d yamlDocument) ofFile(match string) string {
	line, err := strconv.Atoi(lineNumber.FindStringSubmatch(match)[1])
	if err != nil {
		return match
	}
	return fmt.Sprintf("line %d: ", d.before+line)
}
