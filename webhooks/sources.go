package webhooks

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
)

type presetSource interface {
	// Snapshot returns the newest set of presets; nil before the first is loaded.
	Snapshot() *presets.Snapshot
}

type namespaceGetter interface {
	Get(ctx context.Context, name string) (presets.Namespace, error)
}

type ownerGetter interface {
	// Of returns the JSON of the VM that controls a VMI; nil if there is none.
	Of(ctx context.Context, namespace string, vmi []byte) ([]byte, error)
}

// ControllingVM returns the controller reference of a VMI if it is to a VM. For a VMI that cannot
// be decoded it returns nil; the engine reports that.
func ControllingVM(vmi []byte) *metav1.OwnerReference {
	var object struct {
		Metadata struct {
			OwnerReferences []metav1.OwnerReference `json:"ownerReferences"`
		} `json:"metadata"`
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(vmi, &object); err != nil {
		return nil
	}
	for _, ref := range object.Metadata.OwnerReferences {
		gv, err := schema.ParseGroupVersion(ref.APIVersion)
		if err == nil && gv.Group == "kubevirt.io" && ref.Kind == string(presets.VirtualMachine) &&
			ref.Controller != nil && *ref.Controller && ref.Name != "" && ref.UID != "" {
			return &ref
		}
	}
	return nil
}

type revisionFinder interface {
	// Find returns the preset in the revision that a source of a record names; nil if it is not
	// kept.
	Find(ctx context.Context, name presets.PresetName, s provenance.Source) (*presets.Compiled, error)
}

type instancetypeGetter interface {
	// Spec returns the spec of an instancetype or preference that a VM of a namespace names, as
	// decoded JSON; nil if it does not exist.
	Spec(ctx context.Context, namespace string, m presets.Matcher) (map[string]any, error)
}

// cachedInstancetypes reads each instancetype and preference once for a request. It returns nil if
// there are none.
func cachedInstancetypes(ctx context.Context, from instancetypeGetter, namespace string) presets.InstancetypeFinder {
	if from == nil {
		return nil
	}
	type result struct {
		spec map[string]any
		err  error
	}
	known := map[presets.Matcher]result{}
	return func(m presets.Matcher) (map[string]any, error) {
		r, cached := known[m]
		if !cached {
			r.spec, r.err = from.Spec(ctx, namespace, m)
			known[m] = r
		}
		return r.spec, r.err
	}
}

type eventWriter interface {
	// OverBudget writes on presets that they were not evaluated.
	OverBudget(ctx context.Context, skipped []*presets.Compiled)
}
