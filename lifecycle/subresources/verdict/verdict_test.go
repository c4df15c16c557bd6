package verdict

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
	"github.com/virtwright/virtwright/validation/names"
)

// Columns of the tables.
var columns = []string{"none", "unset", "unknown", "pending", "running", "terminating", "succeeded", "failed"}

// machine is a VM of a strategy: one of runStrategy, or true and false for running.
func machine(strategy string, more ...func(*kubevirtv1.VirtualMachine)) *kubevirtv1.VirtualMachine {
	vm := &kubevirtv1.VirtualMachine{}
	vm.Name, vm.Namespace, vm.UID, vm.ResourceVersion = "web", "shop", "vm-1", "7"
	vm.Status.PrintableStatus = kubevirtv1.VirtualMachineStatusStopped
	switch strategy {
	case "": // says nothing
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

// instance is the one of a column.
func instance(column string) *kubevirtv1.VirtualMachineInstance {
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

func pending(requests ...request) func(*kubevirtv1.VirtualMachine) {
	return func(vm *kubevirtv1.VirtualMachine) { vm.Status.StateChangeRequests = requests }
}

// failing is a VM whose instances ended before they ran.
func failing(vm *kubevirtv1.VirtualMachine) {
	vm.Status.StartFailure = &kubevirtv1.VirtualMachineStartFailure{ConsecutiveFailCount: 3}
}

// without is a VM that no controller has seen.
func without(vm *kubevirtv1.VirtualMachine) { vm.Status = kubevirtv1.VirtualMachineStatus{} }

// saw is what the controller saw last.
func saw(strategy kubevirtv1.VirtualMachineRunStrategy) func(*kubevirtv1.VirtualMachine) {
	return func(vm *kubevirtv1.VirtualMachine) { vm.Status.RunStrategy = strategy }
}

func condition(name string) func(*kubevirtv1.VirtualMachine) {
	return func(vm *kubevirtv1.VirtualMachine) {
		vm.Status.Conditions = append(vm.Status.Conditions, kubevirtv1.VirtualMachineCondition{Type: kubevirtv1.VirtualMachineConditionType(name), Status: "True"})
	}
}

// told is a verdict in one line: the code, and the message or what it does to
// the objects.
func told(t *testing.T, vm *kubevirtv1.VirtualMachine, vmi *kubevirtv1.VirtualMachineInstance, changes *Changes, err error) string {
	t.Helper()
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		if changes != nil {
			t.Errorf("refused, with changes: %+v", changes)
		}
		text := strings.TrimPrefix(status.ErrStatus.Message, `Operation cannot be fulfilled on virtualmachine.kubevirt.io "web": `)
		return fmt.Sprint(status.ErrStatus.Code, " ", text)
	}
	if err != nil {
		t.Fatalf("%T is no status error: %v", err, err)
	}
	out := []string{"202"}
	if len(changes.Machine) > 0 {
		var now kubevirtv1.VirtualMachine
		apply(t, changes.Machine, vm, &now)
		if now.Spec.Running != nil {
			out = append(out, fmt.Sprint("running=", *now.Spec.Running))
		} else {
			out = append(out, fmt.Sprint("runStrategy=", *now.Spec.RunStrategy))
		}
	}
	if len(changes.Status) > 0 {
		var now kubevirtv1.VirtualMachine
		apply(t, changes.Status, vm, &now)
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
	if len(changes.Instance) > 0 {
		var now, again kubevirtv1.VirtualMachineInstance
		apply(t, changes.Instance, vmi, &now)
		out = append(out, fmt.Sprint("grace=", *now.Spec.TerminationGracePeriodSeconds))
		apply(t, changes.Undo, &now, &again)
		if text(t, again) != text(t, *vmi) {
			t.Errorf("undone it is %s, and it was %s", text(t, again), text(t, *vmi))
		}
	}
	return strings.Join(out, " ")
}

// apply applies a patch as API servers do.
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

// A table has a row for each strategy and a cell for each column. A cell that
// is not there is as the one before it.
type table map[string]map[string]string

func (rows table) check(t *testing.T, judge func(*kubevirtv1.VirtualMachine, *kubevirtv1.VirtualMachineInstance) (*Changes, error)) {
	t.Helper()
	for strategy, cells := range rows {
		want := ""
		for _, column := range columns {
			if cell, ok := cells[column]; ok {
				want = cell
			}
			vm, vmi := machine(strategy), instance(column)
			changes, err := judge(vm, vmi)
			if got := told(t, vm, vmi, changes, err); got != want {
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
	refused := func(strategy string) map[string]string {
		return halted("409 " + strategy + " does not support manual start requests")
	}
	table{
		"Halted": halted("202 runStrategy=Always"), "false": halted("202 running=true"), "": halted("202 runStrategy=Always"),
		"Manual": {"none": "202 [Start]", "pending": already, "succeeded": "202 [Stop vmi-1, Start]"},
		"RerunOnFailure": {"none": "202 [Start]", "pending": already, "succeeded": "202 [Stop vmi-1, Start]",
			"failed": "409 RerunOnFailure does not support starting VM from failed state"},
		"Always": refused("Always"), "true": refused("Always"), "Once": refused("Once"),
		"WaitAsReceiver": halted("202"),
		"Sometimes":      halted("500 Internal error occurred: unknown runstrategy: Sometimes"),
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
	refused := func(strategy string) map[string]string {
		return map[string]string{"none": "409 RunStategy " + strategy + " does not support manual restart requests"}
	}
	restarts := map[string]string{"none": "409 VM is not running: Halted", "unset": "202 [Stop vmi-1, Start]"}
	table{
		"Halted": refused("Halted"), "false": refused("Halted"), "": refused("Halted"), "Once": refused("Once"),
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

// What a verdict was about must not have changed when it is carried out.
func TestLostRaces(t *testing.T) {
	vm, vmi := machine("Manual"), instance("running")
	changes, err := Restart(vm, vmi, &kubevirtv1.RestartOptions{GracePeriodSeconds: new(int64(0))})
	if err != nil {
		t.Fatal(err)
	}
	spec, err := Start(machine("Halted"), nil, &kubevirtv1.StartOptions{})
	if err != nil {
		t.Fatal(err)
	}
	sooner, err := Start(machine("RerunOnFailure", pending(request{Action: "Start"}), failing), nil, &kubevirtv1.StartOptions{})
	if err != nil {
		t.Fatal(err)
	}
	bare, err := Start(machine("Halted", without), nil, &kubevirtv1.StartOptions{})
	if err != nil {
		t.Fatal(err)
	}
	first, err := Start(machine("Manual", without), nil, &kubevirtv1.StartOptions{})
	if err != nil {
		t.Fatal(err)
	}
	another := func(vm *kubevirtv1.VirtualMachine) { vm.UID = "vm-2" }
	newer := func(vm *kubevirtv1.VirtualMachine) { vm.ResourceVersion = "8" }
	for name, race := range map[string]struct {
		patch []Operation
		now   any
	}{
		"another VM of this name":       {changes.Status, machine("Manual", another)},
		"another request":               {changes.Status, machine("Manual", pending(request{Action: "Start"}))},
		"another strategy":              {changes.Status, machine("Halted")},
		"running instead":               {changes.Status, machine("true")},
		"a spec of another VM":          {spec.Machine, machine("Halted", another)},
		"a spec that changed":           {spec.Machine, machine("Manual")},
		"a request beside a spec":       {spec.Machine, machine("Halted", pending(request{Action: "Start"}))},
		"a request beside a first spec": {bare.Machine, machine("Halted", newer)},
		"a back-off that ended":         {sooner.Status, machine("RerunOnFailure", failing)},
		"a back-off without a failure":  {sooner.Status, machine("RerunOnFailure", pending(request{Action: "Start"}))},
		"another instance":              {changes.Instance, &kubevirtv1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{UID: "vmi-2"}}},
		"a grace period that changed":   {changes.Instance, &kubevirtv1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{UID: "vmi-1"}}},
		"undone by somebody else":       {changes.Undo, vmi},
		"a status that came meanwhile":  {first.Status, machine("Manual", newer)},
	} {
		if err := tryApply(t, race.patch, race.now, new(map[string]any)); err == nil {
			t.Errorf("%s: applied all the same", name)
		}
	}
}

// What is an orphan of a machine's is what the controller adopts.
func TestOrphans(t *testing.T) {
	vm := machine("Manual")
	for _, annotations := range []map[string]string{
		nil, {"x": "y"}, {v1alpha1.AnnotationInstanceOf: "vm-1"}, {v1alpha1.AnnotationInstanceOf: "vm-2"}, {v1alpha1.AnnotationInstanceOf: ""},
		{kubevirtv1.VirtualMachineGenerationAnnotation: "1"}, {kubevirtv1.VirtualMachineGenerationAnnotation: ""},
	} {
		vmi := instance("running")
		vmi.OwnerReferences, vmi.Annotations = nil, annotations
		if got, want := belongs(vm, vmi), names.Proven(vmi); got != want {
			t.Errorf("%v: belongs %t, and the controller says %t", annotations, got, want)
		}
	}
}
