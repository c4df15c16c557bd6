package podspec

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// The memory that a pod needs in addition to its guest's; docs/launcher.md says how it was
// measured.
const (
	mebi              = 1 << 20
	overheadFixed     = 192 * mebi // for the launcher, libvirt and QEMU
	overheadVCPU      = 8 * mebi
	overheadDisplay   = 32 * mebi
	overheadEmulation = 160 * mebi // for code that QEMU has translated
	overheadTPM       = 32 * mebi
	pageTableShare    = 512 // the ratio of a guest's memory to its page tables
)

// cpuShare is KubeVirt's request for each virtual CPU, in thousandths of a CPU.
const cpuShare = 100

// Emulated reports whether a guest runs without hardware virtualization, since a profile allows it.
func (r *Request) Emulated() bool {
	return r.Backend != nil && r.Backend.SoftwareEmulation == v1alpha1.SoftwareEmulationAllow
}

// overhead returns the memory that a pod needs in addition to its guest's, in bytes.
func (b *builder) overhead(guest int64) int64 {
	out := overheadFixed + b.vcpus()*overheadVCPU + guest/pageTableShare
	devices := &b.spec.Domain.Devices
	if ptr.Deref(devices.AutoattachGraphicsDevice, true) {
		out += overheadDisplay
	}
	if devices.TPM != nil {
		out += overheadTPM
	}
	if b.Emulated() {
		out += overheadEmulation
	}
	if m := b.spec.Domain.Memory; m != nil && m.ReservedOverhead != nil && m.ReservedOverhead.AddedOverhead != nil {
		out += m.ReservedOverhead.AddedOverhead.Value()
	}
	return out
}

// vcpus returns the number of CPUs that the guest starts with.
func (b *builder) vcpus() int64 {
	c := b.spec.Domain.CPU
	if c == nil {
		return 1
	}
	return int64(max(c.Sockets, 1)) * int64(max(c.Cores, 1)) * int64(max(c.Threads, 1))
}

// resources requests what the VMI requests, and the overhead. It limits the memory, too: a guest
// cannot use more, and namespaces with a quota require it.
func (b *builder) resources() {
	given := &b.spec.Domain.Resources
	requests, limits := resourcesOf(b.launcher.Resources.Requests, given.Requests), resourcesOf(b.launcher.Resources.Limits, given.Limits)
	guest := b.guestMemory()
	overhead := resource.NewQuantity(b.overhead(guest.Value()), resource.BinarySI)
	if m := b.spec.Domain.Memory; m != nil && m.Hugepages != nil {
		pages := corev1.ResourceName(corev1.ResourceHugePagesPrefix + m.Hugepages.PageSize)
		requests[pages], limits[pages] = guest, guest
		requests[corev1.ResourceMemory], limits[corev1.ResourceMemory] = *overhead, *overhead
	} else {
		b.memory(guest, *overhead, requests, limits)
	}
	b.cpus(requests, limits)
	b.launcher.Resources.Requests, b.launcher.Resources.Limits = requests, limits
}

func resourcesOf(lists ...corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for _, list := range lists {
		maps.Copy(out, list)
	}
	return out
}

func (b *builder) guestMemory() resource.Quantity {
	if m := b.spec.Domain.Memory; m != nil && m.Guest != nil {
		return *m.Guest
	}
	return b.spec.Domain.Resources.Requests[corev1.ResourceMemory]
}

// memory sets the memory of the guest and the overhead. A VMI may request less than its guest sees,
// to overcommit a node's memory.
func (b *builder) memory(guest, overhead resource.Quantity, requests, limits corev1.ResourceList) {
	if _, set := requests[corev1.ResourceMemory]; !set {
		requests[corev1.ResourceMemory] = guest
	}
	limit := limits[corev1.ResourceMemory]
	for _, least := range []resource.Quantity{guest, requests[corev1.ResourceMemory]} {
		if limit.Cmp(least) < 0 {
			limit = least
		}
	}
	limit = limit.DeepCopy()
	limit.Add(overhead)
	limits[corev1.ResourceMemory] = limit
	if !b.spec.Domain.Resources.OvercommitGuestOverhead {
		request := requests[corev1.ResourceMemory]
		request.Add(overhead)
		requests[corev1.ResourceMemory] = request
	}
	if b.dedicated() {
		requests[corev1.ResourceMemory] = limit
	}
}

func (b *builder) dedicated() bool {
	return b.spec.Domain.CPU != nil && b.spec.Domain.CPU.DedicatedCPUPlacement
}

// cpus requests a part of a CPU for each virtual one, or whole CPUs for a guest with dedicated
// ones.
func (b *builder) cpus(requests, limits corev1.ResourceList) {
	if b.dedicated() {
		whole := b.vcpus()
		if b.spec.Domain.CPU.IsolateEmulatorThread {
			whole++
		}
		requests[corev1.ResourceCPU] = *resource.NewQuantity(whole, resource.DecimalSI)
		limits[corev1.ResourceCPU] = requests[corev1.ResourceCPU]
		return
	}
	if _, set := requests[corev1.ResourceCPU]; set {
		return
	}
	share := resource.NewMilliQuantity(b.vcpus()*cpuShare, resource.DecimalSI)
	if limit, limited := limits[corev1.ResourceCPU]; limited && limit.Cmp(*share) < 0 {
		share = &limit
	}
	requests[corev1.ResourceCPU] = *share
}

// devices requests KVM, unless the guest is emulated, and the guest's devices.
func (b *builder) devices() {
	all := corev1.ResourceList{}
	count := func(name string) {
		if name == "" {
			return
		}
		quantity := all[corev1.ResourceName(name)]
		quantity.Add(*resource.NewQuantity(1, resource.DecimalSI))
		all[corev1.ResourceName(name)] = quantity
	}
	if !b.Emulated() {
		count(string(b.settings.KVMResource))
	}
	for i := range b.spec.Domain.Devices.GPUs {
		count(b.spec.Domain.Devices.GPUs[i].DeviceName)
	}
	for i := range b.spec.Domain.Devices.HostDevices {
		count(b.spec.Domain.Devices.HostDevices[i].DeviceName)
	}
	b.launcher.Resources.Requests, b.launcher.Resources.Limits = all, all
}
