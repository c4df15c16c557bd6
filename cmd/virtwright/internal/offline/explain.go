package offline

import (
	"context"
	"slices"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
)

// Explain says where the fields of a machine come from. A machine that a cluster has
// stored is explained from its record. So is an object with a record where there are no
// presets.
func (c *Cluster) Explain(ctx context.Context, m Machine) (*presets.Explanation, error) {
	out, err := c.explain(ctx, m)
	if err != nil {
		return nil, m.refusal(err)
	}
	out.Fields = slices.DeleteFunc(out.Fields, func(o presets.Origin) bool { return m.isOfServer(o.Path) })
	return out, nil
}

func (c *Cluster) explain(ctx context.Context, m Machine) (*presets.Explanation, error) {
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

// fromRecord reports whether the machine is explained from its record.
func (c *Cluster) fromRecord(m Machine) bool {
	recorded := m.entry.meta.Annotations[v1alpha1.AnnotationProvenance] != ""
	return m.isStored() && !c.settings.Reapply || recorded && c.Presets == 0 && !m.isStored()
}

// Judge returns a *Refusal if a cluster would refuse the machine that is explained. What is
// explained from its record exists already.
func (c *Cluster) Judge(ctx context.Context, m Machine) error {
	if c.fromRecord(m) {
		return nil
	}
	_, _, err := c.stored(ctx, m)
	return err
}

// ofServer are the fields that an API server and controllers write.
var ofServer = []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds"}

// isOfServer reports whether a field is neither the user's nor ours.
func (m Machine) isOfServer(path provenance.Path) bool {
	if path.HasPrefix(provenance.Of("status")) {
		return true
	}
	if m.Kind == presets.VirtualMachineInstance {
		path = path[min(len(path), len(provenance.Of("spec", "template"))):]
	}
	return len(path) > 1 && path[0].Name == "metadata" &&
		(slices.Contains(ofServer, path[1].Name) || m.placed && path[1].Name == "namespace") ||
		m.isStored() && path.String() == reapplyPath
}
