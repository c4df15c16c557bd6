package virtualmachineinstance

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/lifecycle/partialobject"
)

var (
	phases = []kubevirtv1.VirtualMachineInstancePhase{
		kubevirtv1.VmPhaseUnset, kubevirtv1.Pending, kubevirtv1.Scheduling, kubevirtv1.Scheduled, kubevirtv1.Running, kubevirtv1.Succeeded, kubevirtv1.Failed, kubevirtv1.Unknown,
	}
	podPhases  = []corev1.PodPhase{"", corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed, corev1.PodUnknown}
	ownerships = []ownership{absent, owned, foreign}
)

// observations yields all combinations of facts.
func observations(yield func(observation) bool) {
	for _, phase := range phases {
		for _, podPhase := range podPhases {
			for _, owner := range ownerships {
				for bits := range 1 << 9 {
					is := func(bit int) bool { return bits&(1<<bit) != 0 }
					s := observation{
						Phase: phase, Deleting: is(0), HasFinalizer: is(1), HadPod: is(2), Excluded: is(3), Evicted: is(4),
						Pod: podObservation{Ownership: owner, Deleting: is(5), Bound: is(6), Started: is(7), Late: is(8), Phase: podPhase, End: v1alpha1.GuestEnd{Reason: v1alpha1.GuestShutdown}},
					}
					if owner != owned {
						s.Pod = podObservation{Ownership: owner}
					}
					if !yield(s) {
						return
					}
				}
			}
		}
	}
}

// The properties in the doc comment of decide hold for all observations.
func TestLaws(t *testing.T) {
	tried := 0
	for s := range observations {
		tried++
		if broken := broken(s, decide(s)); broken != "" {
			t.Fatalf("%s:\n%+v\n%+v", broken, s, decide(s))
		}
	}
	if tried < 50_000 {
		t.Errorf("tried only %d observations", tried)
	}
}

// broken names a property that a decision violates.
func broken(s observation, d decision) string {
	was := s.Phase == kubevirtv1.Succeeded || s.Phase == kubevirtv1.Failed
	becomes := d.Phase == kubevirtv1.Succeeded || d.Phase == kubevirtv1.Failed
	running := s.Pod.Ownership == owned && !s.Pod.final()
	switch {
	case d.Action == createPod && s.Phase != kubevirtv1.VmPhaseUnset && s.Phase != kubevirtv1.Pending:
		return "starts a VMI that has started"
	case d.Action == createPod && (!s.HasFinalizer || s.Deleting || was || becomes || s.HadPod || s.Excluded || s.Pod.Ownership != absent):
		return "creates a second pod, or one without a finalizer"
	case d.Action == removeFinalizer && (!s.Deleting || s.Pod.Ownership == owned):
		return "removes the finalizer of a VMI with a pod"
	case d.Action == deletePod && s.Pod.Ownership != owned:
		return "deletes a foreign pod"
	case d.Action == deletePod && !s.Deleting:
		return "deletes the pod of a VMI that is not being deleted"
	case d.Action == addFinalizer && s.Deleting:
		return "adds a finalizer to a VMI that is being deleted"
	case was && d.Phase != "":
		return "changes a final phase"
	case becomes && running:
		return "ends a VMI although the guest may run"
	case d.Phase == kubevirtv1.Running && !s.Pod.Started:
		return "reports Running before the guest has started"
	case s.Phase == kubevirtv1.Running && d.Phase != "" && !becomes:
		return "goes back from Running"
	case becomes && d.Reason == "":
		return "ends a VMI without a reason"
	case s.Deleting && s.Pod.Ownership != owned && s.HasFinalizer && d.Action != removeFinalizer:
		return "keeps the finalizer of a deleted VMI without a pod"
	case s.Deleting && running && !s.Pod.Deleting && d.Action != deletePod:
		return "leaves the pod of a VMI that is being deleted"
	}
	return ""
}

func TestDecide(t *testing.T) {
	pod := func(change func(*podObservation)) podObservation {
		p := podObservation{Ownership: owned, Bound: true, Started: true, Phase: corev1.PodRunning}
		change(&p)
		return p
	}
	ended := func(phase corev1.PodPhase, reason v1alpha1.GuestEndReason) podObservation {
		return pod(func(p *podObservation) { p.Started, p.Phase, p.End = false, phase, v1alpha1.GuestEnd{Reason: reason} })
	}
	deleting := func(p podObservation) podObservation { p.Deleting = true; return p }
	for name, test := range map[string]struct {
		in   observation
		want decision
	}{
		"new":                    {observation{}, decision{Action: addFinalizer, Phase: kubevirtv1.Pending}},
		"has finalizer":          {observation{HasFinalizer: true, Phase: kubevirtv1.Pending}, decision{Action: createPod}},
		"excluded":               {observation{HasFinalizer: true, Phase: kubevirtv1.Pending, Excluded: true}, decision{Action: reportExcluded}},
		"created":                {observation{HasFinalizer: true, Phase: kubevirtv1.Pending, Pod: podObservation{Ownership: owned, Phase: corev1.PodPending}}, decision{Phase: kubevirtv1.Scheduling}},
		"bound":                  {observation{HasFinalizer: true, HadPod: true, Phase: kubevirtv1.Scheduling, Pod: podObservation{Ownership: owned, Bound: true, Phase: corev1.PodPending}}, decision{Phase: kubevirtv1.Scheduled}},
		"started":                {observation{HasFinalizer: true, HadPod: true, Phase: kubevirtv1.Scheduled, Pod: pod(func(*podObservation) {})}, decision{Phase: kubevirtv1.Running}},
		"runs":                   {observation{HasFinalizer: true, HadPod: true, Phase: kubevirtv1.Running, Pod: pod(func(*podObservation) {})}, decision{}},
		"shut down":              {observation{HasFinalizer: true, HadPod: true, Phase: kubevirtv1.Running, Pod: ended(corev1.PodSucceeded, v1alpha1.GuestShutdown)}, decision{Phase: kubevirtv1.Succeeded, Reason: "GuestShutdown"}},
		"crashed":                {observation{HasFinalizer: true, HadPod: true, Phase: kubevirtv1.Running, Pod: ended(corev1.PodFailed, v1alpha1.GuestCrashed)}, decision{Phase: kubevirtv1.Failed, Reason: "GuestCrashed"}},
		"evicted, and shut down": {observation{HasFinalizer: true, HadPod: true, Evicted: true, Phase: kubevirtv1.Running, Pod: ended(corev1.PodSucceeded, v1alpha1.GuestShutdown)}, decision{Phase: kubevirtv1.Failed, Reason: v1alpha1.ReasonEvicted, Message: "the pod was evicted: "}},
		"evicted, and gone":      {observation{HasFinalizer: true, HadPod: true, Evicted: true, Phase: kubevirtv1.Running}, decision{Phase: kubevirtv1.Failed, Reason: v1alpha1.ReasonEvicted, Message: "the pod was evicted"}},
		"not live":               {observation{HasFinalizer: true, HadPod: true, Phase: kubevirtv1.Running, Pod: ended(corev1.PodSucceeded, v1alpha1.GuestStopped)}, decision{Phase: kubevirtv1.Failed, Reason: reasonNotLive, Message: "the liveness probe failed: "}},
		"the pod is deleted":     {observation{HasFinalizer: true, HadPod: true, Phase: kubevirtv1.Running, Pod: deleting(ended(corev1.PodSucceeded, v1alpha1.GuestStopped))}, decision{Phase: kubevirtv1.Failed, Reason: v1alpha1.ReasonPodDeleted, Message: "the pod was deleted: "}},
		"deleted, stopped":       {observation{HasFinalizer: true, HadPod: true, Deleting: true, Phase: kubevirtv1.Running, Pod: deleting(ended(corev1.PodSucceeded, v1alpha1.GuestStopped))}, decision{Phase: kubevirtv1.Succeeded, Reason: "GuestShutdown"}},
		"the pod was deleted":    {observation{HasFinalizer: true, HadPod: true, Phase: kubevirtv1.Running}, decision{Phase: kubevirtv1.Failed, Reason: v1alpha1.ReasonPodDeleted, Message: "the pod does not exist any more; how the guest ended is unknown"}},
		"started without a pod":  {observation{HasFinalizer: true, Phase: kubevirtv1.Running}, decision{Phase: kubevirtv1.Failed, Reason: reasonNoPod, Message: "another program started the VMI, without a pod"}},
		"the name is taken":      {observation{HasFinalizer: true, Phase: kubevirtv1.Pending, Pod: podObservation{Ownership: foreign}}, decision{Action: reportForeignPod}},
		"deleted":                {observation{HasFinalizer: true, HadPod: true, Deleting: true, Phase: kubevirtv1.Running, Pod: pod(func(*podObservation) {})}, decision{Action: deletePod}},
		"deleted, pod too":       {observation{HasFinalizer: true, HadPod: true, Deleting: true, Phase: kubevirtv1.Running, Pod: pod(func(p *podObservation) { p.Deleting = true })}, decision{}},
		"deleted, less grace":    {observation{HasFinalizer: true, HadPod: true, Deleting: true, Phase: kubevirtv1.Running, Pod: pod(func(p *podObservation) { p.Deleting, p.Late = true, true })}, decision{Action: deletePod}},
		"deleted, ended":         {observation{HasFinalizer: true, HadPod: true, Deleting: true, Phase: kubevirtv1.Succeeded}, decision{Action: removeFinalizer}},
		"deleted before a pod":   {observation{HasFinalizer: true, Deleting: true, Phase: kubevirtv1.Pending}, decision{Action: removeFinalizer, Phase: kubevirtv1.Failed, Reason: reasonNeverRan, Message: "the VMI was deleted before it had a pod"}},
		"deleted, evicted":       {observation{HasFinalizer: true, HadPod: true, Deleting: true, Evicted: true, Phase: kubevirtv1.Running, Pod: ended(corev1.PodSucceeded, v1alpha1.GuestShutdown)}, decision{Action: deletePod, Phase: kubevirtv1.Succeeded, Reason: "GuestShutdown"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := decide(test.in); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

// TestHostileMessage checks that no terminal obeys a condition.
func TestHostileMessage(t *testing.T) {
	w := &statusWriter{vmi: &partialobject.VirtualMachineInstance{}}
	if got := w.set(podScheduled, corev1.ConditionFalse, "Failed", "no node \x1b[2J").Message; got != `no node \u001b[2J` {
		t.Errorf("got %q", got)
	}
}
