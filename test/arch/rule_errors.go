package arch

import (
	"go/ast"
	"go/token"
	"strconv"
	"strings"
)

// errorMakers are the functions whose first argument is an error's text.
var errorMakers = map[string]bool{"fmt.Errorf": true, "errors.New": true}

// emptyWords tell that there is an error, which the reader knows.
var emptyWords = []string{"failed to", "unable to", "could not", "error while", "error when", "an error"}

// errorWords finds errors that do not say "cannot <verb> <thing>".
func errorWords(t *tree) []string {
	var found []string
	for _, source := range t.production() {
		ast.Inspect(source.file, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok || !errorMakers[calledName(call)] || len(call.Args) == 0 {
				return true
			}
			literal, ok := call.Args[0].(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			text, _ := strconv.Unquote(literal.Value) // the parser accepted it
			for _, words := range emptyWords {
				if strings.Contains(strings.ToLower(text), words) {
					found = append(found, source.at(literal.Pos(), "an error says %q; say \"cannot <verb> <thing>: %%w\"", words))
				}
			}
			return true
		})
	}
	return found
}

// calledName is "package.Function" of a call, or nothing.
func calledName(call *ast.CallExpr) string {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	pkg, ok := selector.X.(*ast.Ident)
	if !ok {
		return ""
	}
	return pkg.Name + "." + selector.Sel.Name
}
