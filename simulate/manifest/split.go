package manifest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// A Document is one document of a file, not yet decoded.
type Document struct {
	Where Position
	named bool
	text  []byte
	at    int // where the text begins in the file
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
		var value any
		if twice, err := kjson.UnmarshalStrict(d.text, &value); err == nil && len(twice) > 0 {
			return nil, &DocumentError{Where: d.Where, Message: "cannot read the JSON: " + twice[0].Error()}
		}
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

// A splitter splits a file into documents.
type splitter struct {
	file    string
	named   bool
	content []byte
	out     []Document
	err     error // of the first JSON that cannot be read
}

// split splits a file at lines that begin with ---, like kubectl, and at the ends of JSON values.
// The YAML parser would read nothing of a document that begins in such a line, or behind the end of
// another one: that is an error of the document.
func split(file string, content []byte, named bool) ([]Document, error) {
	s := &splitter{file: file, named: named, content: content}
	var wrong string // with the next document
	lines, before, start, offset := 0, 0, 0, 0
	for line := range bytes.Lines(content) {
		lines++
		marked := bytes.TrimPrefix(line, byteOrderMark)
		switch {
		case bytes.HasPrefix(line, []byte("...")) && ended.Match(line):
			s.add(start, offset, before, wrong)
			start, before = offset+len("..."), lines-1
			wrong = "the document follows the end of another one: write --- before it"
		case bytes.HasPrefix(marked, []byte("---")) && separator.Match(marked):
			s.add(start, offset, before, wrong)
			start, before, wrong = offset+len(line)-len(marked)+len("---"), lines-1, ""
			if shared.Match(marked) {
				wrong = "the document begins in the line of its separator: write it below ---"
			}
		}
		offset += len(line)
	}
	s.add(start, offset, before, wrong)
	return s.out, s.err
}

var (
	byteOrderMark   = []byte("\ufeff")
	leadingComments = regexp.MustCompile(`^(\s*#.*\n)*`)
	separator       = regexp.MustCompile(`^---(?:\s|#|$)`)
	shared          = regexp.MustCompile(`^---[ \t]+[^\s#]`)
	ended           = regexp.MustCompile(`^\.\.\.(?:\s|$)`)
)

// add adds the documents in a part of the file. Before is the number of lines before it.
func (s *splitter) add(start, end, before int, wrong string) {
	text := s.content[start:end]
	if blank, rest, marked := bytes.Cut(text, byteOrderMark); marked && isBlank(blank) && (len(blank) == 0 || blank[len(blank)-1] == '\n') {
		text, before = rest, before+bytes.Count(blank, []byte("\n")) // the file was appended to another one
	}
	if isBlank(text) {
		return
	}
	comments := len(leadingComments.Find(text))
	if wrong == "" && (strings.HasSuffix(s.file, ".json") || beginsWithJSON(text[comments:])) {
		s.addJSON(end-len(text)+comments, end, before+bytes.Count(text[:comments], []byte("\n")))
		return
	}
	d := Document{Where: s.next(), named: s.named, text: text, at: end - len(text), before: before}
	if wrong != "" {
		d.err = &DocumentError{Where: d.Where, Line: 1 + before + bytes.Count(text[:len(text)-len(bytes.TrimLeft(text, " \t\r\n"))], []byte("\n")), Message: "cannot read the YAML: " + wrong}
	}
	s.out = append(s.out, d)
}

func (s *splitter) next() Position { return Position{File: s.file, Document: len(s.out) + 1} }

// beginsWithJSON distinguishes JSON from a YAML flow mapping.
func beginsWithJSON(text []byte) bool {
	var first json.RawMessage
	return bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) && json.NewDecoder(bytes.NewReader(text)).Decode(&first) == nil
}

// addJSON adds the JSON values in a part of the file. Only comments may follow them. Before is the
// number of lines before the part.
func (s *splitter) addJSON(start, end, before int) {
	decoder := json.NewDecoder(bytes.NewReader(s.content[start:end]))
	for at := start; ; {
		var value json.RawMessage
		err := decoder.Decode(&value)
		after := start + int(decoder.InputOffset())
		switch {
		case errors.Is(err, io.EOF), err != nil && at > start && isBlank(s.content[at:end]):
			return
		case err != nil:
			wrong := start + len(bytes.TrimSpace(s.content[start:end])) // for an unexpected end
			if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
				wrong = start + int(syntax.Offset)
			}
			line := 1 + bytes.Count(s.content[:min(wrong, end)], []byte("\n"))
			s.err = cmp.Or(s.err, error(&DocumentError{Where: s.next(), Line: line, Message: "cannot read the JSON: " + err.Error()}))
			return
		case !bytes.Equal(value, []byte("null")):
			begin := after - len(value)
			lines := before + bytes.Count(s.content[at:begin], []byte("\n"))
			s.out = append(s.out, Document{Where: s.next(), named: s.named, text: value, at: begin, json: true, before: lines})
		}
		before += bytes.Count(s.content[at:after], []byte("\n"))
		at = after
	}
}

// isBlank reports whether text has no document: only comments, null, directives, or an end.
func isBlank(text []byte) bool {
	for line := range bytes.Lines(text) {
		ends := ended.Match(line) || bytes.HasPrefix(line, []byte("%"))
		line = bytes.TrimSpace(line)
		if len(line) > 0 && line[0] != '#' && !ends && !bytes.Equal(line, []byte("null")) && !bytes.Equal(line, []byte("~")) {
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
