package presets

import (
	"fmt"

	"gomodules.xyz/jsonpatch/v2"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/presets/provenance"
)

// A Kind is what a request is about.
type Kind string

// The kinds that presets act on.
const (
	VirtualMachine         Kind = "VirtualMachine"
	VirtualMachineInstance Kind = "VirtualMachineInstance"
)

// A Request asks for the effective form of one object.
type Request struct {
	Kind Kind
	// Object is the JSON that the API server delivered.
	Object []byte
	// OldObject is the stored JSON on an update, and empty on a create.
	OldObject []byte
	// Decoded and OldDecoded are Object and OldObject as decoded JSON, for a caller that has
	// them. VerifyApplied reads them, and makes strings of decimal quantities in them. Resolve
	// expands Decoded in place if it creates an object. Launch only reads it.
	Decoded, OldDecoded map[string]any
	// Namespace of the object.
	Namespace Namespace
	// Owner is the JSON of the VM that controls a VirtualMachineInstance, if one does.
	Owner []byte
	// Trusted says that a controller writes, whose updates are left alone.
	Trusted bool
	// Instancetypes finds instancetypes and preferences; where it is nil, none is known.
	Instancetypes InstancetypeFinder
}

// A Namespace is what conditions and selectors can see of a namespace.
type Namespace struct {
	Name        string
	Labels      map[string]string
	Annotations map[string]string
}

// object is the namespace as namespaceObject in conditions.
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
	// Patch turns Request.Object into the effective object. It has only what
	// changes and is empty when nothing does.
	Patch []jsonpatch.Operation
	// Warnings for the person at the keyboard: at most MaxWarnings, each at
	// most MaxWarningBytes long.
	Warnings []string
	// Audit holds audit annotations, keys without a prefix.
	Audit map[string]string
	// Record says where fields came from; nil where no preset is concerned.
	Record *provenance.Record
	// Matched are the presets that matched, strongest first.
	Matched []*Compiled
	// Would says what presets in mode Warn or Audit would have done. Only what creates an object
	// is compared.
	Would []Would
	// OverBudget are presets that were skipped because the conditions of all
	// presets of their scope together cost too much.
	OverBudget []*Compiled
	// Conflicts are leaves that only a name decided.
	Conflicts []Conflict

	w *resolution
}

// A Would says what a preset in mode Warn or Audit would have done.
type Would struct {
	Preset         *Compiled
	Change, Refuse bool
}

// Object returns the effective object, as decoded JSON. It shares values with
// compiled presets and must not be changed.
func (r *Result) Object() map[string]any { return r.w.unwrap() }

// A Conflict is one leaf that two presets of the same scope, layer and
// priority set to different values.
type Conflict struct {
	Path          string
	Winner, Loser string // preset refs
	// Won and Lost are the values. Won is nil where the winner chose another member of a one-of.
	Won, Lost any

	legacy bool
}

// String describes the conflict in one line.
func (c Conflict) String() string {
	if c.Won == nil {
		return fmt.Sprintf("presets %s and %s choose different alternatives at the same priority: %s wins by name, so %s is not set",
			c.Winner, c.Loser, c.Winner, c.Path)
	}
	return fmt.Sprintf("presets %s and %s set %s to different values at the same priority: %s (%s) wins by name over %s",
		c.Winner, c.Loser, c.Path, show(c.Won), c.Winner, show(c.Lost))
}

// A Refusal says why an object is not admitted: every problem at once.
type Refusal struct {
	Problems field.ErrorList
	// OverBudget is as in a Result.
	OverBudget []*Compiled
}

// Error lists the problems.
func (r *Refusal) Error() string { return r.Problems.ToAggregate().Error() }

// A Malformed error says that a request's JSON cannot be read at all.
type Malformed struct {
	What string
	Err  error
}

// Error names what is malformed.
func (m *Malformed) Error() string { return fmt.Sprintf("cannot read %s: %v", m.What, m.Err) }

// Unwrap returns the decoder's error.
func (m *Malformed) Unwrap() error { return m.Err }

// An Engine resolves requests against snapshots. Its fields are settings; the
// zero Engine applies presets and no platform defaults, as beside KubeVirt.
type Engine struct {
	// Platform holds the platform defaults of standalone mode; nil applies none.
	Platform *Platform
	// RejectConflicts refuses a VM on a conflict instead of letting the name decide.
	RejectConflicts bool
	// WarnEverything also warns of values that presets gave where the author wrote none.
	WarnEverything bool
}
