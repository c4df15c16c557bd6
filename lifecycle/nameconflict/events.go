package nameconflict

import (
	"fmt"
	"hash/fnv"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtwright/virtwright/lifecycle/machine"
)

// reporter is who events come from.
const reporter = "virtwright.dev/names"

// event says on an object what collides with it. Its name follows from what it
// says, so that saying it again makes no other event; it is written like any
// other object and not handed to a recorder, which drops what is too much.
func (c *Controller) event(regarding, related *corev1.ObjectReference, note string) *eventsv1.Event {
	note = machine.Note(note)
	sum := fnv.New64a()
	_, _ = fmt.Fprint(sum, regarding.Kind, regarding.UID, note) // a hash takes everything
	name := regarding.Name
	if most := 253 - 17; len(name) > most {
		name = name[:most]
	}
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: regarding.Namespace, Name: fmt.Sprintf("%s.%016x", name, sum.Sum64())},
		EventTime:  metav1.NewMicroTime(c.now()), Type: corev1.EventTypeWarning, Reason: Condition, Action: "Compare",
		ReportingController: reporter, ReportingInstance: reporter,
		Regarding: *regarding, Related: related, Note: note,
	}
}

func reference(kind string, object client.Object) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: "kubevirt.io/v1", Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(),
	}
}
