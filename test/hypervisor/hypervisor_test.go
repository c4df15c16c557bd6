package hypervisor

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// machine is a minimal domain; the verbs are the daemon's folder, the kernel, the initramfs and the
// kernel's arguments.
const machine = `<domain type="qemu">
  <name>kit</name>
  <uuid>5d307ca9-b3ef-428c-8861-06e72d69f223</uuid>
  <memory unit="MiB">128</memory>
  <vcpu>2</vcpu>
  <os>
    <type arch="x86_64" machine="pc-q35-7.2">hvm</type>
    <kernel>%[2]s</kernel><initrd>%[3]s</initrd><cmdline>%[4]s</cmdline>
    <smbios mode="sysinfo"/>
  </os>
  <sysinfo type="smbios">
    <system><entry name="manufacturer">virtwright</entry><entry name="product">kit</entry><entry name="serial">sn-1</entry></system>
    <chassis><entry name="asset">shelf 3</entry></chassis>
  </sysinfo>
  <features><acpi/><apic/></features>
  <cpu mode="custom" match="exact"><model fallback="forbid">qemu64</model><topology sockets="1" cores="2" threads="1"/></cpu>
  <on_reboot>restart</on_reboot>
  <on_crash>destroy</on_crash>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <disk type="file" device="disk">
      <driver name="qemu" type="qcow2" cache="none"/><source file="%[1]s/disk.qcow2"/><target dev="vda" bus="virtio"/><serial>root-1</serial>
    </disk>
    <disk type="file" device="cdrom"><source file="%[1]s/seed.iso"/><target dev="sda" bus="scsi"/><readonly/></disk>
    <controller type="scsi" model="virtio-scsi"/>
    <controller type="usb" model="none"/>
    <interface type="user"><mac address="02:00:00:00:00:01"/><model type="virtio"/><rom enabled="no"/></interface>
    <serial type="unix"><source mode="bind" path="%[1]s/tty"/><log file="%[1]s/console.log" append="on"/></serial>
    <channel type="unix"><target type="virtio" name="org.qemu.guest_agent.0"/></channel>
    <memballoon model="none"/>
    <rng model="virtio"><backend model="random">/dev/urandom</backend></rng>
  </devices>
</domain>`

const cloudConfig = "#cloud-config\nhostname: kit\n"

// stage is a daemon with the domain defined.
type stage struct {
	*Daemon
	console Console
	tty     string
}

func newStage(t *testing.T) *stage {
	t.Helper()
	began := time.Now()
	d := Start(t)
	guest := d.Guest(t)
	t.Logf("daemon and guest: %s", time.Since(began).Round(time.Millisecond))
	s := &stage{Daemon: d, console: Console(filepath.Join(d.Dir, "console.log")), tty: filepath.Join(d.Dir, "tty")}
	seed := filepath.Join(d.Dir, "seed")
	if err := os.Mkdir(seed, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"meta-data": "instance-id: kit\n", "user-data": cloudConfig} {
		if err := os.WriteFile(filepath.Join(seed, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, command := range [][]string{
		{"qemu-img", "create", "-q", "-f", "qcow2", filepath.Join(d.Dir, "disk.qcow2"), "64M"},
		{"genisoimage", "-quiet", "-o", filepath.Join(d.Dir, "seed.iso"), "-V", "cidata", "-J", "-r", seed},
	} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", command, err, out)
		}
	}
	if err := d.Own(d.Dir); err != nil {
		t.Fatal(err)
	}
	xml := fmt.Sprintf(machine, d.Dir, guest.Kernel, guest.Initrd, kernelArguments)
	if err := validate(xml); err != nil {
		t.Fatal(err)
	}
	for _, uri := range []string{d.TestURI, d.URI} {
		if err := d.DefineValidated(uri, xml); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// virsh fails the test when the command does.
func (s *stage) virsh(t *testing.T, args ...string) string {
	t.Helper()
	out, err := s.Virsh(args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// must fails the test with what could not be awaited.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually fails the test unless what holds within 20 seconds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(pollInterval) {
		if holds() {
			return
		}
	}
	t.Fatalf("not within 20 seconds: %s", what)
}

// TestGuest boots one domain, compares what the guest says with the domain, and takes it through a
// restart of libvirtd and a shutdown.
func TestGuest(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	s := newStage(t)
	began := time.Now()
	step := func(what string) {
		t.Logf("%s: %s", what, time.Since(began).Round(time.Millisecond))
		began = time.Now()
	}

	s.virsh(t, "start", "kit")
	pid, err := s.DomainPID("kit")
	must(t, err)
	facts, err := s.console.Ready(ctx)
	must(t, err)
	step("boot; the kernel took " + facts["volatile/uptime"] + " s")
	checkFacts(t, facts)

	eventually(t, "the guest agent answers", func() bool {
		out, err := s.Virsh("qemu-agent-command", "kit", `{"execute":"guest-ping"}`)
		return err == nil && out == `{"return":{}}`
	})
	step("agent")

	s.Kill()
	if _, err := s.Virsh("list"); err == nil {
		t.Error("libvirtd answers after it was killed")
	}
	must(t, s.Restart())
	if after, err := s.DomainPID("kit"); err != nil || after != pid {
		t.Errorf("the process of the domain was %d before a restart of libvirtd and is %d after: %v", pid, after, err)
	}
	if state := s.virsh(t, "domstate", "kit"); state != "running" {
		t.Errorf("after a restart of libvirtd the domain is %s", state)
	}
	step("restart of libvirtd")

	must(t, typeLine(ctx, s.tty, "ping"))
	must(t, s.console.Event(ctx, "pong"))
	s.virsh(t, "shutdown", "--mode", "acpi", "kit")
	must(t, s.console.Event(ctx, "powerbutton"))
	eventually(t, "the domain is off", func() bool { return s.virsh(t, "domstate", "--reason", "kit") == "shut off (shutdown)" })
	step("shutdown by the power button")

	s.Stop()
	if _, err := os.Stat(s.Dir); err == nil {
		t.Errorf("%s is left behind", s.Dir)
	}
	step("stop")
}

// checkFacts compares what the guest says with the domain.
func checkFacts(t *testing.T, facts Facts) {
	t.Helper()
	for key, want := range map[string]string{
		"cpu/online": "2", "cpu/sockets": "1", "cpu/cores": "2", "cpu/threads": "1", "numa/nodes": "1",
		"dmi/sys_vendor": "virtwright", "dmi/product_name": "kit", "dmi/product_serial": "sn-1", "dmi/chassis_asset_tag": "shelf 3",
		"dmi/product_uuid": "5d307ca9-b3ef-428c-8861-06e72d69f223",
		"firmware/type":    "bios",
		"block/vda/bytes":  "67108864", "block/vda/serial": "root-1", "block/vda/readonly": "0", "block/vda/cache": "write back", "block/vda/queues": "2",
		"block/sr0/label": "cidata", "input/Power Button": "yes",
		"net/eth0/mac": "02:00:00:00:00:01", "net/eth0/mtu": "1500", "net/eth0/carrier": "1", "net/eth0/dhcp": "10.0.2.15/24",
		"rng/current":                 "virtio_rng.0",
		"port/org.qemu.guest_agent.0": "yes",
		"pci/0000:00:00.0/id":         "8086:29c0",
		"kernel/arguments":            kernelArguments,
	} {
		if got := facts[key]; got != want {
			t.Errorf("%s is %q, not %q", key, got, want)
		}
	}
	if files := facts.Files("sr0"); files["user-data"] != cloudConfig || len(files) != 2 {
		t.Errorf("the files on the CD are %q", files)
	}
	if disk := facts.Find("block", "serial", "root-1"); facts["pci/"+facts["block/"+disk+"/pci"]+"/id"] != "1af4:1042" {
		t.Errorf("disk %q lies at %q, which is no virtio block device", disk, facts["block/"+disk+"/pci"])
	}
	if t.Failed() || testing.Verbose() {
		for _, topic := range facts.topics() {
			t.Log(topic)
		}
	}
}

// topics are all facts in lines.
func (f Facts) topics() []string {
	var lines []string
	for _, topic := range []string{"kernel", "memory", "numa", "cpu", "dmi", "firmware", "clock", "rng", "tpm", "panic", "pci", "input", "port", "block", "net"} {
		for _, name := range f.Names(topic) {
			for key, value := range f {
				if below := topic + "/" + name; key == below || strings.HasPrefix(key, below+"/") {
					lines = append(lines, key+"="+value)
				}
			}
		}
	}
	return lines
}

// TestAbandoned kills a test with a running domain; the next daemon's sweep ends the domain, and no
// other.
func TestAbandoned(t *testing.T) {
	Require(t)
	mine := Start(t)
	must(t, mine.DefineValidated(mine.URI, idle("mine")))
	_, err := mine.Virsh("start", "mine", "--paused")
	must(t, err)

	victim := exec.Command(os.Args[0])
	victim.Env = append(os.Environ(), victimVariable+"=1")
	out, err := victim.StdoutPipe()
	must(t, err)
	must(t, victim.Start())
	var dir string
	var libvirtd, domain int
	if _, err := fmt.Fscan(out, &dir, &libvirtd, &domain); err != nil {
		t.Fatal(err)
	}
	_ = victim.Process.Kill()
	_ = victim.Wait()
	eventually(t, "libvirtd ends with the test", func() bool { return gone(libvirtd) })
	if gone(domain) {
		t.Error("the domain ended with libvirtd, so that this test shows nothing")
	}
	sweep()
	if _, err := os.Stat(dir); err == nil {
		t.Errorf("%s is left behind", dir)
	}
	eventually(t, "the abandoned domain ends", func() bool { return gone(domain) })
	if state, err := mine.Virsh("domstate", "mine"); err != nil || state != "paused" {
		t.Errorf("the domain of a test that goes on is %q: %v", state, err)
	}
}

// idle is a domain without anything to boot.
func idle(name string) string {
	return fmt.Sprintf(`<domain type="qemu"><name>%s</name><memory unit="MiB">16</memory><os><type arch="x86_64" machine="q35">hvm</type></os>
<devices><emulator>/usr/bin/qemu-system-x86_64</emulator></devices></domain>`, name)
}

// gone tells whether a process has ended; one that is dead but not waited for has.
func gone(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(stat), ") Z ")
}
