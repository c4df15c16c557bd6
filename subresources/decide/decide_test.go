package decide

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// Columns of the tables.
var columns = []string{"none", "unset", "unknown", "pending", "running", "terminating", "succeeded", "failed"}

// vmWith returns a VM with a run strategy, or with true or false for running.
func vmWith(strategy string, more ...func(*kubevirtv1.VirtualMachine)) *kubevirtv1.VirtualMachine {
	vm := &kubevirtv1.VirtualMachine{}
	vm.Name, vm.Namespace, vm.UID, vm.ResourceVersion = "web", "shop", "vm-1", "7"
	vm.Status.PrintableStatus = kubevirtv1.VirtualMachineStatusStopped
	switch strategy {
	case "": // no strategy
	case "true", "false":
		vm.Spec.Running = new(strategy == "true")
	default:
		vm.Spec.RunStrategy = new(kubevirtv1.VirtualMachineRunStrategy(strategy))
	}
	for _, change := range more {
		change(vm)
	}
	return vm
}

// vmiIn returns the VMI of a column.
func vmiIn(column string) *kubevirtv1.VirtualMachineInstance {
	vmi := &kubevirtv1.VirtualMachineInstance{}
	vmi.Name, vmi.Namespace, vmi.UID = "web", "shop", "vmi-1"
	vmi.OwnerReferences = []metav1.OwnerReference{{UID: "vm-1", Controller: new(true)}}
	vmi.Spec.TerminationGracePeriodSeconds = new(int64(30))
	switch column {
	case "none":
		return nil
	case "unset":
	case "terminating":
		vmi.Status.Phase, vmi.DeletionTimestamp = kubevirtv1.Running, &metav1.Time{Time: time.Unix(1, 0)}
	default:
		vmi.Status.Phase = kubevirtv1.VirtualMachineInstancePhase(strings.ToUpper(column[:1]) + column[1:])
	}
	return vmi
}

func pending(requests ...stateChange) func(*kubevirtv1.VirtualMachine) {
	return func(vm *kubevirtv1.VirtualMachine) { vm.Status.StateChangeRequests = requests }
}

// failing adds a back-off to a VM.
func failing(vm *kubevirtv1.VirtualMachine) {
	vm.Status.StartFailure = &kubevirtv1.VirtualMachineStartFailure{ConsecutiveFailCount: 3}
}

// without empties the status of a VM.
func without(vm *kubevirtv1.VirtualMachine) { vm.Status = kubevirtv1.VirtualMachineStatus{} }

// saw sets the run strategy that the controller saw last.
func saw(strategy kubevirtv1.VirtualMachineRunStrategy) func(*kubevirtv1.VirtualMachine) {
	return func(vm *kubevirtv1.VirtualMachine) { vm.Status.RunStrategy = strategy }
}

func condition(name string) func(*kubevirtv1.VirtualMachine) {
	return func(vm *kubevirtv1.VirtualMachine) {
		vm.Status.Conditions = append(vm.Status.Conditions, kubevirtv1.VirtualMachineCondition{Type: kubevirtv1.VirtualMachineConditionType(name), Status: "True"})
	}
}

// summary returns a decision in one line: the code, and the message or the changes.
func summary(t *testing.T, vm *kubevirtv1.VirtualMachine, vmi *kubevirtv1.VirtualMachineInstance, changes *Changes, err error) string {
	t.Helper()
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		if changes != nil {
			t.Errorf("rejected, with changes: %+v", changes)
		}
		text := strings.TrimPrefix(status.ErrStatus.Message, `Operation cannot be fulfilled on virtualmachine.kubevirt.io "web": `)
		return fmt.Sprint(status.ErrStatus.Code, " ", text)
	}
	if err != nil {
		t.Fatalf("%T is no status error: %v", err, err)
	}
	out := []string{"202"}
	if len(changes.VM) > 0 {
		var now kubevirtv1.VirtualMachine
		apply(t, changes.VM, vm, &now)
		if now.Spec.Running != nil {
			out = append(out, fmt.Sprint("running=", *now.Spec.Running))
		} else {
			out = append(out, fmt.Sprint("runStrategy=", *now.Spec.RunStrategy))
		}
	}
	if len(changes.VMStatus) > 0 {
		var now kubevirtv1.VirtualMachine
		apply(t, changes.VMStatus, vm, &now)
		requests := []string{}
		for _, r := range now.Status.StateChangeRequests {
			words := []string{string(r.Action)}
			if r.UID != nil {
				words = append(words, string(*r.UID))
			}
			if r.Data["paused"] == "true" {
				words = append(words, "paused")
			}
			requests = append(requests, strings.Join(words, " "))
		}
		out = append(out, "["+strings.Join(requests, ", ")+"]")
		if now.Status.StartFailure != nil {
			out = append(out, "with back-off")
		}
		if now.Status.RunStrategy != "" {
			out = append(out, "seen "+string(now.Status.RunStrategy))
		}
	}
	if len(changes.VMI) > 0 {
		var now, again kubevirtv1.VirtualMachineInstance
		apply(t, changes.VMI, vmi, &now)
		out = append(out, fmt.Sprint("grace=", *now.Spec.TerminationGracePeriodSeconds))
		apply(t, changes.UndoVMI, &now, &again)
		if text(t, again) != text(t, *vmi) {
			t.Errorf("after undoing: got %s, want %s", text(t, again), text(t, *vmi))
		}
	}
	return strings.Join(out, " ")
}

// apply applies a patch like API servers.
func apply(t *testing.T, patch []Operation, to, into any) {
	t.Helper()
	if err := tryApply(t, patch, to, into); err != nil {
		t.Fatalf("cannot apply %s to %s: %v", text(t, patch), text(t, to), err)
	}
}

func tryApply(t *testing.T, patch []Operation, to, into any) error {
	t.Helper()
	decoded, err := jsonpatch.DecodePatch([]byte(text(t, patch)))
	if err != nil {
		return err
	}
	out, err := decoded.Apply([]byte(text(t, to)))
	if err != nil {
		return err
	}
	return json.Unmarshal(out, into)
}

func text(t *testing.T, of any) string {
	t.Helper()
	out, err := json.Marshal(of)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// A table has a row for each strategy and a cell for each column. A missing cell equals the one
// before it.
type table map[string]map[string]string

func (rows table) check(t *testing.T, decide func(*kubevirtv1.VirtualMachine, *kubevirtv1.VirtualMachineInstance) (*Changes, error)) {
	t.Helper()
	for strategy, cells := range rows {
		want := ""
		for _, column := range columns {
			if cell, ok := cells[column]; ok {
				want = cell
			}
			vm, vmi := vmWith(strategy), vmiIn(column)
			changes, err := decide(vm, vmi)
			if got := summary(t, vm, vmi, changes, err); got != want {
				t.Errorf("%q with %s: got %s, want %s", strategy, column, got, want)
			}
		}
	}
}

const already = "409 VM is already running"

func TestStart(t *testing.T) {
	halted := func(does string) map[string]string {
		return map[string]string{"none": does, "pending": already, "succeeded": does}
	}
	rejected := func(strategy string) map[string]string {
		return halted("409 " + strategy + " does not support manual start requests")
	}
	table{
		"Halted": halted("202 runStrategy=Always"), "false": halted("202 running=true"), "": halted("202 runStrategy=Always"),
		"Manual": {"none": "202 [Start]", "pending": already, "succeeded": "202 [Stop vmi-1, Start]"},
		"RerunOnFailure": {"none": "202 [Start]", "pending": already, "succeeded": "202 [Stop vmi-1, Start]",
			"failed": "409 RerunOnFailure does not support starting VM from failed state"},
		"Always": rejected("Always"), "true": rejected("Always"), "Once": rejected("Once"), "WaitAsReceiver": rejected("WaitAsReceiver"),
		"Sometimes": halted("500 Internal error occurred: unknown runstrategy: Sometimes"),
	}.check(t, func(vm *kubevirtv1.VirtualMachine, vmi *kubevirtv1.VirtualMachineInstance) (*Changes, error) {
		return Start(vm, vmi, &kubevirtv1.StartOptions{})
	})
}

func TestStartPaused(t *testing.T) {
	halted := map[string]string{"none": "202 [Start paused] seen Halted", "pending": already, "succeeded": "202 [Start paused] seen Halted"}
	table{
		"Halted": halted, "false": halted, "": halted,
		"Manual": {"none": "202 [Start paused]", "pending": already, "succeeded": "202 [Stop vmi-1, Start paused]"},
		"RerunOnFailure": {"none": "202 [Start paused]", "pending": already, "succeeded": "202 [Stop vmi-1, Start paused]",
			"failed": "409 RerunOnFailure does not support starting VM from failed state"},
	}.check(t, func(vm *kubevirtv1.VirtualMachine, vmi *kubevirtv1.VirtualMachineInstance) (*Changes, error) {
		return Start(vm, vmi, &kubevirtv1.StartOptions{Paused: true})
	})
}

func TestStop(t *testing.T) {
	running := map[string]string{"none": "409 VM is not running", "unset": "202 [Stop vmi-1]", "succeeded": "409 VM is not running"}
	rerun := map[string]string{"none": "409 VM is not running", "unset": "202 [Stop vmi-1]", "succeeded": "409 VM is not running", "failed": "202 [Stop vmi-1]"}
	halted := map[string]string{"none": "409 VM is not running", "unset": "409 Halted only supports manual stop requests with a shorter graceperiod",
		"succeeded": "409 VM is not running"}
	table{
		"Always": {"none": "202 runStrategy=Halted"}, "Once": {"none": "202 runStrategy=Halted"}, "true": {"none": "202 running=false"},
		"Manual": running, "RerunOnFailure": rerun,
		"Halted": halted, "false": halted, "": halted,
		"WaitAsReceiver": {"none": "202"},
		"Sometimes":      {"none": "500 Internal error occurred: unknown runstrategy: Sometimes"},
	}.check(t, func(vm *kubevirtv1.VirtualMachine, vmi *kubevirtv1.VirtualMachineInstance) (*Changes, error) {
		return Stop(vm, vmi, &kubevirtv1.StopOptions{})
	})
}

func TestStopWithGracePeriod(t *testing.T) {
	running := map[string]string{"none": "409 VM is not running", "unset": "202 [Stop vmi-1] grace=5", "succeeded": "409 VM is not running"}
	rerun := map[string]string{"none": "409 VM is not running", "unset": "202 [Stop vmi-1] grace=5", "succeeded": "409 VM is not running", "failed": "202 [Stop vmi-1]"}
	table{
		"Always": {"none": "202 runStrategy=Halted", "unset": "202 runStrategy=Halted grace=5", "succeeded": "202 runStrategy=Halted"},
		"Once":   {"none": "202 runStrategy=Halted", "unset": "202 runStrategy=Halted grace=5", "succeeded": "202 runStrategy=Halted"},
		"Manual": running, "RerunOnFailure": rerun, "Halted": running, "false": running,
		"WaitAsReceiver": {"none": "202", "unset": "202 grace=5", "succeeded": "202"},
	}.check(t, func(vm *kubevirtv1.VirtualMachine, vmi *kubevirtv1.VirtualMachineInstance) (*Changes, error) {
		return Stop(vm, vmi, &kubevirtv1.StopOptions{GracePeriod: new(int64(5))})
	})
}

func TestRestart(t *testing.T) {
	rejected := func(strategy string) map[string]string {
		return map[string]string{"none": "409 RunStategy " + strategy + " does not support manual restart requests"}
	}
	restarts := map[string]string{"none": "409 VM is not running: Halted", "unset": "202 [Stop vmi-1, Start]"}
	table{
		"Halted": rejected("Halted"), "false": rejected("Halted"), "": rejected("Halted"), "Once": rejected("Once"),
		"Always": restarts, "true": restarts, "Manual": restarts, "RerunOnFailure": restarts, "WaitAsReceiver": restarts,
		"Sometimes": {"none": "500 Internal error occurred: unknown runstrategy: Sometimes"},
	}.check(t, func(vm *kubevirtv1.VirtualMachine, vmi *kubevirtv1.VirtualMachineInstance) (*Changes, error) {
		return Restart(vm, vmi, &kubevirtv1.RestartOptions{})
	})
}

func TestRestartByForce(t *testing.T) {
	restarts := map[string]string{"none": "409 VM is not running: Halted", "unset": "202 [Stop vmi-1, Start] grace=1", "succeeded": "202 [Stop vmi-1, Start]"}
	table{"Always": restarts, "true": restarts, "Manual": restarts, "RerunOnFailure": restarts}.check(t,
		func(vm *kubevirtv1.VirtualMachine, vmi *kubevirtv1.VirtualMachineInstance) (*Changes, error) {
			return Restart(vm, vmi, &kubevirtv1.RestartOptions{GracePeriodSeconds: new(int64(0))})
		})
}

// TestLostRaces checks that patches fail if the objects have changed.
func TestLostRaces(t *testing.T) {
	vm, vmi := vmWith("Manual"), vmiIn("running")
	changes, err := Restart(vm, vmi, &kubevirtv1.RestartOptions{GracePeriodSeconds: new(int64(0))})
	if err != nil {
		t.Fatal(err)
	}
	spec, err := Start(vmWith("Halted"), nil, &kubevirtv1.StartOptions{})
	if err != nil {
		t.Fatal(err)
	}
	sooner, err := Start(vmWith("RerunOnFailure", pending(stateChange{Action: "Start"}), failing), nil, &kubevirtv1.StartOptions{})
	if err != nil {
		t.Fatal(err)
	}
	bare, err := Start(vmWith("Halted", without), nil, &kubevirtv1.StartOptions{})
	if err != nil {
		t.Fatal(err)
	}
	first, err := Start(vmWith("Manual", without), nil, &kubevirtv1.StartOptions{})
	if err != nil {
		t.Fatal(err)
	}
	another := func(vm *kubevirtv1.VirtualMachine) { vm.UID = "vm-2" }
	newer := func(vm *kubevirtv1.VirtualMachine) { vm.ResourceVersion = "8" }
	for name, race := range map[string]struct {
		patch []Operation
		now   any
	}{
		"another VM of this name":      {changes.VMStatus, vmWith("Manual", another)},
		"another request":              {changes.VMStatus, vmWith("Manual", pending(stateChange{Action: "Start"}))},
		"another strategy":             {changes.VMStatus, vmWith("Halted")},
		"running instead":              {changes.VMStatus, vmWith("true")},
		"a spec of another VM":         {spec.VM, vmWith("Halted", another)},
		"a spec that changed":          {spec.VM, vmWith("Manual")},
		"a request with a spec":        {spec.VM, vmWith("Halted", pending(stateChange{Action: "Start"}))},
		"a request with a first spec":  {bare.VM, vmWith("Halted", newer)},
		"a back-off that ended":        {sooner.VMStatus, vmWith("RerunOnFailure", failing)},
		"a back-off without a failure": {sooner.VMStatus, vmWith("RerunOnFailure", pending(stateChange{Action: "Start"}))},
		"another VMI":                  {changes.VMI, &kubevirtv1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{UID: "vmi-2"}}},
		"a grace period that changed":  {changes.VMI, &kubevirtv1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{UID: "vmi-1"}}},
		"undone by another caller":     {changes.UndoVMI, vmi},
		"a new status":                 {first.VMStatus, vmWith("Manual", newer)},
	} {
		if err := tryApply(t, race.patch, race.now, new(map[string]any)); err == nil {
			t.Errorf("%s: applied all the same", name)
		}
	}
}

// TestOrphans checks that a VMI belongs to a VM if the controller adopts it.
func TestOrphans(t *testing.T) {
	vm := vmWith("Manual")
	for _, row := range []struct {
		annotations map[string]string
		want        bool
	}{
		{nil, false},
		{map[string]string{"x": "y"}, false},
		{map[string]string{v1alpha1.AnnotationOwnerUID: "vm-1"}, true},
		{map[string]string{v1alpha1.AnnotationOwnerUID: "vm-2"}, true},
		{map[string]string{v1alpha1.AnnotationOwnerUID: ""}, false},
		{map[string]string{kubevirtv1.VirtualMachineGenerationAnnotation: "1"}, true},
		{map[string]string{kubevirtv1.VirtualMachineGenerationAnnotation: ""}, false},
	} {
		vmi := vmiIn("running")
		vmi.OwnerReferences, vmi.Annotations = nil, row.annotations
		if got := belongs(vm, vmi); got != row.want {
			t.Errorf("%v: belongs %t, want %t", row.annotations, got, row.want)
		}
	}
}
