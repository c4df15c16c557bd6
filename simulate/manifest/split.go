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

// A Document is one document of a file, not yet decoded.
type Document struct {
	Where Position
	named bool
	text  []byte
	json  bool
	// before is the number of lines before the document.
	before int
	err    error
	// inFolder is true if the user named a folder, which may also have files of other programs.
	inFolder bool
}

// Objects decodes the document: one object, the items of a list, or none. The error is errOther for
// a document of a folder that is no manifest.
func (d Document) Objects() ([]Object, error) {
	out, err := d.objects()
	if err != nil && d.inFolder && d.isOther() {
		return nil, errOther
	}
	return out, err
}

func (d Document) objects() ([]Object, error) {
	if d.err != nil {
		return nil, d.err
	}
	raw, err := d.decoded()
	if err != nil || isEmpty(raw) {
		return nil, err
	}
	return objects(raw, d.Where, d.named)
}

// decoded returns the document as JSON.
func (d Document) decoded() ([]byte, error) {
	if d.json {
		return d.text, nil
	}
	raw, err := yaml.YAMLToJSONStrict(d.text)
	if err != nil {
		return nil, d.parseError(err)
	}
	return raw, nil
}

var (
	kindLine    = regexp.MustCompile(`(?m)^kind:[ \t]+VirtualMachine(Instance)?[ \t\r]*$`)
	versionLine = regexp.MustCompile(`(?m)^apiVersion:[ \t]+kubevirt\.io/`)
)

// isVM reports whether the text of a document looks like a VM or a VMI, without decoding it.
func (d Document) isVM() bool {
	return !d.json && kindLine.Match(d.text) && versionLine.Match(d.text)
}

func split(file string, content []byte, named bool) ([]Document, error) {
	content = bytes.TrimPrefix(content, byteOrderMark)
	comments := len(leadingComments.Find(content))
	trimmed := bytes.TrimSpace(content[comments:])
	looksJSON := strings.HasSuffix(file, ".json") || bytes.HasPrefix(trimmed, []byte("{")) && json.Valid(firstOf(trimmed))
	if looksJSON && !separatorLine.Match(content) {
		return splitJSON(file, content, comments, named)
	}
	return splitYAML(file, content, named), nil
}

var (
	byteOrderMark   = []byte("\ufeff")
	leadingComments = regexp.MustCompile(`^(\s*#.*\n)*`)
	separatorLine   = regexp.MustCompile(`(?m)^---\s*$`)
)

// firstOf returns the first JSON value. It distinguishes JSON from a YAML flow mapping.
func firstOf(content []byte) []byte {
	var first json.RawMessage
	if err := json.NewDecoder(bytes.NewReader(content)).Decode(&first); err != nil {
		return nil
	}
	return first
}

// splitJSON splits the JSON behind some bytes of comments.
func splitJSON(file string, content []byte, comments int, named bool) ([]Document, error) {
	var out []Document
	decoder := json.NewDecoder(bytes.NewReader(content[comments:]))
	for {
		var document json.RawMessage
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			at := int64(len(bytes.TrimSpace(content))) // of an unexpected end
			if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
				at = int64(comments) + syntax.Offset
			}
			line := 1 + bytes.Count(content[:min(at, int64(len(content)))], []byte("\n"))
			return out, &DocumentError{Where: Position{File: file, Document: len(out) + 1}, Line: line, Message: "cannot read the JSON: " + err.Error()}
		}
		if !bytes.Equal(document, []byte("null")) {
			out = append(out, Document{Where: Position{File: file, Document: len(out) + 1}, named: named, text: document, json: true})
		}
	}
}

var (
	separator = regexp.MustCompile(`^(?:\x{feff})?---(?:\s|#|$)`)
	ended     = regexp.MustCompile(`^\.\.\.(?:\s|$)`)
	shared    = regexp.MustCompile(`^---[ \t]+[^\s#]`)
)

// splitYAML splits at lines that begin with ---, like kubectl. The YAML parser would read nothing
// of a document that begins in such a line, or behind the end of another one: that is an error.
func splitYAML(file string, content []byte, named bool) []Document {
	var out []Document
	var wrong error // of the next document
	add := func(text []byte, before int) {
		if blank, rest, marked := bytes.Cut(text, byteOrderMark); marked && isBlank(blank) { // of a file that was appended
			text, before = rest, before+bytes.Count(blank, []byte("\n"))
		}
		if !isBlank(text) {
			out = append(out, Document{Where: Position{File: file, Document: len(out) + 1}, named: named, text: text, before: before, err: wrong})
		}
		wrong = nil
	}
	lines, before, start, offset := 0, 0, 0, 0
	for line := range bytes.Lines(content) {
		lines++
		switch {
		case bytes.HasPrefix(line, []byte("...")) && ended.Match(line):
			add(content[start:offset], before)
			start, before = offset+len("..."), lines-1
			wrong = &DocumentError{Where: Position{File: file, Document: len(out) + 1}, Line: lines + 1, Message: "cannot read the YAML: the document follows the end of another one: write --- before it"}
		case bytes.HasPrefix(bytes.TrimPrefix(line, byteOrderMark), []byte("---")) && separator.Match(line):
			add(content[start:offset], before)
			start, before = offset+bytes.Index(line, []byte("---"))+len("---"), lines-1
			if shared.Match(line) {
				wrong = &DocumentError{Where: Position{File: file, Document: len(out) + 1}, Line: lines, Message: "cannot read the YAML: the document begins in the line of its separator: write it below ---"}
			}
		}
		offset += len(line)
	}
	add(content[start:], before)
	return out
}

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

// countedFromZero are the errors for which the YAML parser counts lines from 0. For those of its
// scanner, it counts from 1.
var countedFromZero = regexp.MustCompile(`^(did not find expected (key|node content|'-' indicator|',' or '[\]}]'|<document start>)|found undefined tag handle|found duplicate %)`)

func (d Document) parseError(err error) error {
	text, line := err.Error(), 1 // the parser names no line for a mistake in the first one
	for _, prefix := range []string{"error converting YAML to JSON: ", "yaml: ", "unmarshal errors:\n  "} {
		text = strings.TrimPrefix(text, prefix)
	}
	if found := lineNumber.FindStringSubmatchIndex(text); found != nil {
		line, _ = strconv.Atoi(text[found[2]:found[3]]) // too many digits are read as the largest number
		text = text[:found[0]] + text[found[1]:]
		if countedFromZero.MatchString(text) {
			line++
		}
		line = min(line, bytes.Count(bytes.TrimRight(d.text, " \t\r\n"), []byte("\n"))+1) // not the line behind the last
	}
	if found := duplicateKey.FindStringSubmatch(text); found != nil {
		line = d.lastLine(found[1], line)
	}
	if text == "found character that cannot start any token" && d.isIndentedByTab(line) {
		text = "the line is indented with a tab: use spaces"
	}
	for _, known := range withoutLine {
		if found := known.message.FindStringSubmatch(text); found != nil {
			text, line = known.detail(found), d.firstLine(known.culprit(found))
			break
		}
	}
	if line > 0 {
		line += d.before
	}
	return &DocumentError{Where: d.Where, Line: line, Message: "cannot read the YAML: " + lineNumber.ReplaceAllStringFunc(text, d.ofFile)}
}

// duplicateKey is an error for which the parser names the line of the key's value.
var duplicateKey = regexp.MustCompile(`^key "(.*)" already set in map$`)

// lastLine returns the number of the last line with a key that is not after a line; that line if
// there is none.
func (d Document) lastLine(key string, line int) int {
	lines := bytes.Split(d.text, []byte("\n"))
	written := regexp.MustCompile(`^\s*(- )*["']?` + regexp.QuoteMeta(key) + `["']?\s*:`)
	for i := min(line, len(lines)); i > 0; i-- {
		if written.Match(lines[i-1]) {
			return i
		}
	}
	return line
}

// isIndentedByTab reports whether a tab is in the indentation of a line.
func (d Document) isIndentedByTab(line int) bool {
	lines := bytes.Split(d.text, []byte("\n"))
	if line < 1 || line > len(lines) {
		return false
	}
	text := lines[line-1]
	return bytes.ContainsRune(text[:len(text)-len(bytes.TrimLeft(text, " \t"))], '\t')
}

// withoutLine are the parser's errors that name no line, with a pattern of the line's text.
var withoutLine = []struct {
	message *regexp.Regexp
	detail  func(found []string) string
	culprit func(found []string) string
}{{
	regexp.MustCompile(`^json: unsupported value: .*$`),
	func([]string) string { return "infinity and NaN are not JSON numbers" },
	func([]string) string { return `(?i)(^|[\s:,\[-])[-+]?\.(inf|nan)\b` },
}, {
	regexp.MustCompile(`^unknown anchor '(.*)' referenced$`),
	func(found []string) string { return found[0] },
	func(found []string) string { return `\*` + regexp.QuoteMeta(found[1]) + `($|[\s,\]}])` },
}, {
	regexp.MustCompile(`^control characters are not allowed$`),
	func(found []string) string { return found[0] },
	func([]string) string { return `[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x{80}-\x{84}\x{86}-\x{9f}]` },
}}

// firstLine returns the number of the first line that matches a pattern, from 1; 0 for none.
func (d Document) firstLine(pattern string) int {
	culprit, number := regexp.MustCompile(pattern), 0
	for line := range bytes.Lines(d.text) {
		if number++; culprit.Match(bytes.TrimRight(line, "\r\n")) {
			return number
		}
	}
	return 0
}

func (d Document) ofFile(match string) string {
	line, err := strconv.Atoi(lineNumber.FindStringSubmatch(match)[1])
	if err != nil {
		return match
	}
	return fmt.Sprintf("line %d: ", d.before+line)
}
