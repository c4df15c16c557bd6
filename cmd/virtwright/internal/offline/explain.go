package offline

import (
	"context"
	"slices"

	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
)

// Explain says where the fields of a machine come from. Without presets, an object
// that carries its provenance is explained from that alone.
func (c *Cluster) Explain(ctx context.Context, m Machine) (*presets.Explanation, error) {
	var out *presets.Explanation
	var err error
	if c.Presets == 0 && m.carriesProvenance() {
		out, err = presets.ExplainStored(m.Kind, m.Sent)
	} else {
		out, err = c.settings.Engine.Explain(ctx, c.snapshot, c.Request(m))
	}
	if err != nil {
		return nil, m.refusal(err)
	}
	if m.placed { // by us, not by the user
		out.Fields = slices.DeleteFunc(out.Fields, func(o presets.Origin) bool {
			path := o.Path.String()
			return path == "metadata.namespace" || m.Kind == presets.VirtualMachineInstance && path == "spec.template.metadata.namespace"
		})
	}
	return out, nil
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
