package validation_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"iter"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/virtwright/virtwright/test/validationtest"
	"github.com/virtwright/virtwright/validation"
)

// small is the size of the smaller worst case in bytes; the larger is twice it.
const small = 32 << 10

// maxGrowth is by how much the work for a byte may grow when there are twice as many: maps and
// slices grow in steps.
const maxGrowth = 1.5

// growths are ways to enlarge an object that a rule rejects.
var growths = map[string]grow{
	"many elements":            {names: true, copies: true},
	"many elements of a name":  {copies: true},
	"long texts":               {texts: true},
	"many elements as before":  {names: true, copies: true, update: true},
	"many elements with slips": {names: true, copies: true, slips: true},
}

// TestLinear checks that validation of rejected objects takes linear work, counted in allocations
// and their bytes.
func TestLinear(t *testing.T) {
	for id, fixtures := range validationtest.Fixtures(t) {
		for i := range fixtures {
			f := &fixtures[i]
			if f.Verdict == validationtest.Good {
				continue
			}
			for name, way := range growths {
				if testing.Short() && name != "many elements" {
					continue
				}
				t.Run(id+"/"+name, func(t *testing.T) { linear(t, f, way) })
			}
			break // the first that is rejected stands for the rule
		}
	}
}

func linear(t *testing.T, f *validationtest.Fixture, way grow) {
	var object map[string]any
	if err := json.Unmarshal(f.Manifest(t), &object); err != nil {
		t.Fatal(err)
	}
	var counts, bytes [2]float64
	for i, size := range []int{small, 2 * small} {
		raw := way.to(t, object, size)
		if len(raw) < size/2 {
			t.Skip("nothing in it grows")
		}
		work, ok := measure(f, raw, way.update)
		if !ok {
			t.Skip("cannot be decoded any more")
		}
		counts[i], bytes[i] = float64(work.counts)/float64(len(raw)), float64(work.bytes)/float64(len(raw))
	}
	// Small absolute values are not significant.
	if counts[1] > counts[0]*maxGrowth && counts[1] > 0.01 || bytes[1] > bytes[0]*maxGrowth && bytes[1] > 4 {
		t.Errorf("for each byte of the object, %.3f → %.3f allocations and %.1f → %.1f bytes", counts[0], counts[1], bytes[0], bytes[1])
	}
}

type work struct{ counts, bytes uint64 }

// measure is the work of one validation; false if raw cannot be decoded.
func measure(f *validationtest.Fixture, raw []byte, update bool) (work, bool) {
	read := func() *validation.ExpandedVM {
		m, err := decode(f.Object["kind"] == "VirtualMachine", raw)
		if err != nil {
			return nil
		}
		return m
	}
	m := read()
	if m == nil {
		return work{}, false
	}
	if update {
		m.Old = read()
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f.Config.Validate(m)
	runtime.ReadMemStats(&after)
	return work{after.Mallocs - before.Mallocs, after.TotalAlloc - before.TotalAlloc}, true
}

func decode(vm bool, raw []byte) (*validation.ExpandedVM, error) {
	if vm {
		return validation.NewVirtualMachine(raw)
	}
	return validation.NewVirtualMachineInstance(raw)
}

// grow is a way to enlarge an object.
type grow struct {
	copies bool // elements of lists are copied
	names  bool // copies have names of their own
	slips  bool // elements that belong together are named almost alike
	texts  bool // texts become longer
	update bool // the object is an update of itself
}

// to is the object as JSON of about a size.
func (g grow) to(t *testing.T, object map[string]any, size int) []byte {
	factor := 2
	for {
		raw, err := json.Marshal(g.grown(object, "", factor))
		if err != nil {
			t.Fatal(err)
		}
		if len(raw) >= size*9/10 || factor > size {
			return raw
		}
		factor = factor*size/len(raw) + 1
	}
}

func (g grow) grown(v any, name string, factor int) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, value := range v {
			out[key] = g.grown(value, key, factor)
		}
		return out
	case []any:
		return g.list(v, name, factor)
	case string:
		if g.texts && name != "kind" && name != "apiVersion" {
			return strings.Repeat(v, factor)
		}
	}
	return v
}

// list has copies of the elements; lists in them stay as they are.
func (g grow) list(list []any, name string, factor int) []any {
	if !g.copies {
		factor = 1
	}
	var out []any
	for i := range factor {
		for _, element := range list {
			out = append(out, g.copy(element, name, i))
		}
	}
	return out
}

func (g grow) copy(element any, list string, i int) any {
	fields, ok := element.(map[string]any)
	if !ok {
		return element
	}
	out := make(map[string]any, len(fields))
	for key, value := range fields {
		out[key] = value
		if text, ok := value.(string); ok && g.names && i > 0 && (strings.HasSuffix(strings.ToLower(key), "name") || key == "macAddress") {
			out[key] = fmt.Sprintf("%s-%d", text, i)
			if g.slips && (list == "volumes" || list == "networks") {
				out[key] = fmt.Sprintf("%s-%dx", text, i)
			}
		}
	}
	return out
}

// TestNoNestedLoops: a loop in a rule runs over what belongs to the element of the loop around it,
// or over something of fixed size. Loops that allocate nothing cannot be counted otherwise.
func TestNoNestedLoops(t *testing.T) {
	files := sources(t)
	globals := []string{}
	for _, file := range files {
		for _, declaration := range file.Decls {
			if general, ok := declaration.(*ast.GenDecl); ok && general.Tok == token.VAR {
				for _, spec := range general.Specs {
					globals = append(globals, spec.(*ast.ValueSpec).Names[0].Name)
				}
			}
		}
	}
	for _, file := range files {
		for _, declaration := range file.Decls {
			if f, ok := declaration.(*ast.FuncDecl); ok && f.Body != nil && bounded[f.Name.Name] == "" {
				nested(t, f.Name.Name, f.Body, nil, globals)
			}
			if list, ok := declaration.(*ast.GenDecl); ok && list.Tok == token.VAR {
				for id, rule := range literals(list) {
					if bounded[id] == "" {
						nested(t, id, rule, nil, globals)
					}
				}
			}
		}
	}
}

// bounded lists functions and rules with short inner loops, with the reason.
var bounded = map[string]string{
	"port-ranges-apart": "at most maxPortRanges",
	"matcher-revision":  "instancetype and preference",
	"single-volumes":    "the outer loop has three sources",
}

// literals yields the rules of a declaration with their IDs, and its other values without.
func literals(list *ast.GenDecl) iter.Seq2[string, ast.Node] {
	return func(yield func(string, ast.Node) bool) {
		for _, spec := range list.Specs {
			for _, value := range spec.(*ast.ValueSpec).Values {
				rules, ok := value.(*ast.CompositeLit)
				if !ok || types.ExprString(rules.Type) != "[]Rule" {
					yield("", value)
					continue
				}
				for _, rule := range rules.Elts {
					yield(ruleID(rule), rule)
				}
			}
		}
	}
}

// ruleID is the ID of a rule, which is its first field, or the first argument of the function that
// makes it.
func ruleID(rule ast.Expr) string {
	var id ast.Expr
	switch rule := rule.(type) {
	case *ast.CompositeLit:
		id = rule.Elts[0].(*ast.KeyValueExpr).Value
	case *ast.CallExpr:
		id = rule.Args[0]
	}
	return strings.Trim(id.(*ast.BasicLit).Value, `"`)
}

// sources are the files of the package that are no tests.
func sources(t *testing.T) []*ast.File {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), ".go") || strings.HasSuffix(entry.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), entry.Name(), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}

// nested fails t for each loop beneath node that lies in a loop and mentions none of the names that
// it may run over.
func nested(t *testing.T, function string, node ast.Node, around, globals []string) {
	ast.Inspect(node, func(n ast.Node) bool {
		if check, ok := eachElement(n); ok {
			nested(t, function, check.Body, slices.Concat(around, made(check.Body, parameters(check)...)), globals)
			return false
		}
		loop, ok := n.(*ast.RangeStmt)
		if !ok {
			return true
		}
		if len(around) > 0 && !mentions(loop.X, around) && !mentions(loop.X, globals) && !written(loop.X) {
			t.Errorf("%s: a loop over %s in a loop that it has nothing to do with", function, types.ExprString(loop.X))
		}
		nested(t, function, loop.Body, slices.Concat(around, made(loop.Body, loop.Key, loop.Value)), globals)
		return false
	})
}

// eachElement is the function that forEach calls for each element, if n is such a call.
func eachElement(n ast.Node) (*ast.FuncLit, bool) {
	call, ok := n.(*ast.CallExpr)
	if !ok || types.ExprString(call.Fun) != "forEach" {
		return nil, false
	}
	check, ok := call.Args[1].(*ast.FuncLit)
	return check, ok
}

// parameters are the position and the element that forEach gives to a function.
func parameters(check *ast.FuncLit) []ast.Expr {
	var out []ast.Expr
	for _, parameter := range check.Type.Params.List[2:] {
		for _, name := range parameter.Names {
			out = append(out, name)
		}
	}
	return out
}

// made are the variables that a loop makes for itself.
func made(body *ast.BlockStmt, header ...ast.Expr) []string {
	names := []string{"_"}
	add := func(variables ...ast.Expr) {
		for _, v := range variables {
			if v, ok := v.(*ast.Ident); ok {
				names = append(names, v.Name)
			}
		}
	}
	add(header...)
	ast.Inspect(body, func(n ast.Node) bool {
		if a, ok := n.(*ast.AssignStmt); ok && a.Tok == token.DEFINE {
			add(a.Lhs...)
		}
		return true
	})
	return names
}

func mentions(x ast.Expr, names []string) bool {
	found := false
	ast.Inspect(x, func(n ast.Node) bool {
		v, ok := n.(*ast.Ident)
		found = found || ok && slices.Contains(names, v.Name)
		return true
	})
	return found
}

// written reports whether what a loop runs over stands in the loop itself.
func written(x ast.Expr) bool {
	switch x.(type) {
	case *ast.CompositeLit, *ast.BasicLit:
		return true
	}
	return false
}
