// Package manifest reads Kubernetes objects from files, folders and standard input, and records
// their positions.
package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	kjson "sigs.k8s.io/json"
)

// Stdin is the name of standard input among sources.
const Stdin = "-"

var extensions = []string{".yaml", ".yml", ".json"}

// Read returns the objects of files, of folders (with subfolders if recursive) and of "-", which is
// standard input. Each file is read once. All problems are reported.
func Read(stdin io.Reader, names []string, recursive bool) ([]Object, error) {
	s := Sources{Stdin: stdin, Names: names, Recursive: recursive}
	return s.Objects(math.MaxInt)
}

// Sources reads objects from files, and reads VMs again if they do not fit into memory.
type Sources struct {
	Stdin     io.Reader
	Names     []string
	Recursive bool
	// AllowMissing accepts files and folders that do not exist or contain no objects.
	AllowMissing bool
	// KeepText sets the text of objects.
	KeepText bool
	// Remaining counts the VMs that Objects left for VMs.
	Remaining int
	// Skipped are the files of folders that are not manifests.
	Skipped []string

	stdin []byte
}

// Objects returns the objects; if there are more VMs than limit, VMs returns all of them.
func (s *Sources) Objects(limit int) ([]Object, error) {
	var documents []Document
	vms, found := 0, map[string]int{}
	r := s.walk(func(d Document) bool {
		if d.isVM() {
			vms++
		}
		if vms <= limit || !d.isVM() {
			documents = append(documents, d)
		}
		return true
	})
	if vms > limit {
		documents = slices.DeleteFunc(documents, Document.isVM)
	}
	var out []Object
	type decoded struct {
		objects []Object
		err     error
	}
	for i, d := range Parallel(documents, func(d Document) decoded {
		objects, err := d.Objects()
		return decoded{s.withText(objects, d), err}
	}) {
		if errors.Is(d.err, errOther) {
			r.skip(documents[i].Where.File)
			continue
		}
		if found[documents[i].Where.File] += len(d.objects); d.err != nil {
			found[documents[i].Where.File]++
		}
		out, r.problems = append(out, d.objects...), append(r.problems, d.err)
	}
	s.Skipped = r.skipped
	if vms > limit {
		s.Remaining = vms
		return out, errors.Join(r.problems...)
	}
	for _, file := range r.named {
		if found[file] == 0 && !s.AllowMissing {
			r.problems = append(r.problems, fmt.Errorf("%s: no object in this file", file))
		}
	}
	return out, errors.Join(r.problems...)
}

// withText sets the text of the object that a document has, if texts are kept.
func (s *Sources) withText(objects []Object, d Document) []Object {
	if s.KeepText && !d.json && len(objects) == 1 && objects[0].Where.Item == 0 {
		objects[0].Text = d.text
	}
	return objects
}

// Parallel calls do concurrently and returns the results in the order of the inputs.
func Parallel[I, O any](inputs []I, do func(I) O) []O {
	out := make([]O, len(inputs))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, input := range inputs {
		group.Go(func() error {
			out[i] = do(input)
			return nil
		})
	}
	_ = group.Wait() // do cannot fail
	return out
}

// VMs yields the VM documents that Objects left out.
func (s *Sources) VMs() iter.Seq[Document] {
	return func(yield func(Document) bool) {
		stopped := false
		r := s.walk(func(d Document) bool {
			stopped = stopped || d.isVM() && !yield(d)
			return !stopped
		})
		if err := errors.Join(r.problems...); err != nil && !stopped {
			yield(Document{err: err}) // the files have changed since
		}
	}
}

// walk calls take for each document until take returns false.
func (s *Sources) walk(take func(Document) bool) *reader {
	r := &reader{seen: map[string]bool{}, recursive: s.Recursive, allowMissing: s.AllowMissing, take: take}
	for _, source := range s.Names {
		if source == Stdin {
			r.stream(s)
			continue
		}
		info, err := os.Stat(source)
		switch {
		case strings.HasPrefix(source, "https://"), strings.HasPrefix(source, "http://"):
			r.problems = append(r.problems, fmt.Errorf("%s: URLs are not supported: use curl and -f -", source))
		case s.AllowMissing && errors.Is(err, fs.ErrNotExist):
		case err != nil:
			r.problems = append(r.problems, cannotRead(source, err))
		case info.IsDir():
			r.folder(source)
		default:
			r.file(source, true)
		}
	}
	return r
}

type reader struct {
	take         func(Document) bool
	problems     []error
	seen         map[string]bool
	recursive    bool
	allowMissing bool
	stopped      bool
	named        []string
	skipped      []string
}

func (r *reader) fail(err error) { r.problems = append(r.problems, err) }

// skip notes a file once.
func (r *reader) skip(file string) {
	if !slices.Contains(r.skipped, file) {
		r.skipped = append(r.skipped, file)
	}
}

func (r *reader) stream(s *Sources) {
	if r.seen[Stdin] {
		return
	}
	r.seen[Stdin] = true
	if s.stdin == nil {
		content, err := io.ReadAll(s.Stdin)
		if err != nil {
			r.fail(cannotRead("standard input", err))
			return
		}
		s.stdin = content
	}
	r.content("standard input", s.stdin, false, false)
}

func (r *reader) file(name string, named bool) {
	if r.stopped || r.seen[filepath.Clean(name)] {
		return
	}
	r.seen[filepath.Clean(name)] = true
	if !named && isChartTemplate(name) {
		r.skip(name)
		return
	}
	content, err := os.ReadFile(name)
	if err != nil {
		r.fail(cannotRead(name, err))
		return
	}
	r.content(name, content, named, !named)
}

// folder reads a folder without hidden files and folders.
func (r *reader) folder(name string) {
	root := name + string(filepath.Separator) // the separator makes WalkDir follow a link
	files := 0
	err := filepath.WalkDir(root, func(at string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		hidden := at != root && strings.HasPrefix(entry.Name(), ".")
		switch {
		case entry.IsDir() && (hidden || at != root && !r.recursive):
			return filepath.SkipDir
		case !hidden && !entry.IsDir() && slices.Contains(extensions, filepath.Ext(at)):
			files++
			r.file(at, false)
		}
		return nil
	})
	switch {
	case err != nil:
		r.fail(cannotRead(name, err))
	case files == 0 && !r.allowMissing:
		r.fail(fmt.Errorf("%s: no *.yaml, *.yml or *.json in this folder", name))
	}
}

func (r *reader) content(file string, content []byte, named, inFolder bool) {
	documents, err := split(file, content, named)
	switch {
	case err != nil && inFolder && (Document{text: content, json: true}).isOther():
		r.skip(file)
	case err != nil:
		r.fail(err)
	case named:
		r.named = append(r.named, file)
	}
	for _, d := range documents {
		d.inFolder = inFolder
		if r.stopped = r.stopped || !r.take(d); r.stopped {
			return
		}
	}
}

// cannotRead formats an error so that it names the file once.
func cannotRead(name string, err error) error {
	return fmt.Errorf("cannot read %s: %w", name, Reason(err))
}

// Reason returns why a file cannot be read, without the file's name.
func Reason(err error) error {
	if errors.Is(err, errors.ErrUnsupported) { // in browsers
		return errors.New("files cannot be read here: use the command line")
	}
	if of, ok := errors.AsType[*fs.PathError](err); ok {
		return of.Err
	}
	return err
}

// Parse returns the objects of a text. The name is the file of their positions.
func Parse(name string, text []byte) ([]Object, error) {
	var out []Object
	documents, err := split(name, text, false)
	if err != nil {
		return nil, err
	}
	for _, d := range documents {
		found, err := d.Objects()
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

// An Object is one Kubernetes object of a manifest.
type Object struct {
	Where Position
	// Named is true if the user named this file, and false for files of folders and for streams.
	Named bool
	// Context is true if the object is applied, but the user asked for other objects.
	Context    bool
	APIVersion string
	Kind       string
	JSON       []byte
	// Text is the YAML document of the object; nil unless Sources keep it.
	Text []byte
}

// A Position locates an object in the input.
type Position struct {
	// File is a path, "standard input", or "cluster NAME".
	File string
	// Document counts the non-empty documents of the file, from 1; 0 in a cluster.
	Document int
	// Item counts the items of a list, from 1; 0 outside lists.
	Item int
}

// String formats the position as file, document and item.
func (p Position) String() string {
	if p.Document == 0 {
		return p.File
	}
	text := fmt.Sprintf("%s, document %d", p.File, p.Document)
	if p.Item > 0 {
		text += fmt.Sprintf(", item %d", p.Item)
	}
	return text
}

// A DocumentError is the reason why a document is not a Kubernetes object.
type DocumentError struct {
	Where Position
	// Line of the file, from 1; 0 for the whole document or item.
	Line    int
	Message string
	// Field is the wrong field; may be empty.
	Field string
}

// Error formats the error with its position.
func (e *DocumentError) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("%s, line %d: %s", e.Where, e.Line, e.Message)
	}
	return fmt.Sprintf("%s: %s", e.Where, e.Message)
}

type header struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Items      []json.RawMessage `json:"items"`
}

// Inline returns an object embedded in another one, or the items of an embedded list.
func Inline(raw []byte, in Position) ([]Object, error) { return objects(raw, in, true) }

func objects(raw []byte, at Position, named bool) ([]Object, error) {
	var h header
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &h); err != nil {
		return nil, &DocumentError{Where: at, Message: "not a Kubernetes object: " + Plain(err).Error()}
	}
	if h.Kind == "" || h.APIVersion == "" {
		return nil, &DocumentError{Where: at, Message: "apiVersion and kind are required"}
	}
	if h.Items == nil || !strings.HasSuffix(h.Kind, "List") {
		return []Object{{Where: at, Named: named, APIVersion: h.APIVersion, Kind: h.Kind, JSON: raw}}, nil
	}
	var out []Object
	var problems []error
	for i, item := range h.Items {
		at.Item = i + 1
		found, err := objects(item, at, named)
		out, problems = append(out, found...), append(problems, err)
	}
	return out, errors.Join(problems...)
}

// Plain describes a type error without the names of Go types.
func Plain(err error) error {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return err
	}
	if wrong.Field == "" {
		return fmt.Errorf("it is of type %s, not an object", wrong.Value)
	}
	return fmt.Errorf("%s must not be of type %s", wrong.Field, wrong.Value)
}
