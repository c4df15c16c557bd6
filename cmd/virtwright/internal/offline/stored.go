package offline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/fleet"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
)

// isStored reports whether a cluster has stored the object. API servers refuse to create
// an object that has a resource version; they ignore a uid, which copies may have.
func (e *entry) isStored() bool { return e.meta.ResourceVersion != "" }

func (m Machine) isStored() bool { return m.entry.isStored() }

// Damaged says why the record of a stored machine cannot be read; nil if it can be.
func (m Machine) Damaged() error {
	text := m.entry.meta.Annotations[v1alpha1.AnnotationProvenance]
	if text == "" || !m.isStored() {
		return nil
	}
	_, err := provenance.Decode(text)
	return err
}

// explainDamaged explains a stored machine without its record.
func (c *Cluster) explainDamaged(ctx context.Context, m Machine) (*presets.Explanation, error) {
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

// reapplied is the JSON of a stored machine with an annotation that asks for a reapply.
// Its value is one that the machine does not have.
func (m Machine) reapplied(raw []byte) ([]byte, error) {
	object, err := m.decode(raw)
	if err != nil {
		return nil, err
	}
	meta, _ := object["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	if annotations == nil {
		annotations = map[string]any{}
		meta["annotations"] = annotations
	}
	annotations[v1alpha1.AnnotationReapply] = m.entry.meta.Annotations[v1alpha1.AnnotationReapply] + "+"
	return json.Marshal(object)
}

// withoutReapply gives the object the annotation that the stored machine has.
func (m Machine) withoutReapply(object map[string]any) {
	meta, _ := object["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	if value, had := m.entry.meta.Annotations[v1alpha1.AnnotationReapply]; had {
		annotations[v1alpha1.AnnotationReapply] = value
	} else if delete(annotations, v1alpha1.AnnotationReapply); len(annotations) == 0 {
		delete(meta, "annotations")
	}
}

// A Change is a field of a stored machine that a reapply would change.
type Change struct {
	Path string `json:"path"`
	// Stored and Reapplied are values; nil where there is none.
	Stored    any `json:"stored,omitempty"`
	Reapplied any `json:"reapplied,omitempty"`
	// Preset gives the field after a reapply, or gave it before; empty for platform defaults.
	Preset string `json:"preset,omitempty"`
	// Missing says that Preset was not read.
	Missing bool `json:"missing,omitempty"`
}

// By names the preset.
func (o Change) By() string {
	switch {
	case o.Preset == "":
		return "platform default"
	case o.Missing:
		return o.Preset + ", not found"
	}
	return o.Preset
}

// String is the field with its preset.
func (o Change) String() string { return fmt.Sprintf("%s (%s)", o.Path, o.By()) }

// Outdated lists what a reapply would change on a stored machine. Notes say so in words.
func (c *Cluster) Outdated(ctx context.Context, m Machine) (changes []Change, notes []string, err error) {
	shown := m.String() + " is stored in a cluster and is shown as it is; "
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
		return nil, nil, m.refusal(err)
	}
	after, err := c.explainReapply(ctx, m)
	note := shown + "a reapply would "
	if refusal, ok := errors.AsType[*presets.Refusal](err); ok {
		return nil, []string{note + "be refused: " + problemsOf(refusal.Problems)[0].String()}, nil
	} else if err != nil {
		return nil, nil, m.refusal(err)
	}
	changes = c.changes(m, before.Fields, after.Fields)
	if len(changes) > 0 {
		notes = []string{note + "change " + first(changes) + ": see --reapply"}
	}
	return changes, notes, nil
}

// first names the first few changes.
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

// explainReapply explains what a reapply makes of a stored machine.
func (c *Cluster) explainReapply(ctx context.Context, m Machine) (*presets.Explanation, error) {
	request := c.request(ctx, m)
	var err error
	request.OldObject = request.Object
	if request.Object, err = m.reapplied(request.Object); err != nil {
		return nil, err
	}
	return c.settings.Engine.Explain(ctx, c.snapshot, request)
}

// changes are the differences between the fields of a machine before and after a reapply.
func (c *Cluster) changes(m Machine, before, after []presets.Origin) []Change {
	var out []Change
	for _, d := range fleet.Changes(before, after, false) {
		if d.Path == reapplyPath {
			continue
		}
		change := Change{Path: d.Path, Stored: d.Before, Reapplied: d.After, Preset: d.Preset}
		if d.Preset != "" {
			_, found := c.snapshot.Lookup(m.Namespace, d.Preset)
			change.Missing = !found
		}
		out = append(out, change)
	}
	return out
}

var reapplyPath = provenance.Of("metadata", "annotations", v1alpha1.AnnotationReapply).String()
