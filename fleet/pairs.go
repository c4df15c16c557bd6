package fleet

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
)

// rank orders the layers in which parts act, strongest last.
func (c claim) rank() int {
	switch {
	case !c.Role.Outranks():
		return 0
	case c.Cluster():
		return 2
	}
	return 1
}

// stronger reports whether a claim beats one of another preset, and not by name only.
func (c claim) stronger(other claim) bool {
	mine, its := c.rank(), other.rank()
	if mine != its {
		return mine > its
	}
	if c.Priority != other.Priority {
		return c.Priority > other.Priority
	}
	return mine == 0 && !c.Cluster() && other.Cluster()
}

// removals reports removals of fields that a stronger preset overrides on every VM that the preset
// matches.
func (a *analysis) removals() {
	for _, m := range a.members {
		for _, p := range m.parts {
			if p.Role != provenance.Remove || !m.acts() {
				continue
			}
			for _, o := range a.under[p.path] {
				if o.Role == provenance.Override && o.stronger(claim{m, p}) && o.covers(m) && !a.ended() {
					a.removal(m, p.Part, o.member, o.Part)
					break
				}
			}
		}
	}
}

func (a *analysis) removal(m *member, p presets.Part, o *member, q presets.Part) {
	witness := a.find([]*member{m, o}, func(t *trial) bool {
		if !t.matched(m, o) || t.result.Record == nil {
			return false
		}
		by, decided := t.result.Record.SourceOf(q.Path)
		return decided && by.Preset == o.Ref && by.Role == provenance.Override
	})
	if witness != nil {
		a.report(RemovesStronger, m, Finding{
			Field: p.Field, Other: o.name(), Witness: witness,
			Message: fmt.Sprintf("preset %s overrides %s with %s on every VM that this preset matches, so the removal has no effect",
				o.Ref, q.Path, shown(q.Path.String(), q.Value)),
		})
	}
}

// forbidden reports fields that presets give and other presets, or they themselves, forbid.
func (a *analysis) forbidden() {
	for _, o := range a.members {
		for _, rule := range o.parts {
			if rule.Role == provenance.Forbid && o.acts() {
				a.forbiddenBy(o, rule)
			}
		}
	}
}

// forbiddenBy reports each preset that gives what a rule forbids, once.
func (a *analysis) forbiddenBy(o *member, rule part) {
	done := map[*member]bool{}
	for _, m := range a.beneath(rule) {
		gives := m.Role == provenance.Override || m.Role == provenance.Default
		if gives && !done[m.member] && !a.ended() && (m.member == o || m.meets(o)) {
			done[m.member] = true
			a.forbids(o, rule.Part, m.member, m.Part)
		}
	}
}

// forbids reports that preset m gives what a rule of preset o forbids, if a VM that the rule alone
// admits is refused with both.
func (a *analysis) forbids(o *member, rule presets.Part, m *member, p presets.Part) {
	both, others := []*member{m, o}, snapshotOf(nil)
	if m == o {
		both = both[:1]
	} else {
		others = snapshotOf(both[1:])
	}
	witness := a.find(both, func(t *trial) bool {
		return t.refusal != nil && names(t.refusal, o.Ref) && a.resolve(t.Witness, others).refusal == nil
	})
	if witness != nil {
		a.report(Forbidden, m, Finding{
			Field: p.Field, Other: o.name(), Witness: witness,
			Message: fmt.Sprintf("sets %s to %s, and preset %s forbids %s: VMs that both match are refused", p.Path, shown(p.Path.String(), p.Value), o.Ref, rule.Path),
		})
	}
}

func names(r *presets.Refusal, text string) bool {
	return slices.ContainsFunc(r.Problems, func(e *field.Error) bool { return strings.Contains(e.Error(), text) })
}

// covers reports whether the preset matches every VM that another one matches.
func (m *member) covers(o *member) bool {
	if m == o || !m.acts() || m.ApplyAt != o.ApplyAt || m.Explicit || !m.Cluster() && m.Namespace != o.Namespace {
		return false
	}
	vms, namespaces := m.Selectors()
	others, otherNamespaces := o.Selectors()
	if !o.Cluster() {
		otherNamespaces = inNamespace(o.Namespace)
	}
	missing := slices.ContainsFunc(m.Conditions(), func(text string) bool { return !slices.Contains(o.Conditions(), text) })
	return !missing && implies(others, vms) && implies(otherNamespaces, namespaces)
}

// shadowed reports presets all of whose parts other presets overrule on each VM.
func (a *analysis) shadowed() {
	for _, m := range a.members {
		if !m.acts() || a.ended() {
			continue
		}
		var by claim
		all := []*member{m}
		acts := slices.ContainsFunc(m.parts, func(p part) bool {
			o, overruled := a.overruler(claim{m, p})
			if overruled && !slices.Contains(all, o.member) {
				by, all = o, append(all, o.member)
			}
			return !overruled
		})
		if !acts && len(all) > 1 && m.gives() && a.isSilent(m, all) {
			a.reportShadowed(m, by)
		}
	}
}

// gives reports whether the preset gives VMs a value. Removals have a check of their own.
func (m *member) gives() bool {
	return slices.ContainsFunc(m.parts, func(p part) bool { return p.Role == provenance.Default || p.Role == provenance.Override })
}

func (a *analysis) reportShadowed(m *member, by claim) {
	did := "removes " + by.path
	field := "spec.remove"
	for _, p := range m.parts {
		switch p.Role {
		case provenance.Default:
			field = "spec.defaults"
		case provenance.Override:
			field = "spec.overrides"
		}
		if p.path == by.path && by.Role != provenance.Remove && p.Role != provenance.Remove {
			did = fmt.Sprintf("sets %s to %s instead of %s", p.path, shown(p.path, by.Value), shown(p.path, p.Value))
		}
	}
	a.report(Shadowed, m, Finding{
		Field: field, Other: by.name(),
		Message: fmt.Sprintf("stronger presets overrule all that it sets, on every VM that it matches and that does not exclude them: preset %s %s", by.Ref, did),
	})
}

// overruler returns a claim that overrules another on every VM that its preset matches.
func (a *analysis) overruler(c claim) (claim, bool) {
	if c.Role == provenance.Forbid {
		return claim{}, false
	}
	rivals := a.at[c.path]
	for i := range c.Path[:len(c.Path)-1] {
		rivals = append(slices.Clip(rivals), removalsOf(a.at[c.Path[:i+1].String()])...)
	}
	i := slices.IndexFunc(rivals, func(o claim) bool {
		mayFail := o.Computed && o.Role == provenance.Default
		return o.Role != provenance.Forbid && !mayFail && o.stronger(c) && o.covers(c.member)
	})
	if i < 0 {
		return claim{}, false
	}
	return rivals[i], true
}

func removalsOf(claims []claim) []claim {
	var out []claim
	for _, c := range claims {
		if c.Role == provenance.Remove {
			out = append(out, c)
		}
	}
	return out
}

// isSilent reports whether a preset decides nothing on a VM on which it acts beside others.
func (a *analysis) isSilent(m *member, all []*member) bool {
	return a.find(all, func(t *trial) bool {
		if !t.matched(all...) {
			return false
		}
		return t.result.Record == nil || !slices.ContainsFunc(t.result.Record.Sources, func(s provenance.Source) bool { return s.Preset == m.Ref })
	}) != nil
}

// underInstancetypes reports defaults that an instancetype of a preset always holds back.
func (a *analysis) underInstancetypes() {
	for _, giver := range a.under["spec.instancetype"] {
		for _, m := range a.members {
			gives := giver.Role == provenance.Default || giver.Role == provenance.Override
			if gives && giver.Path[len(giver.Path)-1].Name == "name" && m.acts() && !a.ended() && (m == giver.member || giver.covers(m)) {
				a.underInstancetype(m, giver.member)
			}
		}
	}
}

// underInstancetype reports the defaults of m that the instancetype of o holds back on the smallest
// VM that m matches. A preset with conditions may be for VMs that have no instancetype.
func (a *analysis) underInstancetype(m, o *member) {
	both := []*member{m, o}
	if m == o {
		both = both[:1]
	}
	if len(m.Conditions()) > 0 {
		return
	}
	var held []string
	witness := a.find(both, func(t *trial) bool {
		if t.matched(both...) {
			held = t.heldBack(a.ctx, m.Ref)
		}
		return len(held) > 0
	})
	if witness == nil {
		return
	}
	for _, p := range m.parts {
		if p.Role == provenance.Default && slices.ContainsFunc(held, func(path string) bool { return beneath(p.path, path) }) {
			a.report(UnderInstancetype, m, Finding{
				Field: p.Field, Other: o.name(), Witness: witness,
				Message: fmt.Sprintf("preset %s gives these VMs an instancetype, which owns %s: the default acts only where the instancetype is held back", o.Ref, p.Path),
			})
		}
	}
}
