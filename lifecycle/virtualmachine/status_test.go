package virtualmachine

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/lifecycle/partialobject"
)

var phases = map[phase]kubevirtv1.VirtualMachineInstancePhase{
	starting: kubevirtv1.Scheduled, running: kubevirtv1.Running, succeeded: kubevirtv1.Succeeded, failed: kubevirtv1.Failed,
}

// observed returns a VM and a VMI that lead to an observation.
func observed(s observation) (*partialobject.VirtualMachine, *partialobject.VirtualMachineInstance) {
	vm := &partialobject.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: s.UID, Generation: 3}}
	vm.Spec.Template = &partialobject.Template{Hash: "now"}
	vm.Status.RunStrategy, vm.Status.StateChangeRequests, vm.Status.StartFailure = s.LastStrategy, s.Requests, s.StartFailure
	if s.VMI == nil {
		return vm, nil
	}
	instance := &partialobject.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: s.VMI.UID, Annotations: map[string]string{v1alpha1.AnnotationTemplateHash: "now"}}}
	instance.Status.Phase = phases[s.VMI.Phase]
	return vm, instance
}

// TestStatusSettles checks that every observation has a status that is written once.
func TestStatusSettles(t *testing.T) {
	n := 0
	for s := range observations {
		if n++; n%7 != 0 { // more than a hundred thousand, of all kinds, remain
			continue
		}
		vm, instance := observed(s)
		d := decide(s)
		status := statusOf(vm, instance, s, d, nil)
		if status.PrintableStatus == "" || !restsStopped(s, d, vmiExists(s, d, nil)) && (len(status.Conditions) == 0 || status.Conditions[0].Type != kubevirtv1.VirtualMachineReady) {
			t.Fatalf("no status:\n%s\n%+v", describe(s), status)
		}
		if d.Create || d.Adopt != "" || d.Delete != "" || d.Strategy != "" {
			continue // which changes the observation
		}
		vm.Status = status
		s.LastStrategy, s.Requests, s.StartFailure, s.Now = status.RunStrategy, status.StateChangeRequests, status.StartFailure, s.Now.Add(time.Second)
		again := statusOf(vm, instance, s, decide(s), nil)
		if !apiequality.Semantic.DeepEqual(status, again) {
			t.Fatalf("status changes although nothing else does:\n%s\n%+v\n%+v", describe(s), status, again)
		}
	}
}

// A VM that cannot start in an excluded namespace reports that, with a remedy. A VM that is halted
// does not report it.
func TestExcludedNamespace(t *testing.T) {
	s := observation{UID: "vm", Strategy: kubevirtv1.RunStrategyAlways, Excluded: true, Now: noon}
	vm, instance := observed(s)
	ready := statusOf(vm, instance, s, decide(s), nil).Conditions[0]
	if ready.Status != corev1.ConditionFalse || ready.Reason != "ExcludedNamespace" || !strings.Contains(ready.Message, "create the VM in another namespace") {
		t.Errorf("want Ready=False, reason ExcludedNamespace and what to do, got %+v", ready)
	}
	s.Strategy = kubevirtv1.RunStrategyHalted
	if got := statusOf(vm, instance, s, decide(s), nil).Conditions; len(got) != 0 {
		t.Errorf("halted: got %+v, want no condition", got)
	}
}

func TestPrintable(t *testing.T) {
	condition := func(kind, reason string, status corev1.ConditionStatus) []kubevirtv1.VirtualMachineInstanceCondition {
		return []kubevirtv1.VirtualMachineInstanceCondition{{Type: kubevirtv1.VirtualMachineInstanceConditionType(kind), Reason: reason, Status: status}}
	}
	own := func(phase phase, deleting bool) *vmiObservation {
		return &vmiObservation{UID: ours, Phase: phase, Deleting: deleting, Ran: phase == running}
	}
	for name, c := range map[string]struct {
		s          observation
		conditions []kubevirtv1.VirtualMachineInstanceCondition
		want       kubevirtv1.VirtualMachinePrintableStatus
	}{
		"nothing":         {observation{Strategy: kubevirtv1.RunStrategyHalted}, nil, "Stopped"},
		"deleted":         {observation{Deletion: withVMI, VMI: own(running, false)}, nil, "Terminating"},
		"created":         {observation{Strategy: kubevirtv1.RunStrategyAlways}, nil, "Starting"},
		"starts":          {observation{Strategy: kubevirtv1.RunStrategyAlways, VMI: own(starting, false)}, nil, "Starting"},
		"no node":         {observation{Strategy: kubevirtv1.RunStrategyAlways, VMI: own(starting, false)}, condition("PodScheduled", "Unschedulable", corev1.ConditionFalse), "ErrorUnschedulable"},
		"no claim":        {observation{Strategy: kubevirtv1.RunStrategyAlways, VMI: own(starting, false)}, condition("Synchronized", "FailedPvcNotFound", corev1.ConditionFalse), "ErrorPvcNotFound"},
		"not filled":      {observation{Strategy: kubevirtv1.RunStrategyAlways, VMI: own(starting, false)}, condition("Synchronized", "DataVolumesNotReady", corev1.ConditionFalse), "Provisioning"},
		"no image":        {observation{Strategy: kubevirtv1.RunStrategyAlways, VMI: own(starting, false)}, condition("Synchronized", "ImagePullBackOff", corev1.ConditionFalse), "ImagePullBackOff"},
		"runs":            {observation{Strategy: kubevirtv1.RunStrategyAlways, VMI: own(running, false)}, nil, "Running"},
		"is paused":       {observation{Strategy: kubevirtv1.RunStrategyAlways, VMI: own(running, false)}, condition("Paused", "", corev1.ConditionTrue), "Paused"},
		"stops":           {observation{Strategy: kubevirtv1.RunStrategyHalted, VMI: own(running, false)}, nil, "Stopping"},
		"is stopping":     {observation{Strategy: kubevirtv1.RunStrategyHalted, VMI: own(running, true)}, nil, "Stopping"},
		"ended":           {observation{Strategy: kubevirtv1.RunStrategyManual, VMI: own(succeeded, false)}, nil, "Stopped"},
		"crashes":         {observation{Strategy: kubevirtv1.RunStrategyAlways, VMI: own(failed, false)}, nil, "CrashLoopBackOff"},
		"back-off":        {observation{Strategy: kubevirtv1.RunStrategyAlways, StartFailure: failures[2]}, nil, "CrashLoopBackOff"},
		"volumes pending": {observation{Strategy: kubevirtv1.RunStrategyAlways, Volumes: volumesPending}, nil, "Provisioning"},
		"volumes failed":  {observation{Strategy: kubevirtv1.RunStrategyAlways, Volumes: volumesFailed}, nil, "DataVolumeError"},
		"foreign VMI":     {observation{Strategy: kubevirtv1.RunStrategyAlways, VMI: &vmiObservation{Ownership: foreign, Phase: running}}, nil, "Stopped"},
	} {
		c.s.Now = noon
		vm, instance := observed(c.s)
		if instance != nil {
			instance.Status.Conditions = c.conditions
		}
		if got := statusOf(vm, instance, c.s, decide(c.s), nil).PrintableStatus; got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

// Failures that differ only in their message, and VMI conditions that differ only in time, cause no
// write.
func TestStatusIsCalm(t *testing.T) {
	always := kubevirtv1.RunStrategyAlways
	vm := &partialobject.VirtualMachine{ObjectMeta: metav1.ObjectMeta{UID: "vm", Generation: 1}}
	vm.Spec.RunStrategy = &always
	at := noon
	say := func(message string) kubevirtv1.VirtualMachineCondition {
		s := observe(vm, nil, at)
		vm.Status = statusOf(vm, nil, s, decide(s), &partialobject.Failure{Reason: "FailedCreate", Err: errors.New(message)})
		return *find(vm.Status.Conditions, kubevirtv1.VirtualMachineFailure)
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

	instance := &partialobject.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{UID: ours, OwnerReferences: []metav1.OwnerReference{{UID: "vm", Controller: new(true)}}}}
	instance.Status.Phase = kubevirtv1.Running
	probe := func(beats int) partialobject.VirtualMachineStatus {
		instance.Status.Conditions = []kubevirtv1.VirtualMachineInstanceCondition{{
			Type: kubevirtv1.VirtualMachineInstanceReady, Status: corev1.ConditionTrue, LastProbeTime: metav1.NewTime(noon.Add(time.Duration(beats) * time.Second)),
		}}
		s := observe(vm, instance, at)
		return statusOf(vm, instance, s, decide(s), nil)
	}
	vm.Status = probe(1)
	if again := probe(2); !apiequality.Semantic.DeepEqual(vm.Status, again) {
		t.Errorf("a heartbeat changes status:\n%+v\n%+v", vm.Status, again)
	}
}

// InstanceStopped is not about a VMI that runs on because its deletion was rejected and then no
// longer wanted.
func TestStopWithdrawn(t *testing.T) {
	vm, instance := observed(observation{UID: "vm", VMI: &vmiObservation{UID: ours, Phase: running}})
	instance.OwnerReferences = []metav1.OwnerReference{{UID: "vm", Controller: new(true)}}
	statusIn := func(strategy runStrategy) partialobject.VirtualMachineStatus {
		vm.Spec.RunStrategy = &strategy
		s := observe(vm, instance, noon)
		return statusOf(vm, instance, s, decide(s), nil)
	}
	vm.Status = statusIn(kubevirtv1.RunStrategyHalted)
	if c := find(vm.Status.Conditions, instanceStopped); c == nil || c.Reason != stoppedOnRequest {
		t.Errorf("halted: %+v, want reason %s", c, stoppedOnRequest)
	}
	vm.Status = statusIn(kubevirtv1.RunStrategyAlways)
	if c := find(vm.Status.Conditions, instanceStopped); c != nil {
		t.Errorf("running: %+v, want no condition", c)
	}
}

// Conditions of other controllers stay.
func TestForeignConditionsStay(t *testing.T) {
	vm := &partialobject.VirtualMachine{}
	for _, kind := range otherControllers {
		vm.Status.Conditions = append(vm.Status.Conditions, kubevirtv1.VirtualMachineCondition{Type: kind, Status: corev1.ConditionTrue})
	}
	s := observe(vm, nil, noon)
	got := statusOf(vm, nil, s, decide(s), nil).Conditions
	for _, kind := range otherControllers {
		if find(got, kind) == nil {
			t.Errorf("%s is gone", kind)
		}
	}
}

// TestHostileFailure checks that no terminal obeys the condition Failure.
func TestHostileFailure(t *testing.T) {
	got := failureCondition(nil, time.Now(), &partialobject.Failure{Reason: "Failed", Err: errors.New("cannot create \x1b[2J")})
	if got.Message != `cannot create \u001b[2J` {
		t.Errorf("got %q", got.Message)
	}
}
