package fleet

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/condition"
	"github.com/virtwright/virtwright/presets/provenance"
)

func (c claim) rank() int {
	switch {
	case !c.Role.OutranksUser():
		return 0
	case c.Cluster():
		return 2
	}
	return 1
}

// stronger reports whether a claim beats one of another preset by more than its name.
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

// removals reports removals of fields that a stronger preset overrides on every VM.
func (a *analysis) removals() {
	for _, m := range a.members {
		for _, p := range m.parts {
			if p.Role != provenance.Remove || !m.acts() {
				continue
			}
			for _, o := range a.under[p.path] {
				if o.Role == provenance.Override && o.stronger(claim{m, p}) && o.covers(m) && !a.ended() {
					a.removal(m, p.Action, o.member, o.Action)
					break
				}
			}
		}
	}
}

func (a *analysis) removal(m *member, p presets.Action, o *member, q presets.Action) {
	witness := a.findWitness([]*member{m, o}, func(t *trial) bool {
		if !t.matched(m, o) || t.result.Record == nil {
			return false
		}
		by, decided := t.result.Record.SourceOf(q.Path)
		return decided && by.Preset == o.Ref && by.Role == provenance.Override
	})
	if witness != nil {
		a.report(removesStronger, m, Finding{
			Field: p.Field, Other: o.Name(), Witness: witness,
			Message: fmt.Sprintf("preset %s overrides %s with %s on every VM that this preset matches, so the removal has no effect",
				o.Ref, q.Path, shown(q.Path.String(), q.Value)),
		})
	}
}

func (a *analysis) forbidden() {
	for _, o := range a.members {
		for _, rule := range o.parts {
			switch {
			case !o.acts():
			case rule.Role == provenance.Forbid:
				a.forbiddenBy(o, rule)
				a.forbidsDefault(o, rule)
			case rule.Role == provenance.Remove:
				a.removesRequired(o, rule)
			}
		}
	}
}

// forbidsDefault reports a rule that forbids what each VM has in mode standalone.
func (a *analysis) forbidsDefault(o *member, rule *part) {
	i := slices.IndexFunc(platformDefaults, func(path string) bool { return beneath(path, rule.path) })
	if a.standalone == nil || i < 0 {
		return
	}
	witness := a.findWitness([]*member{o}, func(t *trial) bool { return t.matched(o) && a.resolveBy(a.standalone, t.Witness, t.snapshot).breaks(o) })
	if witness != nil {
		a.report(Forbidden, o, Finding{
			Field: rule.Field, Witness: witness,
			Message: fmt.Sprintf("forbids %s, which platform defaults set in mode standalone: every VM that the preset matches is rejected", platformDefaults[i]),
		})
	}
}

// forbiddenBy reports each preset that violates a rule once.
func (a *analysis) forbiddenBy(o *member, rule *part) {
	done := map[*member]bool{}
	for _, m := range a.beneath(rule) {
		if done[m.member] || a.ended() || m.member != o && !m.meets(o) {
			continue
		}
		switch {
		case m.part.gives():
			done[m.member] = true
			a.forbids(o, rule.Action, m.member, m.part)
		case m.Role == provenance.Require && m.member != o && !strings.Contains(m.path, "[*]"): // a VM may have no element
			a.requiresForbidden(claim{o, rule}, m, "forbids")
		}
	}
}

// removesRequired reports presets that require what another one removes.
func (a *analysis) removesRequired(o *member, removal *part) {
	for _, m := range a.beneath(removal) {
		if !a.ended() && m.member != o && m.Role == provenance.Require && m.meets(o) && !strings.Contains(m.path, "[*]") {
			a.requiresForbidden(claim{o, removal}, m, "removes")
		}
	}
}

// forbids requires a VM that o admits alone, but not together with m.
func (a *analysis) forbids(o *member, rule presets.Action, m *member, p *part) {
	both, others := []*member{m, o}, snapshotOf(nil)
	forbids := fmt.Sprintf("but preset %s forbids %s: VMs that both match are rejected", o.Ref, rule.Path)
	if m == o {
		both = both[:1]
		forbids = fmt.Sprintf("but also forbids %s: VMs that the preset matches are rejected", rule.Path)
	} else {
		others = snapshotOf(both[1:])
	}
	witness := a.findWitness(both, func(t *trial) bool {
		return t.breaks(o) && a.resolve(t.Witness, others).rejection == nil
	})
	if witness != nil {
		a.report(Forbidden, m, Finding{
			Field: p.fieldAt(len(rule.Path)), OnKey: len(p.Path) > len(rule.Path), Other: o.Name(), Witness: witness,
			Message: fmt.Sprintf("sets %s to %s, %s", p.path, p.shown(p.path), forbids),
		})
	}
}

// fieldAt returns the field of the preset for the first n segments of the part's path.
func (p *part) fieldAt(n int) string {
	at, err := provenance.ParsePath(p.Field)
	above := len(p.Path) - n
	if err != nil || above <= 0 || above >= len(at) {
		return p.Field
	}
	return at[:len(at)-above].String()
}

// requiresForbidden reports a rule that requires what another preset forbids or removes.
func (a *analysis) requiresForbidden(forbid, require claim, does string) {
	witness := a.findWitness([]*member{forbid.member, require.member}, func(t *trial) bool {
		return t.breaks(require.member) || t.breaks(forbid.member)
	})
	if witness != nil {
		a.report(Forbidden, require.member, Finding{
			Field: require.Field, Other: forbid.Name(), Witness: witness,
			Message: fmt.Sprintf("requires %s, but preset %s %s %s: VMs that both match are rejected", require.path, forbid.Ref, does, forbid.path),
		})
	}
}

// breaks reports whether a VM is rejected by a rule of a preset.
func (t *trial) breaks(o *member) bool {
	return t.rejection != nil && slices.ContainsFunc(t.rejection.Problems, func(e *field.Error) bool { return presets.Breaks(e, o.Ref) })
}

// covers reports whether the preset matches every VM that o matches.
func (m *member) covers(o *member) bool {
	if m == o || !m.acts() || m.ApplyAt != o.ApplyAt || m.Explicit || !m.Cluster() && m.Namespace != o.Namespace {
		return false
	}
	vms, namespaces := m.Selectors()
	others, otherNamespaces := o.Selectors()
	if !o.Cluster() {
		otherNamespaces = labels.SelectorFromSet(o.around)
	}
	missing := slices.ContainsFunc(m.Conditions(), func(text string) bool { return !slices.Contains(o.Conditions(), text) })
	return !missing && implies(others, vms) && implies(otherNamespaces, namespaces)
}

// shadowed reports presets without effect, because stronger presets overrule all their parts.
func (a *analysis) shadowed() {
	for _, m := range a.members {
		if !m.acts() || a.ended() {
			continue
		}
		if first, by, all := a.overruled(m); first != nil && a.isSilent(m, all) {
			a.reportShadowed(m, first, by)
		} else {
			a.shadowedValues(m)
		}
	}
}

// overruled returns the first value that a preset sets, the claim that overrules it, and the preset
// with all that overrule it; nil if a part of it acts.
func (a *analysis) overruled(m *member) (first *part, by claim, all []*member) {
	all = []*member{m}
	for _, p := range m.parts {
		o, overruled := a.overruler(claim{m, p})
		if !overruled {
			return nil, claim{}, nil
		}
		if p.gives() && !p.IsKey && (first == nil || differs(p, o) && !differs(first, by)) {
			first, by = p, o // the first that differs, if any does
		}
		if !slices.Contains(all, o.member) {
			all = append(all, o.member)
		}
	}
	return first, by, all
}

// shadowedValues reports values of a preset that has other effects, if a stronger preset overrides
// or removes them on each VM, or the preset itself overrides its default.
func (a *analysis) shadowedValues(m *member) {
	for _, p := range m.parts {
		if !p.gives() || p.IsKey {
			continue
		}
		if p.Role == provenance.Default && m.requires(p.Path) {
			a.report(Shadowed, m, Finding{Field: p.Field, Message: "the default never acts: the conditions select only VMs whose author sets this field"})
			continue
		}
		if by, overruled := a.overridden(claim{m, p}); overruled && !a.ended() {
			did := fmt.Sprintf("overrides %s with %s", p.path, by.shown(p.path))
			if by.Role == provenance.Remove {
				did = "removes " + by.path
			}
			a.report(Shadowed, m, Finding{
				Field: p.Field, Other: by.Name(),
				Message: fmt.Sprintf("the %s never acts: preset %s %s on each VM that this preset matches", p.Role, by.Ref, did),
			})
		}
	}
}

// overridden returns an override or a removal that replaces a value on each VM of its preset.
func (a *analysis) overridden(c claim) (claim, bool) {
	own := slices.IndexFunc(a.at[c.path], func(o claim) bool { return o.member == c.member && o.Role == provenance.Override })
	if own >= 0 && c.Role == provenance.Default {
		return a.at[c.path][own], true
	}
	by, overruled := a.overruler(c)
	return by, overruled && layerOf(by.Role) == provenance.Override
}

// requires reports whether the conditions match only VMs whose author sets a field.
func (m *member) requires(p provenance.Path) bool {
	path := []string{"object"}
	for _, s := range p {
		if s.Kind != provenance.Field {
			return false
		}
		path = append(path, s.Name)
	}
	return slices.ContainsFunc(m.demands, func(d condition.Demand) bool { return !d.MayBeAbsent && slices.Equal(d.Path, path) })
}

// gives reports whether the preset sets a value. Removals have a separate check.
func (m *member) gives() bool {
	return slices.ContainsFunc(m.parts, (*part).gives)
}

func differs(p *part, by claim) bool {
	return by.Role == provenance.Remove || by.shown(by.path) != p.shown(p.path)
}

// reportShadowed reports a preset at the first field that another preset overrules.
func (a *analysis) reportShadowed(m *member, p *part, by claim) {
	did := "removes " + by.path
	switch {
	case by.Role == provenance.Remove:
	case !differs(p, by):
		did = "sets the same value of " + p.path
	default:
		did = fmt.Sprintf("sets %s to %s instead of %s", p.path, by.shown(p.path), p.shown(p.path))
	}
	at := p.Field
	if m.Priority != 0 && layerOf(by.Role) == layerOf(p.Role) {
		at = "spec.priority"
	}
	a.report(Shadowed, m, Finding{
		Field: at, Other: by.Name(),
		Message: fmt.Sprintf("stronger presets overrule everything that it sets, on every matching VM that does not exclude them: preset %s %s", by.Ref, did),
	})
}

// overruler returns a claim that overrules c on every VM that its preset matches.
func (a *analysis) overruler(c claim) (claim, bool) {
	if c.Role.IsRule() {
		return claim{}, false
	}
	rivals := a.at[c.path]
	if every := everyElement(c.Path); every != c.path && !c.IsKey {
		rivals = append(slices.Clip(rivals), a.at[every]...)
	}
	for i := range c.Path[:len(c.Path)-1] {
		above := slices.Clone(a.at[c.Path[:i+1].String()])
		rivals = append(slices.Clip(rivals), slices.DeleteFunc(above, func(o claim) bool { return o.Role != provenance.Remove })...)
	}
	i := slices.IndexFunc(rivals, func(o claim) bool {
		mayFail := o.Computed && o.Role == provenance.Default
		return !o.Role.IsRule() && !mayFail && o.stronger(c) && o.covers(c.member)
	})
	if i < 0 {
		return claim{}, false
	}
	return rivals[i], true
}

// isSilent reports whether a preset has no effect on a VM that all presets match.
func (a *analysis) isSilent(m *member, all []*member) bool {
	return a.findWitness(all, func(t *trial) bool {
		if !t.matched(all...) {
			return false
		}
		return t.result.Record == nil || !slices.ContainsFunc(t.result.Record.Sources, func(s provenance.Source) bool { return s.Preset == m.Ref })
	}) != nil
}

// underInstancetypes reports values that an instancetype of a preset, or one that the conditions
// require, always holds back.
func (a *analysis) underInstancetypes() {
	for _, m := range a.members {
		if slices.ContainsFunc(m.demands, requiresInstancetype) {
			a.underRequired(m)
		}
	}
	for _, giver := range a.under["spec.instancetype"] {
		a.underGiver(giver)
	}
}

func (a *analysis) underGiver(giver claim) {
	for _, m := range a.members {
		if giver.part.gives() && giver.Path[len(giver.Path)-1].Name == "name" && m.acts() && !a.ended() && (m == giver.member || giver.covers(m)) {
			a.underInstancetype(m, giver.member)
		}
	}
}

func requiresInstancetype(d condition.Demand) bool {
	return !d.MayBeAbsent && len(d.Path) > 2 && d.Path[0] == "object" && d.Path[1] == "spec" && d.Path[2] == "instancetype"
}

func (a *analysis) underRequired(m *member) {
	for _, p := range m.parts {
		if p.gives() && presets.OwnedByInstancetype(p.Path) {
			a.report(underInstancetypeCheck, m, Finding{
				Field: p.Field, Message: fmt.Sprintf("the conditions select only VMs with an instancetype, which owns %s: the value is never applied", p.path),
			})
		}
	}
}

// underInstancetype reports the defaults of m that the instancetype of o holds back on the smallest
// matching VM. Presets with conditions are skipped, because they may exclude VMs with an
// instancetype.
func (a *analysis) underInstancetype(m, o *member) {
	both := []*member{m, o}
	if m == o {
		both = both[:1]
	}
	if len(m.Conditions()) > 0 {
		return
	}
	var held []string
	witness := a.findWitness(both, func(t *trial) bool {
		if t.matched(both...) {
			held = t.heldBack(a.ctx, m.Ref)
		}
		return len(held) > 0
	})
	if witness == nil {
		return
	}
	for _, p := range m.parts {
		if p.gives() && slices.ContainsFunc(held, func(path string) bool { return beneath(p.path, path) }) {
			a.report(underInstancetypeCheck, m, Finding{
				Field: p.Field, Other: o.Name(), Witness: witness,
				Message: fmt.Sprintf("preset %s sets an instancetype, which owns %s: the value is applied only if the instancetype is not used", o.Ref, p.Path),
			})
		}
	}
}
