package offline

import (
	"context"
	"slices"

	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
)

// Explain says where the fields of a machine come from. Without presets, an object
// that carries its provenance is explained from that alone.
func (c *Cluster) Explain(ctx context.Context, m Machine) (*presets.Explanation, error) {
	var out *presets.Explanation
	var err error
	if c.Presets == 0 && m.carriesProvenance() {
		out, err = presets.ExplainStored(c.request(ctx, m))
	} else {
		out, err = c.settings.Engine.Explain(ctx, c.snapshot, c.request(ctx, m))
	}
	if err != nil {
		return nil, m.refusal(err)
	}
	out.Fields = slices.DeleteFunc(out.Fields, func(o presets.Origin) bool { return m.isOfServer(o.Path) })
	return out, nil
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
		(slices.Contains(ofServer, path[1].Name) || m.placed && path[1].Name == "namespace")
}

func (m Machine) carriesProvenance() bool {
	var object struct {
		Metadata struct {
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	err := kjson.UnmarshalCaseSensitivePreserveInts(m.Sent, &object)
	return err == nil && object.Metadata.Annotations[v1alpha1.AnnotationProvenance] != ""
}
