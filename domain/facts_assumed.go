package domain

import (
	"fmt"
	"reflect"

	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// What is assumed of hosts that nobody has asked.
const (
	assumedTSC       = 2_000_000_000
	assumedCID       = 3
	assumedBlockSize = 512
)

// assumedConfidential are UEFI builds for guests whose memory is hidden from
// the host, named as KubeVirt looks for them; no distribution has all of them.
var assumedConfidential = []Firmware{
	{Architecture: "amd64", Code: "/usr/share/OVMF/OVMF_CODE.cc.fd", Vars: "/usr/share/OVMF/OVMF_VARS.fd", Confidential: "SEV"},
	{Architecture: "amd64", Code: "/usr/share/OVMF/OVMF.amdsev.fd", Confidential: "SEV-SNP"},
	{Architecture: "amd64", Code: "/usr/share/OVMF/OVMF.inteltdx.fd", Confidential: "TDX"},
	{Architecture: "amd64", Code: "/usr/share/OVMF/OVMF.inteltdx.secboot.fd", Secure: true, Confidential: "TDX"},
}

// AssumedFacts are those of a host that has what an instance asks for:
// hardware virtualization for its architecture, UEFI where Debian has it,
// aliases of machine types that libvirt resolves, one NUMA node with as many
// CPUs as the instance is to be given, block devices under its luns, and
// devices at made-up addresses. It is what rendering without a host assumes;
// it says nothing of any real host.
func AssumedFacts(vmi *kubevirtv1.VirtualMachineInstance) *HostFacts {
	arch := vmi.Spec.Architecture
	if arch == "" {
		arch = string(v1alpha1.ArchitectureAMD64)
	}
	facts := &HostFacts{
		Architecture: arch, KVM: true, Machines: map[string]map[string]string{},
		TSCFrequency: assumedTSC, VSOCKCID: assumedCID, QuoteSocket: "/var/run/tdx-qgs/qgs.socket",
		Volumes: map[string]VolumeFacts{}, Interfaces: map[string]InterfaceFacts{}, Devices: map[string]DeviceFacts{},
	}
	for _, a := range architectures {
		facts.Machines[a.name] = map[string]string{a.machine: a.machine}
		facts.Firmware = append(facts.Firmware, a.firmware...)
	}
	facts.Firmware = append(facts.Firmware, assumedConfidential...)
	facts.CPUs = assumedCPUs(vmi.Spec.Domain.CPU)
	facts.assumeDevices(&vmi.Spec.Domain.Devices)
	return facts
}

// assumeDevices makes up what only a host can say of devices.
func (f *HostFacts) assumeDevices(devices *kubevirtv1.Devices) {
	for i := range devices.Disks {
		if b := devices.Disks[i].BlockSize; b != nil && b.MatchVolume != nil {
			f.Volumes[devices.Disks[i].Name] = VolumeFacts{LogicalBlockSize: assumedBlockSize, PhysicalBlockSize: assumedBlockSize}
		}
	}
	slot := 0
	next := func() string {
		slot++
		return fmt.Sprintf("0000:81:%02x.0", slot%0x20)
	}
	for i := range devices.Interfaces {
		if devices.Interfaces[i].SRIOV != nil {
			f.Interfaces[devices.Interfaces[i].Name] = InterfaceFacts{PCI: next()}
		}
	}
	for i := range devices.GPUs {
		f.Devices[devices.GPUs[i].Name] = DeviceFacts{PCI: next()}
	}
	for i := range devices.HostDevices {
		f.Devices[devices.HostDevices[i].Name] = DeviceFacts{PCI: next()}
	}
}

// Or is f where it says something, and other facts where it does not. What it
// says of KVM counts in any case.
func (f *HostFacts) Or(others *HostFacts) *HostFacts {
	out := copied(f)
	fill(reflect.ValueOf(out).Elem(), reflect.ValueOf(others).Elem())
	out.KVM = f.KVM
	return out
}

// assumedCPUs are enough for an instance that is to be given CPUs of its own,
// and for its emulator.
func assumedCPUs(c *kubevirtv1.CPU) []HostCPU {
	if c == nil || !c.DedicatedCPUPlacement {
		return nil
	}
	count := uint64(max(c.Sockets, c.MaxSockets, 1)) * uint64(max(c.Cores, 1)) * uint64(max(c.Threads, 1))
	if c.IsolateEmulatorThread {
		count += 2
	}
	out := make([]HostCPU, min(count, maxVCPUs))
	for i := range out {
		out[i] = HostCPU{ID: uint(i), Core: uint(i)}
	}
	return out
}
