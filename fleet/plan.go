package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/virtwright/virtwright/presets"
)

// An Outcome is the effect of a set of presets on one VM.
type Outcome struct {
	// Fields as returned by Explain; nil if the VM is rejected.
	Fields []presets.Origin
	// Problems with which the VM is rejected.
	Problems []string
	Warnings []string
}

// A Difference is the effect of a change of presets on one VM.
type Difference struct {
	Changes []Change
	// Problems with which the VM is rejected after the change; nil if they were the same before.
	Problems []string
	// Admitted is true if the VM was rejected before.
	Admitted bool
	// Warnings that are new.
	Warnings []string
}

// Compare returns the changes for one VM. See Changes for live.
func Compare(before, after Outcome, live bool) Difference {
	d := Difference{Warnings: without(after.Warnings, before.Warnings)}
	switch {
	case len(after.Problems) > 0:
		d.Problems = newReasons(after.Problems, before.Problems)
	case len(before.Problems) > 0:
		d.Admitted = true
	default:
		d.Changes = Changes(before.Fields, after.Fields, live)
	}
	return d
}

func without(all, known []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(text string) bool { return slices.Contains(known, text) })
}

// newReasons ignores hints, which depend on the existing presets.
func newReasons(all, known []string) []string {
	reasons := make([]string, 0, len(known))
	for _, text := range known {
		reasons = append(reasons, reason(text))
	}
	return slices.DeleteFunc(slices.Clone(all), func(text string) bool { return slices.Contains(reasons, reason(text)) })
}

// reason removes hints and the name of the responsible preset from a problem.
func reason(text string) string {
	for _, hint := range []string{"; did you mean ", "; preset ", " (set by preset "} {
		text, _, _ = strings.Cut(text, hint)
	}
	return text
}

// Empty reports whether nothing changes.
func (d Difference) Empty() bool {
	return len(d.Changes) == 0 && len(d.Problems) == 0 && !d.Admitted && len(d.Warnings) == 0
}

// Effect returns the strongest effect of the changes.
func (d Difference) Effect() Effect {
	out := EffectNone
	for _, c := range d.Changes {
		if c.Effect == EffectRestart || out == EffectNone {
			out = c.Effect
		}
	}
	return out
}

// A Plan summarizes the effects of a change of presets. Call Add for each VM, then Finish.
type Plan struct {
	// Presets that differ, by namespace and name.
	Presets []PresetChange `json:"presets"`
	// VMs counts the compared VMs; Affected counts those that change or are rejected.
	VMs      int `json:"vms"`
	Affected int `json:"affected"`
	// Restart and Migrate count running VMs that need a restart, or only a live migration.
	Restart int `json:"restart"`
	Migrate int `json:"migrate"`
	// Groups of VMs with equal changes, largest first.
	Groups []*Group `json:"groups"`
	// Refused are VMs with new reasons for rejection, grouped by reasons.
	Refused []*Refused `json:"refused"`
	// Admitted are VMs that were rejected before.
	Admitted []string `json:"admitted"`
	// Warned are VMs with new warnings, grouped by warnings.
	Warned []*Refused `json:"warned"`
	// Conflicts are new conflicts and forbidden fields. Solved are those of the old presets only.
	Conflicts []Finding `json:"-"`
	Solved    []Finding `json:"-"`
	// Incomplete is true if there are too many pairs of presets, or too many findings, to compare
	// conflicts. Conflicts and Solved are empty then.
	Incomplete bool `json:"incomplete,omitempty"`

	groups          map[string]*Group
	refused, warned map[string]*Refused
}

// A PresetChange is a preset that differs between two sets.
type PresetChange struct {
	Namespace string `json:"namespace,omitempty"`
	Preset    string `json:"preset"`
	// Action is added, changed or deleted.
	Action string `json:"action"`
}

// A Group has VMs with equal changes.
type Group struct {
	Changes []Change `json:"changes"`
	// VMs are namespaces and names; Running counts those that run.
	VMs     []string `json:"vms"`
	Running int      `json:"running"`
	Effect  Effect   `json:"effect"`
}

// Refused are VMs with equal reasons for rejection, or with equal warnings.
type Refused struct {
	Texts []string `json:"texts"`
	VMs   []string `json:"vms"`
}

// NewPlan compares two sets of presets. The context limits the analysis.
func NewPlan(ctx context.Context, before, after *presets.Snapshot) *Plan {
	p := &Plan{groups: map[string]*Group{}, refused: map[string]*Refused{}, warned: map[string]*Refused{}}
	was, is := byName(before), byName(after)
	for name, c := range is {
		switch old, existed := was[name]; {
		case !existed:
			p.Presets = append(p.Presets, PresetChange{name.Namespace, name.Ref, "added"})
		case c.Differs(old):
			p.Presets = append(p.Presets, PresetChange{name.Namespace, name.Ref, "changed"})
		}
	}
	for name := range was {
		if is[name] == nil {
			p.Presets = append(p.Presets, PresetChange{name.Namespace, name.Ref, "deleted"})
		}
	}
	slices.SortFunc(p.Presets, func(a, b PresetChange) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Preset, b.Preset))
	})
	if len(p.Presets) > 0 {
		old, all := disagreements(ctx, was)
		now, alsoAll := disagreements(ctx, is)
		if p.Incomplete = !all || !alsoAll; !p.Incomplete {
			p.Conflicts, p.Solved = missing(now, old), missing(old, now)
		}
	}
	return p
}

func byName(s *presets.Snapshot) map[presets.PresetName]*presets.Compiled {
	out := map[presets.PresetName]*presets.Compiled{}
	for c := range s.All() {
		out[c.Name()] = c
	}
	return out
}

// disagreements returns conflicts and forbidden fields. complete is false if there may be more.
func disagreements(ctx context.Context, set map[presets.PresetName]*presets.Compiled) (found []Finding, complete bool) {
	found, complete = Analyze(ctx, slices.Collect(maps.Values(set)))
	complete = complete && len(found) < maxFindings
	return slices.DeleteFunc(found, func(f Finding) bool { return f.Check != Conflicting && f.Check != Forbidden }), complete
}

func missing(from, in []Finding) []Finding {
	return slices.DeleteFunc(slices.Clone(from), func(f Finding) bool {
		return slices.ContainsFunc(in, func(o Finding) bool {
			return o.Check == f.Check && o.Preset == f.Preset && o.Other == f.Other && o.Field == f.Field
		})
	})
}

// Add adds the difference of a VM.
func (p *Plan) Add(vm string, running bool, d Difference) {
	p.VMs++
	if len(d.Changes)+len(d.Problems) > 0 || d.Admitted {
		p.Affected++
	}
	if len(d.Changes) > 0 {
		p.addChanges(vm, running, d)
	}
	addTexts(p.refused, d.Problems, vm)
	addTexts(p.warned, d.Warnings, vm)
	if d.Admitted {
		p.Admitted = append(p.Admitted, vm)
	}
}

func (p *Plan) addChanges(vm string, running bool, d Difference) {
	key := keyFor(d.Changes)
	g := p.groups[key]
	if g == nil {
		g = &Group{Changes: d.Changes, Effect: d.Effect()}
		p.groups[key] = g
	}
	g.VMs = append(g.VMs, vm)
	if !running {
		return
	}
	g.Running++
	switch g.Effect {
	case EffectRestart:
		p.Restart++
	case EffectMigration:
		p.Migrate++
	}
}

func addTexts(to map[string]*Refused, texts []string, vm string) {
	if len(texts) == 0 {
		return
	}
	key := keyFor(texts)
	if to[key] == nil {
		to[key] = &Refused{Texts: texts}
	}
	to[key].VMs = append(to[key].VMs, vm)
}

func keyFor(v any) string {
	text, err := json.Marshal(v)
	if err != nil { // unreachable: the value is decoded JSON
		return err.Error()
	}
	return string(text)
}

// Refuse adds reasons for which another component rejects a VM. Call Finish afterwards.
func (p *Plan) Refuse(vm string, texts []string) { addTexts(p.refused, texts, vm) }

// Finish sorts the results and hides secrets. It can be called again.
func (p *Plan) Finish() {
	for _, g := range p.groups {
		for i, c := range g.Changes {
			g.Changes[i].Before, g.Changes[i].After = hidden(c.Path, c.Before), hidden(c.Path, c.After)
		}
	}
	p.Groups, p.Refused, p.Warned = sorted(p.groups), sorted(p.refused), sorted(p.warned)
	slices.Sort(p.Admitted)
}

func sorted[G interface{ names() []string }](groups map[string]G) []G {
	out := make([]G, 0, len(groups))
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		slices.Sort(groups[key].names())
		out = append(out, groups[key])
	}
	slices.SortStableFunc(out, func(a, b G) int { return len(b.names()) - len(a.names()) })
	return out
}

func (g *Group) names() []string   { return g.VMs }
func (r *Refused) names() []string { return r.VMs }

// Fails reports whether there are rejected VMs or new conflicts.
func (p *Plan) Fails() bool { return len(p.Refused) > 0 || len(p.Conflicts) > 0 }

// Differs reports whether anything changes for VMs.
func (p *Plan) Differs() bool {
	return p.Affected > 0 || len(p.Warned) > 0 || len(p.Conflicts) > 0 || len(p.Solved) > 0
}
