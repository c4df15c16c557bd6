package presets_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/test/presettest"
)

const cores = `{name: cores, expression: "object.spec.template.spec.domain.?cpu.cores.orValue(1)"}`

func TestVariables(t *testing.T) {
	size := "variables: [" + cores + `, {name: memory, expression: "string(variables.cores * 2) + 'Gi'"}]
match: {conditions: [{name: several, expression: "variables.cores > 1"}]}
` + defaults(`{memory: {guest: {$cel: "variables.memory"}}}`)
	for name, c := range map[string]resolveCase{
		"ConditionAndValue": {
			reason: "conditions and computed values use variables", presets: list(cluster("size", size)),
			object: domain("{cpu: {cores: 4}}"), want: map[string]string{at + "memory.guest": `"8Gi"`},
		},
		"ConditionIsFalse": {
			reason: "a condition on a variable decides", presets: list(cluster("size", size)), object: vm(""),
			want: map[string]string{at + "memory.guest": ""},
		},
		"EachUseReadsItsObject": {
			reason:  "a condition reads the author's VM, a computed value also values of presets",
			presets: list(cluster("size", strings.Replace(size, "> 1", "== 1", 1)), cluster("cores", defaults("{cpu: {cores: 3}}"))), object: vm(""),
			want: map[string]string{at + "memory.guest": `"6Gi"`},
		},
		"FailureNamesTheVariable": {
			reason: "a message about a value that fails names the variable",
			presets: list(cluster("a", `variables: [{name: tier, expression: "object.metadata.labels['tier']"}]
`+defaults(`{chassis: {sku: {$cel: "variables.tier + 'x'"}}}`))), object: vm(""),
			want: map[string]string{at + "chassis.sku": ""}, warn: []string{"cannot evaluate the expression in variables.tier: no such key"},
		},
		"OneTextTwoMeanings": {
			reason: "values with one text conflict if their variables differ", presets: list(
				cluster("a", `variables: [{name: sku, expression: "'a'"}]`+"\n"+defaults(`{chassis: {sku: {$cel: "variables.sku"}}}`)),
				cluster("b", `variables: [{name: sku, expression: "'b'"}]`+"\n"+defaults(`{chassis: {sku: {$cel: "variables.sku"}}}`))), object: vm(""),
			want: map[string]string{at + "chassis.sku": `"a"`}, warn: []string{"presets cluster/a and cluster/b set " + at + "chassis.sku"},
		},
	} {
		t.Run(name, func(t *testing.T) { c.run(t) })
	}
}

func TestVariablesAreChecked(t *testing.T) {
	condition := func(expression string) string {
		return "\nmatch: {conditions: [{name: c, expression: \"" + expression + "\"}]}"
	}
	const at, used = "spec.variables[0].expression", "spec.match.conditions[0].expression"
	for name, c := range map[string]struct {
		spec string
		want []string // all problems
	}{
		"Syntax":       {`variables: [{name: a, expression: "1 +"}]` + condition("variables.a == 1"), []string{at + " line 1, column 4: Syntax error"}},
		"Type":         {`variables: [{name: a, expression: "1 + 'x'"}]` + condition("variables.a == 1"), []string{at + " line 1, column 3: found no matching overload"}},
		"TypeOfUse":    {`variables: [{name: a, expression: "1"}]` + condition("true && variables.a == 'x'"), []string{used + " line 1, column 21: found no matching overload for '_==_' applied to '(int, string)'"}},
		"Result":       {`variables: [{name: a, expression: "1"}]` + condition("variables.a"), []string{used + " must be true or false, but is of type int"}},
		"Unknown":      {`variables: [{name: cores, expression: "1"}]` + condition("true && variables.cors == 1"), []string{used + ` line 1, column 9: spec.variables has no "cors"; did you mean variables.cores?`}},
		"NoVariables":  {condition("variables.cores == 1"), []string{used + ` line 1, column 1: spec.variables has no "cores"`}},
		"Below":        {`variables: [{name: a, expression: "variables.b"}, {name: b, expression: "1"}]` + condition("variables.a == 1"), []string{at + " line 1, column 1: variables.b is not defined yet: a variable may use only variables above it"}},
		"Itself":       {`variables: [{name: a, expression: "variables.a"}]`, []string{at + " line 1, column 1: variables.a is not defined yet"}},
		"Twice":        {`variables: [{name: a, expression: "1"}, {name: a, expression: "2"}]`, []string{"spec.variables[1].name Duplicate value"}},
		"NoName":       {`variables: [{expression: "1"}]`, []string{"spec.variables[0].name Required value"}},
		"NoIdentifier": {`variables: [{name: a-b, expression: "1"}]`, []string{"spec.variables[0].name must be a CEL identifier"}},
		"Reserved":     {`variables: [{name: in, expression: "1"}]`, []string{"spec.variables[0].name must be a CEL identifier"}},
		"Presence":     {`variables: [{name: a, expression: "1"}]` + condition("has(variables.a)"), []string{used + " line 1, column 5: use variables.NAME"}},
		"Index":        {`variables: [{name: a, expression: "1"}]` + condition("variables['a'] == 1"), []string{used + " line 1, column 1: use variables.NAME"}},
		"Macro": {`variables: [{name: a, expression: "object.kind"}]` + condition("['x'].all(object, variables.a == object)"),
			[]string{used + " line 1, column 19: variables.a reads object, but a macro around it has its own object: rename the loop variable"}},
		"TooMany":      {"variables: [" + strings.TrimSuffix(strings.Repeat(`{name: a, expression: "1"}, `, 17), ", ") + "]", []string{"spec.variables Too many: 17: must have at most 16 items"}},
		"TooLarge":     {doubled(12, "object.kind") + condition("variables.a11 == ''"), []string{"spec.variables[8].expression must have at most 512 operations and values, but has 767"}},
		"TooDeep":      {`variables: [{name: a, expression: "[[[[[[[[[1]]]]]]]]]"}]`, []string{at + " must have a type with at most 8 levels of nesting"}},
		"TooCostly":    {`variables: [{name: a, expression: "object.a.all(x, object.b.all(y, x == y))"}]` + condition("object.c.all(z, variables.a)"), []string{used + " too costly"}},
		"OwnVariables": {condition("[{'a': 1}].all(variables, variables.a == 1)"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			_, errs := presets.Compile(presettest.Cluster("a", c.spec))
			for i, want := range c.want {
				field, message, _ := strings.Cut(want, " ")
				if len(errs) <= i || errs[i].Field != field || !strings.Contains(errs[i].Error(), message) {
					t.Errorf("want %q\ngot %v", want, errs)
				}
			}
			if len(c.want) < len(errs) && name != "TooMany" || c.want == nil && len(errs) > 0 {
				t.Errorf("too many problems: %v", errs)
			}
		})
	}
}

// doubled returns variables a0, a1 and so on. Each has the last one twice.
func doubled(n int, text string) string {
	var out strings.Builder
	out.WriteString("variables:")
	for i := range n {
		fmt.Fprintf(&out, "\n- {name: a%d, expression: %q}", i, text)
		text = fmt.Sprintf("variables.a%d + variables.a%d", i, i)
	}
	return out.String()
}

// A variable is guarded where it is used, and its problems are reported where it is written.
func TestVariablesAreAnalysed(t *testing.T) {
	const tier = `variables: [{name: tier, expression: "object.metadata.labels['tier']"}, {name: unused, expression: "object.?sepc.running.orValue(true)"}]` + "\n"
	conditions := func(expressions ...string) string {
		var out strings.Builder
		for i, e := range expressions {
			fmt.Fprintf(&out, "  - {name: c%d, expression: %q}\n", i, e)
		}
		return tier + "match:\n  conditions:\n" + out.String()
	}
	const guard = "'tier' in object.metadata.?labels.orValue({})"
	for name, c := range map[string]struct {
		spec, unguarded string
	}{
		"unguarded":           {conditions("variables.tier == 'x'", "variables.tier == 'x' || variables.tier == 'y'"), "spec.variables[0].expression"},
		"guarded":             {conditions(guard + " && variables.tier == 'x'"), ""},
		"an earlier guard":    {conditions(guard, "variables.tier == 'x'"), ""},
		"also in the user":    {conditions("variables.tier == 'x' && object.metadata.labels.tier == 'x'"), "spec.match.conditions[0].expression"},
		"through another":     {strings.Replace(conditions("variables.big"), "}]", `}, {name: big, expression: "variables.tier == 'big'"}]`, 1), "spec.variables[0].expression"},
		"through an alias":    {strings.Replace(conditions("variables.same == 'x'"), "}]", `}, {name: same, expression: "variables.tier"}]`, 1), "spec.variables[0].expression"},
		"a computed override": {tier + `overrides: {spec: {template: {spec: {hostname: {$cel: "variables.tier"}}}}}`, "spec.variables[0].expression"},
	} {
		t.Run(name, func(t *testing.T) {
			compiled := presettest.Compile(t, presettest.Cluster("p", c.spec))[0]
			problems, _ := compiled.Expressions().Unguarded(0)
			var fields []string
			for _, p := range problems {
				fields = append(fields, p.Field)
			}
			if got := strings.Join(fields, " "); got != c.unguarded {
				t.Errorf("want problems of %q, got %v", c.unguarded, problems)
			}
			for _, all := range [][]string{{"spec.variables[1]: ", compiled.Expressions().UnusedVariables().ToAggregate().Error()}, {`did you mean "spec"?`, compiled.Expressions().UnknownSelections().ToAggregate().Error()}} {
				if !strings.Contains(all[1], all[0]) || strings.Count(all[1], "spec.variables") != 1 {
					t.Errorf("want one problem with %q, got %s", all[0], all[1])
				}
			}
		})
	}
}

// Everything that identifies an expression has the variables that it uses, and no others.
func TestVariablesIdentify(t *testing.T) {
	compile := func(variables, value string) *presets.Compiled {
		return presettest.Compile(t, presettest.Cluster("p", "variables: ["+variables+"]\nmatch: {conditions: [{name: c, expression: \""+value+" != ''\"}]}\n"+
			defaults(`{chassis: {sku: {$cel: "`+value+`"}}}`)))[0]
	}
	const a, b, unused = `{name: a, expression: "'x'"}`, `{name: b, expression: "variables.a + 'y'"}`, `{name: c, expression: "namespaceObject"}`
	was := compile(a+", "+b, "variables.b")
	same := compile(a+", "+unused+", "+b, "variables.b")
	other := compile(strings.Replace(a, "'x'", "'z'", 1)+", "+b, "variables.b")
	const text = "variables.b, where variables.a is 'x', variables.b is variables.a + 'y'"
	if got := was.Actions()[0].Expression; got != text {
		t.Errorf("want %q, got %q", text, got)
	}
	if same.Hash() != was.Hash() || same.Conditions()[0] != was.Conditions()[0] || same.ReadsNamespace() {
		t.Error("an unused variable changes the hash or a condition")
	}
	if other.Hash() == was.Hash() || other.Conditions()[0] == was.Conditions()[0] || !other.Differs(was) || !same.Differs(was) {
		t.Error("a variable does not change the preset")
	}
	if alias := compile(a+", {name: b, expression: variables.a}", "variables.b"); alias.Conditions()[0] != "variables.b != '', where variables.a is 'x', variables.b is variables.a" {
		t.Errorf("an alias is left out: %s", alias.Conditions()[0])
	}
	if reads := compile(`{name: a, expression: "namespaceObject.metadata.name"}, `+b, "variables.b"); !reads.ReadsNamespace() {
		t.Error("a variable reads the namespace")
	}
	snapshot := presettest.Snapshot(t, presettest.Cluster("p", "variables: ["+cores+"]\n"+defaults(`{cpu: {sockets: {$cel: "variables.cores"}}}`)))
	x, err := (&presets.Engine{}).Explain(t.Context(), snapshot, presets.Request{Kind: presets.VirtualMachine, Object: presettest.JSON(vm("")), Namespace: presets.Namespace{Name: "lab"}})
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, o := range x.Fields {
		found = found || strings.HasPrefix(o.Computed, "variables.cores, where variables.cores is object.spec.")
	}
	if !found {
		t.Errorf("explain does not show the variable: %v", x.Fields)
	}
}
