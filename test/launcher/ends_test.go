package launcher

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/test/hypervisor"
)

// idle is a guest without anything to boot.
const idle = `
terminationGracePeriodSeconds: 2
domain:
  memory: {guest: 32Mi}
  devices: {disks: [{name: data, disk: {bus: virtio}}]}
volumes: [{name: data, emptyDisk: {capacity: 1Mi}}]`

// started waits until the guest was started.
func (p *pod) started() {
	p.Helper()
	p.eventually("the guest starts", func() error {
		select {
		case <-p.ended:
			text, _ := os.ReadFile(p.path("termination"))
			p.Fatalf("the launcher has ended: %s", text)
		default:
		}
		if why := p.probe("started"); why != "" {
			return fmt.Errorf("%s", why)
		}
		return nil
	})
}

// The end of a guest is the launcher's: exit code and termination message say how it ended.
func TestEnds(t *testing.T) {
	for name, row := range map[string]struct {
		spec   string
		do     func(*pod)
		code   int
		reason v1alpha1.GuestEndReason
		words  string
	}{
		"the guest powers off": {sparse, func(p *pod) { p.boots(); p.word("poweroff", "poweroff") }, 0, v1alpha1.GuestShutdown, "the guest shut down"},
		"the guest panics, with a panic device": {
			strings.Replace(sparse, "    rng: {}\n", "    rng: {}\n    panicDevices: [{model: isa}]\n", 1),
			func(p *pod) { p.boots(); p.Cleanup(p.enter("crash")) }, 1, v1alpha1.GuestCrashed, "kernel panicked", // it may tear what the guest says
		},
		"QEMU is killed": {idle, func(p *pod) { p.started(); must(p.T, syscall.Kill(p.qemu(), syscall.SIGKILL)) }, 1, v1alpha1.GuestCrashed, "QEMU crashed"},
		"the guest ignores the power button": {
			idle, func(p *pod) { p.started(); p.terminate() }, 1, v1alpha1.GuestDestroyed, "did not shut down within its grace period",
		},
		"a paused guest is resumed to shut down": {sparse, func(p *pod) {
			p.boots()
			p.control(v1alpha1.LauncherPause)
			p.terminate()
			p.event("powerbutton")
		}, 0, v1alpha1.GuestStopped, "the guest shut down"},
		"libvirtd is killed, and the guest goes on": {sparse, func(p *pod) {
			p.boots()
			qemu := p.qemu()
			must(p.T, syscall.Kill(p.process("libvirtd"), syscall.SIGKILL))
			p.word("ping", "pong")
			p.eventually("the launcher is ready again", func() error {
				if why := p.probe("ready"); why != "" {
					return fmt.Errorf("%s", why)
				}
				return nil
			})
			if now := p.qemu(); now != qemu {
				p.Errorf("QEMU is process %d, was %d", now, qemu)
			}
			p.terminate()
		}, 0, v1alpha1.GuestStopped, "the guest shut down"},
		"the pod is deleted at once": {idle, func(p *pod) {
			p.eventually("libvirtd starts", func() error {
				if len(p.processes("libvirtd")) == 0 {
					return errors.New("no process")
				}
				return nil
			})
			p.terminate()
		}, 1, v1alpha1.GuestDestroyed, "the pod was deleted before the guest started"},
		"the launcher is killed": {idle, func(p *pod) {
			p.started()
			for _, pid := range p.processes("virtwright-launcher") {
				if pid != p.first() {
					must(p.T, syscall.Kill(pid, syscall.SIGKILL))
				}
			}
		}, 1, v1alpha1.GuestCrashed, "the launcher was ended by signal 9"},
		"nothing virtualizes, and emulation is not allowed": {
			idle, func(*pod) {}, 1, v1alpha1.GuestNotStarted, "spec.architecture: Forbidden: the host has no hardware virtualization",
		},
		"a claim has no image": {
			strings.Replace(idle, "emptyDisk: {capacity: 1Mi}", "persistentVolumeClaim: {claimName: mine}", 1),
			func(*pod) {}, 1, v1alpha1.GuestNotStarted, "spec.volumes[0]: cannot find the image",
		},
		"a field is not supported": {
			strings.Replace(idle, "memory: {guest: 32Mi}", "memory: {guest: 32Mi}\n  cpu: {model: none-such}", 1),
			func(*pod) {}, 1, v1alpha1.GuestNotStarted, "none-such",
		},
		"every problem is reported": {
			strings.Replace(idle, "devices: {", "devices: {tpm: {persistent: true}, ", 1) + "\nnetworks: [{name: a, multus: {networkName: b}}]",
			func(*pod) {}, 1, v1alpha1.GuestNotStarted, "a pod keeps no state of a TPM, spec.networks[0].multus.networkName: Forbidden: not supported: only the pod network",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPod(t, row.spec)
			p.write("virtwright/cloud-init/seed/user/userdata", cloudConfig)
			if strings.Contains(name, "not allowed") {
				p.input.Backend.SoftwareEmulation = v1alpha1.SoftwareEmulationForbid
			}
			p.start()
			row.do(p)
			p.ends(row.code, row.reason, row.words)
		})
	}
}

// An input that cannot be read ends with a message.
func TestWrongInput(t *testing.T) {
	for name, input := range map[string]string{"no JSON": "{", "no VMI": "{}", "nothing": ""} {
		t.Run(name, func(t *testing.T) {
			p := newPod(t, idle)
			p.startInput(input)
			p.ends(1, v1alpha1.GuestNotStarted, "cannot read the input in $VIRTWRIGHT_INPUT")
		})
	}
}

// A guest whose disk is full is paused, and the probe says why.
func TestFullDisk(t *testing.T) {
	p := newSparse(t)
	must(t, syscall.Mount("none", p.volume("root"), "tmpfs", 0, "size=1m,mode=0777"))
	t.Cleanup(func() { _ = syscall.Unmount(p.volume("root"), syscall.MNT_DETACH) })
	p.start()
	p.boots()
	filler := filepath.Join(p.volume("root"), "filler")
	if err := os.WriteFile(filler, make([]byte, 2<<20), 0o644); err == nil {
		t.Fatal("the disk is not full")
	}
	in := p.terminal()
	_, err := io.WriteString(in, "write vda text\n")
	must(t, err)
	p.eventually("the guest is paused by its disk", func() error {
		if why := p.probe("ready"); why != "the guest is paused: I/O error on disk vda" {
			return fmt.Errorf("the probe ready says %q", why)
		}
		return nil
	})
	must(t, os.Remove(filler))
	if got := p.control(v1alpha1.LauncherUnpause); got != "ok" {
		t.Errorf("unpause: %s", got)
	}
	p.event("wrote text")
	if why := p.probe("ready"); why != "" {
		t.Error(why)
	}
}

// A guest that starts paused does not run until it is resumed.
func TestStartPaused(t *testing.T) {
	p := newSparse(t)
	p.input.VMI.Spec.StartStrategy = new(kubevirtv1.StartStrategyPaused)
	p.start()
	p.started()
	if got := p.probe("ready"); got != "the guest is paused" {
		t.Errorf("the probe ready says %q", got)
	}
	if got := p.control(v1alpha1.LauncherUnpause); got != "ok" {
		t.Errorf("unpause: %s", got)
	}
	p.boots()
	if got := p.probe("ready"); got != "" {
		t.Errorf("the probe ready says %q", got)
	}
}

// One frontend, two backends: the guest's description of its hardware is the same to the letter.
func TestTwoBackendsOneGuest(t *testing.T) {
	seen := func(profiles ...v1alpha1.BackendProfile) (hypervisor.Facts, string) {
		p := newSparse(t)
		p.profiles(profiles...)
		p.start()
		facts := p.boots().Hardware()
		command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.qemu()))
		must(t, err)
		p.word("poweroff", "poweroff")
		p.ends(0, v1alpha1.GuestShutdown, "")
		return facts, string(command)
	}
	facts, command := seen()
	other, otherCommand := seen(v1alpha1.BackendProfile{
		ObjectMeta: metav1.ObjectMeta{Name: "other"},
		Spec: v1alpha1.BackendProfileSpec{Priority: 10, BackendSettings: v1alpha1.BackendSettings{
			Disks:               &v1alpha1.DiskBacking{Cache: "writeback", IO: "threads", Discard: "ignore", ErrorPolicy: "report", IOThreads: new(int32(1))},
			CPU:                 &v1alpha1.CPUBacking{VCPUs: "0", Emulator: "0", IOThreads: "0"},
			Memory:              &v1alpha1.MemoryBacking{Source: v1alpha1.MemoryMemfd, Preallocated: new(true), Mergeable: new(false)},
			BalloonStatsSeconds: new(int32(0)), Entropy: "/dev/random",
		}},
	})
	if diff := cmp.Diff(facts, other); diff != "" {
		t.Errorf("the guest sees what provides its hardware:\n%s", diff)
	}
	if len(facts) < 25 {
		t.Errorf("the guest described only %d facts", len(facts))
	}
	if command == otherCommand {
		t.Error("the backends do not differ")
	}
	t.Logf("%d facts are the same", len(facts))
}
