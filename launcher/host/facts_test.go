package host

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"libvirt.org/go/libvirtxml"

	"github.com/virtwright/virtwright/domain"
	"github.com/virtwright/virtwright/launcher/libvirtd"
	"github.com/virtwright/virtwright/test/hypervisor"
)

const capabilities = `<capabilities>
  <host>
    <cpu><arch>x86_64</arch><counter name="tsc" frequency="2500000000" scaling="no"/></cpu>
    <topology><cells num="2">
      <cell id="0"><distances><sibling id="0" value="10"/><sibling id="1" value="21"/></distances>
        <cpus num="2"><cpu id="2" socket_id="0" core_id="1"/><cpu id="0" socket_id="0" core_id="0"/></cpus></cell>
      <cell id="1"><cpus num="1"><cpu id="1" socket_id="1" core_id="0"/></cpus></cell>
    </cells></topology>
  </host>
  <guest><os_type>hvm</os_type><arch name="i686"><emulator>/usr/bin/qemu-system-i386</emulator><machine>pc</machine></arch></guest>
  <guest><os_type>hvm</os_type><arch name="x86_64"><emulator>/usr/bin/qemu-system-x86_64</emulator>
    <machine canonical="pc-q35-7.2" maxCpus="288">q35</machine><machine maxCpus="288">pc-q35-7.2</machine>
    <domain type="qemu"/><domain type="kvm"><machine canonical="pc-q35-7.1">q35</machine><machine>only-kvm</machine></domain></arch></guest>
</capabilities>`

func TestFacts(t *testing.T) {
	var caps libvirtxml.Caps
	if err := caps.Unmarshal(capabilities); err != nil {
		t.Fatal(err)
	}
	want := &domain.HostFacts{
		Architecture: "amd64", TSCFrequency: 2_500_000_000,
		Emulators: map[string]string{"amd64": "/usr/bin/qemu-system-x86_64"},
		Machines:  map[string]map[string]string{"amd64": {"q35": "pc-q35-7.2", "pc-q35-7.2": "pc-q35-7.2", "only-kvm": "only-kvm"}},
		CPUs:      []domain.HostCPU{{ID: 0}, {ID: 1, Socket: 1, Node: 1}, {ID: 2, Core: 1}},
		Distances: map[uint]map[uint]uint{0: {0: 10, 1: 21}},
	}
	if diff := cmp.Diff(want, Facts(&caps, nil)); diff != "" {
		t.Error(diff)
	}
}

func TestFirmware(t *testing.T) {
	root := t.TempDir()
	flash := func(code, vars, features string) string {
		return `{"interface-types": ["uefi"], "mapping": {"device": "flash", "executable": {"filename": "` + code + `", "format": "raw"},
"nvram-template": {"filename": "` + vars + `", "format": "raw"}}, "targets": [{"architecture": "x86_64"}], "features": [` + features + `]}`
	}
	for name, text := range map[string]string{
		"usr/share/qemu/firmware/40-secure.json":   flash("/s/code", "/s/vars", `"secure-boot", "enrolled-keys", "requires-smm"`),
		"usr/share/qemu/firmware/50-keyless.json":  flash("/k/code", "/k/vars", `"secure-boot", "requires-smm"`),
		"usr/share/qemu/firmware/60-plain.json":    flash("/p/code", "/p/vars", `"amd-sev"`),
		"usr/share/qemu/firmware/70-replaced.json": flash("/r/code", "/r/vars", ""),
		"etc/qemu/firmware/70-replaced.json":       "",
		"usr/share/qemu/firmware/80-tdx.json":      `{"interface-types": ["uefi"], "mapping": {"device": "memory", "filename": "/t/code"}, "targets": [{"architecture": "x86_64"}], "features": ["intel-tdx"]}`,
		"usr/share/qemu/firmware/90-bios.json":     `{"interface-types": ["bios"], "mapping": {"device": "memory", "filename": "/b"}, "targets": [{"architecture": "x86_64"}]}`,
		"usr/share/qemu/firmware/README":           "not JSON",
	} {
		file := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Firmware(root, FirmwareFolders)
	if err != nil {
		t.Fatal(err)
	}
	want := []domain.Firmware{
		{Architecture: "amd64", Code: "/s/code", Vars: "/s/vars", Secure: true},
		{Architecture: "amd64", Code: "/p/code", Vars: "/p/vars"},
		{Architecture: "amd64", Code: "/p/code", Vars: "/p/vars", Confidential: "SEV"},
		{Architecture: "amd64", Code: "/t/code", Confidential: "TDX"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestProbe assembles the source of the boot sector and compares it with probe.bin.
func TestProbe(t *testing.T) {
	as, err := exec.LookPath("as")
	if err != nil {
		t.Skip("needs binutils")
	}
	dir := t.TempDir()
	object, binary := filepath.Join(dir, "probe.o"), filepath.Join(dir, "probe.bin")
	for _, command := range [][]string{{as, "--64", "testdata/probe.asm", "-o", object}, {"ld", "-Ttext", "0x7c00", "--oformat", "binary", object, "-o", binary}} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Skipf("%v: %s", err, out)
		}
	}
	if made, err := os.ReadFile(binary); err != nil || !bytes.Equal(made, probe) {
		t.Errorf("probe.bin differs from testdata/probe.asm: %v", err)
	}
}

// TestVirtualizes runs the guest of the probe under emulation; without a usable /dev/kvm there is
// no hardware virtualization. The test runs itself again as an unprivileged user, as in a pod.
func TestVirtualizes(t *testing.T) {
	hypervisor.Require(t)
	if folder := os.Getenv("PROBE_FOLDER"); folder != "" {
		probeIn(t, folder)
		return
	}
	daemon := hypervisor.Start(t)
	content, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	program, folder := filepath.Join(daemon.Dir, "test"), filepath.Join(daemon.Dir, "p")
	err = errors.Join(os.WriteFile(program, content, 0o755), os.Mkdir(folder, 0o700), daemon.Own(folder), daemon.Own(program))
	if err != nil {
		t.Fatal(err)
	}
	cmd := daemon.Command(t.Context(), program, "-test.run=^TestVirtualizes$", "-test.v")
	cmd.Env = append(cmd.Env, "PROBE_FOLDER="+folder)
	if out, err := cmd.CombinedOutput(); err != nil || bytes.Contains(out, []byte("SKIP")) {
		t.Errorf("%v: %s", err, out)
	}
}

func probeIn(t *testing.T, folder string) {
	daemon := &libvirtd.Daemon{Folder: folder}
	c, err := daemon.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer daemon.Stop()
	works, err := Virtualizes(t.Context(), c, "amd64", folder)
	if err != nil {
		t.Fatal(err)
	}
	if device, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0); err != nil && works {
		t.Error("hardware virtualization works without a device")
	} else if err == nil {
		device.Close()
	}
	if emulated, err := boots(t.Context(), c, "qemu", "maximum", filepath.Join(folder, "e")); err != nil || !emulated {
		t.Errorf("the emulated guest of the probe does not boot: %v", err)
	}
	if _, err := os.Stat(filepath.Join(folder, "e")); err == nil {
		t.Error("files remain")
	}
}
