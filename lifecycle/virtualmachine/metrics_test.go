package virtualmachine

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/lifecycle/partialobject"
)

func TestByStatus(t *testing.T) {
	vms := make([]partialobject.VirtualMachine, 4)
	for i, status := range []kubevirtv1.VirtualMachinePrintableStatus{"Running", "Starting", "Running", ""} {
		vms[i].Status.PrintableStatus = status
	}
	want := map[string]int{"Running": 2, "Starting": 1, "Unknown": 1}
	if diff := cmp.Diff(want, byStatus(vms)); diff != "" {
		t.Errorf("VMs by status (-want +got):\n%s", diff)
	}
}

func TestLongestStart(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	vmi := func(age time.Duration, phase kubevirtv1.VirtualMachineInstancePhase, deleted bool) partialobject.VirtualMachineInstance {
		out := partialobject.VirtualMachineInstance{Status: partialobject.VirtualMachineInstanceStatus{Phase: phase}}
		out.CreationTimestamp = metav1.NewTime(now.Add(-age))
		if deleted {
			out.DeletionTimestamp = &metav1.Time{Time: now}
		}
		return out
	}
	for name, c := range map[string]struct {
		vmis []partialobject.VirtualMachineInstance
		want time.Duration
	}{
		"no VMI":           {nil, 0},
		"the oldest":       {[]partialobject.VirtualMachineInstance{vmi(time.Minute, kubevirtv1.Pending, false), vmi(time.Hour, kubevirtv1.Scheduled, false)}, time.Hour},
		"without a phase":  {[]partialobject.VirtualMachineInstance{vmi(time.Minute, "", false)}, time.Minute},
		"scheduling":       {[]partialobject.VirtualMachineInstance{vmi(time.Minute, kubevirtv1.Scheduling, false)}, time.Minute},
		"running":          {[]partialobject.VirtualMachineInstance{vmi(time.Hour, kubevirtv1.Running, false)}, 0},
		"ended":            {[]partialobject.VirtualMachineInstance{vmi(time.Hour, kubevirtv1.Failed, false), vmi(time.Hour, kubevirtv1.Succeeded, false)}, 0},
		"deleted":          {[]partialobject.VirtualMachineInstance{vmi(time.Hour, kubevirtv1.Pending, true)}, 0},
		"a clock is ahead": {[]partialobject.VirtualMachineInstance{vmi(-time.Minute, kubevirtv1.Pending, false)}, 0},
	} {
		if got := longestStart(c.vmis, now); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// kubevirt_vmi_info has what the cache keeps of a VMI.
func TestInfo(t *testing.T) {
	vmi := &partialobject.VirtualMachineInstance{}
	if err := json.Unmarshal([]byte(`{
		"metadata": {"namespace": "shop", "name": "web", "annotations": {"vm.kubevirt.io/os": "fedora", "other": "x"}},
		"spec": {"evictionStrategy": "LiveMigrate"},
		"status": {"phase": "Running", "nodeName": "n1", "activePods": {"u1": "n1"}, "machine": {"type": "pc-q35-7.2"}}}`), vmi); err != nil {
		t.Fatal(err)
	}
	if _, err := partialobject.Trim(vmi); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for i, value := range infoOf(vmi) {
		got[infoLabels[i]] = value
	}
	want := map[string]string{
		"node": "n1", "namespace": "shop", "name": "web", "phase": "running", "os": "fedora", "workload": "", "flavor": "",
		"guest_os_machine": "pc-q35-7.2", "evictable": "false", "outdated": "false", "vmi_pod": "virt-launcher-web",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if got := infoOf(&partialobject.VirtualMachineInstance{}); got[8] != "true" || got[10] != "" {
		t.Errorf("a new VMI has %q", got)
	}
}
