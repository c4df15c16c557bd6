package presets

import (
	"fmt"

	"gomodules.xyz/jsonpatch/v2"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
)

// A Kind is the kind of the object of a request.
type Kind string

// The kinds that presets act on.
const (
	VirtualMachine         Kind = "VirtualMachine"
	VirtualMachineInstance Kind = "VirtualMachineInstance"
)

// A Request asks for the expansion of one object.
type Request struct {
	Kind Kind
	// Object is the JSON from the API server.
	Object []byte
	// OldObject is the stored JSON on an update, and empty on a create.
	OldObject []byte
	// Decoded and OldDecoded are Object and OldObject as decoded JSON, if the caller has them.
	// VerifyApplied reads them, and converts decimal quantities in them to strings. Resolve expands
	// Decoded in place if it creates an object. Launch only reads it.
	Decoded, OldDecoded map[string]any
	// Namespace of the object.
	Namespace Namespace
	// Owner is the JSON of the VM that controls a VirtualMachineInstance, if there is one.
	Owner []byte
	// Trusted says that nothing that the writer updates is changed.
	Trusted bool
	// Restored says that a controller writes a VM as a snapshot has it: only overrides change it.
	Restored bool
	// Instancetypes finds instancetypes and preferences; if it is nil, all are unknown.
	Instancetypes InstancetypeFinder
	// Revisions finds earlier revisions of presets; if it is nil, none are kept.
	Revisions RevisionFinder
}

// A Namespace holds the fields of a namespace that conditions and selectors read.
type Namespace struct {
	Name        string
	Labels      map[string]string
	Annotations map[string]string
}

// object returns the variable namespaceObject of conditions.
func (n Namespace) object() map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{"name": n.Name, "labels": anyMap(n.Labels), "annotations": anyMap(n.Annotations)},
	}
}

func anyMap(in map[string]string) map[string]any {
	out := make(map[string]any, len(in))
	for k, v := range in {
		out[k] = v
	}
	return out
}

// A Result is the answer to a Request.
type Result struct {
	// Patch converts Request.Object into the effective object. It contains only changes.
	Patch []jsonpatch.Operation
	// Warnings for the author: at most 10, each at most MaxWarningBytes long.
	Warnings []string
	// Audit holds audit annotations; their keys have no prefix.
	Audit map[string]string
	// Record says where fields came from; nil if no preset matters.
	Record *provenance.Record
	// Matched are the presets that matched, strongest first.
	Matched []*Compiled
	// Previews are the effects that presets in mode Warn or Audit would have on an object that is
	// created.
	Previews []Preview
	// OverBudget are presets that were skipped because the conditions of their scope cost too much
	// together.
	OverBudget []*Compiled
	// Conflicts are the leaves that only the names of presets decided.
	Conflicts []Conflict

	state *mergeState
}

// A Preview says whether a preset in mode Warn or Audit would change or reject an object.
type Preview struct {
	Preset           *Compiled
	Changes, Rejects bool
}

// Object returns the effective object as decoded JSON. It shares values with compiled presets and
// must not be changed.
func (r *Result) Object() map[string]any { return r.state.unwrap() }

// A Conflict is a leaf that two presets of the same scope, layer and priority set to different
// values.
type Conflict struct {
	Path          string
	Winner, Loser string // preset refs
	// Won and Lost are the values. Won is nil if the winner chose another member of a one-of.
	Won, Lost any

	legacy bool
	// isChoice says that the winner chose another member of a one-of.
	isChoice bool
}

// String describes the conflict in one line.
func (c Conflict) String() string {
	if c.Won == nil {
		return fmt.Sprintf("presets %s and %s choose different alternatives at the same priority: %s wins by name, so %s is not set",
			c.Winner, c.Loser, c.Winner, c.Path)
	}
	return fmt.Sprintf("presets %s and %s set %s to different values at the same priority: %s (%s) wins by name over %s",
		c.Winner, c.Loser, c.Path, tree.Show(c.Won), c.Winner, tree.Show(c.Lost))
}

// A Rejection lists every problem of an object that is not admitted.
type Rejection struct {
	Problems field.ErrorList
	// OverBudget is as in a Result.
	OverBudget []*Compiled
}

// Error lists the problems.
func (r *Rejection) Error() string { return r.Problems.ToAggregate().Error() }

// A Malformed error says that the JSON of a request cannot be read.
type Malformed struct {
	What string
	Err  error
}

// Error names the unreadable part of the request.
func (m *Malformed) Error() string { return fmt.Sprintf("cannot read %s: %v", m.What, m.Err) }

// Unwrap returns the decoder's error.
func (m *Malformed) Unwrap() error { return m.Err }

// An Engine resolves requests against snapshots. Its fields are settings; the zero Engine is that
// of add-on mode.
type Engine struct {
	// Platform holds the platform defaults of standalone mode. Nil is add-on mode, where KubeVirt
	// sets defaults; the only one is then an empty spec.domain.devices, which KubeVirt requires.
	Platform *Platform
	// RejectConflicts rejects a VM on a conflict, instead of letting names decide.
	RejectConflicts bool
	// WarnEverything also warns about values that presets set in fields that the user left open.
	WarnEverything bool
}
