package manifest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
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
func Read(stdin io.Reader, sources []string, recursive bool) ([]Object, error) {
	r := &reader{seen: map[string]bool{}, recursive: recursive}
	for _, source := range sources {
		if source == Stdin {
			r.stream(stdin)
			continue
		}
		info, err := os.Stat(source)
		switch {
		case err != nil:
			r.problems = append(r.problems, cannotRead(source, err))
		case info.IsDir():
			r.folder(source)
		default:
			r.file(source, true)
		}
	}
	return r.out, errors.Join(r.problems...)
}

// reader collects what it finds.
type reader struct {
	out       []Object
	problems  []error
	seen      map[string]bool
	recursive bool
}

func (r *reader) keep(found []Object, err error) {
	r.out, r.problems = append(r.out, found...), append(r.problems, err)
}

func (r *reader) stream(stdin io.Reader) {
	if r.seen[Stdin] {
		return
	}
	r.seen[Stdin] = true
	content, err := io.ReadAll(stdin)
	if err != nil {
		r.keep(nil, cannotRead("standard input", err))
		return
	}
	r.keep(parse("standard input", content, false))
}

func (r *reader) file(name string, named bool) {
	if r.seen[filepath.Clean(name)] {
		return
	}
	r.seen[filepath.Clean(name)] = true
	content, err := os.ReadFile(name)
	if err != nil {
		r.keep(nil, cannotRead(name, err))
		return
	}
	r.keep(parse(name, content, named))
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
		r.keep(nil, cannotRead(name, err))
	case files == 0:
		r.keep(nil, fmt.Errorf("%s: this folder has no *.yaml, *.yml or *.json", name))
	}
}

func parse(file string, content []byte, named bool) ([]Object, error) {
	documents, err := split(file, content)
	problems := []error{err}
	var out []Object
	for i, document := range documents {
		if document == nil {
			continue
		}
		found, err := objects(document, Position{File: file, Document: i + 1}, named)
		out, problems = append(out, found...), append(problems, err)
	}
	if err := errors.Join(problems...); err != nil || len(out) > 0 || !named {
		return out, err
	}
	return nil, fmt.Errorf("%s: there is no object in it", file)
}

// cannotRead names the file once.
func cannotRead(name string, err error) error {
	if of, ok := errors.AsType[*fs.PathError](err); ok {
		err = of.Err
	}
	return fmt.Errorf("cannot read %s: %w", name, err)
}
