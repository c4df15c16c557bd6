package domain

import (
	"fmt"
	"reflect"

	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// What is assumed of hosts that nobody has asked.
const (
	assumedTSC       = 2_000_000_000
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
		TSCFrequency: assumedTSC, VSOCKCID: ptr.Deref(vmi.Status.VSOCKCID, firstCID), QuoteSocket: "/var/run/tdx-qgs/qgs.socket",
		Volumes: map[string]VolumeFacts{}, Interfaces: map[string]InterfaceFacts{}, Devices: map[string]DeviceFacts{},
	}
	for _, a := range architectures {
		facts.Machines[a.name] = map[string]string{a.machine: a.machine}
		facts.Firmware = append(facts.Firmware, a.firmware...)
	}
	facts.Firmware = append(facts.Firmware, assumedConfidential...)
	facts.CPUs = assumedCPUs(&vmi.Spec.Domain)
	facts.assumeVolumes(&vmi.Spec)
	facts.assumeDevices(&vmi.Spec.Domain.Devices)
	return facts
}

// assumeVolumes makes up what only a host can say of volumes.
func (f *HostFacts) assumeVolumes(spec *kubevirtv1.VirtualMachineInstanceSpec) {
	for i := range spec.Domain.Devices.Disks {
		disk := &spec.Domain.Devices.Disks[i]
		facts := VolumeFacts{Block: disk.LUN != nil && isClaim(spec, disk.Name)}
		if b := disk.BlockSize; b != nil && b.MatchVolume != nil {
			facts.LogicalBlockSize, facts.PhysicalBlockSize = assumedBlockSize, assumedBlockSize
		}
		if facts != (VolumeFacts{}) {
			f.Volumes[disk.Name] = facts
		}
	}
}

// isClaim says whether a volume is a claim, which may be a block device.
func isClaim(spec *kubevirtv1.VirtualMachineInstanceSpec, name string) bool {
	for i := range spec.Volumes {
		if v := &spec.Volumes[i]; v.Name == name {
			return v.PersistentVolumeClaim != nil || v.DataVolume != nil
		}
	}
	return false
}

// firstDevice is the number of the first device that is made up: 0000:81:01.0.
// A bus has 32 slots, a domain 256 buses.
const firstDevice = 0x81<<5 + 1

// assumeDevices makes up addresses, each once.
func (f *HostFacts) assumeDevices(devices *kubevirtv1.Devices) {
	number := firstDevice - 1
	next := func() string {
		number++
		return fmt.Sprintf("%04x:%02x:%02x.0", number>>13, number>>5&0xff, number&0x1f)
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

// Or is f where it says something, and other facts where it does not, field by
// field; so it is for each volume and each interface. A device is one thing or
// another: what f says of it is all. What f says of KVM counts in any case.
func (f *HostFacts) Or(others *HostFacts) *HostFacts {
	out := copied(f)
	fill(reflect.ValueOf(out).Elem(), reflect.ValueOf(others).Elem())
	out.KVM = f.KVM
	fillValues(out.Volumes, others.Volumes)
	fillValues(out.Interfaces, others.Interfaces)
	return out
}

// fillValues fills what one map has under a key with what another one has
// there.
func fillValues[V any](to, from map[string]V) {
	for key, value := range to {
		other := from[key]
		fill(reflect.ValueOf(&value).Elem(), reflect.ValueOf(&other).Elem())
		to[key] = value
	}
}

// assumedCPUs are enough for an instance that is to be given CPUs of its own,
// for its pool of I/O threads and for its emulator.
func assumedCPUs(domain *kubevirtv1.DomainSpec) []HostCPU {
	c := domain.CPU
	if c == nil || !c.DedicatedCPUPlacement {
		return nil
	}
	count := min(uint64(max(c.Sockets, c.MaxSockets, 1))*uint64(max(c.Cores, 1))*uint64(max(c.Threads, 1)), maxVCPUs)
	if domain.IOThreads != nil {
		count += uint64(min(ptr.Deref(domain.IOThreads.SupplementalPoolThreadCount, 0), maxIOThreads))
	}
	if c.IsolateEmulatorThread {
		count += 2
	}
	out := make([]HostCPU, count)
	for i := range out {
		out[i] = HostCPU{ID: uint(i), Core: uint(i)}
	}
	return out
}
