package arch

import (
	"go/ast"
	"path"
	"slices"
	"strconv"
	"strings"
)

// arrows lists, for each tree of packages, the other trees that it may import.
var arrows = map[string][]string{
	"api":                     {},
	"api/tools":               {},
	"presets/provenance":      {"api"},
	"presets/tree":            {},
	"presets/spelling":        {},
	"presets/vmschema":        {"presets/provenance"},
	"presets/condition":       {"api", "presets/provenance", "presets/vmschema"},
	"presets":                 {"api", "presets/condition", "presets/provenance", "presets/vmschema"},
	"validation":              {"api", "presets", "presets/condition", "presets/provenance"},
	"fleet":                   {"api", "presets", "presets/condition", "presets/vmschema", "presets/provenance", "validation"},
	"domain":                  {"api", "presets/provenance"},
	"webhooks":                {"api", "presets", "presets/condition", "presets/provenance", "validation", "domain"},
	"webhooks/clients":        {"api", "presets", "webhooks"},
	"lifecycle":               {"api", "presets", "presets/condition", "presets/provenance", "validation", "fleet", "domain", "launcher/podspec", "lifecycle/partialobject"},
	"launcher/podspec":        {"api", "presets/provenance", "validation", "domain"},
	"lifecycle/partialobject": {"api", "presets", "presets/vmschema", "presets/provenance", "validation"},
	"templates":               {"api", "presets", "validation", "lifecycle/partialobject", "templates/blueprint", "templates/format"},
	"templates/blueprint":     {"api"},
	"templates/format":        {"api", "presets", "templates/blueprint", "templates/portable"},
	"templates/portable":      {}, // the playground encodes objects like templates, without their libraries
	"subresources":            {"api", "presets", "presets/provenance", "validation", "domain", "launcher/podspec", "subresources/decide"},
	"subresources/decide":     {"api"},
	"launcher":                {"api", "domain"},
	"certs":                   {},
	"simulate":                {"api", "presets", "presets/vmschema", "presets/provenance", "validation", "fleet", "domain", "webhooks", "simulate/originreport"},
	// The playground runs it in a browser.
	"simulate/originreport": {"api", "presets", "presets/provenance"},
	"cmd":                   {"simulate", "simulate/originreport", "api", "presets", "presets/provenance", "validation", "fleet", "domain", "webhooks", "webhooks/clients", "launcher", "launcher/podspec", "lifecycle", "lifecycle/partialobject", "templates", "templates/blueprint", "templates/format", "templates/portable", "subresources", "certs"},
	"test":                  {"api", "presets", "presets/condition", "presets/provenance", "validation", "fleet", "domain", "webhooks", "webhooks/clients", "launcher/podspec", "lifecycle", "templates", "templates/blueprint", "templates/format", "templates/portable", "subresources", "certs", "simulate", "cmd"},
}

// kits are trees that all others may import.
var kits = []string{"presets/tree", "presets/spelling"}

// pure are the trees that reach no cluster, socket, file, clock or chance.
var pure = []string{"api", "presets/provenance", "presets/tree", "presets/spelling", "presets/vmschema", "presets/condition", "presets", "validation", "fleet", "domain", "launcher/podspec", "lifecycle/partialobject", "subresources/decide", "templates/blueprint", "simulate/originreport"}

// pureFiles are pure files of packages that are not: there, controllers decide.
var pureFiles = []string{
	"lifecycle/presetstatus/decide.go",
	"lifecycle/virtualmachine/conditions.go", "lifecycle/virtualmachine/decide.go",
	"lifecycle/virtualmachine/observe.go", "lifecycle/virtualmachine/status.go",
	"lifecycle/virtualmachineinstance/decide.go", "lifecycle/virtualmachineinstance/observe.go",
}

func isPure(source *sourceFile) bool {
	return slices.Contains(pure, treeOf(source.dir())) || slices.Contains(pureFiles, source.Path)
}

// impure are imports that reach one of these, with everything below them.
var impure = []string{
	"k8s.io/client-go", "sigs.k8s.io/controller-runtime",
	"os", "syscall", "io/ioutil", "golang.org/x/sys",
	"net", "google.golang.org/grpc",
	"math/rand", "crypto/rand", "github.com/google/uuid",
	"k8s.io/apimachinery/pkg/util/rand", "k8s.io/apimachinery/pkg/util/uuid",
}

// valuesOnly lie below an impure import and are pure all the same.
var valuesOnly = []string{"net/netip", "net/url"}

// impureNames are what a pure package may not use of a package that it may import.
var impureNames = map[string][]string{
	"time":                                 {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"},
	"k8s.io/apimachinery/pkg/apis/meta/v1": {"Now", "NowMicro"},
}

// treeOf is the tree of a folder: its top folder, or a longer name with arrows of its own.
func treeOf(dir string) string {
	for tree := dir; tree != "."; tree = path.Dir(tree) {
		if _, known := arrows[tree]; known {
			return tree
		}
	}
	top, _, _ := strings.Cut(dir, "/")
	return top
}

func arrowsHold(t *tree) []string {
	var found []string
	for _, source := range t.production() {
		from := treeOf(source.dir())
		allowed, known := arrows[from]
		if !known {
			found = append(found, source.at(source.file.Package, "%s has no arrows; say in test/arch what it may import", from))
		}
		for _, spec := range source.file.Imports {
			dir, ours := strings.CutPrefix(importPath(spec), module+"/")
			if !ours {
				continue
			}
			if to := treeOf(dir); to != from && !slices.Contains(allowed, to) && !slices.Contains(kits, to) {
				found = append(found, source.at(spec.Pos(), "%s may not import %s", from, to))
			}
		}
	}
	return found
}

func purity(t *tree) []string {
	var found []string
	for _, source := range t.production() {
		if !isPure(source) {
			continue
		}
		from := treeOf(source.dir())
		for _, spec := range source.file.Imports {
			imported := importPath(spec)
			below := func(tree string) bool { return imported == tree || strings.HasPrefix(imported, tree+"/") }
			if slices.ContainsFunc(impure, below) && !slices.ContainsFunc(valuesOnly, below) {
				found = append(found, source.at(spec.Pos(), "%s is pure and may not import %s", from, imported))
			}
		}
		found = append(found, impureUses(source, from)...)
	}
	return found
}

// impureUses finds impure names, called or passed on.
func impureUses(source *sourceFile, from string) []string {
	var found []string
	forbidden := map[string][]string{} // by the name that the file gives the package
	for _, spec := range source.file.Imports {
		imported := importPath(spec)
		names, restricted := impureNames[imported]
		if !restricted {
			continue
		}
		local := path.Base(imported)
		if spec.Name != nil {
			local = spec.Name.Name
		}
		if local == "." {
			found = append(found, source.at(spec.Pos(), "%s is pure and may not import %s into its own names", from, imported))
		}
		forbidden[local] = names
	}
	ast.Inspect(source.file, func(node ast.Node) bool {
		selector, ok := node.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if pkg, ok := selector.X.(*ast.Ident); ok && slices.Contains(forbidden[pkg.Name], selector.Sel.Name) {
			found = append(found, source.at(selector.Pos(), "%s is pure and may not use %s.%s; take the value as a parameter", from, pkg.Name, selector.Sel.Name))
		}
		return true
	})
	return found
}

func importPath(spec *ast.ImportSpec) string {
	imported, _ := strconv.Unquote(spec.Path.Value) // the parser accepted it
	return imported
}
