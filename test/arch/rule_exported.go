package arch

import (
	"go/ast"
	"go/token"
	"path"
	"strings"
)

// A use is a name of a package.
type use struct{ dir, name string }

// exportedNames finds exported names of packages that no other package uses. It leaves out methods,
// because interfaces of other modules may need them, and the API and stubs, whose users are
// outside.
func exportedNames(t *tree) []string {
	used := map[use]bool{}
	for _, source := range t.Sources {
		source.uses(used)
	}
	var found []string
	for _, source := range t.production() {
		dir := source.dir()
		if source.file.Name.Name == "main" || treeOf(dir) == "api" || strings.Contains(dir+"/", "/stubs/") {
			continue
		}
		for _, name := range source.exported() {
			if !used[use{dir, name.Name}] {
				found = append(found, source.at(name.Pos(), "no other package uses %s: unexport or remove it", name.Name))
			}
		}
	}
	return found
}

// exported are the exported names that a file declares.
func (s *sourceFile) exported() []*ast.Ident {
	var out []*ast.Ident
	add := func(name *ast.Ident) {
		if name.IsExported() {
			out = append(out, name)
		}
	}
	for _, declaration := range s.file.Decls {
		switch declaration := declaration.(type) {
		case *ast.FuncDecl:
			if declaration.Recv == nil {
				add(declaration.Name)
			}
		case *ast.GenDecl:
			for _, spec := range declaration.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					add(spec.Name)
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						add(name)
					}
				}
			}
		}
	}
	return out
}

// uses adds the names that a file uses: those of other packages, and those of its own that its
// exported declarations mention, because others meet these without their names.
func (s *sourceFile) uses(used map[use]bool) {
	imported := map[string]string{}
	for _, spec := range s.file.Imports {
		dir, ours := strings.CutPrefix(importPath(spec), module+"/")
		if !ours {
			continue
		}
		name := path.Base(dir)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		imported[name] = dir
	}
	ast.Inspect(s.file, func(node ast.Node) bool {
		if selector, ok := node.(*ast.SelectorExpr); ok {
			if pkg, ok := selector.X.(*ast.Ident); ok && imported[pkg.Name] != "" && imported[pkg.Name] != s.dir() {
				used[use{imported[pkg.Name], selector.Sel.Name}] = true
			}
		}
		return true
	})
	if s.isTest() {
		return
	}
	for _, declaration := range s.file.Decls {
		for _, node := range shown(declaration) {
			ast.Inspect(node, func(node ast.Node) bool {
				if name, ok := node.(*ast.Ident); ok && name.IsExported() {
					used[use{s.dir(), name.Name}] = true
				}
				return true
			})
		}
	}
}

// shown are the parts of an exported declaration that others see: the signature of a function or
// method, the type of a variable or constant, the fields of a type.
func shown(declaration ast.Decl) []ast.Node {
	switch declaration := declaration.(type) {
	case *ast.FuncDecl:
		if declaration.Name.IsExported() {
			return []ast.Node{declaration.Type}
		}
	case *ast.GenDecl:
		return shownOfGroup(declaration)
	}
	return nil
}

func shownOfGroup(group *ast.GenDecl) []ast.Node {
	var out []ast.Node
	for _, spec := range group.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if spec.Name.IsExported() {
				out = append(out, spec.Type)
			}
		case *ast.ValueSpec:
			out = append(out, typed(group.Tok, spec)...)
		}
	}
	return out
}

// typed are the type of a declaration and, because they come with it, the constants of this type. A
// constant without a type and a value repeats those of the one before it.
func typed(kind token.Token, spec *ast.ValueSpec) []ast.Node {
	var out []ast.Node
	if spec.Type != nil {
		out = append(out, spec.Type)
	}
	if kind == token.CONST && (spec.Type != nil || len(spec.Values) == 0) {
		for _, name := range spec.Names {
			out = append(out, name)
		}
	}
	return out
}
