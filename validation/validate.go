package validation

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A Result is what there is to say about a machine.
type Result struct {
	// Errors refuse it; at most MaxProblems and one that counts the rest.
	Errors field.ErrorList
	// Warnings are for the person at the keyboard; at most MaxProblems.
	Warnings []string
}

// Validate runs every rule on m, whose Old is set on an update.
//
// It ratchets: what was wrong before an update may stay. A problem is the same
// when the same rule says the same of the same field, where elements of lists
// are told apart by name and not by position.
func (c *Config) Validate(m *Machine) Result {
	found := c.run(m)
	if m.Old != nil && len(found.problems) > 0 {
		before := c.run(m.Old)
		found.problems = newIn(found.problems, m, before.problems, m.Old)
		found.more -= min(before.more, found.more)
	}
	c.doubtArchitecture(m, found.problems)
	var out Result
	seen := map[string]bool{}
	for _, p := range found.problems {
		text := p.err.Error()
		switch {
		case seen[text]:
		case p.warnsOnly(c, m):
			found.warnings = append(found.warnings, text)
		default:
			out.Errors = append(out.Errors, p.err)
		}
		seen[text] = true
	}
	shown := min(len(out.Errors), MaxProblems)
	if more := len(out.Errors) - shown + found.more; more > 0 {
		out.Errors = append(out.Errors[:shown], field.InternalError(nil, fmt.Errorf("and %d more problems", more)))
	}
	out.Warnings = found.warnings[:min(len(found.warnings), MaxProblems)]
	return out
}

// ValidateAssumed runs every rule on m, which has the defaults that KubeVirt is assumed to
// fill in when a VM starts. Sent reads the object without them. Alongside KubeVirt, a
// problem that sent does not have is a warning: KubeVirt may default otherwise, and admits
// the object.
func (c *Config) ValidateAssumed(m *Machine, sent func() (*Machine, error)) Result {
	out := c.Validate(m)
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

// doubtArchitecture makes warnings of the problems that a machine without an
// architecture has on amd64 only, alongside KubeVirt: it knows the architecture.
func (c *Config) doubtArchitecture(m *Machine, problems []problem) {
	if !c.Addon || c.Architecture != "" || m.Spec == nil || m.Spec.Architecture != "" || len(problems) == 0 {
		return
	}
	for _, architecture := range architectures[1:] {
		c.doubtUnlessOn(architecture, m, problems)
	}
	m.Config = c
}

// doubtUnlessOn makes warnings of the problems that m does not have on an architecture.
func (c *Config) doubtUnlessOn(architecture string, m *Machine, problems []problem) {
	other, there := *c, map[string]bool{}
	other.Architecture = architecture
	for _, p := range other.run(m).problems {
		there[p.place()] = true
	}
	for i := range problems {
		if !there[problems[i].place()] {
			problems[i].reach = BeyondKubeVirt
		}
	}
}

// place says which rule a problem is of, and where it lies.
func (p *problem) place() string {
	return fmt.Sprint(p.rule.ID, "\n", p.err.Field, "\n", p.err.BadValue)
}

// run runs every rule on m.
func (c *Config) run(m *Machine) *Report {
	return c.runThose(m, func(*Rule) bool { return true })
}

// instance is what the rules about what runs find wrong with m.
func (c *Config) instance(m *Machine) []problem {
	return c.runThose(m, func(rule *Rule) bool { return rule.Scope == Instances }).problems
}

func (c *Config) runThose(m *Machine, chosen func(*Rule) bool) *Report {
	m.Config = c
	r := &Report{instance: c.instance}
	for _, group := range groups {
		for i := range group {
			rule := &group[i]
			if chosen(rule) && rule.concerns(c, m) {
				r.rule, r.reported, r.suggestions = rule, 0, 0
				rule.Check(m, r)
			}
		}
	}
	return r
}
