// Package arch holds the rules of the design about the shape of the source:
// which package may import which, what a pure package may not touch, how large
// a function or file may be, what must be documented. Its tests apply them to
// the whole tree. Rules read files and run no other program, so that the test
// cache knows what they depend on.
package arch

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// module is the import path of the root.
const module = "github.com/virtwright/virtwright"

// Rule is a named statement about a tree.
type Rule struct {
	// ID names the rule in test output.
	ID string
	// Find returns a line for every place that breaks the rule.
	Find func(*Tree) []string
}

// Rules are all rules, in the order of the design.
var Rules = []Rule{
	{ID: "top-level", Find: topLevel},
	{ID: "package-names", Find: packageNames},
	{ID: "arrows", Find: arrowsHold},
	{ID: "purity", Find: purity},
	{ID: "function-budget", Find: functionBudget},
	{ID: "file-budget", Find: fileBudget},
	{ID: "doc-comments", Find: docComments},
	{ID: "error-words", Find: errorWords},
}

// Tree is the source of a module, parsed.
type Tree struct {
	// Top are the names in the root folder.
	Top []string
	// Sources are the Go files, without those in folders that Go ignores.
	Sources []*Source
}

// Source is one Go file.
type Source struct {
	// Path is slash-separated and relative to the root.
	Path string
	// Lines is how many lines the file has.
	Lines int

	file  *ast.File
	files *token.FileSet
}

// Load parses every Go file under root.
func Load(root string) (*Tree, error) {
	tree := &Tree{}
	top, err := os.ReadDir(root)
	if err != nil {
		return nil, fmt.Errorf("cannot read the root: %w", err)
	}
	for _, entry := range top {
		tree.Top = append(tree.Top, entry.Name())
	}
	err = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if entry.IsDir() {
			if ignored(rel) {
				return filepath.SkipDir
			}
			return nil
		}
		if path.Ext(rel) != ".go" {
			return nil
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		source, err := Parse(rel, content)
		if err != nil {
			return err
		}
		tree.Sources = append(tree.Sources, source)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot load the source: %w", err)
	}
	return tree, nil
}

// Parse makes a source of a path and its content.
func Parse(path string, content []byte) (*Source, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("cannot parse %s: %w", path, err)
	}
	return &Source{Path: path, Lines: bytes.Count(content, []byte("\n")), file: file, files: files}, nil
}

// ignored tells whether Go, or git, does not see the folder.
func ignored(rel string) bool {
	name := path.Base(rel)
	return rel != "." && (rel == "bin" || name == "testdata" || name == "vendor" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_"))
}

// written are the sources that people write, tests included.
func (t *Tree) written() []*Source {
	var written []*Source
	for _, source := range t.Sources {
		if !ast.IsGenerated(source.file) && !strings.HasPrefix(path.Base(source.Path), "zz_generated") {
			written = append(written, source)
		}
	}
	return written
}

// production are the sources that people write, without tests.
func (t *Tree) production() []*Source {
	var production []*Source
	for _, source := range t.written() {
		if !source.isTest() {
			production = append(production, source)
		}
	}
	return production
}

func (s *Source) isTest() bool { return strings.HasSuffix(s.Path, "_test.go") }

func (s *Source) dir() string { return path.Dir(s.Path) }

// at is a finding: where and what.
func (s *Source) at(pos token.Pos, format string, args ...any) string {
	return fmt.Sprintf("%s:%d: %s", s.Path, s.files.Position(pos).Line, fmt.Sprintf(format, args...))
}

// lines is how many lines a node takes.
func (s *Source) lines(node ast.Node) int {
	return s.files.Position(node.End()).Line - s.files.Position(node.Pos()).Line + 1
}
