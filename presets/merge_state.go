package presets

import (
	"slices"

	"gomodules.xyz/jsonpatch/v2"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/presets/vmschema"
)

// A mergeState is the state of merging presets into one object, in VM form.
type mergeState struct {
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
	// reapplied presets have the current exceptions instead.
	reapplied []string
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
	// conflicting are the losers of conflicts with the paths that they lost.
	conflicting sets.Set[[2]string]
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

func (r *mergeState) addSource(s provenance.Source, c *Compiled) int32 {
	i := r.record.AddSource(s)
	for len(r.sourcePresets) <= int(i) {
		r.sourcePresets = append(r.sourcePresets, c)
	}
	return i
}

// addConflict adds a conflict unless it is known.
func (r *mergeState) addConflict(c Conflict) {
	if r.conflicting == nil {
		r.conflicting = sets.Set[[2]string]{}
	}
	if of := [2]string{c.Loser, c.Path}; !r.conflicting.Has(of) {
		r.conflicting.Insert(of)
		r.conflicts = append(r.conflicts, c)
	}
}

func (r *mergeState) compactLists() {
	for _, h := range r.pendingRemovals {
		list := tree.AsList(h.in[h.name])
		h.in[h.name] = slices.DeleteFunc(list, func(e any) bool { _, dead := e.(removedElement); return dead })
	}
	r.pendingRemovals = nil
}

func (r *mergeState) has(list provenance.Path, key string) bool {
	at := append(slices.Clone(vmschema.TemplateSpec), list...)
	s := vmschema.VM().At(at)
	return s != nil && vmschema.IndexOf(tree.AsList(vmschema.Value(r.root, at)), s.Keys, key) >= 0
}

// fail adds a problem, unless the field has one already.
func (r *mergeState) fail(problem *field.Error) {
	if !slices.ContainsFunc(r.errs, func(e *field.Error) bool { return e.Field == problem.Field }) {
		r.errs = append(r.errs, problem)
	}
}

func (r *mergeState) wrongType(p provenance.Path, value any, want string) {
	r.fail(field.TypeInvalid(field.NewPath(p.String()), value, "must be "+want))
}
