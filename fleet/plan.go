package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
)

// An Outcome is the effect of a set of presets on one VM.
type Outcome struct {
	// Fields as returned by Explain; nil if the VM is rejected.
	Fields []presets.Origin
	// Launched are the fields that presets set on the next VMI.
	Launched []presets.Origin
	// Problems with which the VM is rejected.
	Problems []presets.Problem
	Warnings []string
	// Exceptions that the VM uses.
	Exceptions []provenance.Exception
}

// A Difference is the effect of a change of presets on one VM.
type Difference struct {
	Changes []Change
	// Problems with which the VM is rejected after the change; nil if they were the same before.
	Problems []string
	// Admitted is true if the VM was rejected before. StillRejected is true if it was and is
	// rejected, for no new reason.
	Admitted, StillRejected bool
	// Warnings that are new.
	Warnings []string
	// Exceptions are the names of exceptions that the VM uses before or after the change.
	Exceptions []string
}

// Compare returns the changes for one VM.
func Compare(before, after Outcome, updates Updates) Difference {
	d := Difference{Warnings: without(after.Warnings, before.Warnings)}
	for _, e := range slices.Concat(before.Exceptions, after.Exceptions) {
		d.Exceptions = append(d.Exceptions, e.Name)
	}
	switch {
	case len(after.Problems) > 0:
		d.Problems = newReasons(after.Problems, before.Problems)
		d.StillRejected = len(d.Problems) == 0
	case len(before.Problems) > 0:
		d.Admitted = true
	default:
		d.Changes = changesOf(before, after, updates)
	}
	return d
}

// changesOf returns the changes of the VM and of its next VMI. Of a field that changes in both, it
// returns the change of the VMI.
func changesOf(before, after Outcome, updates Updates) []Change {
	out := Changes(before.Fields, after.Fields, updates)
	if len(before.Launched)+len(after.Launched) == 0 {
		return out
	}
	launched := Changes(before.launched(), after.launched(), updates)
	out = slices.DeleteFunc(out, func(c Change) bool {
		return slices.ContainsFunc(launched, func(l Change) bool { return l.Path == c.Path })
	})
	out = append(out, launched...)
	slices.SortFunc(out, func(a, b Change) int { return cmp.Compare(a.Path, b.Path) })
	return out
}

// launched returns the fields of the VM with those of its next VMI.
func (o Outcome) launched() []presets.Origin {
	out := slices.Clone(o.Fields)
	at := make(map[string]int, len(out))
	for i, field := range out {
		at[field.Path.String()] = i
	}
	for _, field := range o.Launched {
		if i, isStored := at[field.Path.String()]; isStored {
			out[i] = field
		} else {
			out = append(out, field)
		}
	}
	return out
}

func without(all, known []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(text string) bool { return slices.Contains(known, text) })
}

// newReasons returns the texts of problems that are not known for the same reason.
func newReasons(all, known []presets.Problem) []string {
	var out []string
	for _, p := range all {
		if !slices.ContainsFunc(known, p.SameReason) {
			out = append(out, p.String())
		}
	}
	return out
}

// Empty reports whether nothing changes.
func (d Difference) Empty() bool {
	return len(d.Changes) == 0 && len(d.Problems) == 0 && !d.Admitted && len(d.Warnings) == 0
}

// Effect returns the strongest effect of the changes.
func (d Difference) Effect() Effect {
	out := EffectNone
	for _, c := range d.Changes {
		out = effects[max(slices.Index(effects, out), slices.Index(effects, c.Effect))]
	}
	return out
}

// A Plan summarizes the effects of a change of presets. Call Add for each VM, then Finish.
type Plan struct {
	// Presets, Exceptions and Namespaces that differ, by namespace and name. Policies are the
	// ValidatingAdmissionPolicies that are bound before or after the change, but not both.
	Presets    []*ObjectChange `json:"presets"`
	Exceptions []*ObjectChange `json:"exceptions"`
	Namespaces []*ObjectChange `json:"namespaces"`
	Policies   []*ObjectChange `json:"policies"`
	// Rollouts of presets that change.
	Rollouts []*Staged `json:"rollouts,omitempty"`
	// VMs counts the compared VMs; Affected counts those that change, are rejected, or are no
	// longer rejected.
	VMs      int `json:"vms"`
	Affected int `json:"affected"`
	// Restart and Migrate count running VMs that need a restart, or only a live migration.
	Restart int `json:"restart"`
	Migrate int `json:"migrate"`
	// Groups of VMs with equal changes, largest first.
	Groups []*Group `json:"groups"`
	// Rejected are VMs with new reasons for rejection, grouped by reasons.
	Rejected []*Rejected `json:"rejected"`
	// Admitted are VMs that were rejected before. StillRejected are rejected before and after, for
	// the same reasons, so that their fields are not compared.
	Admitted      []string `json:"admitted"`
	StillRejected []string `json:"stillRejected,omitempty"`
	// Warned are VMs with new warnings, grouped by warnings.
	Warned []*Rejected `json:"warned"`
	// Conflicts are new conflicts and forbidden fields. Solved are those of the old presets only.
	Conflicts []Finding `json:"-"`
	Solved    []Finding `json:"-"`
	// Incomplete is true if there are too many pairs of presets, or too many findings, to compare
	// conflicts. Conflicts and Solved are empty then.
	Incomplete bool `json:"incomplete,omitempty"`

	groups           map[string]*Group
	rejected, warned map[string]*Rejected
	printer          *printer
	after            []*presets.Compiled
}

// A Group has VMs with equal changes.
type Group struct {
	Changes []Change `json:"changes"`
	// VMs are namespaces and names; Running counts those that run.
	VMs     []string `json:"vms"`
	Running int      `json:"running"`
	Effect  Effect   `json:"effect"`
}

// Rejected are VMs with equal reasons for rejection, or with equal warnings.
type Rejected struct {
	Texts []string `json:"texts"`
	VMs   []string `json:"vms"`
}

// NewPlan compares two sets of presets. The context limits the analysis.
func NewPlan(ctx context.Context, before, after *presets.Snapshot) *Plan {
	was, is := byName(before), byName(after)
	p := &Plan{
		Presets:    compareObjects(was, is, deleted, PresetEdits),
		Exceptions: compareObjects(exceptionsOf(before), exceptionsOf(after), Added, exceptionEdits),
		Namespaces: []*ObjectChange{}, Policies: []*ObjectChange{},
		groups: map[string]*Group{}, rejected: map[string]*Rejected{}, warned: map[string]*Rejected{},
		after: slices.Collect(after.All()),
	}
	p.printer = newPrinter(slices.Collect(before.All()), p.after)
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
	found, complete = Analyze(ctx, slices.Collect(maps.Values(set)), Settings{})
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

// Add adds the difference of a VM, by its namespace and name: shop/web.
func (p *Plan) Add(vm string, running bool, d Difference) {
	p.VMs++
	isAffected := len(d.Changes)+len(d.Problems) > 0 || d.Admitted
	if isAffected {
		p.Affected++
	}
	named := nameOf(vm)
	if len(d.Changes) > 0 {
		p.addChanges(vm, running, d)
	}
	addTexts(p.rejected, p.printer.texts(d.Problems, named), vm)
	addTexts(p.warned, p.printer.texts(d.Warnings, named), vm)
	if d.Admitted {
		p.Admitted = append(p.Admitted, vm)
	}
	if d.StillRejected {
		p.StillRejected = append(p.StillRejected, vm)
	}
	p.addCauses(vm, d.Exceptions, isAffected)
}

// addCauses adds a VM to the exceptions that it uses and, if it is affected, to its namespace.
func (p *Plan) addCauses(vm string, exceptions []string, isAffected bool) {
	namespace := nameOf(vm).namespace
	for _, e := range p.Exceptions {
		if e.Namespace == namespace && slices.Contains(exceptions, e.Name) {
			e.VMs = append(e.VMs, vm)
		}
	}
	for _, n := range p.Namespaces {
		if n.Name == namespace && isAffected {
			n.VMs = append(n.VMs, vm)
		}
	}
}

func nameOf(vm string) vmName {
	namespace, name, _ := strings.Cut(vm, "/")
	return vmName{namespace, name}
}

func (p *Plan) addChanges(vm string, running bool, d Difference) {
	changes := p.printer.changes(d.Changes, nameOf(vm))
	key := keyFor(changes)
	g := p.groups[key]
	if g == nil {
		g = &Group{Changes: changes, Effect: d.Effect()}
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

func addTexts(to map[string]*Rejected, texts []string, vm string) {
	if len(texts) == 0 {
		return
	}
	key := keyFor(texts)
	if to[key] == nil {
		to[key] = &Rejected{Texts: texts}
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

// Reject adds reasons for which another component rejects a VM. Call Finish afterwards.
func (p *Plan) Reject(vm string, texts []string) {
	addTexts(p.rejected, p.printer.texts(texts, nameOf(vm)), vm)
}

// Finish sorts the results. It can be called again.
func (p *Plan) Finish() {
	p.Groups, p.Rejected, p.Warned = sorted(p.groups), sorted(p.rejected), sorted(p.warned)
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

func (g *Group) names() []string    { return g.VMs }
func (r *Rejected) names() []string { return r.VMs }

// Counts returns how many VMs change, and how many would be rejected.
func (p *Plan) Counts() (changed, rejected int) {
	failing := map[string]bool{}
	for _, r := range p.Rejected {
		for _, vm := range r.VMs {
			failing[vm] = true
		}
	}
	for _, g := range p.Groups {
		for _, vm := range g.VMs {
			if !failing[vm] {
				changed++
			}
		}
	}
	return changed, len(failing)
}

// Fails reports whether there are rejected VMs or new conflicts.
func (p *Plan) Fails() bool { return len(p.Rejected) > 0 || len(p.Conflicts) > 0 }

// Loosens reports whether a preset, an exception, a namespace or a policy loosens.
func (p *Plan) Loosens() bool {
	loosens := func(c *ObjectChange) bool { return c.Loosens }
	return slices.ContainsFunc(slices.Concat(p.Presets, p.Exceptions, p.Namespaces, p.Policies), loosens)
}

// Differs reports whether anything changes for VMs, or loosens.
func (p *Plan) Differs() bool {
	return p.Affected > 0 || len(p.Warned) > 0 || len(p.Conflicts) > 0 || len(p.Solved) > 0 || p.Loosens()
}
