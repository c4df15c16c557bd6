package standin

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// a pod on a node in a phase.
func a(node string, phase corev1.PodPhase) *corev1.Pod {
	pod := &corev1.Pod{}
	pod.Spec.NodeName, pod.Status.Phase = node, phase
	return pod
}

func deleted(pod *corev1.Pod) *corev1.Pod {
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &metav1.Time{Time: noon}, new(int64(30+graceMargin))
	return pod
}

// told is a plan in short.
func told(p plan) string {
	out := "nothing"
	switch {
	case p.bind:
		out = "bind"
	case p.remove:
		out = "remove"
	case p.status != nil:
		out = string(p.status.Phase)
		for _, c := range p.status.ContainerStatuses {
			if c.State.Terminated != nil {
				out += fmt.Sprintf(" %d %s", c.State.Terminated.ExitCode, c.State.Terminated.Message)
			}
		}
		for _, c := range p.status.Conditions {
			out += fmt.Sprintf(" %s=%s", c.Type, c.Status)
		}
	}
	if p.after > 0 {
		out += "; again after " + p.after.String()
	}
	return out
}

func TestDecide(t *testing.T) {
	const n = DefaultNode
	patient := Delays{Scheduling: 2 * time.Second, Scheduled: 3 * time.Second, Life: 4 * time.Second, Shutdown: 5 * time.Second}
	for name, test := range map[string]struct {
		pod       *corev1.Pod
		behaviour Behaviour
		delays    Delays
		after     time.Duration
		want      string
	}{
		"new":                    {a("", "Pending"), Run, patient, 500 * time.Millisecond, "nothing; again after 1.5s"},
		"new, over":              {a("", "Pending"), Run, patient, 2 * time.Second, "bind"},
		"new, deleted":           {deleted(a("", "Pending")), Run, Delays{}, 0, "nothing"},
		"unschedulable":          {a("", "Pending"), Unschedulable, Delays{}, 0, "Pending PodScheduled=False"},
		"another node's":         {a("other", "Pending"), Run, Delays{}, 0, "nothing"},
		"another node's, ended":  {deleted(a("other", "Failed")), Run, Delays{}, 0, "nothing"},
		"bound":                  {a(n, "Pending"), Run, patient, time.Second, "nothing; again after 2s"},
		"bound, over":            {a(n, "Pending"), Run, patient, 3 * time.Second, "Running PodScheduled=True Ready=True"},
		"bound, crashes early":   {a(n, "Pending"), CrashEarly, Delays{}, 0, `Failed 1 {"reason":"GuestNotStarted","message":"the behavior of this pod is to crash early"}`},
		"running":                {a(n, "Running"), Run, patient, time.Hour, "nothing"},
		"running, will crash":    {a(n, "Running"), Crash, patient, time.Second, "nothing; again after 3s"},
		"running, crashes":       {a(n, "Running"), Crash, patient, 4 * time.Second, `Failed 1 {"reason":"GuestCrashed"}`},
		"running, shuts down":    {a(n, "Running"), Shutdown, patient, 4 * time.Second, `Succeeded 0 {"reason":"GuestShutdown"}`},
		"deleted, asked":         {deleted(a(n, "Running")), Run, patient, 0, "nothing; again after 5s"},
		"deleted, over":          {deleted(a(n, "Running")), Run, patient, 5 * time.Second, `Succeeded 0 {"reason":"GuestStopped"}`},
		"deleted, hangs":         {deleted(a(n, "Running")), Hang, Delays{}, 10 * time.Second, "nothing; again after 20s"},
		"deleted, hung":          {deleted(a(n, "Running")), Hang, Delays{}, 30 * time.Second, `Failed 1 {"reason":"GuestDestroyed","message":"the grace period is over"}`},
		"deleted, too slow":      {deleted(a(n, "Running")), Run, Delays{Shutdown: time.Hour}, 30 * time.Second, `Failed 1 {"reason":"GuestDestroyed","message":"the grace period is over"}`},
		"deleted before a guest": {deleted(a(n, "Pending")), Run, patient, 0, `Failed 1 {"reason":"GuestNotStarted","message":"there was no guest yet"}`},
		"ended":                  {a(n, "Failed"), Run, patient, 0, "nothing"},
		"ended, deleted":         {deleted(a(n, "Succeeded")), Hang, patient, 0, "remove"},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{Delays: test.delays}
			o.complete()
			before := test.pod.DeepCopy()
			got := told(o.decide(observation{pod: test.pod, behaviour: test.behaviour, since: noon, now: noon.Add(test.after)}))
			if got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			if diff := cmp.Diff(before, test.pod); diff != "" {
				t.Errorf("changed the pod:\n%s", diff)
			}
		})
	}
}
