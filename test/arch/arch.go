// Package arch holds the rules of the design about the shape of the source: which package may
// import which, what a pure package may not touch, how large a function or file may be, what must
// be documented, which phrases are too hard to read. Its tests apply them to the whole tree. Rules
// read files and run no other program, so that the test cache knows what they depend on.
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

// rule is a named statement about a tree.
type rule struct {
	// ID names the rule in test output.
	ID string
	// Find returns a line for every place that breaks the rule.
	Find func(*tree) []string
}

// rules are all rules, in the order of the design.
var rules = []rule{
	{ID: "top-level", Find: topLevel},
	{ID: "package-names", Find: packageNames},
	{ID: "arrows", Find: arrowsHold},
	{ID: "purity", Find: purity},
	{ID: "function-budget", Find: functionBudget},
	{ID: "file-budget", Find: fileBudget},
	{ID: "doc-comments", Find: docComments},
	{ID: "error-words", Find: errorWords},
	{ID: "message-reading", Find: messageReading},
	{ID: "words", Find: words},
	{ID: "exported-names", Find: exportedNames},
}

// tree is the source of a module, parsed.
type tree struct {
	// Top are the names in the root folder.
	Top []string
	// Sources are the Go files, without those in folders that Go ignores.
	Sources []*sourceFile
	// Pages are the files that people read, in the same folders.
	Pages []*page
}

// sourceFile is one Go file.
type sourceFile struct {
	// Path is slash-separated and relative to the root.
	Path string
	// Lines is how many lines the file has.
	Lines int

	file  *ast.File
	files *token.FileSet
	// ownLine are the lines that begin with a comment.
	ownLine map[int]bool
}

// load parses every Go file under root, and reads every page.
func load(root string) (*tree, error) {
	tree := &tree{}
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
		return tree.read(name, rel)
	})
	if err != nil {
		return nil, fmt.Errorf("cannot load the source: %w", err)
	}
	return tree, nil
}

// read adds a file to the tree.
func (t *tree) read(name, rel string) error {
	if path.Ext(rel) != ".go" && !isPage(rel) {
		return nil
	}
	content, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if isPage(rel) {
		t.Pages = append(t.Pages, &page{Path: rel, Text: string(content)})
		return nil
	}
	source, err := parse(rel, content)
	if err == nil {
		t.Sources = append(t.Sources, source)
	}
	return err
}

// parse makes a source of a path and its content.
func parse(path string, content []byte) (*sourceFile, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("cannot parse %s: %w", path, err)
	}
	ownLine := map[int]bool{}
	for i, line := range bytes.Split(content, []byte("\n")) {
		ownLine[i+1] = bytes.HasPrefix(bytes.TrimSpace(line), []byte("//"))
	}
	return &sourceFile{Path: path, Lines: bytes.Count(content, []byte("\n")), file: file, files: files, ownLine: ownLine}, nil
}

// ignored reports whether Go, or git, does not see the folder. The two exceptions have pages.
func ignored(rel string) bool {
	name := path.Base(rel)
	return rel != "." && rel != ".ci" && rel != "examples/ci/.github" && (rel == "bin" || rel == "dist" || name == "testdata" || name == "vendor" || name == "node_modules" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_"))
}

// written are the sources that people write, tests included.
func (t *tree) written() []*sourceFile {
	var written []*sourceFile
	for _, source := range t.Sources {
		if !ast.IsGenerated(source.file) && !strings.HasPrefix(path.Base(source.Path), "zz_generated") {
			written = append(written, source)
		}
	}
	return written
}

// production are the sources that people write, without tests.
func (t *tree) production() []*sourceFile {
	var production []*sourceFile
	for _, source := range t.written() {
		if !source.isTest() {
			production = append(production, source)
		}
	}
	return production
}

func (s *sourceFile) isTest() bool { return strings.HasSuffix(s.Path, "_test.go") }

func (s *sourceFile) dir() string { return path.Dir(s.Path) }

// at is a finding: where and what.
func (s *sourceFile) at(pos token.Pos, format string, args ...any) string {
	return fmt.Sprintf("%s:%d: %s", s.Path, s.files.Position(pos).Line, fmt.Sprintf(format, args...))
}

// lines is how many lines a node takes.
func (s *sourceFile) lines(node ast.Node) int {
	return s.files.Position(node.End()).Line - s.files.Position(node.Pos()).Line + 1
}
