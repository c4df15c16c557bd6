package arch

import (
	"fmt"
	"go/ast"
	"maps"
	"slices"
)

// docComments finds exported names and packages without a doc comment. In the API, fields are names
// too: their comments are what kubectl explain prints.
func docComments(t *tree) []string {
	var found []string
	documented := map[string]bool{} // by folder
	for _, source := range t.production() {
		documented[source.dir()] = documented[source.dir()] || source.file.Doc != nil
		if source.file.Name.Name == "main" {
			continue
		}
		for _, declaration := range source.file.Decls {
			switch declaration := declaration.(type) {
			case *ast.FuncDecl:
				found = append(found, undocumentedFunc(source, declaration)...)
			case *ast.GenDecl:
				found = append(found, undocumentedNames(source, declaration)...)
			}
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(documented)) {
		if !documented[dir] {
			found = append(found, fmt.Sprintf("%s: the package has no doc comment", dir))
		}
	}
	return found
}

func undocumentedFunc(source *sourceFile, f *ast.FuncDecl) []string {
	if f.Doc != nil || !f.Name.IsExported() {
		return nil
	}
	if f.Recv != nil && !ast.IsExported(receiver(f)) {
		return nil
	}
	return []string{source.at(f.Pos(), "%s has no doc comment", f.Name.Name)}
}

// receiver is the name of the type that a method belongs to.
func receiver(f *ast.FuncDecl) string {
	name := ""
	ast.Inspect(f.Recv.List[0].Type, func(node ast.Node) bool {
		if ident, ok := node.(*ast.Ident); ok && name == "" {
			name = ident.Name
		}
		return name == ""
	})
	return name
}

func undocumentedNames(source *sourceFile, group *ast.GenDecl) []string {
	var found []string
	for _, spec := range group.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if !spec.Name.IsExported() {
				continue
			}
			if group.Doc == nil && spec.Doc == nil {
				found = append(found, source.at(spec.Pos(), "%s has no doc comment", spec.Name.Name))
			}
			found = append(found, undocumentedFields(source, spec)...)
		case *ast.ValueSpec:
			if group.Doc != nil || spec.Doc != nil || spec.Comment != nil {
				continue
			}
			for _, name := range spec.Names {
				if name.IsExported() {
					found = append(found, source.at(name.Pos(), "%s has no doc comment", name.Name))
				}
			}
		}
	}
	return found
}

func undocumentedFields(source *sourceFile, spec *ast.TypeSpec) []string {
	structure, ok := spec.Type.(*ast.StructType)
	if !ok || treeOf(source.dir()) != "api" {
		return nil
	}
	var found []string
	for _, field := range structure.Fields.List {
		for _, name := range field.Names {
			if name.IsExported() && field.Doc == nil && field.Comment == nil {
				found = append(found, source.at(name.Pos(), "%s.%s has no doc comment", spec.Name.Name, name.Name))
			}
		}
	}
	return found
}
