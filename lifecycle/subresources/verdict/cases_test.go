package verdict

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

// A row is a case that the tables do not have.
type row struct {
	reason string
	verb   string // start, stop, restart; with a grace period: stop 5; start paused
	vm     *kubevirtv1.VirtualMachine
	vmi    *kubevirtv1.VirtualMachineInstance
	want   string
}

func (r row) judge(t *testing.T) string {
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
	return told(t, r.vm, r.vmi, changes, err)
}

func TestCases(t *testing.T) {
	start, stop := request{Action: "Start"}, request{Action: "Stop", UID: new(types.UID("vmi-1"))}
	whichever := request{Action: "Stop", UID: new(types.UID("vm-1"))}
	held := request{Action: "Start", Data: map[string]string{"paused": "true"}}
	underway := "409 unable to complete request: stop/start already underway"
	deleting := func(vm *kubevirtv1.VirtualMachine) { vm.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }
	both := func(vm *kubevirtv1.VirtualMachine) { vm.Spec.Running = new(true) }
	of := func(change func(*kubevirtv1.VirtualMachineInstance)) *kubevirtv1.VirtualMachineInstance {
		vmi := instance("running")
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
	orphan, former := made(v1alpha1.AnnotationInstanceOf, "vm-1"), made(v1alpha1.AnnotationInstanceOf, "vm-0")
	kubevirts := made(kubevirtv1.VirtualMachineGenerationAnnotation, "3")
	ungraced := of(func(vmi *kubevirtv1.VirtualMachineInstance) { vmi.Spec.TerminationGracePeriodSeconds = nil })
	taken := "409 a VirtualMachineInstance of this name belongs to something else"
	moved := "409 " + recovery

	for _, r := range []row{
		{"a start waits for a start", "start", machine("Manual", pending(start)), nil, underway},
		{"a start waits for a stop", "start", machine("Manual", pending(stop)), nil, underway},
		{"a paused start is pending", "start", machine("RerunOnFailure", pending(start)), instance("succeeded"), underway},
		{"a paused start waits", "start", machine("Halted", pending(held)), nil, underway},
		{"a paused start waits, where running says so", "start", machine("false", pending(held)), nil, underway},
		{"a paused start waits for another", "start paused", machine("Halted", pending(held)), nil, underway},
		{"a halted machine is to be stopped", "start", machine("Halted", pending(whichever)), nil, underway},
		{"a stop of whatever there is waits", "start", machine("Manual", pending(whichever)), nil, underway},
		{"a stop of whatever there is waits", "restart", machine("Manual", pending(whichever)), instance("running"), underway},
		{"a restart waits", "restart", machine("Always", pending(stop, start)), instance("running"), underway},
		{"a restart by force waits, and changes no grace period", "restart 0", machine("Always", pending(stop)), instance("running"), underway},
		{"a stop comes instead of a restart, whichever instance that is at", "stop", machine("Manual", pending(stop, start)), instance("running"), "202 [Stop vm-1]"},
		{"a stop comes instead of a start", "stop", machine("Manual", pending(start)), instance("running"), "202 [Stop vm-1]"},
		{"a stop is there for the instance that a waiting start makes", "stop", machine("Manual", pending(start)), nil, "202 [Stop vm-1]"},
		{"a stop comes instead of a paused start", "stop", machine("Halted", pending(held)), nil, "202 [Stop vm-1]"},
		{"a stop with a grace period comes instead of a start", "stop 5", machine("Manual", pending(start)), nil, "202 [Stop vm-1]"},
		{"a stop ends a back-off", "stop", machine("RerunOnFailure", pending(start), failing), nil, "202 [Stop vm-1]"},
		{"a stop while what failed is still there", "stop", machine("RerunOnFailure", pending(start), failing), instance("failed"), "202 [Stop vm-1]"},
		{"a stop before what failed is made anew", "stop", machine("RerunOnFailure", failing), instance("failed"), "202 [Stop vmi-1]"},
		{"a stop while what ended is still there", "stop", machine("Manual", pending(stop, start)), instance("succeeded"), "202 [Stop vm-1]"},
		{"a stop is no reason for a stop", "stop", machine("Manual", pending(stop)), nil, "409 VM is not running"},
		{"a stop of whatever there is says the same again", "stop", machine("Manual", pending(whichever)), nil, "202 [Stop vm-1]"},
		{"a stop of whatever there is says the same again", "stop", machine("Manual", pending(whichever)), instance("running"), "202 [Stop vm-1]"},
		{"a stop of whatever there is says the same again", "stop", machine("Manual", pending(whichever)), instance("succeeded"), "202 [Stop vm-1]"},

		{"a start ends a back-off", "start", machine("RerunOnFailure", failing), nil, "202 [Start]"},
		{"a start does not wait for the end of a back-off", "start", machine("RerunOnFailure", pending(start), failing), nil, "202 [Start]"},
		{"a paused start does not come instead of one that is not", "start paused", machine("RerunOnFailure", pending(start), failing), nil, underway},
		{"a paused start is no controller's", "start", machine("RerunOnFailure", pending(held), failing), nil, underway},
		{"a restart is no controller's", "start", machine("RerunOnFailure", pending(stop, start), failing), nil, underway},
		{"what waits does not wait for a back-off", "start", machine("RerunOnFailure", pending(start)), nil, underway},
		{"what ended goes first", "start", machine("RerunOnFailure", pending(start), failing), instance("succeeded"), underway},
		{"always is always", "start", machine("Always", pending(start), failing), nil, "409 Always does not support manual start requests"},
		{"a restart ends a back-off", "restart", machine("Always", failing), instance("running"), "202 [Stop vmi-1, Start]"},
		{"there is no status yet", "start", machine("Manual", without), nil, "202 [Start]"},
		{"there is no status yet", "start", machine("Halted", without), nil, "202 runStrategy=Always"},
		{"there is no status yet", "start paused", machine("Halted", without), nil, "202 [Start paused] seen Halted"},
		{"the controller saw another strategy last", "start paused", machine("Halted", saw("Always")), nil, "202 [Start paused] seen Halted"},

		{"the volumes moved", "start", machine("Halted", condition("ManualRecoveryRequired")), nil, moved},
		{"running says more than volumes", "start", machine("Manual", condition("ManualRecoveryRequired")), instance("running"), already},
		{"volumes move", "restart", machine("Always", condition("VolumesChange")), instance("running"), moved},
		{"volumes move, and it stops", "stop", machine("Always", condition("VolumesChange")), instance("running"), "202 runStrategy=Halted"},

		{"deleted", "start", machine("Halted", deleting), nil, "409 VM is being deleted"},
		{"deleted", "stop", machine("Always", deleting), instance("running"), "409 VM is being deleted"},
		{"deleted", "restart", machine("Always", deleting), instance("running"), "409 VM is being deleted"},
		{"a spec against itself", "start", machine("Manual", both), nil, "500 Internal error occurred: running and runstrategy are mutually exclusive"},

		{"the same grace period", "stop 30", machine("Halted"), instance("running"), "409 Halted only supports manual stop requests with a shorter graceperiod"},
		{"a longer grace period", "stop 31", machine("Halted"), instance("running"), "409 Halted only supports manual stop requests with a shorter graceperiod"},
		{"a shorter grace period", "stop 29", machine("Halted"), instance("terminating"), "202 [Stop vmi-1] grace=29"},
		{"a grace period where there was none", "stop 0", machine("Halted"), ungraced, "202 [Stop vmi-1] grace=0"},
		{"less than nothing", "stop -1", machine("Manual"), instance("running"), "400 gracePeriod has to be greater or equal to 0"},
		{"less than nothing", "restart -1", machine("Manual"), instance("running"), "400 gracePeriod has to be greater or equal to 0"},
		{"patient force", "restart 1", machine("Halted"), nil, "400 For force restart, only gracePeriod=0 is supported for now"},
		{"force where there was no grace period", "restart 0", machine("Always"), ungraced, "202 [Stop vmi-1, Start] grace=1"},

		{"somebody else's", "start", machine("Halted"), foreign, taken},
		{"somebody else's", "stop 5", machine("Manual"), foreign, "409 VM is not running"},
		{"somebody else's", "restart 0", machine("Always"), foreign, "409 VM is not running: Halted"},
		{"nobody's", "start", machine("Manual"), stray, taken},
		{"nobody's", "stop 5", machine("Always"), stray, "202 runStrategy=Halted"},
		{"an orphan of its own", "start", machine("Manual"), orphan, already},
		{"an orphan of a VM of this name", "start", machine("Manual"), former, already},
		{"an orphan of a VM of this name", "stop", machine("Manual"), former, "202 [Stop vmi-1]"},
		{"an orphan that KubeVirt made", "restart", machine("Manual"), kubevirts, "202 [Stop vmi-1, Start]"},
		{"an orphan of its own", "stop 5", machine("Manual"), orphan, "202 [Stop vmi-1] grace=5"},
	} {
		t.Run(r.verb+": "+r.reason, func(t *testing.T) {
			if got := r.judge(t); got != r.want {
				t.Errorf("got %s, want %s", got, r.want)
			}
		})
	}
}
