package validation_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/virtwright/virtwright/test/golden"
	"github.com/virtwright/virtwright/validation"
	"github.com/virtwright/virtwright/validation/validationtest"
)

// TestEveryRuleHasFixtures: a rule without a machine that it refuses and one
// that it does not is a rule that nobody has tried.
func TestEveryRuleHasFixtures(t *testing.T) {
	fixtures := validationtest.Fixtures(t)
	seen := sets.New[string]()
	for _, rule := range validation.Rules() {
		if seen.Has(rule.ID) {
			t.Errorf("rule %s is there twice", rule.ID)
		}
		seen.Insert(rule.ID)
		if !regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)+$`).MatchString(rule.ID) || !strings.HasSuffix(rule.Says, ".") || rule.Check == nil {
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

// judge checks that the rule of f, and no other, says what f expects.
func judge(t *testing.T, f *validationtest.Fixture) {
	result := f.Config.Validate(f.Machine(t))
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

Every rule that virtwright applies to VirtualMachines and VirtualMachineInstances. A message ends with the name of its rule.
Rules about what runs look at the expanded template of a VirtualMachine too, so that what is admitted can start. On an update they
ratchet: what was wrong before may stay, and nothing else that is wrong may come.

Beside KubeVirt (mode addon), *earlier* rules, which KubeVirt applies to instances only, warn on a VirtualMachine, *beyond* rules, which KubeVirt has not,
warn, and rules marked *configured*, on which KubeVirt's own configuration decides, are left to it. In standalone mode all refuse, but for those that only ever *warn*.

Beside KubeVirt a single problem also warns where KubeVirt admits this spelling, or where the problem depends on the
architecture, the machine names none, and ` + "`--default-architecture`" + ` is not set.

(Generated from the rules by ` + "`make generate`" + `.)

| rule | what must hold | concerns | beside KubeVirt |
|---|---|---|---|
`)
	for _, rule := range validation.Rules() {
		fmt.Fprintf(&out, "| `%s` | %s | %s | %s |\n", rule.ID, rule.Says, concerns(rule), besideKubeVirt(rule, fixtures[rule.ID]))
	}
	out.WriteString("\n## Feature gates\n\nRules that depend on a feature follow `--feature-gates`, whose defaults are KubeVirt's:\n\n| gate | default |\n|---|---|\n")
	gates := validation.KnownGates()
	for _, gate := range slices.Sorted(func(yield func(validation.Gate) bool) {
		for g := range gates {
			if !yield(g) {
				return
			}
		}
	}) {
		fmt.Fprintf(&out, "| `%s` | %s |\n", gate, map[bool]string{true: "on", false: "off"}[gates[gate]])
	}
	return out.String()
}

func concerns(rule validation.Rule) string {
	if rule.Scope == validation.VirtualMachines {
		return "VirtualMachine"
	}
	return "both"
}

func besideKubeVirt(rule validation.Rule, fixtures []validationtest.Fixture) string {
	if !slices.ContainsFunc(fixtures, func(f validationtest.Fixture) bool { return f.Verdict == validationtest.Bad }) {
		return "warns"
	}
	said := []string{"refuses", "earlier", "beyond"}[rule.Reach]
	if rule.Cluster {
		return "configured"
	}
	return said
}
