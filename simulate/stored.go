package simulate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/fleet"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/simulate/manifest"
	"github.com/virtwright/virtwright/webhooks"
)

// API servers reject a create request with a resourceVersion, but ignore a uid.
func (e *entry) isStored() bool { return e.meta.ResourceVersion != "" }

func (m VM) isStored() bool { return m.entry.isStored() }

// IsOwned reports whether another object owns a stored VM: no manifest of it can be replaced.
func (m VM) IsOwned() bool { return m.isStored() && len(m.entry.meta.OwnerReferences) > 0 }

// Damaged returns why the record of a stored VM cannot be read; nil if it can.
func (m VM) Damaged() error {
	text := m.entry.meta.Annotations[v1alpha1.AnnotationProvenance]
	if text == "" || !m.isStored() {
		return nil
	}
	_, err := provenance.Decode(text)
	return err
}

func (c *Cluster) explainDamaged(ctx context.Context, m VM) (*presets.Explanation, error) {
	object, err := m.decode(m.JSON)
	if err != nil {
		return nil, err
	}
	if err := unstructured.SetNestedField(object, "", "metadata", "annotations", v1alpha1.AnnotationProvenance); err != nil {
		return nil, err
	}
	request := c.request(ctx, m)
	if request.Object, err = json.Marshal(object); err != nil {
		return nil, err
	}
	return presets.ExplainStored(request)
}

// reapplied changes the annotation that requests a reapply.
func (m VM) reapplied(raw []byte) ([]byte, error) {
	object, err := m.decode(raw)
	if err != nil {
		return nil, err
	}
	meta, annotations := metadataOf(object)
	if annotations == nil { // or malformed, which validation reports
		annotations = map[string]any{}
		meta["annotations"] = annotations
	}
	annotations[v1alpha1.AnnotationReapply] = "+" + m.entry.meta.Annotations[v1alpha1.AnnotationReapply] // names no presets
	return json.Marshal(object)
}

func metadataOf(object map[string]any) (meta, annotations map[string]any) {
	meta, _ = object["metadata"].(map[string]any)
	annotations, _ = meta["annotations"].(map[string]any)
	return meta, annotations
}

func (m VM) withoutReapply(object map[string]any) {
	meta, annotations := metadataOf(object)
	if value, had := m.entry.meta.Annotations[v1alpha1.AnnotationReapply]; had {
		annotations[v1alpha1.AnnotationReapply] = value
	} else if delete(annotations, v1alpha1.AnnotationReapply); len(annotations) == 0 {
		delete(meta, "annotations")
	}
}

// A Change is a field of a stored VM that a reapply would change.
type Change struct {
	Path string `json:"path"`
	// Stored and Reapplied are values; nil for an absent field.
	Stored    any `json:"stored,omitempty"`
	Reapplied any `json:"reapplied,omitempty"`
	// Preset sets the field after a reapply, or set it before; empty for platform defaults.
	Preset string `json:"preset,omitempty"`
	// Missing is true if Preset was not found.
	Missing bool `json:"missing,omitempty"`
}

// By returns the preset for tables.
func (o Change) By() string {
	switch {
	case o.Preset == "":
		return "platform default"
	case o.Missing:
		return o.Preset + ", not found"
	}
	return o.Preset
}

// String formats the field with its preset.
func (o Change) String() string { return fmt.Sprintf("%s (%s)", o.Path, o.By()) }

// Outdated returns the changes that a reapply would make to a stored VM, and notes about them.
func (c *Cluster) Outdated(ctx context.Context, m VM) (changes []Change, notes []string, err error) {
	shown := m.String() + " is stored in a cluster and is shown unchanged; "
	switch damaged := m.Damaged(); {
	case c.settings.Reapply:
		return nil, nil, nil
	case damaged != nil:
		return nil, []string{shown + "its record cannot be read, so the origins of its fields are unknown: " + damaged.Error()}, nil //nolint:nilerr // the note says it
	case c.Presets == 0, !m.isStored(), m.Kind != presets.VirtualMachine:
		return nil, nil, nil
	}
	before, err := presets.ExplainStored(c.request(ctx, m))
	if err != nil {
		return nil, nil, m.rejection(err)
	}
	after, err := c.explainReapply(ctx, m)
	note := shown + "a reapply would "
	if rejection, ok := errors.AsType[*presets.Rejection](err); ok {
		return nil, []string{note + "be rejected: " + problemsOf(rejection.Problems)[0].String()}, nil
	} else if err != nil {
		return nil, nil, m.rejection(err)
	}
	changes = c.changes(m, before.Fields, after.Fields)
	if len(changes) > 0 {
		notes = []string{note + "change " + first(changes) + ": see --reapply"}
	}
	return changes, notes, nil
}

func first(changes []Change) string {
	const most = 3
	var out []string
	for _, change := range changes[:min(len(changes), most)] {
		out = append(out, change.String())
	}
	text := strings.Join(out, ", ")
	if more := len(changes) - most; more > 0 {
		text += fmt.Sprintf(" and %d more fields", more)
	}
	return text
}

func (c *Cluster) explainReapply(ctx context.Context, m VM) (*presets.Explanation, error) {
	request, err := c.reapplyRequest(ctx, m)
	if err != nil {
		return nil, err
	}
	return c.settings.Engine.Explain(ctx, c.snapshot, request)
}

func (c *Cluster) reapplyRequest(ctx context.Context, m VM) (request presets.Request, err error) {
	request = c.request(ctx, m)
	request.OldObject = request.Object
	request.Object, err = m.reapplied(request.Object)
	return request, err
}

func (c *Cluster) changes(m VM, before, after []presets.Origin) []Change {
	var out []Change
	for _, d := range fleet.Changes(before, after, fleet.NoUpdates) {
		if d.Path == reapplyPath {
			continue
		}
		_, found := c.snapshot.Lookup(m.Namespace, d.Preset)
		out = append(out, Change{d.Path, d.Before, d.After, d.Preset, d.Preset != "" && !found})
	}
	return out
}

var reapplyPath = provenance.Of("metadata", "annotations", v1alpha1.AnnotationReapply).String()

// Matched returns the stored VMs that a preset would affect in a reapply, and all Refs.
func Matched(ctx context.Context, objects []manifest.Object, settings Settings, ref string) (vms []types.NamespacedName, refs map[string]bool, err error) {
	c, err := NewCluster(ctx, objects, settings)
	if err != nil {
		return nil, nil, err
	}
	refs = map[string]bool{}
	for _, o := range objects {
		if id, role := identify(o, settings.Namespace); role == preset {
			refs[id.presetName().Ref] = true
		}
	}
	for match := range InOrder(ctx, slices.Values(c.VMs), func(ctx context.Context, m VM) matching {
		acts, err := c.applies(ctx, m, ref)
		return matching{m, acts, err}
	}) {
		if match.err != nil {
			return nil, nil, match.err
		}
		if match.applies {
			vms = append(vms, types.NamespacedName{Namespace: match.Namespace, Name: match.Name})
		}
	}
	return vms, refs, nil
}

type matching struct {
	VM
	applies bool
	err     error
}

func (c *Cluster) applies(ctx context.Context, m VM, ref string) (bool, error) {
	found, ok := c.snapshot.Lookup(m.Namespace, ref)
	if !ok || found.Mode != v1alpha1.ModeEnforce || slices.Contains(webhooks.ExcludedNamespaces(managerNamespace), m.Namespace) {
		return false, nil
	}
	request, err := c.reapplyRequest(ctx, m)
	if err != nil {
		return false, err
	}
	result, err := c.settings.Engine.Resolve(ctx, c.snapshot, request)
	if rejection, ok := errors.AsType[*presets.Rejection](err); ok {
		return slices.ContainsFunc(rejection.Problems, func(e *field.Error) bool { return presets.Breaks(e, ref) }), nil
	}
	if err != nil {
		return false, m.rejection(err)
	}
	return slices.ContainsFunc(result.Matched, func(p *presets.Compiled) bool { return p.Ref == ref }), nil
}
