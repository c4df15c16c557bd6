package presets

import (
	"slices"

	"github.com/virtwright/virtwright/presets/provenance"
)

// A layer is the defaults or the overrides of one preset, or a platform rule, while it acts.
type layer struct {
	state  *mergeState
	preset *Compiled // nil for the platform
	role   provenance.Role
	root   *fieldNode
	// source is the index in the record; provenance.NoSource until the layer decides a field.
	source int32
	name   string
	// excluded are the paths that the user excluded from this preset's defaults.
	excluded []provenance.Path
	// reserved fields belong to an instancetype, a preference or the user.
	reserved ownership
	// mayReplace reports whether the layer may replace a replaceable leaf of this source.
	mayReplace func(provenance.Source) bool
}

// applyPresets applies the presets, strongest layer first.
func (r *mergeState) applyPresets(s *Snapshot, q *query, enforced []*Compiled) {
	r.layers = make([]layer, 0, 2*len(enforced))
	for _, cluster := range []bool{true, false} {
		for _, c := range enforced {
			if c.Cluster() == cluster && c.hasOverrides() {
				r.addLayer(layer{preset: c, role: provenance.Override, root: c.overrides, mayReplace: mayReplaceOwners(s, c)})
			}
		}
	}
	for _, c := range enforced {
		if all, paths := q.selection.excludes(c.Ref); c.defaults != nil && !all {
			r.addLayer(layer{preset: c, role: c.defaultRole(), root: c.defaults, excluded: paths, mayReplace: isDefault})
		}
	}
	r.compute(q)
	r.spreadEvery()
	r.applyLayers()
	for _, c := range enforced {
		if c.HasRules() {
			r.addSource(c.source(provenance.Forbid), c)
		}
	}
}

// applyLayers applies the layers, overrides first. Layers skip the fields of the instancetype that
// the user or an override names. Defaults also skip the fields of one that a default names.
func (r *mergeState) applyLayers() {
	n := 0
	for n < len(r.layers) && r.layers[n].role.OutranksUser() {
		n++
	}
	overrides, defaults := r.layers[:n], r.layers[n:]
	r.reserve(overrides, false)
	for i := range overrides {
		overrides[i].apply()
	}
	r.reserve(defaults, true)
	for i := range defaults {
		defaults[i].apply()
	}
}

func (r *mergeState) addLayer(l layer) {
	l.state, l.source = r, provenance.NoSource
	r.layers = append(r.layers, l)
}

func (c *Compiled) hasOverrides() bool { return c.overrides != nil || len(c.removes) > 0 }

func (c *Compiled) defaultRole() provenance.Role {
	if c.legacy {
		return provenance.Legacy
	}
	return provenance.Default
}

// apply applies the layer to the whole object.
func (l *layer) apply() {
	if l.root != nil {
		l.applyFields(l.root.children, l.state.cursor(l))
	}
	if l.role == provenance.Override && len(l.preset.removes) > 0 {
		removing := &layer{state: l.state, preset: l.preset, role: provenance.Remove, source: provenance.NoSource, reserved: l.reserved, mayReplace: l.mayReplace}
		for _, removed := range l.preset.removes {
			removing.remove(removed)
		}
	}
}

func (l *layer) decides(n *provenance.Node) {
	if l.source == provenance.NoSource {
		s := provenance.Source{Role: l.role, Preset: l.name}
		if l.preset != nil {
			s = l.preset.source(l.role)
		}
		l.source = l.state.addSource(s, l.preset)
	}
	n.Source, n.Replaceable, n.DecidedNow = l.source, false, true
}

// removedByStronger reports whether a preset that the layer does not outrank removed n.
func (l *layer) removedByStronger(n *provenance.Node) bool {
	return n.IsDecided() && l.state.record.Sources[n.Source].Role == provenance.Remove && !l.mayReplaceLeaf(n)
}

// isWithheld is removedByStronger for a field that the layer would set, and notes that it does not.
func (l *layer) isWithheld(n *provenance.Node) bool {
	if !l.removedByStronger(n) {
		return false
	}
	n.Withheld = true
	return true
}

// hasPrecedence reports whether the layer may replace n: no override or removal that it does not
// outrank decided n.
func (l *layer) hasPrecedence(n *provenance.Node) bool {
	return !n.IsDecided() || !l.state.record.Sources[n.Source].Role.OutranksUser() || l.mayReplaceLeaf(n)
}

func (l *layer) recordConflicts(f *fieldNode, n *provenance.Node) {
	visitLeaves(f, func(leaf *fieldNode) { l.recordConflict(leaf, n, nil) })
}

// recordConflict records that leaf f lost to n, if only the names of the two presets decided that.
func (l *layer) recordConflict(f *fieldNode, n *provenance.Node, won any) {
	winner := l.peer(n)
	if winner == nil || won != nil && f.leaf && f.equals(won) {
		return
	}
	c := Conflict{Path: f.text, Winner: winner.Ref, Loser: l.preset.Ref, Won: won, Lost: f.value, legacy: l.preset.legacy}
	l.state.addConflict(c)
}

// recordChoiceConflict records that f lost to another member of a one-of, which winner decided.
func (l *layer) recordChoiceConflict(f *fieldNode, winner *provenance.Node) {
	if winner == nil || l.peer(winner) == nil {
		return
	}
	c := Conflict{Path: f.text, Winner: l.peer(winner).Ref, Loser: l.preset.Ref, Lost: f.segment.Name, legacy: l.preset.legacy, isChoice: true}
	l.state.addConflict(c)
}

// peer returns the preset that decided n, if it has the same scope, layer and priority as the
// layer's preset, so that only their names decide.
func (l *layer) peer(n *provenance.Node) *Compiled {
	if !n.IsDecided() || l.preset == nil {
		return nil
	}
	winner, role := l.state.sourcePresets[n.Source], l.state.record.Sources[n.Source].Role
	if winner == nil || winner == l.preset || role.OutranksUser() != l.role.OutranksUser() || !winner.isPeer(l.preset) {
		return nil
	}
	return winner
}

func (c *Compiled) isPeer(o *Compiled) bool {
	return c.legacy == o.legacy && c.Priority == o.Priority && c.Cluster() == o.Cluster()
}

// noteSkip records that the preset skipped a field: for explain, and as a warning if warn is true.
func (l *layer) noteSkip(path, reason string, warn bool) { l.note(path, Skipped{Reason: reason}, warn) }

func (l *layer) note(path string, skipped Skipped, warn bool) {
	to := &l.state.quietSkips
	if warn {
		to = &l.state.skips
	}
	if l.preset == nil {
		return
	}
	i := slices.IndexFunc(*to, func(s Skipped) bool { return s.Preset == l.preset.Ref && s.Reason == skipped.Reason })
	if i < 0 {
		skipped.Preset, skipped.Paths = l.preset.Ref, []string{path}
		*to = append(*to, skipped)
	} else if s := &(*to)[i]; !slices.Contains(s.Paths, path) {
		s.Paths = append(s.Paths, path)
	}
}

func (l *layer) excludes(f *fieldNode) bool {
	return slices.ContainsFunc(l.excluded, f.path.HasPrefix)
}

// mayReplaceOwners reports against which recorded overrides of the owner VM the overrides of c
// prevail: all but those of a stronger preset that still exists.
func mayReplaceOwners(s *Snapshot, c *Compiled) func(provenance.Source) bool {
	return func(recorded provenance.Source) bool {
		other, ok := s.Lookup(c.Namespace, recorded.Preset)
		switch {
		case !ok:
			return true
		case other.Cluster() != c.Cluster():
			return c.Cluster()
		}
		return byPrecedence(c, other) < 0
	}
}

// isDefault reports whether the source is a default. Launch defaults replace those of the VM.
func isDefault(recorded provenance.Source) bool { return !recorded.Role.OutranksUser() }
