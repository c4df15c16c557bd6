package runstate

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/lifecycle/machine"
)

var phases = map[Phase]kubevirtv1.VirtualMachineInstancePhase{
	Starting: kubevirtv1.Scheduled, Running: kubevirtv1.Running, Succeeded: kubevirtv1.Succeeded, Failed: kubevirtv1.Failed,
}

// observed is a VM and an instance of which s is what is observed.
func observed(s Situation) (*machine.VirtualMachine, *machine.Instance) {
	vm := &machine.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: s.UID, Generation: 3}}
	vm.Spec.Template = &machine.Template{Hash: "now"}
	vm.Status.RunStrategy, vm.Status.StateChangeRequests, vm.Status.StartFailure = s.Before, s.Requests, s.Failure
	if s.Instance == nil {
		return vm, nil
	}
	instance := &machine.Instance{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: s.Instance.UID, Annotations: map[string]string{v1alpha1.AnnotationTemplate: "now"}}}
	instance.Status.Phase = phases[s.Instance.Phase]
	return vm, instance
}

// TestStatusSettles: there is a status always, and saying it once is enough.
func TestStatusSettles(t *testing.T) {
	n := 0
	for s := range situations {
		if n++; n%7 != 0 { // which still is more than a hundred thousand, of all kinds
			continue
		}
		vm, instance := observed(s)
		d := Decide(s)
		status := Status(vm, instance, s, d, nil)
		if status.PrintableStatus == "" || !s.rests(d, made(s, d, nil)) && (len(status.Conditions) == 0 || status.Conditions[0].Type != kubevirtv1.VirtualMachineReady) {
			t.Fatalf("no status:\n%s\n%+v", describe(s), status)
		}
		if d.Create || d.Adopt != "" || d.Delete != "" || d.Strategy != "" {
			continue // and then it is another situation
		}
		vm.Status = status
		s.Before, s.Requests, s.Failure, s.Now = status.RunStrategy, status.StateChangeRequests, status.StartFailure, s.Now.Add(time.Second)
		again := Status(vm, instance, s, Decide(s), nil)
		if !apiequality.Semantic.DeepEqual(status, again) {
			t.Fatalf("status changes though nothing else does:\n%s\n%+v\n%+v", describe(s), status, again)
		}
	}
}

// A VM that cannot start because of its namespace says so, and what to do. One that is not to run
// says nothing of it.
func TestExcludedNamespace(t *testing.T) {
	s := Situation{UID: "vm", Strategy: kubevirtv1.RunStrategyAlways, Excluded: true, Now: noon}
	vm, instance := observed(s)
	ready := Status(vm, instance, s, Decide(s), nil).Conditions[0]
	if ready.Status != corev1.ConditionFalse || ready.Reason != "ExcludedNamespace" || !strings.Contains(ready.Message, "create the VM in another namespace") {
		t.Errorf("want Ready=False, reason ExcludedNamespace and what to do, got %+v", ready)
	}
	s.Strategy = kubevirtv1.RunStrategyHalted
	if got := Status(vm, instance, s, Decide(s), nil).Conditions; len(got) != 0 {
		t.Errorf("halted: got %+v, want no condition", got)
	}
}

func TestPrintable(t *testing.T) {
	condition := func(kind, reason string, status corev1.ConditionStatus) []kubevirtv1.VirtualMachineInstanceCondition {
		return []kubevirtv1.VirtualMachineInstanceCondition{{Type: kubevirtv1.VirtualMachineInstanceConditionType(kind), Reason: reason, Status: status}}
	}
	own := func(phase Phase, deleting bool) *Instance {
		return &Instance{UID: ours, Phase: phase, Deleting: deleting, Ran: phase == Running}
	}
	for name, c := range map[string]struct {
		s          Situation
		conditions []kubevirtv1.VirtualMachineInstanceCondition
		want       kubevirtv1.VirtualMachinePrintableStatus
	}{
		"nothing":        {Situation{Strategy: kubevirtv1.RunStrategyHalted}, nil, "Stopped"},
		"goes":           {Situation{Deletion: WithInstance, Instance: own(Running, false)}, nil, "Terminating"},
		"made":           {Situation{Strategy: kubevirtv1.RunStrategyAlways}, nil, "Starting"},
		"starts":         {Situation{Strategy: kubevirtv1.RunStrategyAlways, Instance: own(Starting, false)}, nil, "Starting"},
		"no node":        {Situation{Strategy: kubevirtv1.RunStrategyAlways, Instance: own(Starting, false)}, condition("PodScheduled", "Unschedulable", corev1.ConditionFalse), "ErrorUnschedulable"},
		"no claim":       {Situation{Strategy: kubevirtv1.RunStrategyAlways, Instance: own(Starting, false)}, condition("Synchronized", "FailedPvcNotFound", corev1.ConditionFalse), "ErrorPvcNotFound"},
		"no image":       {Situation{Strategy: kubevirtv1.RunStrategyAlways, Instance: own(Starting, false)}, condition("Synchronized", "ImagePullBackOff", corev1.ConditionFalse), "ImagePullBackOff"},
		"runs":           {Situation{Strategy: kubevirtv1.RunStrategyAlways, Instance: own(Running, false)}, nil, "Running"},
		"is paused":      {Situation{Strategy: kubevirtv1.RunStrategyAlways, Instance: own(Running, false)}, condition("Paused", "", corev1.ConditionTrue), "Paused"},
		"stops":          {Situation{Strategy: kubevirtv1.RunStrategyHalted, Instance: own(Running, false)}, nil, "Stopping"},
		"is stopping":    {Situation{Strategy: kubevirtv1.RunStrategyHalted, Instance: own(Running, true)}, nil, "Stopping"},
		"ended":          {Situation{Strategy: kubevirtv1.RunStrategyManual, Instance: own(Succeeded, false)}, nil, "Stopped"},
		"crashes":        {Situation{Strategy: kubevirtv1.RunStrategyAlways, Instance: own(Failed, false)}, nil, "CrashLoopBackOff"},
		"backs off":      {Situation{Strategy: kubevirtv1.RunStrategyAlways, Failure: failures[2]}, nil, "CrashLoopBackOff"},
		"is filled":      {Situation{Strategy: kubevirtv1.RunStrategyAlways, Volumes: Filling}, nil, "Provisioning"},
		"is not filled":  {Situation{Strategy: kubevirtv1.RunStrategyAlways, Volumes: Stuck}, nil, "DataVolumeError"},
		"another has it": {Situation{Strategy: kubevirtv1.RunStrategyAlways, Instance: &Instance{Whose: Foreign, Phase: Running}}, nil, "Stopped"},
	} {
		c.s.Now = noon
		vm, instance := observed(c.s)
		if instance != nil {
			instance.Status.Conditions = c.conditions
		}
		if got := Status(vm, instance, c.s, Decide(c.s), nil).PrintableStatus; got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

// What is refused in other words each time, and what is only probed again, is not
// written again.
func TestStatusIsCalm(t *testing.T) {
	always := kubevirtv1.RunStrategyAlways
	vm := &machine.VirtualMachine{ObjectMeta: metav1.ObjectMeta{UID: "vm", Generation: 1}}
	vm.Spec.RunStrategy = &always
	at := noon
	say := func(message string) kubevirtv1.VirtualMachineCondition {
		s := Observe(vm, nil, at)
		vm.Status = Status(vm, nil, s, Decide(s), &Trouble{"FailedCreate", message})
		return vm.Status.Conditions[find(vm.Status.Conditions, kubevirtv1.VirtualMachineFailure)]
	}
	first := say("no: 1")
	at = at.Add(10 * time.Second)
	if again := say("no: 2"); !apiequality.Semantic.DeepEqual(first, again) {
		t.Errorf("another message at once: %+v", again)
	}
	at = at.Add(time.Minute)
	if later := say("no: 3"); later.Message != "no: 3" || !later.LastTransitionTime.Equal(&first.LastTransitionTime) {
		t.Errorf("another message after a minute: %+v", later)
	}

	instance := &machine.Instance{ObjectMeta: metav1.ObjectMeta{UID: ours, OwnerReferences: []metav1.OwnerReference{{UID: "vm", Controller: new(true)}}}}
	instance.Status.Phase = kubevirtv1.Running
	probe := func(beats int) machine.Status {
		instance.Status.Conditions = []kubevirtv1.VirtualMachineInstanceCondition{{
			Type: kubevirtv1.VirtualMachineInstanceReady, Status: corev1.ConditionTrue, LastProbeTime: metav1.NewTime(noon.Add(time.Duration(beats) * time.Second)),
		}}
		s := Observe(vm, instance, at)
		return Status(vm, instance, s, Decide(s), nil)
	}
	vm.Status = probe(1)
	if again := probe(2); !apiequality.Semantic.DeepEqual(vm.Status, again) {
		t.Errorf("a heartbeat changes status:\n%+v\n%+v", vm.Status, again)
	}
}

// A condition that somebody else wrote stays.
func TestForeignConditionsStay(t *testing.T) {
	vm := &machine.VirtualMachine{}
	for _, kind := range foreign {
		vm.Status.Conditions = append(vm.Status.Conditions, kubevirtv1.VirtualMachineCondition{Type: kind, Status: corev1.ConditionTrue})
	}
	s := Observe(vm, nil, noon)
	got := Status(vm, nil, s, Decide(s), nil).Conditions
	for _, kind := range foreign {
		if find(got, kind) < 0 {
			t.Errorf("%s is gone", kind)
		}
	}
}
