package decide

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// A row is a case that is not in the tables.
type row struct {
	reason string
	verb   string // start, stop, restart; with a grace period: stop 5; start paused
	vm     *kubevirtv1.VirtualMachine
	vmi    *kubevirtv1.VirtualMachineInstance
	want   string
}

func (r row) result(t *testing.T) string {
	t.Helper()
	verb, seconds, given := strings.Cut(r.verb, " ")
	var grace *int64
	if given && verb != "start" {
		grace = new(int64)
		if _, err := fmt.Sscan(seconds, grace); err != nil {
			t.Fatal(err)
		}
	}
	var changes *Changes
	var err error
	switch verb {
	case "start":
		changes, err = Start(r.vm, r.vmi, &kubevirtv1.StartOptions{Paused: given})
	case "stop":
		changes, err = Stop(r.vm, r.vmi, &kubevirtv1.StopOptions{GracePeriod: grace})
	case "restart":
		changes, err = Restart(r.vm, r.vmi, &kubevirtv1.RestartOptions{GracePeriodSeconds: grace})
	}
	return summary(t, r.vm, r.vmi, changes, err)
}

func TestCases(t *testing.T) {
	start, stop := stateChange{Action: "Start"}, stateChange{Action: "Stop", UID: new(types.UID("vmi-1"))}
	stopAny := stateChange{Action: "Stop", UID: new(types.UID("vm-1"))}
	held := stateChange{Action: "Start", Data: map[string]string{"paused": "true"}}
	underway := "409 unable to complete request: stop/start already underway"
	deleting := func(vm *kubevirtv1.VirtualMachine) { vm.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }
	both := func(vm *kubevirtv1.VirtualMachine) { vm.Spec.Running = new(true) }
	of := func(change func(*kubevirtv1.VirtualMachineInstance)) *kubevirtv1.VirtualMachineInstance {
		vmi := vmiIn("running")
		change(vmi)
		return vmi
	}
	foreign := of(func(vmi *kubevirtv1.VirtualMachineInstance) { vmi.OwnerReferences[0].UID = "another" })
	stray := of(func(vmi *kubevirtv1.VirtualMachineInstance) { vmi.OwnerReferences = nil })
	made := func(key, value string) *kubevirtv1.VirtualMachineInstance {
		return of(func(vmi *kubevirtv1.VirtualMachineInstance) {
			vmi.OwnerReferences, vmi.Annotations = nil, map[string]string{key: value}
		})
	}
	orphan, former := made(v1alpha1.AnnotationOwnerUID, "vm-1"), made(v1alpha1.AnnotationOwnerUID, "vm-0")
	kubevirts := made(kubevirtv1.VirtualMachineGenerationAnnotation, "3")
	ungraced := of(func(vmi *kubevirtv1.VirtualMachineInstance) { vmi.Spec.TerminationGracePeriodSeconds = nil })
	taken := "409 a VirtualMachineInstance of this name has another owner"
	moved := "409 " + recovery

	for _, r := range []row{
		{"a start waits for a start", "start", vmWith("Manual", pending(start)), nil, underway},
		{"a start waits for a stop", "start", vmWith("Manual", pending(stop)), nil, underway},
		{"a paused start is pending", "start", vmWith("RerunOnFailure", pending(start)), vmiIn("succeeded"), underway},
		{"a paused start waits", "start", vmWith("Halted", pending(held)), nil, underway},
		{"a paused start waits, where running says so", "start", vmWith("false", pending(held)), nil, underway},
		{"a paused start waits for another", "start paused", vmWith("Halted", pending(held)), nil, underway},
		{"a stop of a halted VM is pending", "start", vmWith("Halted", pending(stopAny)), nil, underway},
		{"a stop of any VMI is pending", "start", vmWith("Manual", pending(stopAny)), nil, underway},
		{"a stop of any VMI is pending", "restart", vmWith("Manual", pending(stopAny)), vmiIn("running"), underway},
		{"a restart waits", "restart", vmWith("Always", pending(stop, start)), vmiIn("running"), underway},
		{"a restart by force waits, and changes no grace period", "restart 0", vmWith("Always", pending(stop)), vmiIn("running"), underway},
		{"a stop replaces a restart", "stop", vmWith("Manual", pending(stop, start)), vmiIn("running"), "202 [Stop vm-1] seen Manual"},
		{"a stop replaces a start", "stop", vmWith("Manual", pending(start)), vmiIn("running"), "202 [Stop vm-1] seen Manual"},
		{"a stop of the VMI of a pending start", "stop", vmWith("Manual", pending(start)), nil, "202 [Stop vm-1] seen Manual"},
		{"a stop replaces a paused start", "stop", vmWith("Halted", pending(held)), nil, "202 [Stop vm-1] seen Halted"},
		{"a stop with a grace period replaces a start", "stop 5", vmWith("Manual", pending(start)), nil, "202 [Stop vm-1] seen Manual"},
		{"a stop ends a back-off", "stop", vmWith("RerunOnFailure", pending(start), failing), nil, "202 [Stop vm-1] seen RerunOnFailure"},
		{"a stop before a failed VMI is deleted", "stop", vmWith("RerunOnFailure", pending(start), failing), vmiIn("failed"), "202 [Stop vm-1] seen RerunOnFailure"},
		{"a stop before a failed VMI is replaced", "stop", vmWith("RerunOnFailure", failing), vmiIn("failed"), "202 [Stop vmi-1]"},
		{"a stop before an ended VMI is deleted", "stop", vmWith("Manual", pending(stop, start)), vmiIn("succeeded"), "202 [Stop vm-1] seen Manual"},
		{"a pending stop without a VMI", "stop", vmWith("Manual", pending(stop)), nil, "409 VM is not running"},
		{"a repeated stop of any VMI", "stop", vmWith("Manual", pending(stopAny)), nil, "202 [Stop vm-1] seen Manual"},
		{"a repeated stop of any VMI", "stop", vmWith("Manual", pending(stopAny)), vmiIn("running"), "202 [Stop vm-1] seen Manual"},
		{"a repeated stop of any VMI", "stop", vmWith("Manual", pending(stopAny)), vmiIn("succeeded"), "202 [Stop vm-1] seen Manual"},

		{"a start ends a back-off", "start", vmWith("RerunOnFailure", failing), nil, "202 [Start]"},
		{"a start does not wait for the end of a back-off", "start", vmWith("RerunOnFailure", pending(start), failing), nil, "202 [Start]"},
		{"a paused start does not replace a start", "start paused", vmWith("RerunOnFailure", pending(start), failing), nil, underway},
		{"the controller does not request paused starts", "start", vmWith("RerunOnFailure", pending(held), failing), nil, underway},
		{"the controller does not request restarts", "start", vmWith("RerunOnFailure", pending(stop, start), failing), nil, underway},
		{"a pending start without a back-off", "start", vmWith("RerunOnFailure", pending(start)), nil, underway},
		{"an ended VMI is deleted first", "start", vmWith("RerunOnFailure", pending(start), failing), vmiIn("succeeded"), underway},
		{"Always needs no start", "start", vmWith("Always", pending(start), failing), nil, "409 Always does not support manual start requests"},
		{"a restart ends a back-off", "restart", vmWith("Always", failing), vmiIn("running"), "202 [Stop vmi-1, Start]"},
		{"an empty status", "start", vmWith("Manual", without), nil, "202 [Start]"},
		{"an empty status", "start", vmWith("Halted", without), nil, "202 runStrategy=Always"},
		{"an empty status", "start paused", vmWith("Halted", without), nil, "202 [Start paused] seen Halted"},
		{"the controller saw another strategy last", "start paused", vmWith("Halted", saw("Always")), nil, "202 [Start paused] seen Halted"},

		{"recovery is required", "start", vmWith("Halted", condition("ManualRecoveryRequired")), nil, moved},
		{"a running VM that requires recovery", "start", vmWith("Manual", condition("ManualRecoveryRequired")), vmiIn("running"), already},
		{"volumes are migrated", "restart", vmWith("Always", condition("VolumesChange")), vmiIn("running"), moved},
		{"volumes are migrated", "stop", vmWith("Always", condition("VolumesChange")), vmiIn("running"), "202 runStrategy=Halted"},

		{"deleted", "start", vmWith("Halted", deleting), nil, "409 VM is being deleted"},
		{"deleted", "stop", vmWith("Always", deleting), vmiIn("running"), "409 VM is being deleted"},
		{"deleted", "restart", vmWith("Always", deleting), vmiIn("running"), "409 VM is being deleted"},
		{"a contradictory spec", "start", vmWith("Manual", both), nil, "500 Internal error occurred: running and runstrategy are mutually exclusive"},

		{"the same grace period", "stop 30", vmWith("Halted"), vmiIn("running"), "409 Halted only supports manual stop requests with a shorter graceperiod"},
		{"a longer grace period", "stop 31", vmWith("Halted"), vmiIn("running"), "409 Halted only supports manual stop requests with a shorter graceperiod"},
		{"a shorter grace period", "stop 29", vmWith("Halted"), vmiIn("terminating"), "202 [Stop vmi-1] grace=29"},
		{"a first grace period", "stop 0", vmWith("Halted"), ungraced, "202 [Stop vmi-1] grace=0"},
		{"a negative grace period", "stop -1", vmWith("Manual"), vmiIn("running"), "400 gracePeriod has to be greater or equal to 0"},
		{"a negative grace period", "restart -1", vmWith("Manual"), vmiIn("running"), "400 gracePeriod has to be greater or equal to 0"},
		{"a forced restart with a grace period", "restart 1", vmWith("Halted"), nil, "400 For force restart, only gracePeriod=0 is supported for now"},
		{"a forced restart of a VMI without a grace period", "restart 0", vmWith("Always"), ungraced, "202 [Stop vmi-1, Start] grace=1"},

		{"another owner", "start", vmWith("Halted"), foreign, taken},
		{"another owner", "stop 5", vmWith("Manual"), foreign, "409 VM is not running"},
		{"another owner", "restart 0", vmWith("Always"), foreign, "409 VM is not running: Halted"},
		{"no owner", "start", vmWith("Manual"), stray, taken},
		{"no owner", "stop 5", vmWith("Always"), stray, "202 runStrategy=Halted"},
		{"an orphan of its own", "start", vmWith("Manual"), orphan, already},
		{"an orphan of a VM of this name", "start", vmWith("Manual"), former, already},
		{"an orphan of a VM of this name", "stop", vmWith("Manual"), former, "202 [Stop vmi-1]"},
		{"an orphan of KubeVirt", "restart", vmWith("Manual"), kubevirts, "202 [Stop vmi-1, Start]"},
		{"an orphan of its own", "stop 5", vmWith("Manual"), orphan, "202 [Stop vmi-1] grace=5"},
	} {
		t.Run(r.verb+": "+r.reason, func(t *testing.T) {
			if got := r.result(t); got != r.want {
				t.Errorf("got %s, want %s", got, r.want)
			}
		})
	}
}
