package virtualmachine

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/lifecycle/partialobject"
	"github.com/virtwright/virtwright/validation/protection"
)

// TestKstatus computes the status of VMs as Helm and Flux do. A VM that matches its spec is
// Current, and one that is changing is InProgress.
func TestKstatus(t *testing.T) {
	own := func(phase phase) *vmiObservation {
		return &vmiObservation{UID: ours, Phase: phase, Ran: phase != starting}
	}
	for name, c := range map[string]struct {
		s        observation
		outdated bool
		want     status.Status
	}{
		"halted":                       {observation{Strategy: kubevirtv1.RunStrategyHalted}, false, status.CurrentStatus},
		"manual, never started":        {observation{Strategy: kubevirtv1.RunStrategyManual}, false, status.CurrentStatus},
		"manual, guest shut down":      {observation{Strategy: kubevirtv1.RunStrategyManual, VMI: own(succeeded)}, false, status.CurrentStatus},
		"once, guest shut down":        {observation{Strategy: kubevirtv1.RunStrategyOnce, LastStrategy: kubevirtv1.RunStrategyOnce, VMI: own(succeeded)}, false, status.CurrentStatus},
		"once, VMI deleted":            {observation{Strategy: kubevirtv1.RunStrategyOnce, LastStrategy: kubevirtv1.RunStrategyOnce}, false, status.CurrentStatus},
		"rerun, guest shut down":       {observation{Strategy: kubevirtv1.RunStrategyRerunOnFailure, LastStrategy: kubevirtv1.RunStrategyRerunOnFailure}, false, status.CurrentStatus},
		"running":                      {observation{Strategy: kubevirtv1.RunStrategyAlways, VMI: own(running)}, false, status.CurrentStatus},
		"running, restart required":    {observation{Strategy: kubevirtv1.RunStrategyAlways, VMI: own(running)}, true, status.CurrentStatus},
		"created":                      {observation{Strategy: kubevirtv1.RunStrategyAlways}, false, status.InProgressStatus},
		"starting":                     {observation{Strategy: kubevirtv1.RunStrategyAlways, VMI: own(starting)}, false, status.InProgressStatus},
		"waits for volumes":            {observation{Strategy: kubevirtv1.RunStrategyAlways, Volumes: volumesPending}, false, status.InProgressStatus},
		"waits for a foreign VMI":      {observation{Strategy: kubevirtv1.RunStrategyAlways, VMI: &vmiObservation{Ownership: foreign, Phase: running}}, false, status.InProgressStatus},
		"in an excluded namespace":     {observation{Strategy: kubevirtv1.RunStrategyAlways, Excluded: true}, false, status.InProgressStatus},
		"crash loop":                   {observation{Strategy: kubevirtv1.RunStrategyAlways, StartFailure: failures[2]}, false, status.InProgressStatus},
		"halted, VMI still exists":     {observation{Strategy: kubevirtv1.RunStrategyHalted, VMI: own(succeeded)}, false, status.InProgressStatus},
		"contradiction in the spec":    {observation{}, false, status.InProgressStatus},
		"manual, start requested":      {observation{Strategy: kubevirtv1.RunStrategyManual, Volumes: volumesPending, Requests: []request{{Action: kubevirtv1.StartRequest}}}, false, status.InProgressStatus},
		"guest ended, start requested": {observation{Strategy: kubevirtv1.RunStrategyManual, VMI: own(succeeded), Requests: []request{{Action: kubevirtv1.StartRequest}}}, false, status.InProgressStatus},
	} {
		c.s.UID, c.s.Now = "vm", noon
		vm, instance := observed(c.s)
		if c.outdated {
			vm.Spec.Template.Hash = "later"
		}
		if instance != nil {
			instance.Annotations[v1alpha1.AnnotationOwnerUID], instance.Annotations[protection.VMGeneration] = "vm", "2"
			instance.Status.Conditions = []kubevirtv1.VirtualMachineInstanceCondition{readyIf(c.s.VMI.Phase == running)}
		}
		vm.Status = statusOf(vm, instance, c.s, decide(c.s), nil)
		if has := find(vm.Status.Conditions, kubevirtv1.VirtualMachineRestartRequired) != nil; has != c.outdated {
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

// decoded returns a VM as clients read it.
func decoded(t *testing.T, vm *partialobject.VirtualMachine) *unstructured.Unstructured {
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

// RestartRequired keeps its message until the VM changes: not every reconciliation reads the fields
// that differ.
func TestRestartRequiredKeepsItsMessage(t *testing.T) {
	s := observation{UID: "vm", Strategy: kubevirtv1.RunStrategyAlways, VMI: &vmiObservation{UID: ours, Phase: running, Ran: true}, Now: noon}
	vm, instance := observed(s)
	vm.Spec.Template.Hash = "later"
	message := func() string {
		vm.Status = statusOf(vm, instance, s, decide(s), nil)
		return find(vm.Status.Conditions, kubevirtv1.VirtualMachineRestartRequired).Message
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
