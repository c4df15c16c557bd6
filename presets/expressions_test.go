package presets

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// TestGuardsOfConditions checks the fields that a preset guarantees to its own expressions.
func TestGuardsOfConditions(t *testing.T) {
	for name, c := range map[string]struct {
		spec string
		bad  bool
	}{
		"an earlier condition": {spec: `match: {conditions: [{name: a, expression: "'tier' in object.metadata.?labels.orValue({})"}, {name: b, expression: "object.metadata.labels['tier'] == 'x'"}]}`},
		"a later condition":    {spec: `match: {conditions: [{name: b, expression: "object.metadata.labels['tier'] == 'x'"}, {name: a, expression: "'tier' in object.metadata.?labels.orValue({})"}]}`, bad: true},
		"a condition of a value": {spec: `match: {conditions: [{name: a, expression: "has(object.metadata.labels) && 'tier' in object.metadata.labels"}]}
overrides: {metadata: {labels: {level: {$cel: "object.metadata.labels.tier"}}}}`},
		"a value of its own": {spec: `overrides: {spec: {template: {spec: {domain: {cpu: {cores: 4}, memory: {guest: {$cel: "string(object.spec.template.spec.domain.cpu.cores) + 'Gi'"}}}}}}}`},
		"a value of another": {spec: `overrides: {spec: {template: {spec: {domain: {cpu: {sockets: 4}, memory: {guest: {$cel: "string(object.spec.template.spec.domain.cpu.cores) + 'Gi'"}}}}}}}`, bad: true},
		"a label that the namespace selector names": {spec: `match: {namespaces: {matchLabels: {team: x}}}
overrides: {metadata: {labels: {team: {$cel: "namespaceObject.metadata.labels['team']"}}}}`},
		"labels that the namespace selector requires": {spec: `match: {namespaces: {matchExpressions: [{key: a/team, operator: In, values: [x, y]}, {key: tier, operator: Exists}]}, conditions: [{name: a, expression: "namespaceObject.metadata.labels['a/team'] + namespaceObject.metadata.labels.tier != ''"}]}`},
		"a label that the namespace may lack": {spec: `match: {namespaces: {matchExpressions: [{key: team, operator: NotIn, values: [x]}]}}
overrides: {metadata: {labels: {team: {$cel: "namespaceObject.metadata.labels['team']"}}}}`, bad: true},
		"an annotation of the name":          {spec: `match: {namespaces: {matchLabels: {team: x}}, conditions: [{name: a, expression: "namespaceObject.metadata.annotations['team'] == 'x'"}]}`, bad: true},
		"a label that the VM selector names": {spec: `match: {labels: {matchLabels: {team: x}}, conditions: [{name: a, expression: "object.metadata.labels['team'] == 'x'"}]}`, bad: true},
		"division by zero":                   {spec: `match: {conditions: [{name: a, expression: "1 / 0 == 1"}]}`, bad: true},
	} {
		preset := &v1alpha1.ClusterVirtualMachinePreset{}
		preset.Name = "p"
		if err := yaml.UnmarshalStrict([]byte(c.spec), &preset.Spec); err != nil {
			t.Fatal(err)
		}
		compiled, problems := Compile(preset)
		if len(problems) > 0 {
			t.Fatal(name, problems)
		}
		if got, _ := compiled.Expressions().Unguarded(0); len(got) > 0 != c.bad {
			t.Errorf("%s: got %v, want problems %t", name, got, c.bad)
		}
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
		"expressions":      {"match:\n  conditions:\n" + many.String(), "spec.match.conditions[5].expression"},
		"fields":           {"defaults: {metadata: {labels: {" + repeated(1100, "l%: x, ") + "}}}", "spec.defaults: Forbidden: must have at most 512 fields, objects and list elements"},
		"values of labels": {"match: {labels: {matchExpressions: [{key: a, operator: In, values: [" + repeated(1100, "v%, ") + "]}]}}", "spec.match.labels: Too many: 1101: must have at most 1024 items"},
		"remove":           {"remove: [" + repeated(300, "'metadata.labels[\"l%\"]', ") + "]", "spec.remove: Too many: 300: must have at most 256 items"},
		"forbid":           {"forbid: [" + repeated(300, "{path: 'metadata.labels[\"l%\"]'}, ") + "]", "spec.forbid: Too many: 300: must have at most 256 items"},
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
	at := field.NewPath("spec")
	for range distance {
		var out Compiled
		var errs field.ErrorList
		all.computed = 0
		all.Variables(preset.Spec.Variables, at, &errs)
		out.compileMatch(preset.Spec.Match, at, all, &errs)
		for _, part := range []*fieldNode{compilePartial(preset.Spec.Defaults, at, all, &errs), compilePartial(preset.Spec.Overrides, at, all, &errs)} {
			fields := 0
			visitLeaves(part, func(*fieldNode) { fields++ })
			if fields*distance > maxFields {
				t.Errorf("%s: %s has %d fields, at most %d are allowed", path, preset.Name, fields, maxFields)
			}
		}
		if len(errs) > 0 && strings.Contains(errs.ToAggregate().Error(), "of a preset together") {
			t.Fatalf("%s: the expressions of %s, %d times: %v", path, preset.Name, distance, errs)
		}
	}
}
