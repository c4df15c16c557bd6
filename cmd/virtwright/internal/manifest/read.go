package manifest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Stdin is the name of standard input among sources.
const Stdin = "-"

// extensions are those of the files that are read of a folder.
var extensions = []string{".yaml", ".yml", ".json"}

// Read returns the objects of sources: files, folders (if recursive, with everything
// beneath them), and "-" for standard input. A file that several sources lead to is read
// once. Every problem is reported.
func Read(stdin io.Reader, names []string, recursive bool) ([]Object, error) {
	s := Sources{Stdin: stdin, Names: names, Recursive: recursive}
	return s.Objects(math.MaxInt)
}

// Sources are read once, and again if they have more VMs than are to be held.
type Sources struct {
	Stdin     io.Reader
	Names     []string
	Recursive bool
	// MayLack says that files and folders may be missing, or have no objects.
	MayLack bool
	// Left are how many VMs Objects left to VMs.
	Left int

	// stdin is what was read of Stdin.
	stdin []byte
}

// Objects returns the objects. If more than limit YAML documents are VMs, it leaves them to VMs.
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
	var out []Object
	for _, d := range documents {
		if vms > limit && d.isVM() {
			continue
		}
		objects, err := d.Objects()
		if found[d.Where.File] += len(objects); err != nil {
			found[d.Where.File]++
		}
		out, r.problems = append(out, objects...), append(r.problems, err)
	}
	if vms > limit {
		s.Left = vms
		return out, errors.Join(r.problems...)
	}
	for _, file := range r.named {
		if found[file] == 0 && !s.MayLack {
			r.problems = append(r.problems, fmt.Errorf("%s: there is no object in it", file))
		}
	}
	return out, errors.Join(r.problems...)
}

// VMs yields the documents that Objects left.
func (s *Sources) VMs() iter.Seq[Document] {
	return func(yield func(Document) bool) {
		stopped := false
		r := s.walk(func(d Document) bool {
			stopped = stopped || d.isVM() && !yield(d)
			return !stopped
		})
		if err := errors.Join(r.problems...); err != nil && !stopped {
			yield(Document{err: err}) // the files have changed
		}
	}
}

// walk reads all documents, until take returns false.
func (s *Sources) walk(take func(Document) bool) *reader {
	r := &reader{seen: map[string]bool{}, recursive: s.Recursive, mayLack: s.MayLack, take: take}
	for _, source := range s.Names {
		if source == Stdin {
			r.stream(s)
			continue
		}
		info, err := os.Stat(source)
		switch {
		case s.MayLack && errors.Is(err, fs.ErrNotExist):
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

// reader passes on what it finds.
type reader struct {
	take      func(Document) bool
	problems  []error
	seen      map[string]bool
	recursive bool
	mayLack   bool
	stopped   bool
	// named are the files that the user named, and that could be read.
	named []string
}

func (r *reader) fail(err error) { r.problems = append(r.problems, err) }

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
	r.content("standard input", s.stdin, false)
}

func (r *reader) file(name string, named bool) {
	if r.stopped || r.seen[filepath.Clean(name)] {
		return
	}
	r.seen[filepath.Clean(name)] = true
	content, err := os.ReadFile(name)
	if err != nil {
		r.fail(cannotRead(name, err))
		return
	}
	r.content(name, content, named)
}

// folder leaves out hidden files and folders.
func (r *reader) folder(name string) {
	root := name + string(filepath.Separator) // a link to a folder is followed
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
	case files == 0 && !r.mayLack:
		r.fail(fmt.Errorf("%s: this folder has no *.yaml, *.yml or *.json", name))
	}
}

func (r *reader) content(file string, content []byte, named bool) {
	documents, err := split(file, content, named)
	if err != nil {
		r.fail(err)
	} else if named {
		r.named = append(r.named, file)
	}
	for _, d := range documents {
		if r.stopped = r.stopped || !r.take(d); r.stopped {
			return
		}
	}
}

// cannotRead names the file once.
func cannotRead(name string, err error) error {
	if of, ok := errors.AsType[*fs.PathError](err); ok {
		err = of.Err
	}
	return fmt.Errorf("cannot read %s: %w", name, err)
}
