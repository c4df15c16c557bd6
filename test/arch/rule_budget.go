package arch

import (
	"fmt"
	"go/ast"
	"go/token"
)

// The budgets of files.
const (
	maxFileLines     = 400
	maxTestFileLines = 800
)

// budget is how large a function may be.
type budget struct{ lines, complexity, params int }

var (
	usual  = budget{lines: 60, complexity: 15, params: 5}
	ofPure = budget{lines: 40, complexity: 10, params: 5}
)

const splitting = "split it, do not waive the budget"

func fileBudget(t *tree) []string {
	var found []string
	for _, source := range t.written() {
		limit := maxFileLines
		if source.isTest() {
			limit = maxTestFileLines
		}
		if source.Lines > limit {
			found = append(found, fmt.Sprintf("%s: %d lines, at most %d; %s", source.Path, source.Lines, limit, splitting))
		}
	}
	return found
}

func functionBudget(t *tree) []string {
	var found []string
	for _, source := range t.production() {
		limit := usual
		if isPure(source) {
			limit = ofPure
		}
		for _, f := range functions(source.file) {
			found = append(found, f.over(source, limit)...)
		}
	}
	return found
}

// function is a declared function, or one that a package-level variable holds.
type function struct {
	name string
	node ast.Node
	kind *ast.FuncType
}

// functions lists the functions of a file. A function inside another counts as part of it.
func functions(file *ast.File) []function {
	var found []function
	for _, declaration := range file.Decls {
		if f, ok := declaration.(*ast.FuncDecl); ok {
			found = append(found, function{f.Name.Name, f, f.Type})
			continue
		}
		ast.Inspect(declaration, func(node ast.Node) bool {
			f, ok := node.(*ast.FuncLit)
			if ok {
				found = append(found, function{"a function of a variable", f, f.Type})
			}
			return !ok
		})
	}
	return found
}

// over lists the budgets that the function exceeds.
func (f function) over(source *sourceFile, limit budget) []string {
	var found []string
	for _, measure := range []struct {
		what        string
		size, limit int
	}{
		{"lines", source.lines(f.node), limit.lines},
		{"complexity", complexity(f.node), limit.complexity},
		{"parameters", f.kind.Params.NumFields(), limit.params},
	} {
		if measure.size > measure.limit {
			found = append(found, source.at(f.node.Pos(), "%s: %s %d, at most %d; %s", f.name, measure.what, measure.size, measure.limit, splitting))
		}
	}
	return found
}

// complexity is one more than the number of branches: if, for, range, cases that are no default,
// and the shortcuts && and ||.
func complexity(node ast.Node) int {
	branches := 1
	ast.Inspect(node, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			branches++
		case *ast.CaseClause:
			if node.List != nil {
				branches++
			}
		case *ast.CommClause:
			if node.Comm != nil {
				branches++
			}
		case *ast.BinaryExpr:
			if node.Op == token.LAND || node.Op == token.LOR {
				branches++
			}
		}
		return true
	})
	return branches
}
