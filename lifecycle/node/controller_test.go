package node

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// Only what placement reads of our own Node ends back-off.
func TestPlacing(t *testing.T) {
	c := &Controller{Node: "a"}
	for name, row := range map[string]struct {
		change func(*corev1.Node)
		want   bool
	}{
		"heartbeat":    {func(n *corev1.Node) { n.Status.Conditions = []corev1.NodeCondition{{Type: "Ready"}} }, false},
		"annotation":   {func(n *corev1.Node) { n.Annotations = map[string]string{"a": "b"} }, false},
		"label":        {func(n *corev1.Node) { n.Labels = map[string]string{"a": "b"} }, true},
		"taint":        {func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "a"}} }, true},
		"cordoned":     {func(n *corev1.Node) { n.Spec.Unschedulable = true }, true},
		"another Node": {func(n *corev1.Node) { n.Name, n.Spec.Unschedulable = "b", true }, false},
	} {
		t.Run(name, func(t *testing.T) {
			was := &corev1.Node{}
			was.Name = "a"
			is := was.DeepCopy()
			row.change(is)
			if got := c.placing().Update(event.UpdateEvent{ObjectOld: was, ObjectNew: is}); got != row.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestStamps(t *testing.T) {
	for text, want := range map[string]string{
		"connecting: 2026-10-05T12:00:00.123456Z qemu-system-x86_64: no room": "connecting: qemu-system-x86_64: no room",
		"2026-10-05T12:00:01Z no room":                                        "no room",
		"there is no 2026-10-05":                                              "there is no 2026-10-05",
	} {
		if got := (&Trouble{ReasonNotStarted, errors.New(text)}).Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
