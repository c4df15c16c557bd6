package launcher

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// sparse is a guest with a disk, cloud-init data of a Secret and a port.
const sparse = `
terminationGracePeriodSeconds: 60
domain:
  memory: {guest: 128Mi}
  cpu: {sockets: 1, cores: 2, threads: 1, model: qemu64}
  firmware:
    uuid: 5d307ca9-b3ef-428c-8861-06e72d69f223
    kernelBoot:
      kernelArgs: console=ttyS0 quiet panic=1 cryptomgr.notests
      container: {image: "guest:1", kernelPath: /boot/vmlinuz, initrdPath: /boot/initrd.img}
  devices:
    rng: {}
    interfaces:
    - {name: default, masquerade: {}, ports: [{name: http, port: 8080}, {port: 5353, protocol: UDP}, {port: 80}]}
    disks:
    - {name: root, serial: root-1, disk: {bus: virtio}}
    - {name: seed, cdrom: {bus: scsi}}
networks: [{name: default, pod: {}}]
volumes:
- {name: root, emptyDisk: {capacity: 64Mi}}
- {name: seed, cloudInitNoCloud: {secretRef: {name: seed}}}`

const cloudConfig = "#cloud-config\nhostname: web\n"

func newSparse(t *testing.T) *pod {
	t.Helper()
	p := newPod(t, sparse)
	p.write("virtwright/cloud-init/seed/user/userdata", cloudConfig)
	return p
}

// A guest boots: its console is the launcher's output, its hardware is the VMI's, its port answers
// at the pod, commands act, and SIGTERM shuts it down by ACPI.
func TestBoot(t *testing.T) {
	p := newSparse(t)
	p.start()
	facts := p.boots()
	root, seed := facts.Find("block", "serial", "root-1"), facts.Find("block", "label", "cidata")
	got := map[string]string{
		"CPUs": facts["cpu/online"], "UUID": facts["dmi/product_uuid"], "size of the disk": facts["block/"+root+"/bytes"],
		"user data": facts.Files(seed)["user-data"], "arguments": facts["kernel/arguments"], "agent's port": facts["port/org.qemu.guest_agent.0"],
		"entropy": facts["rng/current"], "firmware": facts["firmware/type"], "address": facts["net/eth0/dhcp"],
	}
	want := map[string]string{
		"CPUs": "2", "UUID": "5d307ca9-b3ef-428c-8861-06e72d69f223", "size of the disk": fmt.Sprint(64 << 20),
		"user data": cloudConfig, "arguments": "console=ttyS0 quiet panic=1 cryptomgr.notests", "agent's port": "yes",
		"entropy": "virtio_rng.0", "firmware": "bios", "address": "10.0.2.15/24",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the guest sees something else than its VMI says (-want +got):\n%s", diff)
	}
	for _, probe := range [][]string{{"started"}, {"ready"}, {"guest-agent"}} {
		p.eventually("probe "+probe[0], func() error {
			if why := p.probe(probe...); why != "" {
				return fmt.Errorf("%s", why)
			}
			return nil
		})
	}
	p.eventually("the guest answers HTTP at the pod", func() error {
		out, err := p.exec("bash", "-c", `exec 3<>/dev/tcp/127.0.0.1/8080; printf 'GET / HTTP/1.0\r\n\r\n' >&3; timeout 5 cat <&3`).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "hello") {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	messages, err := os.ReadFile(p.path("stderr"))
	if text := string(messages); err != nil || !strings.HasPrefix(text, "virtwright: ") || !strings.Contains(text, "the guest is emulated, which is slow") {
		t.Errorf("the launcher does not say that the guest is emulated: %q, %v", text, err)
	}
	p.memory()
	for command, want := range map[string]string{"/bin/true": "", "/bin/false": "the command exited with code 1:", "/none": "the command exited with code 127:"} {
		if got := p.probe("exec", "--timeout=20", "--", command); !strings.HasPrefix(got, want) || (got == "") != (want == "") {
			t.Errorf("the probe %s says %q, want %q", command, got, want)
		}
	}
	p.commands()
	p.terminate()
	p.event("powerbutton")
	p.ends(0, v1alpha1.GuestStopped, "the guest shut down after SIGTERM")
}

// ports connects to ports of the guest through the launcher.
func (p *pod) ports() {
	p.Helper()
	p.eventually("the guest answers HTTP at a forwarded port", func() error {
		cmd := p.exec(inPod, "control")
		in, err := cmd.StdinPipe()
		must(p.T, err)
		time.AfterFunc(5*time.Second, func() { _ = in.Close() }) // ends the connection
		if _, err := io.WriteString(in, "portforward 8080\nGET / HTTP/1.0\r\n\r\n"); err != nil {
			return err
		}
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), "ok\nHTTP/1.") || !strings.Contains(string(out), "hello") {
			return fmt.Errorf("%w: %q", err, out)
		}
		return nil
	})
	for action, want := range map[v1alpha1.LauncherAction]string{
		"portforward 9": "ok", // the guest resets the connection
		"portforward 0": `failed port "0" must be 1 to 65535`, "portforward x": `failed port "x" must be 1 to 65535`,
	} {
		if got := p.control(action); got != want {
			p.Errorf("%s: got %q, want %q", action, got, want)
		}
	}
}

// commands tries each action of the manager.
func (p *pod) commands() {
	p.Helper()
	for _, row := range []struct {
		action v1alpha1.LauncherAction
		want   string
		ready  string
	}{
		{v1alpha1.LauncherUnpause, "conflict VMI is not paused", ""},
		{v1alpha1.LauncherPause, "ok", "the guest is paused"},
		{v1alpha1.LauncherPause, "conflict VMI is already paused", "the guest is paused"},
		{v1alpha1.LauncherSoftReboot, "conflict VMI is paused", "the guest is paused"},
		{v1alpha1.LauncherUnpause, "ok", ""},
		{"exec", `failed unsupported action "exec"`, ""},
		{v1alpha1.LauncherReset, "ok", ""},
	} {
		if got := p.control(row.action); got != row.want {
			p.Errorf("%s: got %q, want %q", row.action, got, row.want)
		}
		if got := p.probe("ready"); got != row.ready {
			p.Errorf("after %s the probe ready says %q, want %q", row.action, got, row.ready)
		}
	}
	p.booted(2)
	if got := p.control(v1alpha1.LauncherSoftReboot); got != "ok" {
		p.Errorf("softreboot: %q", got)
	}
	p.booted(3)
	p.ports()
	first := p.terminal()
	p.terminal()
	p.eventually("a new console client replaces the old one", func() error {
		if !first.ended() {
			return errors.New("the first client is still connected")
		}
		return nil
	})
	p.word("ping", "pong")
}

// booted waits until the guest has booted a number of times.
func (p *pod) booted(times int) {
	p.Helper()
	p.eventually(fmt.Sprintf("it boots %d times", times), func() error {
		boots, err := p.console.Boots()
		if err == nil && (len(boots) < times || !boots[times-1].Ready) {
			err = fmt.Errorf("it booted %d times", len(boots))
		}
		return err
	})
}
