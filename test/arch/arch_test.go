package arch

import (
	"fmt"
	"strings"
	"testing"
)

func TestTree(t *testing.T) {
	tree, err := load("../..")
	if err != nil {
		t.Fatal(err)
	}
	if len(tree.Sources) < 20 {
		t.Fatalf("found %d Go files, which cannot be all", len(tree.Sources))
	}
	for _, rule := range rules {
		t.Run(rule.ID, func(t *testing.T) {
			for _, finding := range rule.Find(tree) {
				t.Error(finding)
			}
		})
	}
}

// block is a function of so many lines.
func block(lines int) string {
	return "func f() {\n" + strings.Repeat("\n", lines-2) + "}\n"
}

// branches is a function of such a complexity.
func branches(complexity int) string {
	return "func f(x bool) {" + strings.Repeat("if x {};", complexity-1) + "}"
}

const doc = "// Package x is x.\npackage x\n"

// TestRules proves that each rule finds what it is for, and only that. A source is "path: content"
// and wants the given words in one finding, or no finding when want is empty.
func TestRules(t *testing.T) {
	for id, rows := range map[string]map[string]struct {
		path, source, want string
	}{
		"package-names": {
			"a package called util":   {"presets/util/a.go", "package util", `"util" says nothing`},
			"a folder called helpers": {"test/helpers/a/a.go", "package a", `"helpers" says nothing`},
			"a file called common":    {"presets/common.go", "package presets", `"common" says nothing`},
			"a plain name":            {"presets/match.go", "package presets", ""},
		},
		"arrows": {
			"webhooks to lifecycle":       {"webhooks/a.go", `package x; import "MODULE/lifecycle/presetcache"`, "webhooks may not import lifecycle"},
			"lifecycle to webhooks":       {"lifecycle/presetstatus/a.go", `package x; import "MODULE/webhooks"`, "lifecycle may not import webhooks"},
			"domain to presets":           {"domain/a.go", `package x; import "MODULE/presets"`, "domain may not import presets"},
			"domain to provenance":        {"domain/a.go", `package x; import "MODULE/presets/provenance"`, ""},
			"provenance to presets":       {"presets/provenance/a.go", `package x; import "MODULE/presets"`, "presets/provenance may not import presets"},
			"certs to api":                {"certs/a.go", `package x; import "MODULE/api/v1alpha1"`, "certs may not import api"},
			"cmd to test":                 {"cmd/virtwright/a.go", `package x; import "MODULE/test/controlplane"`, "cmd may not import test"},
			"a test to test":              {"presets/a_test.go", `package x; import "MODULE/test/golden"`, ""},
			"test to cmd":                 {"test/e2e/a.go", `package x; import "MODULE/cmd/virtwright"`, ""},
			"within a tree":               {"lifecycle/a.go", `package x; import "MODULE/lifecycle/presetstatus"`, ""},
			"a tree nobody wrote down":    {"docs/a.go", "package x", "docs has no arrows"},
			"a module of a similar name":  {"certs/a.go", `package x; import "MODULE-extras/api"`, ""},
			"webhooks to validation, aka": {"webhooks/a.go", `package x; import v "MODULE/validation"`, ""},
		},
		"purity": {
			"a client":                 {"presets/a.go", `package x; import "k8s.io/client-go/rest"`, "may not import k8s.io/client-go/rest"},
			"controller-runtime":       {"validation/a.go", `package x; import _ "sigs.k8s.io/controller-runtime"`, "may not import sigs.k8s.io/controller-runtime"},
			"files":                    {"domain/a.go", `package x; import "os"`, "may not import os"},
			"processes":                {"domain/a.go", `package x; import "os/exec"`, "may not import os/exec"},
			"sockets":                  {"api/v1alpha1/a.go", `package x; import "net/http"`, "may not import net/http"},
			"addresses as values":      {"domain/a.go", `package x; import "net/netip"`, ""},
			"chance":                   {"presets/provenance/a.go", `package x; import "math/rand/v2"`, "may not import math/rand/v2"},
			"time":                     {"presets/a.go", `package x; import "time"; var y = time.Now()`, "may not use time.Now"},
			"time as a value":          {"presets/a.go", `package x; import "time"; var y = time.Now`, "may not use time.Now"},
			"time under another name":  {"presets/a.go", `package x; import clock "time"; func f(t clock.Time) { clock.Since(t) }`, "may not use clock.Since"},
			"time without a name":      {"presets/a.go", `package x; import . "time"; var y = Now()`, "into its own names"},
			"Kubernetes' time":         {"presets/a.go", `package x; import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"; var y = metav1.Now()`, "may not use metav1.Now"},
			"a duration":               {"presets/a.go", `package x; import "time"; var y = time.Second`, ""},
			"another thing called Now": {"presets/a.go", `package x; import "time"; var z time.Time; func f(facts struct{ Now time.Time }) { _ = facts.Now }`, ""},
			"a test":                   {"presets/a_test.go", `package x; import "os"`, ""},
			"a package that may":       {"webhooks/a.go", `package x; import "os"`, ""},
			"a name like a pure one":   {"presets/a.go", `package x; import "example.com/os"`, ""},
		},
		"function-budget": {
			"61 lines":                        {"webhooks/a.go", doc + block(61), "f: lines 61, at most 60"},
			"60 lines":                        {"webhooks/a.go", doc + block(60), ""},
			"41 lines in a pure package":      {"presets/a.go", doc + block(41), "f: lines 41, at most 40"},
			"40 lines in a pure package":      {"presets/a.go", doc + block(40), ""},
			"complexity 16":                   {"cmd/a.go", doc + branches(16), "f: complexity 16, at most 15"},
			"complexity 15":                   {"cmd/a.go", doc + branches(15), ""},
			"complexity 11 in a pure package": {"domain/a.go", doc + branches(11), "f: complexity 11, at most 10"},
			"complexity 10 in a pure package": {"domain/a.go", doc + branches(10), ""},
			"six parameters":                  {"certs/a.go", doc + "func f(a, b, c int, d, e, g string) {}", "f: parameters 6, at most 5"},
			"five parameters and a receiver":  {"certs/a.go", doc + "func (r T) f(a, b, c int, d, e string) {}", ""},
			"a function in a variable":        {"certs/a.go", doc + "var x = []any{func(a, b, c, d, e, f int) {}}", "a function of a variable: parameters 6"},
			"a generated file":                {"api/a.go", "// Code generated by x. DO NOT EDIT.\n\n" + doc + block(99), ""},
			"deepcopy":                        {"api/zz_generated.deepcopy.go", doc + block(99), ""},
			"a test file":                     {"presets/a_test.go", doc + block(99), ""},
		},
		"file-budget": {
			"401 lines":             {"cmd/a.go", doc + strings.Repeat("\n", 399), "401 lines, at most 400"},
			"400 lines":             {"cmd/a.go", doc + strings.Repeat("\n", 398), ""},
			"801 lines of tests":    {"cmd/a_test.go", doc + strings.Repeat("\n", 799), "801 lines, at most 800"},
			"800 lines of tests":    {"cmd/a_test.go", doc + strings.Repeat("\n", 798), ""},
			"801 lines, generated":  {"api/a.go", "// Code generated by x. DO NOT EDIT.\n\n" + doc + strings.Repeat("\n", 797), ""},
			"401 lines of test kit": {"test/golden/a.go", doc + strings.Repeat("\n", 399), "401 lines, at most 400"},
		},
		"error-words": {
			"failed to":      {"certs/a.go", `package x; var e = fmt.Errorf("failed to read: %w", err)`, `says "failed to"`},
			"in the middle":  {"certs/a.go", `package x; var e = errors.New("Sorry, could not read")`, `says "could not"`},
			"cannot":         {"certs/a.go", `package x; var e = fmt.Errorf("cannot read: %w", err)`, ""},
			"a log line":     {"certs/a.go", `package x; func f() { log.Print("failed to read") }`, ""},
			"text elsewhere": {"certs/a.go", `package x; var e = fmt.Errorf("cannot read %s", "failed to")`, ""},
			"a test":         {"certs/a_test.go", `package x; var e = errors.New("failed to read")`, ""},
		},
		"message-reading": {
			"a part of a message":        {"fleet/a.go", `package x; var y = strings.Contains(p.Message, "unknown")`, "a message is read"},
			"an error's text":            {"fleet/a.go", `package x; func f() { strings.Cut(err.Error(), ": ") }`, "a message is read"},
			"a regular expression":       {"webhooks/a.go", `package x; var y = rule.FindStringSubmatch(cause.Message)`, "a message is read"},
			"a message that is printed":  {"fleet/a.go", `package x; var y = strings.TrimSpace(p.Message)`, ""},
			"a field":                    {"fleet/a.go", `package x; var y = strings.Contains(p.Field, "spec")`, ""},
			"a message of an API server": {"cmd/virtwright/console.go", `package main; var y = strings.Contains(err.Error(), "not running")`, ""},
			"a test":                     {"fleet/a_test.go", `package x; var y = strings.Contains(p.Message, "unknown")`, ""},
		},
		"words": {
			"a comment":                 {"certs/a.go", "// Nobody knows.\npackage x", `a.go:1: "Nobody" is hard to read`},
			"a phrase over two lines":   {"certs/a.go", "package x\n\n// X is what\n// is there.", `a.go:3: "what\n// is" is hard to read`},
			"a message":                 {"certs/a.go", "package x\n\nvar y = `it shall be`", `a.go:3: "shall" is hard to read`},
			"a test":                    {"certs/a_test.go", "package x; var y = \"beside KubeVirt\"", `"beside KubeVirt" is hard to read`},
			"a name":                    {"certs/a.go", "package x; var shall int", ""},
			"part of a word":            {"certs/a.go", "package x; var y = \"a marshalled calendar\"", ""},
			"101 columns":               {"certs/a.go", "package x\n\n// " + strings.Repeat("x", 98), "a.go:3: a comment is wider than 100 columns"},
			"100 columns":               {"certs/a.go", "package x\n\n// " + strings.Repeat("x", 97), ""},
			"a tab is four columns":     {"certs/a.go", "package x\n\nfunc f() {\n\t// " + strings.Repeat("x", 94) + "\n}", "a.go:4: a comment is wider"},
			"an address":                {"certs/a.go", "package x\n\n// https://" + strings.Repeat("x", 98), ""},
			"a comment beside code":     {"certs/a.go", "package x; var y = 1 // " + strings.Repeat("x", 98), ""},
			"who as a subject":          {"certs/a.go", "package x // an object of who asks", `"of who" is hard to read`},
			"who after a plain subject": {"certs/a.go", "package x // users who ask", ""},
		},
		"exported-names": {
			"a function":               {"certs/a.go", "package x; func F() {}", "no other package uses F"},
			"a constant":               {"certs/a.go", "package x; const A = 1", "no other package uses A"},
			"the type of a result":     {"certs/a.go", "package x; type T int; func (t T) M() {}; func F() T { return 0 }", "no other package uses F"},
			"constants of a type":      {"certs/a.go", "package x; type T int; const (A T = iota; B)", ""},
			"a method":                 {"certs/a.go", "package x; func (t) M() {}", ""},
			"an unexported name":       {"certs/a.go", "package x; func f() {}", ""},
			"a name of the API":        {"api/v1/a.go", "package x; func F() {}", ""},
			"a program":                {"cmd/a/main.go", "package main; func F() {}", ""},
			"a function only of tests": {"certs/a_test.go", "package x; func F() {}", ""},
		},
		"doc-comments": {
			"a package":                      {"certs/a.go", "package x", "certs: the package has no doc comment"},
			"a program":                      {"cmd/a/main.go", "package main\nfunc F() {}", "cmd/a: the package has no doc comment"},
			"a function":                     {"certs/a.go", doc + "func F() {}", "F has no doc comment"},
			"a method":                       {"certs/a.go", doc + "func (*T[K]) F() {}", "F has no doc comment"},
			"a method of an unexported type": {"certs/a.go", doc + "func (t) F() {}", ""},
			"a type":                         {"certs/a.go", doc + "type T int", "T has no doc comment"},
			"a constant":                     {"certs/a.go", doc + "const (\nA = 1\n)", "A has no doc comment"},
			"a variable":                     {"certs/a.go", doc + "var a, B = 1, 2", "B has no doc comment"},
			"a documented group":             {"certs/a.go", doc + "// Letters.\nconst (\nA = 1\nB = 2\n)", ""},
			"a documented line":              {"certs/a.go", doc + "const (\nA = 1 // the first\n)", ""},
			"an unexported name":             {"certs/a.go", doc + "func f() {}", ""},
			"a field of the API":             {"api/v1/a.go", doc + "// T is.\ntype T struct {\nX int\n}", "T.X has no doc comment"},
			"an embedded field of the API":   {"api/v1/a.go", doc + "// T is.\ntype T struct {\nX\n}", ""},
			"a field elsewhere":              {"certs/a.go", doc + "// T is.\ntype T struct {\nX int\n}", ""},
		},
	} {
		for name, row := range rows {
			t.Run(id+"/"+name, func(t *testing.T) {
				source, err := parse(row.path, []byte(strings.ReplaceAll(row.source, "MODULE", module)))
				if err != nil {
					t.Fatal(err)
				}
				wantOne(t, ruleOf(t, id).Find(&tree{Sources: []*sourceFile{source}}), row.want)
			})
		}
	}
}

// A use counts where another package makes it.
func TestExportedNamesAreUsed(t *testing.T) {
	for name, row := range map[string]struct{ path, source, want string }{
		"by another package":     {"webhooks/a.go", `package y; import "MODULE/certs"; var z = certs.F`, ""},
		"by its test":            {"webhooks/a_test.go", `package y; import "MODULE/certs"; var z = certs.F`, ""},
		"under another name":     {"webhooks/a.go", `package y; import c "MODULE/certs"; var z = c.F`, ""},
		"by a test beside it":    {"certs/a_test.go", `package x_test; import "MODULE/certs"; var z = certs.F`, "no other package uses F"},
		"a package of that name": {"webhooks/a.go", `package y; import "example.com/certs"; var z = certs.F`, "no other package uses F"},
	} {
		t.Run(name, func(t *testing.T) {
			tree := &tree{}
			for path, source := range map[string]string{"certs/a.go": "package x; func F() {}", row.path: row.source} {
				parsed, err := parse(path, []byte(strings.ReplaceAll(source, "MODULE", module)))
				if err != nil {
					t.Fatal(err)
				}
				tree.Sources = append(tree.Sources, parsed)
			}
			wantOne(t, ruleOf(t, "exported-names").Find(tree), row.want)
		})
	}
}

func TestPages(t *testing.T) {
	wide := strings.Repeat("x", 101)
	for name, row := range map[string]struct{ path, text, want string }{
		"a phrase":       {"docs/a.md", "A\n\nNobody knows.", `docs/a.md:3: "Nobody" is hard to read`},
		"a wide line":    {"docs/a.md", "A\n\n" + wide, "docs/a.md:3: the line is wider than 100 columns"},
		"a table":        {"docs/a.md", "| " + wide, ""},
		"code":           {"docs/a.md", "```sh\n" + wide + "\n```\n", ""},
		"an address":     {"docs/a.md", "https://" + wide, ""},
		"an example":     {"examples/vms/a.yaml", "# It is a VM of whom\na: 1", `"of whom" is hard to read`},
		"a wide comment": {"examples/vms/a.yaml", "a:\n  # " + wide, "examples/vms/a.yaml:2: the line is wider than 100 columns"},
		"a wide value":   {"examples/vms/a.yaml", "a: " + wide, ""},
		"a job":          {"examples/ci/.gitlab-ci.yml", "# " + wide, ".gitlab-ci.yml:1: the line is wider"},
		"a workflow":     {"examples/ci/.github/workflows/a.yaml", "# " + wide, "a.yaml:1: the line is wider"},
		"CI":             {".ci/run", "# " + wide, ".ci/run:1: the line is wider"},
		"a script":       {"test/demo/a.sh", "# " + wide + "\necho " + wide, "test/demo/a.sh:1: the line is wider"},
		"a chart's note": {"charts/a/templates/NOTES.txt", "You shall wait. " + wide, `"shall" is hard to read`},
	} {
		t.Run(name, func(t *testing.T) {
			if !isPage(row.path) {
				t.Errorf("%s is no page", row.path)
			}
			wantOne(t, ruleOf(t, "words").Find(&tree{Pages: []*page{{Path: row.path, Text: row.text}}}), row.want)
		})
	}
	for _, path := range []string{"charts/a/files/crds/a.yaml", "test/e2e/a.yaml", "presets/a.go"} {
		if isPage(path) {
			t.Errorf("%s is a page", path)
		}
	}
}

func TestTopLevel(t *testing.T) {
	for name, want := range map[string]string{
		"pkg": "pkg: the top level is fixed", "internal": "internal: the top level is fixed",
		"notes.txt": "notes.txt: the top level is fixed", "presets": "", ".github": "", "LICENSE": "",
	} {
		t.Run(name, func(t *testing.T) {
			wantOne(t, ruleOf(t, "top-level").Find(&tree{Top: []string{name}}), want)
		})
	}
}

func TestComplexity(t *testing.T) {
	for source, want := range map[string]int{
		"":                               1,
		"if a {} else if b {} else {}":   3,
		"for {}":                         2,
		"for range x {}":                 2,
		"switch { case a: default: }":    2,
		"switch x { case 1, 2: case 3:}": 3,
		"select { case <-a: default: }":  2,
		"x := a && (b || !c); _ = x":     3,
		"func() { if a {} }()":           2,
		"a = b; f(a | b)":                1,
	} {
		t.Run(source, func(t *testing.T) {
			parsed, err := parse("a.go", fmt.Appendf(nil, "package x; func f() { %s }", source))
			if err != nil {
				t.Fatal(err)
			}
			if got := complexity(parsed.file.Decls[0]); got != want {
				t.Errorf("complexity %d, want %d", got, want)
			}
		})
	}
}

func TestLoadSeesWhatGoSees(t *testing.T) {
	for rel, want := range map[string]bool{
		".": false, "presets": false, "test/controlplane/bin": false,
		".ci": false, "examples/ci/.github": false,
		"bin": true, ".git": true, ".github": true, "presets/testdata": true, "dist": true, "docs/node_modules": true, "_old": true, "api/vendor": true,
	} {
		if got := ignored(rel); got != want {
			t.Errorf("%s: ignored is %t, want %t", rel, got, want)
		}
	}
	if _, err := load(t.TempDir() + "/none"); err == nil {
		t.Error("a root that is not there is no error")
	}
}

func ruleOf(t *testing.T, id string) rule {
	t.Helper()
	for _, rule := range rules {
		if rule.ID == id {
			return rule
		}
	}
	t.Fatalf("no rule is called %s", id)
	return rule{}
}

// wantOne wants one finding with the words, or none when there are no words.
func wantOne(t *testing.T, found []string, words string) {
	t.Helper()
	if words == "" && len(found) > 0 {
		t.Errorf("found %q, want nothing", found)
	}
	if words != "" && (len(found) != 1 || !strings.Contains(found[0], words)) {
		t.Errorf("found %q, want one line with %q", found, words)
	}
}
