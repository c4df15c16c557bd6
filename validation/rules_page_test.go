package validation_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/virtwright/virtwright/test/golden"
	"github.com/virtwright/virtwright/test/validationtest"
	"github.com/virtwright/virtwright/validation"
)

// TestRulesPage keeps the pages of all rules current; make generate writes them.
func TestRulesPage(t *testing.T) {
	fixtures := validationtest.Fixtures(t)
	golden.Equal(t, "../docs/rules.md", index())
	for title, rules := range validation.Groups() {
		golden.Equal(t, "../docs/"+pageOf(title), page(title, rules, fixtures))
	}
	golden.Stale(t, "../docs/rules/*.md")
}

// pageOf returns the file of a group of rules, from docs.
func pageOf(title string) string {
	return "rules/" + strings.ReplaceAll(strings.ToLower(title), " ", "-") + ".md"
}

func index() string {
	var out strings.Builder
	out.WriteString(`# Validation rules

virtwright validates VirtualMachines and VirtualMachineInstances with these rules. A message ends
with the ID of its rule, and each ID below links to its rule. Rules for both kinds also validate the
expanded template of a VM, so that an admitted VM can start. An update may keep old problems, but
may not add new ones.

In standalone mode all rules reject objects, except those that only *warn*. Alongside KubeVirt (mode
addon) it depends on the rule:

* *rejects*: the rule rejects the object, as KubeVirt does
* *earlier*: KubeVirt enforces the rule on VMIs only, so the rule warns on a VM
* *stricter*: KubeVirt does not enforce the rule, so it warns
* *configured*: the rule depends on KubeVirt's configuration and is skipped

Alongside KubeVirt, a single problem is also a warning if KubeVirt admits this notation. The same
applies in the cluster if the problem depends on the architecture, the object names none, and the
manager's ` + "`--default-architecture`" + ` is not set. ` + "`virtwright validate`" + ` assumes amd64 then.
`)
	for title, rules := range validation.Groups() {
		fmt.Fprintf(&out, "\n## %s\n\n", title)
		for _, rule := range rules {
			fmt.Fprintf(&out, "* [`%s`](%s#%s)\n", rule.ID, pageOf(title), rule.ID)
		}
	}
	out.WriteString("\n## Feature gates\n\nRules that depend on a feature gate follow `--feature-gates`. The defaults are those of KubeVirt:\n\n| gate | default |\n|---|---|\n")
	gates := validation.KnownGates()
	for _, gate := range slices.Sorted(maps.Keys(gates)) {
		fmt.Fprintf(&out, "| `%s` | %s |\n", gate, map[bool]string{true: "on", false: "off"}[gates[gate]])
	}
	return out.String()
}

func page(title string, rules []validation.Rule, fixtures map[string][]validationtest.Fixture) string {
	var out strings.Builder
	fmt.Fprintf(&out, "# Validation rules: %s\n\n[Validation rules](../rules.md) lists the rules of all pages, and explains *rejects*, *earlier*,\n*stricter*, *configured* and *warns*.\n", title)
	for _, rule := range rules {
		fmt.Fprintf(&out, "\n## `%s`\n\n%s\n\n%s Alongside KubeVirt: *%s*.\n",
			rule.ID, wrap(rule.Requirement), objects(rule), alongsideKubeVirt(rule, fixtures[rule.ID]))
	}
	return out.String()
}

// wrap breaks lines at 100 columns.
func wrap(text string) string {
	var out strings.Builder
	column := 0
	for word := range strings.FieldsSeq(text) {
		switch {
		case column == 0:
		case column+len(word) >= 100:
			out.WriteString("\n")
			column = 0
		default:
			out.WriteString(" ")
			column++
		}
		out.WriteString(word)
		column += len(word)
	}
	return out.String()
}

func objects(rule validation.Rule) string {
	if rule.Scope == validation.VirtualMachines {
		return "For VMs."
	}
	return "For VMs and VMIs."
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
