package validation_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/virtwright/virtwright/test/golden"
	"github.com/virtwright/virtwright/test/validationtest"
	"github.com/virtwright/virtwright/validation"
)

// TestEveryRuleHasFixtures checks that each rule has an object that it rejects and one that it
// admits.
func TestEveryRuleHasFixtures(t *testing.T) {
	fixtures := validationtest.Fixtures(t)
	seen := sets.New[string]()
	for _, rule := range validation.Rules() {
		if seen.Has(rule.ID) {
			t.Errorf("rule %s occurs twice", rule.ID)
		}
		seen.Insert(rule.ID)
		if !regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)+$`).MatchString(rule.ID) || !strings.HasSuffix(rule.Requirement, ".") || rule.Check == nil {
			t.Errorf("rule %s needs an ID of several words, a sentence and a check", rule.ID)
		}
		verdicts := sets.New[validationtest.Verdict]()
		for _, f := range fixtures[rule.ID] {
			verdicts.Insert(f.Verdict)
		}
		if !verdicts.HasAny(validationtest.Bad, validationtest.Warned) || !verdicts.Has(validationtest.Good) {
			t.Errorf("rule %s has no bad or no good fixture", rule.ID)
		}
	}
	for id := range fixtures {
		if !seen.Has(id) {
			t.Errorf("fixtures %s have no rule", id)
		}
	}
}

func TestFixtures(t *testing.T) {
	for id, fixtures := range validationtest.Fixtures(t) {
		for _, f := range fixtures {
			t.Run(id+"/"+f.Name, func(t *testing.T) { judge(t, &f) })
		}
	}
}

// judge checks that the rule of f, and no other, reports the expected problems.
func judge(t *testing.T, f *validationtest.Fixture) {
	result := f.Config.Validate(f.ExpandedVM(t))
	suffix := "(" + f.Rule + ")"
	var fields []string
	for _, err := range result.Errors {
		fields = append(fields, err.Field)
		if !strings.HasSuffix(err.Error(), suffix) {
			t.Errorf("another rule refuses: %v", err)
		}
		if !strings.Contains(err.Error(), f.Says) {
			t.Errorf("%q should say %q", err, f.Says)
		}
	}
	if bad := f.Verdict == validationtest.Bad; bad != (len(fields) > 0) || bad && !slices.Equal(fields, f.Fields) {
		t.Errorf("%s: want problems with %q, got %v", f.Verdict, f.Fields, result.Errors)
	}
	warned := slices.ContainsFunc(result.Warnings, func(w string) bool {
		return strings.HasSuffix(w, suffix) && strings.Contains(w, f.Says)
	})
	if warned != (f.Verdict == validationtest.Warned) {
		t.Errorf("%s: got warnings %q", f.Verdict, result.Warnings)
	}
}

// TestRulesPage keeps the page of all rules current; make generate writes it.
func TestRulesPage(t *testing.T) {
	golden.Equal(t, "../docs/rules.md", page(validationtest.Fixtures(t)))
}

func page(fixtures map[string][]validationtest.Fixture) string {
	var out strings.Builder
	out.WriteString(`# Validation rules

virtwright validates VirtualMachines and VirtualMachineInstances with these rules. A message ends
with the ID of its rule. Rules for both kinds also validate the expanded template of a VM, so that
an admitted VM can start. An update may keep old problems, but may not add new ones.

In standalone mode all rules reject objects, except those that only *warn*. Alongside KubeVirt (mode
addon) the last column applies:

* *rejects*: the rule rejects the object, as KubeVirt does
* *earlier*: KubeVirt enforces the rule on VMIs only, so the rule warns on a VM
* *stricter*: KubeVirt does not enforce the rule, so it warns
* *configured*: the rule depends on KubeVirt's configuration and is skipped

Alongside KubeVirt, a single problem is also a warning if KubeVirt admits this notation. The same
applies in the cluster if the problem depends on the architecture, the object names none, and the
manager's ` + "`--default-architecture`" + ` is not set. ` + "`virtwright validate`" + ` assumes amd64 then.

(Generated from the rules by ` + "`make generate`" + `.)

| rule | requirement | objects | alongside KubeVirt |
|---|---|---|---|
`)
	for _, rule := range validation.Rules() {
		fmt.Fprintf(&out, "| `%s` | %s | %s | %s |\n", rule.ID, rule.Requirement, objects(rule), alongsideKubeVirt(rule, fixtures[rule.ID]))
	}
	out.WriteString("\n## Feature gates\n\nRules that depend on a feature gate follow `--feature-gates`. The defaults are those of KubeVirt:\n\n| gate | default |\n|---|---|\n")
	gates := validation.KnownGates()
	for _, gate := range slices.Sorted(maps.Keys(gates)) {
		fmt.Fprintf(&out, "| `%s` | %s |\n", gate, map[bool]string{true: "on", false: "off"}[gates[gate]])
	}
	return out.String()
}

func objects(rule validation.Rule) string {
	if rule.Scope == validation.VirtualMachines {
		return "VirtualMachine"
	}
	return "both"
}

func alongsideKubeVirt(rule validation.Rule, fixtures []validationtest.Fixture) string {
	if !slices.ContainsFunc(fixtures, func(f validationtest.Fixture) bool { return f.Verdict == validationtest.Bad }) {
		return "warns"
	}
	if rule.DependsOnConfig() {
		return "configured"
	}
	return []string{"rejects", "earlier", "stricter"}[rule.Strictness]
}
