package arch

import (
	"go/ast"
	"slices"
)

// textReaders are the functions that learn something from a text.
var textReaders = []string{
	"strings.Contains", "strings.Cut", "strings.CutPrefix", "strings.CutSuffix", "strings.EqualFold", "strings.Fields",
	"strings.HasPrefix", "strings.HasSuffix", "strings.Index", "strings.Split", "strings.SplitN", "bytes.Contains",
}

// patternReaders are the methods of regular expressions that do.
var patternReaders = []string{"FindString", "FindStringSubmatch", "FindAllString", "FindAllStringSubmatch", "MatchString"}

// messages are the fields and methods whose values are written for people.
var messages = []string{"Message", "Detail", "Error", "ErrorBody"}

// foreignMessages are the files that read messages of other programs, which send nothing else, and
// of stored conditions.
var foreignMessages = []string{
	"cmd/virtwright-manager/retire.go", "cmd/virtwright/console.go", "cmd/virtwright/reapply_vm.go", // API servers
	"presets/problem.go",                     // a strict decoder
	"lifecycle/virtualmachine/conditions.go", // the UID in a condition
}

// messageReading finds code that learns something from a message. Problems have fields for that.
func messageReading(t *tree) []string {
	var found []string
	for _, source := range t.production() {
		if slices.Contains(foreignMessages, source.Path) {
			continue
		}
		ast.Inspect(source.file, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 || !isMessage(call.Args[0]) {
				return true
			}
			selector, _ := call.Fun.(*ast.SelectorExpr)
			if slices.Contains(textReaders, calledName(call)) || selector != nil && slices.Contains(patternReaders, selector.Sel.Name) {
				found = append(found, source.at(call.Pos(), "a message is read; use a field of the problem"))
			}
			return true
		})
	}
	return found
}

func isMessage(e ast.Expr) bool {
	if call, ok := e.(*ast.CallExpr); ok && len(call.Args) == 0 {
		e = call.Fun
	}
	selector, ok := e.(*ast.SelectorExpr)
	return ok && slices.Contains(messages, selector.Sel.Name)
}
