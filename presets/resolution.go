package presets

import (
	"slices"

	"gomodules.xyz/jsonpatch/v2"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/presets/provenance"
)

// A resolution is the state of resolving one object: the object itself in VM form, what
// has been decided, and what there is to say about it.
type resolution struct {
	root map[string]any
	rec  *provenance.Record
	// by has the preset of each source of rec; nil for the platform.
	by []*Compiled
	// layers are all that act, in the order in which they act.
	layers  []layer
	cursors []cursor
	// instance is the VMI as it was sent, where root is its VM form; else nil.
	instance map[string]any
	// pendingRemovals are lists with removed elements, which are closed up at the end.
	pendingRemovals []pendingRemoval

	// stored says that the VM exists, and before are the sources of its record.
	stored bool
	before []provenance.Source
	// recordedExceptions are as in a query.
	recordedExceptions []provenance.Exception
	// keepsRunState says that no preset changes the run state.
	keepsRunState bool
	// lenient says that annotations that select presets were wrong before, so that
	// a problem with them is a warning.
	lenient bool
	// inherited is how many sources of rec acted before this request.
	inherited int

	// probing keeps cursors from setting fields; probed says that one would have been set.
	probing, probed bool

	// owner is the JSON of the VM that controls the instance.
	owner []byte
	// trial says that computed values are placeholders, and elements with computed keys missing.
	trial bool
	// uncomputed are problems of overrides that cannot be computed.
	uncomputed field.ErrorList
	// find finds the specs of instancetypes and preferences; may be nil.
	find InstancetypeFinder
	// contributions are those of what the VM names, as far as layers have acted.
	contributions contributions
	// heldBack says why an instancetype of a default is held back; empty where none is.
	heldBack string

	// decimalOps are what load replaced, as operations on the object that was sent.
	decimalOps []jsonpatch.Operation
	// notes are warnings about what was done before presets acted.
	notes     []string
	conflicts []Conflict
	// skips are shown as warnings, quiet ones by explain only.
	skips, quiet []skip
	// typos are warnings about labels, and names of presets, that are near others.
	typos []string
	// warnEverything is the engine's setting.
	warnEverything bool
	errs           field.ErrorList
}

// A pendingRemoval is a list with stand-ins for removed elements, so that indexes
// stay what the API server knows until the patch is written.
type pendingRemoval struct {
	in   map[string]any
	name string
}

type removedElement struct{}

// A skip is fields that a preset left alone, and why.
type skip struct {
	ref    string
	why    string
	fields []string
}

// A layer is the defaults or the overrides of one preset, at work.
type layer struct {
	w      *resolution
	preset *Compiled // nil for the platform
	role   provenance.Role
	root   *fieldNode
	// source is the index in the record, or provenance.NoSource before the
	// layer has decided anything.
	source int32
	// name stands in for preset.Ref for the platform: the rule.
	name string
	// excluded paths of this preset's defaults.
	excluded []provenance.Path
	// reserved fields belong to an instancetype, a preference or people.
	reserved ownership
	// beats reports whether the layer's defaults may replace a weak leaf.
	beats func(provenance.Source) bool
}

// decides records that the layer decided n.
func (l *layer) decides(n *provenance.Node) {
	if l.source == provenance.NoSource {
		s := provenance.Source{Role: l.role, Preset: l.name}
		if l.preset != nil {
			s = l.preset.source(l.role)
		}
		l.source = l.w.addSource(s, l.preset)
	}
	n.Source, n.Weak, n.Now = l.source, false, true
}

func (w *resolution) addSource(s provenance.Source, c *Compiled) int32 {
	i := w.rec.AddSource(s)
	for len(w.by) <= int(i) {
		w.by = append(w.by, c)
	}
	return i
}

// decidedAgainstUser reports whether a stronger override or remove decided n.
func (w *resolution) decidedAgainstUser(n *provenance.Node) bool {
	return n != nil && n.Source != provenance.NoSource && w.rec.Sources[n.Source].Role.Outranks()
}

// blocked reports whether what is at n was removed by a preset that the layer
// does not outrank.
func (l *layer) blocked(n *provenance.Node) bool {
	return n != nil && n.Source != provenance.NoSource && l.w.rec.Sources[n.Source].Role == provenance.Remove && !l.beatsLeaf(n)
}

// standsAgainst reports whether an override or remove decided n that the layer
// does not outrank.
func (l *layer) standsAgainst(n *provenance.Node) bool {
	return l.w.decidedAgainstUser(n) && !l.beatsLeaf(n)
}

// recordConflicts notes that the layer's leaves at p lost to n.
func (l *layer) recordConflicts(p *fieldNode, n *provenance.Node) {
	visitLeaves(p, func(leaf *fieldNode) { l.recordConflict(leaf, n, nil) })
}

// recordConflict notes that the layer's leaf p lost to n, which is a conflict when
// nothing but a name came between them.
func (l *layer) recordConflict(p *fieldNode, n *provenance.Node, won any) {
	winner := l.peer(n)
	if winner == nil || won != nil && p.leaf && p.same(won) {
		return
	}
	c := Conflict{Path: p.path, Winner: winner.Ref, Loser: l.preset.Ref, Won: won, Lost: p.value, legacy: l.preset.legacy}
	if !slices.ContainsFunc(l.w.conflicts, func(o Conflict) bool { return o.Path == c.Path && o.Loser == c.Loser }) {
		l.w.conflicts = append(l.w.conflicts, c)
	}
}

// recordChoiceConflict notes that p lost to another member of a one-of, which winner decided.
func (l *layer) recordChoiceConflict(p *fieldNode, winner *provenance.Node) {
	if winner == nil || l.peer(winner) == nil {
		return
	}
	c := Conflict{Path: p.path, Winner: l.peer(winner).Ref, Loser: l.preset.Ref, Lost: p.seg.Name, legacy: l.preset.legacy}
	l.w.conflicts = append(l.w.conflicts, c)
}

// peer returns the preset that decided n, if it is of the same standing as the
// layer's, so that only their names tell which is stronger.
func (l *layer) peer(n *provenance.Node) *Compiled {
	if n == nil || n.Source == provenance.NoSource || l.preset == nil {
		return nil
	}
	winner, role := l.w.by[n.Source], l.w.rec.Sources[n.Source].Role
	if winner == nil || winner == l.preset || layerOf(role) != layerOf(l.role) || !winner.isPeer(l.preset) {
		return nil
	}
	return winner
}

func (c *Compiled) isPeer(o *Compiled) bool {
	return c.legacy == o.legacy && c.Priority == o.Priority && c.Cluster() == o.Cluster()
}

// layerOf is the role that stands for the layer in which a role acts.
func layerOf(r provenance.Role) provenance.Role {
	if r == provenance.Remove {
		return provenance.Override
	}
	return r
}

// skips notes that the layer left p alone: quietly if it only has defaults.
func (l *layer) skips(p *fieldNode, why string) {
	switch {
	case !l.role.Outranks():
		l.skipsQuietly(p, why)
	case l.preset != nil:
		l.note(&l.w.skips, p.path, why)
	}
}

// skipsQuietly notes, for explain only, that the layer left p alone.
func (l *layer) skipsQuietly(p *fieldNode, why string) {
	if l.preset != nil {
		l.note(&l.w.quiet, p.path, why)
	}
}

// note adds a field to those that the preset left alone for a reason.
func (l *layer) note(to *[]skip, path, why string) {
	for i := range *to {
		if s := &(*to)[i]; s.ref == l.preset.Ref && s.why == why {
			if !slices.Contains(s.fields, path) {
				s.fields = append(s.fields, path)
			}
			return
		}
	}
	*to = append(*to, skip{ref: l.preset.Ref, why: why, fields: []string{path}})
}

// excludes reports whether p is kept away by the user.
func (l *layer) excludes(p *fieldNode) bool {
	return slices.ContainsFunc(l.excluded, p.at.HasPrefix)
}

// indexOf finds the element named key.
func indexOf(list []any, keys []listKey, key string) int {
	for i, e := range list {
		fields, ok := e.(map[string]any)
		if !ok {
			continue
		}
		if got, missing := elementKey(keys, fields); missing == "" && got == key {
			return i
		}
	}
	return -1
}

// closeUp takes the stand-ins of removed elements out of lists.
func (w *resolution) closeUp() {
	for _, h := range w.pendingRemovals {
		list, _ := h.in[h.name].([]any)
		h.in[h.name] = slices.DeleteFunc(list, func(e any) bool { _, dead := e.(removedElement); return dead })
	}
	w.pendingRemovals = nil
}

// lookup returns what lies at p in v, which has schema s; nil where nothing does.
func lookup(v any, s *schema, p provenance.Path) any {
	for _, seg := range p {
		switch at := v.(type) {
		case map[string]any:
			v = at[seg.Name]
		case []any:
			if s.shape != shapeKeyed {
				return nil
			}
			i := indexOf(at, s.keys, seg.Name)
			if i < 0 {
				return nil
			}
			v = at[i]
		default:
			return nil
		}
		if s = s.step(seg); s == nil {
			return nil
		}
	}
	return v
}

// has reports whether a list beneath spec.template.spec has an element named key.
func (w *resolution) has(list provenance.Path, key string) bool {
	at := append(slices.Clone(templateSpec), list...)
	s := vmSchema().at(at)
	elements, _ := lookup(w.root, vmSchema(), at).([]any)
	return s != nil && indexOf(elements, s.keys, key) >= 0
}
