package simulate

import (
	"context"
	"slices"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/validation/protection"
)

// Explain returns the origins of the fields of a VM. A stored VM is explained from its record, and
// so is an object with a record if there are no presets.
func (c *Cluster) Explain(ctx context.Context, m VM) (*presets.Explanation, error) {
	out, err := c.explain(ctx, m)
	if err != nil {
		return nil, m.rejection(err)
	}
	removed := c.Removed(m)
	if !m.isStored() {
		removed = append(removed, m.pathOf("metadata", "annotations", v1alpha1.AnnotationTemplateRequester))
	}
	out.Fields = slices.DeleteFunc(out.Fields, func(o presets.Origin) bool {
		return m.isServerField(o.Path) || slices.ContainsFunc(removed, o.Path.HasPrefix)
	})
	return out, nil
}

// Removed lists the fields that the webhook removes from a new VM, because only controllers write
// them.
func (c *Cluster) Removed(m VM) (paths []provenance.Path) {
	object, err := m.decode(m.JSON)
	if err != nil || m.isStored() || c.fromRecord(m) {
		return nil
	}
	for _, names := range protection.ReservedFields(m.Kind, object) {
		paths = append(paths, m.pathOf(names...))
	}
	return paths
}

// pathOf returns the path of a field in explanations. A VMI is explained as the template of a VM.
func (m VM) pathOf(names ...string) provenance.Path {
	if m.Kind == presets.VirtualMachineInstance {
		names = append([]string{"spec", "template"}, names...)
	}
	return provenance.Of(names...)
}

func (c *Cluster) explain(ctx context.Context, m VM) (*presets.Explanation, error) {
	switch {
	case m.isStored() && c.settings.Reapply:
		return c.explainReapply(ctx, m)
	case m.Damaged() != nil:
		return c.explainDamaged(ctx, m)
	case c.fromRecord(m):
		return presets.ExplainStored(c.request(ctx, m))
	}
	return c.settings.Engine.Explain(ctx, c.snapshot, c.request(ctx, m))
}

func (c *Cluster) fromRecord(m VM) bool {
	recorded := m.entry.meta.Annotations[v1alpha1.AnnotationProvenance] != ""
	return m.isStored() && !c.settings.Reapply || recorded && c.Presets == 0 && !m.isStored()
}

// Validate returns a *Rejection if a cluster would reject the VM.
func (c *Cluster) Validate(ctx context.Context, m VM) error {
	if c.fromRecord(m) {
		return nil
	}
	_, _, err := c.stored(ctx, m)
	return err
}

// Explained returns the object that an explanation describes, as Expand would return it. The error
// is a *Rejection if a cluster would reject the VM. Validate or Explained may be called, not both.
func (c *Cluster) Explained(ctx context.Context, m VM, x *presets.Explanation) (map[string]any, error) {
	if c.fromRecord(m) {
		object, err := m.decode(m.JSON)
		return c.asSent(m, object), err
	}
	object, _, err := c.Expand(ctx, m)
	if err != nil && x.Result != nil {
		object = c.asSent(m, x.Result.Object())
	}
	return object, err
}

var serverFields = []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds"}

func (m VM) isServerField(path provenance.Path) bool {
	if path.HasPrefix(provenance.Of("status")) {
		return true
	}
	if m.Kind == presets.VirtualMachineInstance {
		path = path[min(len(path), len(provenance.Of("spec", "template"))):]
	}
	return len(path) > 1 && path[0].Name == "metadata" &&
		(slices.Contains(serverFields, path[1].Name) || m.noNamespace && path[1].Name == "namespace") ||
		m.isStored() && path.String() == reapplyPath
}
