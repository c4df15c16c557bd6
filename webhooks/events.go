package webhooks

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
)

// maxEvents is about how many presets one request has events written.
const maxEvents = 10

// Events tells the authors of presets what happens to them at admission. A nil
// *Events tells nothing.
type Events struct {
	Recorder events.EventRecorder
	// Presets are read from a cache.
	Presets client.Reader
}

// overBudget says on presets that they were not evaluated. The recorder counts
// repeated events instead of writing them again.
func (e *Events) overBudget(ctx context.Context, skipped []*presets.Compiled) {
	if e == nil {
		return
	}
	for _, c := range skipped[:min(len(skipped), maxEvents)] {
		object, scope := client.Object(&v1alpha1.VirtualMachinePreset{}), "presets of namespace "+c.Namespace
		if c.Cluster() {
			object, scope = &v1alpha1.ClusterVirtualMachinePreset{}, "cluster presets"
		}
		bare, _ := presets.Bare(c.Ref)
		if err := e.Presets.Get(ctx, types.NamespacedName{Namespace: c.Namespace, Name: bare}, object); err != nil {
			continue // deleted in the meantime
		}
		e.Recorder.Eventf(object, nil, corev1.EventTypeWarning, "ConditionsTooCostly", "Match",
			"not evaluated for a VM: the conditions of all %s together cost too much for one request; make them cheaper, or select by labels", scope)
	}
}
