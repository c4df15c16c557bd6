package validation

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A Result holds the problems of an object.
type Result struct {
	// Errors reject the object; at most maxProblems and one that counts the rest.
	Errors field.ErrorList
	// Warnings do not reject it; at most maxProblems.
	Warnings []string
}

// Validate runs every rule on vm, which has Old set on an update.
//
// It ratchets: an update may keep problems of the stored object. Two problems are the same if rule,
// message and field are the same. List elements are identified by name, not by position.
func (c *Config) Validate(vm *ExpandedVM) Result {
	found := c.run(vm)
	if vm.Old != nil && len(found.problems) > 0 {
		before := c.run(vm.Old)
		found.problems = newProblems(found.problems, vm, before.problems, vm.Old)
		found.more -= min(before.more, found.more)
	}
	c.demoteByArchitecture(vm, found.problems)
	var out Result
	seen := map[string]bool{}
	for _, p := range found.problems {
		text := p.err.Error()
		switch {
		case seen[text]:
		case p.warnsOnly(c, vm):
			found.warnings = append(found.warnings, text)
		default:
			out.Errors = append(out.Errors, p.err)
		}
		seen[text] = true
	}
	shown := min(len(out.Errors), maxProblems)
	if more := len(out.Errors) - shown + found.more; more > 0 {
		out.Errors = append(out.Errors[:shown], field.InternalError(nil, fmt.Errorf("and %d more problems", more)))
	}
	out.Warnings = found.warnings[:min(len(found.warnings), maxProblems)]
	return out
}

// ValidateAssumed runs every rule on vm, which has the defaults that KubeVirt is assumed to set
// when a VM starts. Function sent decodes the object without them. Alongside KubeVirt, a problem
// that sent does not have is a warning, because KubeVirt may set other defaults.
func (c *Config) ValidateAssumed(vm *ExpandedVM, sent func() (*ExpandedVM, error)) Result {
	out := c.Validate(vm)
	if !c.Addon || len(out.Errors) == 0 {
		return out
	}
	certain, err := sent()
	if err != nil {
		return out
	}
	known := c.Validate(certain).Errors
	out.Errors = slices.DeleteFunc(out.Errors, func(e *field.Error) bool {
		isKnown := slices.ContainsFunc(known, func(o *field.Error) bool { return o.Field == e.Field && o.Detail == e.Detail })
		if !isKnown {
			out.Warnings = append(out.Warnings, e.Error())
		}
		return !isKnown
	})
	return out
}

// demoteByArchitecture turns problems that exist on amd64 only into warnings, if the object has no
// architecture. Alongside KubeVirt only KubeVirt knows the default architecture.
func (c *Config) demoteByArchitecture(vm *ExpandedVM, problems []problem) {
	if !c.Addon || c.Architecture != "" || vm.Spec == nil || vm.Spec.Architecture != "" || len(problems) == 0 {
		return
	}
	for _, architecture := range architectures[1:] {
		c.demoteUnlessOn(architecture, vm, problems)
	}
	vm.Config = c
}

// demoteUnlessOn turns problems that vm does not have on an architecture into warnings.
func (c *Config) demoteUnlessOn(architecture string, vm *ExpandedVM, problems []problem) {
	other, there := *c, map[string]bool{}
	other.Architecture = architecture
	for _, p := range other.run(vm).problems {
		there[p.key()] = true
	}
	for i := range problems {
		if !there[problems[i].key()] {
			problems[i].strictness = StricterThanKubeVirt
		}
	}
}

// key identifies a problem by rule, field and value.
func (p *problem) key() string {
	return fmt.Sprint(p.rule.ID, "\n", p.err.Field, "\n", p.err.BadValue)
}

func (c *Config) run(vm *ExpandedVM) *Report {
	return c.runSelected(vm, func(*Rule) bool { return true })
}

// runVMIRules returns the problems of vm with rules of scope VMISpecs.
func (c *Config) runVMIRules(vm *ExpandedVM) []problem {
	return c.runSelected(vm, func(rule *Rule) bool { return rule.Scope == VMISpecs }).problems
}

func (c *Config) runSelected(vm *ExpandedVM, chosen func(*Rule) bool) *Report {
	vm.Config = c
	r := &Report{runVMIRules: c.runVMIRules}
	for _, group := range groups {
		for _, rule := range pointers(group.rules) {
			if chosen(rule) && rule.appliesTo(c, vm) {
				r.rule, r.reported, r.suggestions = rule, 0, 0
				rule.Check(vm, r)
			}
		}
	}
	return r
}
