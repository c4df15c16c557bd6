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

// Read returns the objects of sources: files, folders with everything beneath
// them, and "-" for standard input. Every problem is reported.
func Read(stdin io.Reader, sources []string) ([]Object, error) {
	var out []Object
	var problems []error
	keep := func(found []Object, err error) {
		out, problems = append(out, found...), append(problems, err)
	}
	for i, source := range sources {
		if slices.Contains(sources[:i], source) {
			continue
		}
		if source == Stdin {
			keep(readStream(stdin))
			continue
		}
		info, err := os.Stat(source)
		switch {
		case err != nil:
			keep(nil, cannotRead(source, err))
		case info.IsDir():
			keep(readFolder(source))
		default:
			keep(readFile(source, true))
		}
	}
	return out, errors.Join(problems...)
}

func readStream(stdin io.Reader) ([]Object, error) {
	content, err := io.ReadAll(stdin)
	if err != nil {
		return nil, cannotRead("standard input", err)
	}
	return parse("standard input", content, false)
}

func readFile(file string, named bool) ([]Object, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, cannotRead(file, err)
	}
	return parse(file, content, named)
}

// readFolder leaves out hidden files and folders.
func readFolder(folder string) ([]Object, error) {
	var out []Object
	var problems []error
	files := 0
	err := filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		hidden := name != folder && strings.HasPrefix(entry.Name(), ".")
		switch {
		case hidden && entry.IsDir():
			return filepath.SkipDir
		case hidden || entry.IsDir() || !slices.Contains(extensions, filepath.Ext(name)):
			return nil
		}
		files++
		found, err := readFile(name, false)
		out, problems = append(out, found...), append(problems, err)
		return nil
	})
	switch {
	case err != nil:
		problems = append(problems, cannotRead(folder, err))
	case files == 0:
		problems = append(problems, fmt.Errorf("%s: this folder has no *.yaml, *.yml or *.json", folder))
	}
	return out, errors.Join(problems...)
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
	var of *fs.PathError
	if errors.As(err, &of) {
		err = of.Err
	}
	return fmt.Errorf("cannot read %s: %w", name, err)
}
