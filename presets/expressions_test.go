package presets

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

func TestExpressionLimits(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"short":              {"object.metadata.?name.orValue('') == 'a'", ""},
		"a list of names":    {"object.metadata.?name.orValue('') in ['a'" + strings.Repeat(", 'b'", 400) + "]", ""},
		"a pattern":          {`object.metadata.?name.orValue('').matches('^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?([.][a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$')`, ""},
		"long":               {"object.metadata.?name.orValue('') == '" + strings.Repeat("a", 5000) + "'", "must have at most 4096 bytes, but has 5039"},
		"many operations":    {strings.TrimSuffix(strings.Repeat("1==1||", 400), "||"), "must have at most 512 operations and values, but has 1599"},
		"macros that double": {"object.metadata.?labels" + strings.Repeat(".optMap(x,x)", 10) + ".hasValue()", "expression count exceeds limit of 512"},
		"nested lists":       {strings.Repeat("[", 60) + strings.Repeat("]", 60) + " == []", "expression recursion limit exceeded: 40"},
		"a large pattern":    {`object.metadata.?name.orValue('').matches('(` + strings.Repeat("a", 100) + `){1000}')`, "must have at most 512 operations and values, but has 12"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := new(expressionCompiler).compile(c.text, "must be true or false", cel.BoolType)
			switch {
			case err == nil && c.want != "":
				t.Errorf("want an error with %q", c.want)
			case err != nil && (c.want == "" || !strings.Contains(err.Error(), c.want)):
				t.Errorf("want %q, got %v", c.want, err)
			}
		})
	}
}

// TestPresetLimits: expressions that are allowed alone may be too large together, and so may parts
// of a preset that have no expressions.
func TestPresetLimits(t *testing.T) {
	condition := strings.TrimSuffix(strings.Repeat("object.kind=='a'||", 80), "||")
	var many strings.Builder
	for i := range 9 {
		fmt.Fprintf(&many, "  - {name: c%d, expression: %q}\n", i, condition)
	}
	for name, c := range map[string]struct{ spec, want string }{
		"expressions": {"match:\n  conditions:\n" + many.String(), "spec.match.conditions[5].expression"},
		"fields":      {"defaults: {metadata: {labels: {" + repeated(1100, "l%: x, ") + "}}}", "spec.defaults: Forbidden: must have at most 512 fields, objects and list elements"},
		"remove":      {"remove: [" + repeated(300, "'metadata.labels[\"l%\"]', ") + "]", "spec.remove: Too many: 300: must have at most 256 items"},
		"forbid":      {"forbid: [" + repeated(300, "{path: 'metadata.labels[\"l%\"]'}, ") + "]", "spec.forbid: Too many: 300: must have at most 256 items"},
	} {
		t.Run(name, func(t *testing.T) {
			preset := &v1alpha1.ClusterVirtualMachinePreset{}
			if err := yaml.UnmarshalStrict([]byte(c.spec), &preset.Spec); err != nil {
				t.Fatal(err)
			}
			_, errs := Compile(preset)
			if len(errs) == 0 || !strings.HasPrefix(errs[0].Error(), c.want) {
				t.Errorf("want %q, got %.300v", c.want, errs)
			}
		})
	}
}

func repeated(n int, format string) string {
	var out strings.Builder
	for i := range n {
		out.WriteString(strings.Replace(format, "%", strconv.Itoa(i), 1))
	}
	return out.String()
}

// TestExamplesAreFarFromLimits: the presets of our examples take at most a tenth of each limit.
func TestExamplesAreFarFromLimits(t *testing.T) {
	const distance = 10
	tested := 0
	err := filepath.WalkDir("../examples", func(path string, _ os.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".yaml" {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for document := range strings.SplitSeq(string(content), "\n---") {
			preset := &v1alpha1.ClusterVirtualMachinePreset{}
			if yaml.Unmarshal([]byte(document), preset) != nil || !strings.HasSuffix(preset.Kind, "VirtualMachinePreset") {
				continue
			}
			tested++
			testDistance(t, path, preset, distance)
		}
		return nil
	})
	if err != nil || tested < 20 {
		t.Errorf("%d presets, %v", tested, err)
	}
}

func testDistance(t *testing.T, path string, preset *v1alpha1.ClusterVirtualMachinePreset, distance int) {
	t.Helper()
	all := &expressionCompiler{}
	var out Compiled
	var errs field.ErrorList
	at := field.NewPath("spec")
	all.defineVariables(preset.Spec.Variables, at, &errs)
	out.compileMatch(preset.Spec.Match, at, all, &errs)
	for _, part := range []*fieldNode{compilePartial(preset.Spec.Defaults, at, all, &errs), compilePartial(preset.Spec.Overrides, at, all, &errs)} {
		fields := 0
		visitLeaves(part, func(*fieldNode) { fields++ })
		if fields*distance > maxFields {
			t.Errorf("%s: %s has %d fields, at most %d are allowed", path, preset.Name, fields, maxFields)
		}
	}
	if all.nodes*distance > maxPresetNodes || all.bytes*distance > maxPresetBytes {
		t.Errorf("%s: %s has expressions of %d nodes and %d bytes, at most %d and %d are allowed", path, preset.Name, all.nodes, all.bytes, maxPresetNodes, maxPresetBytes)
	}
}
