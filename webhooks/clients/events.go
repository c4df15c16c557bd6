package clients

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
)

// maxEvents is the maximum number of events of one request.
const maxEvents = 10

// Events writes events of admission on presets.
type Events struct {
	Recorder events.EventRecorder
	// Presets are read from a cache.
	Presets client.Reader
}

// OverBudget writes on presets that they were not evaluated. The recorder merges repeated events.
func (e *Events) OverBudget(ctx context.Context, skipped []*presets.Compiled) {
	for _, c := range skipped[:min(len(skipped), maxEvents)] {
		object, scope := client.Object(&v1alpha1.VirtualMachinePreset{}), "presets of namespace "+c.Namespace
		if c.Cluster() {
			object, scope = &v1alpha1.ClusterVirtualMachinePreset{}, "cluster presets"
		}
		bare, _ := presets.SplitRef(c.Ref)
		if err := e.Presets.Get(ctx, types.NamespacedName{Namespace: c.Namespace, Name: bare}, object); err != nil {
			continue // it was deleted
		}
		e.Recorder.Eventf(object, nil, corev1.EventTypeWarning, "ConditionsTooCostly", "Match",
			"not evaluated for a VM: the conditions of all %s together exceed the cost limit of a request; make them cheaper, or select by labels", scope)
	}
}
