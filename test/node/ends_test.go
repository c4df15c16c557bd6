package node

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// idle is a machine without anything to boot, of which the preset knows nothing:
// its emulator starts at once and does nothing.
const idle = `terminationGracePeriodSeconds: 2
domain:
  memory: {guest: 32Mi}
  devices:
    disks: [{name: data, disk: {bus: virtio}}]
volumes: [{name: data, emptyDisk: {capacity: 1Mi}}]`

// What becomes of a guest that ends is what the strategy says: how it ended is
// seen, and who asked for it.
func TestEnds(t *testing.T) {
	s := newStage(t)
	s.create("web", "runStrategy: RerunOnFailure", sparse)
	first := s.phase("web", kubevirtv1.Running)
	s.boots(first)

	s.power(first, "reset", "r-1")
	s.eventually("the guest boots again", func() error {
		boots, err := s.console(first).Boots()
		if err == nil && (len(boots) < 2 || !boots[1].Ready) {
			err = fmt.Errorf("it booted %d times", len(boots))
		}
		return err
	})

	pid, err := s.daemon.DomainPID(s.domainOf("web"))
	must(t, err)
	must(t, syscall.Kill(pid, syscall.SIGKILL))
	second := s.until("web", "another instance runs", func(vmi *kubevirtv1.VirtualMachineInstance) bool {
		return vmi != nil && vmi.UID != first.UID && vmi.Status.Phase == kubevirtv1.Running
	})
	if _, err := os.Stat(filepath.Dir(string(s.console(first)))); err == nil {
		t.Error("files of the first instance are left")
	}
	s.boots(second)
	s.typeLine(second, "poweroff", "poweroff")
	s.until("web", "gone", func(vmi *kubevirtv1.VirtualMachineInstance) bool { return vmi == nil })
	s.clean()
	time.Sleep(time.Second)
	if again := s.instance("web"); again != nil {
		t.Error("a guest that shut down was started again")
	}
	if vm := s.vm("web"); vm.Status.PrintableStatus != kubevirtv1.VirtualMachineStatusStopped {
		t.Errorf("the machine is %s", vm.Status.PrintableStatus)
	}
}

// Whatever is killed, the guest goes on or its end is known, and nothing is left.
func TestFaults(t *testing.T) {
	s := newStage(t)
	s.create("a", "running: true", idle)
	a := s.phase("a", kubevirtv1.Running)

	s.Log("libvirtd is killed, and the guest runs on")
	pid, err := s.daemon.DomainPID(s.domainOf("a"))
	must(t, err)
	s.daemon.Kill()
	s.create("b", "running: true", idle)
	time.Sleep(time.Second)
	if b := s.instance("b"); b == nil || b.Status.NodeName != "" {
		t.Errorf("an agent without libvirtd has claimed %+v", b)
	}
	must(t, s.daemon.Restart())
	s.phase("b", kubevirtv1.Running)
	if now, err := s.daemon.DomainPID(s.domainOf("a")); err != nil || now != pid || s.instance("a").UID != a.UID {
		t.Errorf("the guest does not run on: %d, was %d: %v", now, pid, err)
	}

	s.Log("the agent is killed, and its guest meanwhile; on its return the end is known")
	s.killAgent()
	must(t, syscall.Kill(pid, syscall.SIGKILL))
	s.create("c", "running: true", idle)
	s.startAgent()
	s.until("a", "another instance", func(vmi *kubevirtv1.VirtualMachineInstance) bool {
		return vmi != nil && vmi.UID != a.UID && vmi.Status.Phase == kubevirtv1.Running
	})
	s.phase("c", kubevirtv1.Running)

	s.Log("an instance is deleted while the agent is away: it waits, and is cleaned up on its return")
	s.killAgent()
	s.kubectl("", "delete", "vm", "a", "-n", s.ns)
	if vmi := s.until("a", "deleted", func(vmi *kubevirtv1.VirtualMachineInstance) bool { return vmi != nil && vmi.DeletionTimestamp != nil }); len(vmi.Finalizers) == 0 {
		t.Error("nothing holds the instance")
	}
	s.Log("an instance is gone altogether while the agent is away: its domain goes on its return")
	must(t, s.as(trusted).DeleteAllOf(s.ctx, &kubevirtv1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{}}, inNamespace(s.ns)))
	s.release("b")
	s.eventually("b is gone", func() error {
		if s.instance("b") != nil {
			return fmt.Errorf("it is there")
		}
		return nil
	})
	if domains := s.domains(); !strings.Contains(domains, s.domainOf("b")) {
		t.Errorf("domain %s is not there any more: %s", s.domainOf("b"), domains)
	}
	s.startAgent()
	s.clean()
	s.until("a", "gone", func(vmi *kubevirtv1.VirtualMachineInstance) bool { return vmi == nil })
}

// What cannot be had is said, with the field's name, and tried again.
func TestTroubles(t *testing.T) {
	s := newStage(t)
	s.create("claim", "running: true", strings.Replace(idle, "emptyDisk: {capacity: 1Mi}", "persistentVolumeClaim: {claimName: mine}", 1))
	s.trouble("claim", "FailedPvcNotFound", "spec.volumes[0].persistentVolumeClaim.claimName")
	s.eventually("the machine says so", func() error {
		if got := s.vm("claim").Status.PrintableStatus; got != kubevirtv1.VirtualMachineStatusPvcNotFound {
			return fmt.Errorf("it says %s", got)
		}
		return nil
	})
	disk := filepath.Join(s.dir("v"), s.ns, "mine", "disk.img")
	must(t, os.MkdirAll(filepath.Dir(disk), 0o755))
	must(t, os.WriteFile(disk, make([]byte, 1<<20), 0o644))
	must(t, s.daemon.Own(s.dir("v")))
	vmi := s.phase("claim", kubevirtv1.Running)
	if c := condition(vmi, kubevirtv1.VirtualMachineInstanceSynchronized); c != nil {
		t.Errorf("it runs and says %v", c)
	}

	s.create("disk", "running: true", strings.Replace(idle, "emptyDisk: {capacity: 1Mi}", "hostDisk: {path: /etc/passwd, type: Disk}", 1))
	s.trouble("disk", "VolumeRefused", "spec.volumes[0].hostDisk.path")

	uuid := string(vmi.Spec.Domain.Firmware.UUID)
	s.create("twin", "running: true", strings.Replace(idle, "domain:", "domain:\n  firmware: {uuid: "+uuid+"}", 1))
	s.trouble("twin", "DuplicateUUID", "spec.domain.firmware.uuid")

	foreign := fmt.Sprintf(`<domain type="qemu"><name>%s</name><memory unit="MiB">32</memory><os><type arch="x86_64">hvm</type></os></domain>`, s.domainOf("taken"))
	must(t, s.daemon.DefineValidated(s.daemon.URI, foreign))
	s.create("taken", "running: true", idle)
	s.trouble("taken", "DomainNameTaken", s.domainOf("taken"))

	s.kubectl("", "delete", "vm", "--all", "-n", s.ns)
	s.eventually("only what is somebody else's is left", func() error {
		if left := s.domains(); left != s.domainOf("taken") {
			return fmt.Errorf("domains %q are left", left)
		}
		return nil
	})
}

// A full disk keeps an instance from starting, leaves nothing half-made, and is
// no trouble any more once there is room.
func TestFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs to mount a small disk")
	}
	s := newStage(t)
	must(t, syscall.Mount("none", s.dir("n"), "tmpfs", 0, "size=1m,mode=0777"))
	t.Cleanup(func() { _ = syscall.Unmount(s.dir("n"), syscall.MNT_DETACH) })
	filler := filepath.Join(s.dir("n"), "filler")
	if err := os.WriteFile(filler, make([]byte, 2<<20), 0o644); err == nil {
		t.Fatal("the disk is not full")
	}
	s.create("web", "running: true", idle)
	s.trouble("web", "FilesNotMade", "no space left")
	half, err := filepath.Glob(filepath.Join(s.dir("n"), "*", "*"))
	must(t, err)
	for _, file := range half {
		if info, err := os.Stat(file); err == nil && (strings.Contains(file, "unfinished") || info.Size() == 0) {
			t.Errorf("%s is half-made", file)
		}
	}
	must(t, os.Remove(filler))
	s.phase("web", kubevirtv1.Running)
	s.kubectl("", "delete", "vm", "web", "-n", s.ns)
	s.clean()
}

// A guest that starts paused is running, and does not run until it is resumed.
func TestPaused(t *testing.T) {
	s := newStage(t)
	s.create("web", "running: true", "startStrategy: Paused\n"+idle)
	vmi := s.until("web", "paused", func(vmi *kubevirtv1.VirtualMachineInstance) bool {
		c := condition(vmi, kubevirtv1.VirtualMachineInstancePaused)
		return c != nil && c.Status == corev1.ConditionTrue && vmi.Status.Phase == kubevirtv1.Running
	})
	if state, err := s.daemon.Virsh("domstate", s.domainOf("web")); err != nil || state != "paused" {
		t.Errorf("the domain is %s: %v", state, err)
	}
	_, err := s.daemon.Virsh("resume", s.domainOf("web"))
	must(t, err)
	s.until("web", "not paused", func(vmi *kubevirtv1.VirtualMachineInstance) bool {
		return vmi != nil && condition(vmi, kubevirtv1.VirtualMachineInstancePaused) == nil
	})
	if now := s.instance("web"); now.UID != vmi.UID {
		t.Error("it is another instance")
	}
}
