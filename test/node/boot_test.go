package node

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// sparse is what a user writes: a disk, and what cloud-init is to do. The rest
// comes from the preset.
const sparse = `domain:
  devices:
    disks:
    - {name: root, serial: root-1, disk: {bus: virtio}}
    - {name: seed, cdrom: {bus: scsi}}
volumes:
- {name: root, emptyDisk: {capacity: 64Mi}}
- name: seed
  cloudInitNoCloud: {userData: "#cloud-config\nhostname: web\n"}`

// A guest boots from kubectl create of a sparse VM; what it says of its hardware
// is what its instance says; running: false shuts it down by ACPI.
func TestBoot(t *testing.T) {
	s := newStage(t)
	s.create("web", "running: true", sparse)
	vmi := s.phase("web", kubevirtv1.Running)
	facts := s.boots(vmi)

	spec := &vmi.Spec.Domain
	root, seed := facts.Find("block", "serial", "root-1"), facts.Find("block", "label", "cidata")
	sees := map[string]string{
		"processors": facts["cpu/online"], "cores": facts["cpu/cores"], "system UUID": facts["dmi/product_uuid"], "system serial": facts["dmi/product_serial"],
		"asset": facts["dmi/chassis_asset_tag"], "size of the disk": facts["block/"+root+"/bytes"], "user data": facts.Files(seed)["user-data"],
		"arguments": facts["kernel/arguments"], "agent's port": facts["port/org.qemu.guest_agent.0"], "entropy": facts["rng/current"], "firmware": facts["firmware/type"],
	}
	want := map[string]string{
		"processors": "2", "cores": "2", "system UUID": string(spec.Firmware.UUID), "system serial": spec.Firmware.Serial,
		"asset": "shelf-3", "size of the disk": fmt.Sprint(64 << 20), "user data": "#cloud-config\nhostname: web\n",
		"arguments": "console=ttyS0 quiet panic=1", "agent's port": "yes", "entropy": "virtio_rng.0", "firmware": "bios",
	}
	if diff := cmp.Diff(want, sees); diff != "" {
		t.Errorf("the guest sees something else than its instance says (-instance +guest):\n%s", diff)
	}

	vmi = s.until("web", "agent connected", func(vmi *kubevirtv1.VirtualMachineInstance) bool {
		return condition(vmi, kubevirtv1.VirtualMachineInstanceAgentConnected) != nil
	})
	tells(t, vmi, s.node, facts["net/eth0/mac"])
	s.eventually("status.ready follows", func() error {
		if vm := s.vm("web"); !vm.Status.Ready || vm.Status.PrintableStatus != kubevirtv1.VirtualMachineStatusRunning {
			return fmt.Errorf("the machine is %+v", vm.Status)
		}
		return nil
	})

	s.power(vmi, "softreboot", "r-1")
	s.eventually("the guest boots again", func() error {
		boots, err := s.console(vmi).Boots()
		if err == nil && (len(boots) < 2 || !boots[1].Ready) {
			err = fmt.Errorf("it booted %d times", len(boots))
		}
		return err
	})

	s.patch("web", `{"spec": {"running": false}}`)
	s.event(vmi, "powerbutton")
	s.until("web", "gone", func(vmi *kubevirtv1.VirtualMachineInstance) bool { return vmi == nil })
	s.clean()
	s.eventually("status.ready follows", func() error {
		if vm := s.vm("web"); vm.Status.Ready || vm.Status.PrintableStatus != kubevirtv1.VirtualMachineStatusStopped {
			return fmt.Errorf("the machine is %+v", vm.Status)
		}
		return nil
	})
}

// tells checks what status says of a guest that runs.
func tells(t *testing.T, vmi *kubevirtv1.VirtualMachineInstance, node, mac string) {
	t.Helper()
	status := &vmi.Status
	got := map[string]string{
		"node": status.NodeName, "CPUs": fmt.Sprint(*status.CurrentCPUTopology), "memory": status.Memory.GuestCurrent.String(),
		"pods": fmt.Sprint(len(status.ActivePods)), "mac": status.Interfaces[0].MAC, "nic": status.Interfaces[0].Name,
	}
	for _, v := range status.VolumeStatus {
		got["volume "+v.Name] = v.Target
	}
	want := map[string]string{
		"node": node, "CPUs": "{2 1 1}", "memory": "128Mi", "pods": "0", "mac": mac, "nic": "default", "volume root": "vda", "volume seed": "sda",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("status says something else (-want +got):\n%s", diff)
	}
	if !strings.HasPrefix(status.Machine.Type, "pc-q35-") {
		t.Errorf("the machine is %s, which may mean something else tomorrow", status.Machine.Type)
	}
	for kind, want := range map[kubevirtv1.VirtualMachineInstanceConditionType]corev1.ConditionStatus{
		kubevirtv1.VirtualMachineInstanceReady: corev1.ConditionTrue, kubevirtv1.VirtualMachineInstanceIsMigratable: corev1.ConditionFalse,
		kubevirtv1.VirtualMachineInstanceSoftwareEmulation: corev1.ConditionTrue,
	} {
		if c := condition(vmi, kind); c == nil || c.Status != want {
			t.Errorf("condition %s is %v, want %s", kind, c, want)
		}
	}
	var phases []string
	for _, p := range status.PhaseTransitionTimestamps {
		phases = append(phases, string(p.Phase))
	}
	if got := strings.Join(phases, " "); !strings.HasSuffix(got, "Scheduled Running") {
		t.Errorf("it went through %s", got)
	}
}

// power asks for something as the subresource API does.
func (s *stage) power(vmi *kubevirtv1.VirtualMachineInstance, action, id string) {
	s.Helper()
	s.kubectl("", "annotate", "vmi", vmi.Name, "-n", s.ns, "--overwrite", "--as="+trusted, "--as-group=system:masters",
		fmt.Sprintf(`virtwright.dev/power-request={"id": %q, "action": %q}`, id, action))
}
