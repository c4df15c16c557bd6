package node

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"

	"github.com/virtwright/virtwright/lifecycle/node/libvirtd"
)

// agentPort is the channel on which a guest's agent answers.
const agentPort = "org.qemu.guest_agent.0"

// agentConnected says whether the guest's agent has opened its channel.
func agentConnected(guest *libvirtd.Domain) bool {
	if guest == nil || guest.XML.Devices == nil {
		return false
	}
	for i := range guest.XML.Devices.Channels {
		target := guest.XML.Devices.Channels[i].Target
		if target != nil && target.VirtIO != nil && target.VirtIO.Name == agentPort {
			return target.VirtIO.State == "connected"
		}
	}
	return false
}

// guestView is what the running domain says of the guest's hardware.
func (w *writer) guestView() {
	if !w.active() || w.guest.XML.Devices == nil {
		return
	}
	d, status := &w.guest.XML, &w.out.Status
	if d.OS != nil && d.OS.Type != nil {
		status.Machine = &kubevirtv1.Machine{Type: d.OS.Type.Machine}
	}
	status.CurrentCPUTopology = topologyOf(d)
	status.Memory = memoryOf(d)
	w.interfaces()
	w.volumes()
}

// topologyOf are the processors that the guest has now: it may have sockets
// that are empty.
func topologyOf(d *libvirtxml.Domain) *kubevirtv1.CPUTopology {
	count := uint32(1)
	if d.VCPU != nil {
		count = uint32(max(d.VCPU.Current, 0))
		if count == 0 {
			count = uint32(d.VCPU.Value)
		}
	}
	out := &kubevirtv1.CPUTopology{Cores: 1, Threads: 1, Sockets: max(count, 1)}
	if d.CPU != nil && d.CPU.Topology != nil {
		t := d.CPU.Topology
		out.Cores, out.Threads = uint32(max(t.Cores, 1)), uint32(max(t.Threads, 1))
		out.Sockets = max(count/(out.Cores*out.Threads), 1)
	}
	return out
}

// units of memory, as libvirt writes them.
var units = map[string]int64{"": 1 << 10, "b": 1, "bytes": 1, "KiB": 1 << 10, "k": 1 << 10, "MiB": 1 << 20, "M": 1 << 20, "GiB": 1 << 30, "G": 1 << 30}

func memoryOf(d *libvirtxml.Domain) *kubevirtv1.MemoryStatus {
	if d.Memory == nil || units[d.Memory.Unit] == 0 {
		return nil
	}
	size := resource.NewQuantity(int64(d.Memory.Value)*units[d.Memory.Unit], resource.BinarySI)
	return &kubevirtv1.MemoryStatus{GuestAtBoot: size, GuestCurrent: size, GuestRequested: size}
}

// interfaces are those of the domain, by the names that the instance gives.
func (w *writer) interfaces() {
	var out []kubevirtv1.VirtualMachineInstanceNetworkInterface
	for i := range w.guest.XML.Devices.Interfaces {
		nic := &w.guest.XML.Devices.Interfaces[i]
		one := kubevirtv1.VirtualMachineInstanceNetworkInterface{InfoSource: "domain", QueueCount: 1, LinkState: "up"}
		if nic.Alias != nil {
			one.Name = strings.TrimPrefix(nic.Alias.Name, "ua-")
		}
		if nic.MAC != nil {
			one.MAC = nic.MAC.Address
		}
		if nic.Driver != nil && nic.Driver.Queues > 0 {
			one.QueueCount = int32(nic.Driver.Queues)
		}
		if nic.Link != nil && nic.Link.State != "" {
			one.LinkState = nic.Link.State
		}
		out = append(out, one)
	}
	w.out.Status.Interfaces = out
}

// volumes are those that are disks of the guest, and where it finds them.
func (w *writer) volumes() {
	targets := map[string]string{}
	for i := range w.guest.XML.Devices.Disks {
		if disk := &w.guest.XML.Devices.Disks[i]; disk.Alias != nil && disk.Target != nil {
			targets[strings.TrimPrefix(disk.Alias.Name, "ua-")] = disk.Target.Dev
		}
	}
	var out []kubevirtv1.VolumeStatus
	for i := range w.out.Spec.Volumes {
		v := &w.out.Spec.Volumes[i]
		target, known := targets[v.Name]
		if !known {
			continue
		}
		one := kubevirtv1.VolumeStatus{Name: v.Name, Target: target}
		if v.PersistentVolumeClaim != nil {
			one.PersistentVolumeClaimInfo = &kubevirtv1.PersistentVolumeClaimInfo{ClaimName: v.PersistentVolumeClaim.ClaimName}
		}
		out = append(out, one)
	}
	w.out.Status.VolumeStatus = out
}
