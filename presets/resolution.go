package presets

import (
	"slices"

	"gomodules.xyz/jsonpatch/v2"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/presets/provenance"
)

// A resolution is the state of resolving one object, in VM form.
type resolution struct {
	root   map[string]any
	record *provenance.Record
	// sourcePresets has the preset of each source in record; nil for the platform.
	sourcePresets []*Compiled
	layers        []layer
	// sentVMI is the VMI as it was sent, if the request is about a VMI; root is its VM form.
	sentVMI map[string]any
	// pendingRemovals are lists with removed elements, which compactLists removes at the end.
	pendingRemovals []pendingRemoval

	// stored says that the VM exists; previousSources are the sources of its stored record.
	stored             bool
	previousSources    []provenance.Source
	recordedExceptions []provenance.Exception
	// keepsRunState says that presets do not change the run state.
	keepsRunState bool
	lenient       bool
	// restored is nil unless the VM is restored from a snapshot.
	restored *restored
	// inheritedSources is the number of sources that acted on the owner VM, before this request.
	inheritedSources int

	// dryRun keeps cursors from setting fields; wouldSet says that one would have been set.
	dryRun, wouldSet bool

	owner []byte
	// trial says that computed values are placeholders, and elements with computed keys missing.
	trial bool
	// platform sets defaults after the layers; may be nil.
	platform *Platform
	// waiting are elements that layers change if weaker ones add them.
	waiting []waitingElement
	// computeErrs are problems of overrides that cannot be computed.
	computeErrs field.ErrorList
	// findInstancetype finds the specs of instancetypes and preferences; may be nil.
	findInstancetype InstancetypeFinder
	// contributions are those of the instancetype and preference that the VM names so far.
	contributions contributions
	// skippedInstancetype says why the instancetype of a default is skipped; empty if none is.
	skippedInstancetype string

	// decimalOps replace decimal numbers among the quantities of the sent object with strings.
	decimalOps []jsonpatch.Operation
	// notes are warnings about changes before presets acted.
	notes     []string
	conflicts []Conflict
	// skips are shown as warnings, quietSkips by explain only.
	skips, quietSkips []Skipped
	// suggestions are warnings about labels and preset names that are close to existing ones.
	suggestions    []string
	warnEverything bool
	errs           field.ErrorList
}

// A pendingRemoval is a list in which placeholders replace removed elements, so that indexes stay
// as the API server knows them until the patch is written.
type pendingRemoval struct {
	in   map[string]any
	name string
}

type removedElement struct{}

// A Skipped lists fields that a preset did not set, and why.
type Skipped struct {
	Preset, Reason string
	Paths          []string
	// Failed says that the expressions of the fields fail, ByInstancetype that the instancetype or
	// preference owns them.
	Failed, ByInstancetype bool
}

// A layer is the defaults or the overrides of one preset, or a platform rule, while it acts.
type layer struct {
	resolution *resolution
	preset     *Compiled // nil for the platform
	role       provenance.Role
	root       *fieldNode
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

func (l *layer) decides(n *provenance.Node) {
	if l.source == provenance.NoSource {
		s := provenance.Source{Role: l.role, Preset: l.name}
		if l.preset != nil {
			s = l.preset.source(l.role)
		}
		l.source = l.resolution.addSource(s, l.preset)
	}
	n.Source, n.Replaceable, n.DecidedNow = l.source, false, true
}

func (r *resolution) addSource(s provenance.Source, c *Compiled) int32 {
	i := r.record.AddSource(s)
	for len(r.sourcePresets) <= int(i) {
		r.sourcePresets = append(r.sourcePresets, c)
	}
	return i
}

// removedByStronger reports whether a preset that the layer does not outrank removed n.
func (l *layer) removedByStronger(n *provenance.Node) bool {
	return n.IsDecided() && l.resolution.record.Sources[n.Source].Role == provenance.Remove && !l.mayReplaceLeaf(n)
}

// isWithheld is removedByStronger for a field that the layer would set, and notes that it does not.
func (l *layer) isWithheld(n *provenance.Node) bool {
	if !l.removedByStronger(n) {
		return false
	}
	n.Withheld = true
	return true
}

// outrankedBy reports whether an override or removal that the layer does not outrank decided n.
func (l *layer) outrankedBy(n *provenance.Node) bool {
	return n.IsDecided() && l.resolution.record.Sources[n.Source].Role.OutranksUser() && !l.mayReplaceLeaf(n)
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
	l.resolution.addConflict(c)
}

// addConflict adds a conflict unless it is known.
func (r *resolution) addConflict(c Conflict) {
	if !slices.ContainsFunc(r.conflicts, func(o Conflict) bool { return o.Path == c.Path && o.Loser == c.Loser }) {
		r.conflicts = append(r.conflicts, c)
	}
}

// recordChoiceConflict records that f lost to another member of a one-of, which winner decided.
func (l *layer) recordChoiceConflict(f *fieldNode, winner *provenance.Node) {
	if winner == nil || l.peer(winner) == nil {
		return
	}
	c := Conflict{Path: f.text, Winner: l.peer(winner).Ref, Loser: l.preset.Ref, Lost: f.segment.Name, legacy: l.preset.legacy, isChoice: true}
	l.resolution.addConflict(c)
}

// peer returns the preset that decided n, if it has the same scope, layer and priority as the
// layer's preset, so that only their names decide.
func (l *layer) peer(n *provenance.Node) *Compiled {
	if !n.IsDecided() || l.preset == nil {
		return nil
	}
	winner, role := l.resolution.sourcePresets[n.Source], l.resolution.record.Sources[n.Source].Role
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
	to := &l.resolution.quietSkips
	if warn {
		to = &l.resolution.skips
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

func (r *resolution) compactLists() {
	for _, h := range r.pendingRemovals {
		list, _ := h.in[h.name].([]any)
		h.in[h.name] = slices.DeleteFunc(list, func(e any) bool { _, dead := e.(removedElement); return dead })
	}
	r.pendingRemovals = nil
}

// lookup returns the value at p in v, which has schema s; nil if there is none.
func lookup(v any, s *schema, p provenance.Path) any {
	for _, seg := range p {
		switch at := v.(type) {
		case map[string]any:
			v = at[seg.Name]
		case []any:
			v = elementOf(at, s, seg.Name)
		default:
			return nil
		}
		if s = s.step(seg); s == nil {
			return nil
		}
	}
	return v
}

func vmValue(vm any, p provenance.Path) any { return lookup(vm, vmSchema(), p) }

func (r *resolution) has(list provenance.Path, key string) bool {
	at := append(slices.Clone(templateSpec), list...)
	s := vmSchema().at(at)
	return s != nil && indexOf(asList(vmValue(r.root, at)), s.keys, key) >= 0
}

// fail adds a problem, unless the field has one already.
func (r *resolution) fail(problem *field.Error) {
	if !slices.ContainsFunc(r.errs, func(e *field.Error) bool { return e.Field == problem.Field }) {
		r.errs = append(r.errs, problem)
	}
}

func (r *resolution) wrongType(p provenance.Path, value any, want string) {
	r.fail(field.TypeInvalid(field.NewPath(p.String()), value, "must be "+want))
}
