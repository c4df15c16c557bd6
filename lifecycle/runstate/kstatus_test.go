package runstate

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/lifecycle/machine"
	"github.com/virtwright/virtwright/validation/protection"
)

// TestKstatus: Helm and Flux read the status of a VM with kstatus. A VM that is as its spec says
// is Current, and one that is on its way is InProgress.
func TestKstatus(t *testing.T) {
	own := func(phase Phase) *Instance { return &Instance{UID: ours, Phase: phase, Ran: phase != Starting} }
	for name, c := range map[string]struct {
		s        Situation
		outdated bool
		want     status.Status
	}{
		"halted":                       {Situation{Strategy: kubevirtv1.RunStrategyHalted}, false, status.CurrentStatus},
		"manual, never started":        {Situation{Strategy: kubevirtv1.RunStrategyManual}, false, status.CurrentStatus},
		"manual, guest shut down":      {Situation{Strategy: kubevirtv1.RunStrategyManual, Instance: own(Succeeded)}, false, status.CurrentStatus},
		"once, guest shut down":        {Situation{Strategy: kubevirtv1.RunStrategyOnce, Before: kubevirtv1.RunStrategyOnce, Instance: own(Succeeded)}, false, status.CurrentStatus},
		"once, VMI deleted":            {Situation{Strategy: kubevirtv1.RunStrategyOnce, Before: kubevirtv1.RunStrategyOnce}, false, status.CurrentStatus},
		"rerun, guest shut down":       {Situation{Strategy: kubevirtv1.RunStrategyRerunOnFailure, Before: kubevirtv1.RunStrategyRerunOnFailure}, false, status.CurrentStatus},
		"running":                      {Situation{Strategy: kubevirtv1.RunStrategyAlways, Instance: own(Running)}, false, status.CurrentStatus},
		"running, restart required":    {Situation{Strategy: kubevirtv1.RunStrategyAlways, Instance: own(Running)}, true, status.CurrentStatus},
		"created":                      {Situation{Strategy: kubevirtv1.RunStrategyAlways}, false, status.InProgressStatus},
		"starting":                     {Situation{Strategy: kubevirtv1.RunStrategyAlways, Instance: own(Starting)}, false, status.InProgressStatus},
		"waits for volumes":            {Situation{Strategy: kubevirtv1.RunStrategyAlways, Volumes: Filling}, false, status.InProgressStatus},
		"waits for a foreign VMI":      {Situation{Strategy: kubevirtv1.RunStrategyAlways, Instance: &Instance{Whose: Foreign, Phase: Running}}, false, status.InProgressStatus},
		"in an excluded namespace":     {Situation{Strategy: kubevirtv1.RunStrategyAlways, Excluded: true}, false, status.InProgressStatus},
		"crash loop":                   {Situation{Strategy: kubevirtv1.RunStrategyAlways, Failure: failures[2]}, false, status.InProgressStatus},
		"halted, guest is on its way":  {Situation{Strategy: kubevirtv1.RunStrategyHalted, Instance: own(Succeeded)}, false, status.InProgressStatus},
		"contradiction in the spec":    {Situation{}, false, status.InProgressStatus},
		"manual, start requested":      {Situation{Strategy: kubevirtv1.RunStrategyManual, Volumes: Filling, Requests: []Request{{Action: kubevirtv1.StartRequest}}}, false, status.InProgressStatus},
		"guest ended, start requested": {Situation{Strategy: kubevirtv1.RunStrategyManual, Instance: own(Succeeded), Requests: []Request{{Action: kubevirtv1.StartRequest}}}, false, status.InProgressStatus},
	} {
		c.s.UID, c.s.Now = "vm", noon
		vm, instance := observed(c.s)
		if c.outdated {
			vm.Spec.Template.Hash = "later"
		}
		if instance != nil {
			instance.Annotations[v1alpha1.AnnotationInstanceOf], instance.Annotations[protection.VMGeneration] = "vm", "2"
			instance.Status.Conditions = []kubevirtv1.VirtualMachineInstanceCondition{readyIf(c.s.Instance.Phase == Running)}
		}
		vm.Status = Status(vm, instance, c.s, Decide(c.s), nil)
		if has := find(vm.Status.Conditions, kubevirtv1.VirtualMachineRestartRequired) >= 0; has != c.outdated {
			t.Errorf("%s: RestartRequired is %v", name, has)
		}
		got, err := status.Compute(decoded(t, vm))
		if err != nil || got.Status != c.want {
			t.Errorf("%s: got %+v, %v, want %s", name, got, err, c.want)
		}
	}
}

func readyIf(ready bool) kubevirtv1.VirtualMachineInstanceCondition {
	out := kubevirtv1.VirtualMachineInstanceCondition{Type: kubevirtv1.VirtualMachineInstanceReady, Status: corev1.ConditionFalse, Reason: "GuestNotRunning"}
	if ready {
		out.Status, out.Reason = corev1.ConditionTrue, ""
	}
	return out
}

// decoded is a VM as clients read it.
func decoded(t *testing.T, vm *machine.VirtualMachine) *unstructured.Unstructured {
	t.Helper()
	out := &unstructured.Unstructured{}
	vm.TypeMeta = metav1.TypeMeta{APIVersion: "kubevirt.io/v1", Kind: "VirtualMachine"}
	text, err := json.Marshal(vm)
	if err == nil {
		err = out.UnmarshalJSON(text)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The message of RestartRequired stays until fields are read again: the next reconciliation
// may not have read them.
func TestRestartRequiredKeepsItsMessage(t *testing.T) {
	s := Situation{UID: "vm", Strategy: kubevirtv1.RunStrategyAlways, Instance: &Instance{UID: ours, Phase: Running, Ran: true}, Now: noon}
	vm, instance := observed(s)
	vm.Spec.Template.Hash = "later"
	message := func() string {
		vm.Status = Status(vm, instance, s, Decide(s), nil)
		return vm.Status.Conditions[slices.IndexFunc(vm.Status.Conditions, func(c kubevirtv1.VirtualMachineCondition) bool {
			return c.Type == kubevirtv1.VirtualMachineRestartRequired
		})].Message
	}
	if got, want := message(), "spec.template has changed since the VMI was created; the changes apply from the next start"; got != want {
		t.Errorf("without fields: got %q, want %q", got, want)
	}
	s.Changes = "spec.template.spec.hostname (user)"
	want := "changed since the VMI was created: spec.template.spec.hostname (user); the changes apply from the next start"
	if got := message(); got != want {
		t.Errorf("with fields: got %q, want %q", got, want)
	}
	s.Changes, s.Now = "", noon.Add(time.Minute)
	if got := message(); got != want {
		t.Errorf("later: got %q, want %q", got, want)
	}
	vm.Generation++
	if got := message(); got == want {
		t.Errorf("after a change that was not read: got %q", got)
	}
}
