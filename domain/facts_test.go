package domain

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func TestCheckFacts(t *testing.T) {
	for name, test := range map[string]struct {
		facts string
		want  []string
	}{
		"nothing": {"{}", nil},
		"all": {`{architecture: amd64, emulators: {amd64: /qemu}, machines: {arm64: {virt: virt-7.2}}, firmware: [{architecture: amd64, code: /c, vars: /v, confidential: SEV}], vsockCID: 3,
			volumes: {a: {path: /a/b, format: qcow2, logicalBlockSize: 512, physicalBlockSize: 4096}}, interfaces: {a: {mac: "02:00:00:00:00:01", mtu: 68, device: tap0, pci: "0000:81:00.2"}, b: {mtu: 65535}},
			devices: {a: {pci: "0000:81:00.0"}, b: {mdev: 5a1f0b5e-3c55-4b5e-9d06-0c1a5a3f7d11}, c: {usbBus: 1, usbDevice: 2}}, quoteSocket: /s}`, nil},
		"architectures": {"{architecture: x86_64, emulators: {aarch64: /q}, machines: {ppc64: {}}, firmware: [{code: /c}]}", []string{"facts.architecture", "facts.emulators", "facts.machines", "facts.firmware[0].architecture"}},
		"paths": {"{emulators: {amd64: qemu}, firmware: [{architecture: amd64, vars: v}, {architecture: amd64, code: /a/../b, confidential: SGX}], volumes: {a: {path: relative}, b: {path: /a//b}}, quoteSocket: s}",
			[]string{"facts.emulators[amd64]", "facts.firmware[0].code", "facts.firmware[0].vars", "facts.firmware[1].code", "facts.firmware[1].confidential", "facts.quoteSocket", "facts.volumes[a].path", "facts.volumes[b].path"}},
		"volumes": {`{volumes: {a: {format: "vmdk\"x", logicalBlockSize: 7, physicalBlockSize: 4194304}}}`, []string{"facts.volumes[a].format", "facts.volumes[a].logicalBlockSize", "facts.volumes[a].physicalBlockSize"}},
		"interfaces": {`{interfaces: {a: {mac: zz, mtu: 67, device: "a b", pci: "1:2"}, b: {mac: "01:00:5e:00:00:01", mtu: 65536, device: tap-with-a-long-name}, c: {device: ..}}}`,
			[]string{"facts.interfaces[a].mac", "facts.interfaces[a].mtu", "facts.interfaces[a].device", "facts.interfaces[a].pci", "facts.interfaces[b].mac", "facts.interfaces[b].mtu", "facts.interfaces[b].device", "facts.interfaces[c].device"}},
		"devices": {`{devices: {a: {pci: x}, b: {mdev: y}, c: {pci: "0000:81:00.0", usbBus: 1, usbDevice: 1}, d: {usbBus: 1}}}`,
			[]string{"facts.devices[a].pci", "facts.devices[b].mdev", "facts.devices[c]", "facts.devices[d]"}},
		"VSOCK": {"{vsockCID: 2}", []string{"facts.vsockCID"}},
	} {
		t.Run(name, func(t *testing.T) {
			var facts HostFacts
			if err := yaml.UnmarshalStrict([]byte(test.facts), &facts); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, err := range facts.Check() {
				got = append(got, err.Field)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want, +got:\n%s", diff)
			}
		})
	}
}

// TestAssumedFactsAreEnough renders demanding VMIs on the host that is assumed for each.
func TestAssumedFactsAreEnough(t *testing.T) {
	for name, spec := range map[string]string{
		"a pool of I/O threads": "{domain: {cpu: {cores: 4, dedicatedCpuPlacement: true}, ioThreadsPolicy: supplementalPool, ioThreads: {supplementalPoolThreadCount: 64}}}",
		"all of it": `{domain: {cpu: {cores: 2, threads: 2, dedicatedCpuPlacement: true, isolateEmulatorThread: true},
			ioThreadsPolicy: supplementalPool, ioThreads: {supplementalPoolThreadCount: 2}}}`,
		"the most CPUs": "{domain: {cpu: {cores: 255, dedicatedCpuPlacement: true, isolateEmulatorThread: true}, ioThreadsPolicy: supplementalPool, ioThreads: {supplementalPoolThreadCount: 64}}}",
		"a lun":         "{domain: {devices: {disks: [{name: l, lun: {bus: scsi}}]}}, volumes: [{name: l, persistentVolumeClaim: {claimName: l}}]}",
		"a context ID":  "{domain: {devices: {autoattachVSOCK: true}}}",
	} {
		t.Run(name, func(t *testing.T) {
			vmi := vmiOf(t, spec)
			vmi.Annotations = map[string]string{kubevirtv1.EmulatorThreadCompleteToEvenParity: ""}
			if _, errs := (&Profiles{}).Plan(vmi, nil, nil); len(errs) > 0 {
				t.Error(errs)
			}
			// Given facts do not replace other assumed facts.
			said := &HostFacts{KVM: true, Volumes: map[string]VolumeFacts{"l": {Preallocated: true}}}
			if _, errs := (&Profiles{}).Plan(vmi, nil, said.Or(AssumedFacts(vmi))); len(errs) > 0 {
				t.Error(errs)
			}
		})
	}
}

func vmiOf(t *testing.T, spec string) *kubevirtv1.VirtualMachineInstance {
	t.Helper()
	var c goldenCase
	if err := yaml.UnmarshalStrict([]byte(spec), &c.Spec); err != nil {
		t.Fatal(err)
	}
	return c.vmi()
}

func TestAssumedDevicesAreUnique(t *testing.T) {
	vmi := (&goldenCase{}).vmi()
	for i := range 10_000 {
		vmi.Spec.Domain.Devices.HostDevices = append(vmi.Spec.Domain.Devices.HostDevices, kubevirtv1.HostDevice{Name: fmt.Sprint(i)})
	}
	seen := map[string]string{}
	facts := AssumedFacts(vmi)
	for name, device := range facts.Devices {
		if other, twice := seen[device.PCI]; twice {
			t.Fatalf("%s and %s are both %s", name, other, device.PCI)
		}
		seen[device.PCI] = name
	}
	if errs := facts.Check(); len(errs) > 0 {
		t.Error(errs)
	}
	if got := facts.Devices["0"].PCI; got != "0000:81:01.0" {
		t.Errorf("the first is %s", got)
	}
}

func TestFactsOr(t *testing.T) {
	said := &HostFacts{
		Architecture: "arm64",
		Volumes:      map[string]VolumeFacts{"root": {Format: "raw"}},
		Interfaces:   map[string]interfaceFacts{"net": {MTU: 9000}},
		Devices:      map[string]DeviceFacts{"gpu": {MDev: "u"}},
	}
	assumed := &HostFacts{
		Architecture: "amd64", KVM: true, TSCFrequency: 1,
		Volumes:    map[string]VolumeFacts{"root": {Format: "qcow2", LogicalBlockSize: 512, Block: true}, "data": {Format: "raw"}},
		Interfaces: map[string]interfaceFacts{"net": {MTU: 1500, PCI: "p"}},
		Devices:    map[string]DeviceFacts{"gpu": {PCI: "p"}, "nic": {PCI: "q"}},
	}
	want := &HostFacts{
		Architecture: "arm64", TSCFrequency: 1,
		Volumes:    map[string]VolumeFacts{"root": {Format: "raw", LogicalBlockSize: 512, Block: true}, "data": {Format: "raw"}},
		Interfaces: map[string]interfaceFacts{"net": {MTU: 9000, PCI: "p"}},
		Devices:    map[string]DeviceFacts{"gpu": {MDev: "u"}, "nic": {PCI: "q"}},
	}
	if diff := cmp.Diff(want, said.Or(assumed)); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	if said.Volumes["root"].LogicalBlockSize != 0 || assumed.Volumes["root"].Format != "qcow2" {
		t.Error("Or has changed its arguments")
	}
}
