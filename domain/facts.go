package domain

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"reflect"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// HostFacts describe a host and what it has prepared for a VMI. The caller has gathered or assumed
// them.
type HostFacts struct {
	// Architecture of the host: amd64, arm64 or s390x.
	Architecture string `json:"architecture"`
	// KVM says that the host has run a guest of its architecture with hardware virtualization. The
	// presence of a device is not enough.
	KVM bool `json:"kvm"`
	// Emulators are the paths of QEMU by the architecture of the guest. libvirt chooses where one
	// is missing.
	Emulators map[string]string `json:"emulators,omitempty"`
	// Machines are the versioned machine types behind aliases, by the architecture of the guest:
	// amd64 → q35 → pc-q35-7.2. An alias that maps to itself is left to libvirt.
	Machines map[string]map[string]string `json:"machines,omitempty"`
	// CPUs that can be dedicated to guests, in order of their ID.
	CPUs []HostCPU `json:"cpus,omitempty"`
	// Distances between NUMA nodes, [from][to]; without them nodes are equally far.
	Distances map[uint]map[uint]uint `json:"distances,omitempty"`
	// Firmware are the host's UEFI builds.
	Firmware []Firmware `json:"firmware,omitempty"`
	// TSCFrequency in Hz of the time stamp counter that guests can be given.
	TSCFrequency uint64 `json:"tscFrequency,omitempty"`
	// VSOCKCID is the context ID that is reserved for the VMI.
	VSOCKCID uint32 `json:"vsockCID,omitempty"`
	// Volumes by their name in the VMI.
	Volumes map[string]VolumeFacts `json:"volumes,omitempty"`
	// Interfaces by their name in the VMI.
	Interfaces map[string]interfaceFacts `json:"interfaces,omitempty"`
	// Devices of the host that the VMI asks for, by their name in the VMI.
	Devices map[string]DeviceFacts `json:"devices,omitempty"`
	// QuoteSocket of the service that signs quotes for TDX guests.
	QuoteSocket string `json:"quoteSocket,omitempty"`
}

// A HostCPU is one thread of the host's processors.
type HostCPU struct {
	// ID is the kernel's number.
	ID uint `json:"id"`
	// Core, Socket and Node of the CPU.
	Core   uint `json:"core"`
	Socket uint `json:"socket"`
	Node   uint `json:"node"`
}

// Firmware is a UEFI build.
type Firmware struct {
	// Architecture of the guests.
	Architecture string `json:"architecture"`
	// Code is the path of its read-only part.
	Code string `json:"code"`
	// Vars is the path of the template of its variable store; empty for firmware without one.
	Vars string `json:"vars,omitempty"`
	// Secure says that it enforces secure boot.
	Secure bool `json:"secure,omitempty"`
	// Confidential is SEV, SEV-SNP or TDX for firmware of such guests.
	Confidential string `json:"confidential,omitempty"`
}

// VolumeFacts describe a volume that a host has prepared.
type VolumeFacts struct {
	// Path overrides the path rules.
	Path string `json:"path,omitempty"`
	// Format of the image: raw or qcow2. The default is raw, or qcow2 for a container disk.
	Format string `json:"format,omitempty"`
	// Block says that the volume is a block device.
	Block bool `json:"block,omitempty"`
	// DirectIO says that the storage of the image supports direct I/O; the default is true.
	DirectIO *bool `json:"directIO,omitempty"`
	// Preallocated says that all blocks of the image are allocated.
	Preallocated bool `json:"preallocated,omitempty"`
	// LogicalBlockSize, PhysicalBlockSize and DiscardGranularity of the storage, in bytes.
	LogicalBlockSize   uint `json:"logicalBlockSize,omitempty"`
	PhysicalBlockSize  uint `json:"physicalBlockSize,omitempty"`
	DiscardGranularity uint `json:"discardGranularity,omitempty"`
}

// interfaceFacts describe an interface that a host has prepared.
type interfaceFacts struct {
	// MAC is the address that the guest must use, if any.
	MAC string `json:"mac,omitempty"`
	// MTU in bytes; the default is 1500.
	MTU uint `json:"mtu,omitempty"`
	// Device is the tap device, or the network device that passt binds to.
	Device string `json:"device,omitempty"`
	// PCI is the address of an SR-IOV function, 0000:81:00.2.
	PCI string `json:"pci,omitempty"`
}

// DeviceFacts identify a device of the host in one of three ways.
type DeviceFacts struct {
	// PCI is an address, 0000:81:00.0.
	PCI string `json:"pci,omitempty"`
	// MDev is the UUID of a mediated device.
	MDev string `json:"mdev,omitempty"`
	// USBBus and USBDevice are the numbers of a USB device, from 1.
	USBBus    uint `json:"usbBus,omitempty"`
	USBDevice uint `json:"usbDevice,omitempty"`
}

// The limits of Linux for the MTU of a network device.
const (
	minMTU = 68
	maxMTU = 65535
)

// Check returns an error for each fact that is invalid for any host. Paths begin with facts.
// Missing facts are no error: only some VMIs need them.
func (f *HostFacts) Check() field.ErrorList {
	at := field.NewPath("facts")
	var errs field.ErrorList
	if f.Architecture != "" {
		errs = append(errs, oneOf(at.Child("architecture"), f.Architecture, architectureNames...)...)
	}
	for _, arch := range sortedKeys(f.Emulators) {
		errs = append(errs, oneOf(at.Child("emulators"), arch, architectureNames...)...)
		errs = append(errs, checkHostPath(at.Child("emulators").Key(arch), f.Emulators[arch])...)
	}
	for _, arch := range sortedKeys(f.Machines) {
		errs = append(errs, oneOf(at.Child("machines"), arch, architectureNames...)...)
	}
	for i := range f.Firmware {
		errs = append(errs, f.Firmware[i].check(at.Child("firmware").Index(i))...)
	}
	if f.VSOCKCID > 0 && f.VSOCKCID < firstCID {
		errs = append(errs, field.Invalid(at.Child("vsockCID"), f.VSOCKCID, fmt.Sprintf("must be at least %d: lower ones are the host's", firstCID)))
	}
	errs = append(errs, checkHostPath(at.Child("quoteSocket"), f.QuoteSocket)...)
	for _, name := range sortedKeys(f.Volumes) {
		errs = append(errs, f.Volumes[name].check(at.Child("volumes").Key(name))...)
	}
	for _, name := range sortedKeys(f.Interfaces) {
		errs = append(errs, f.Interfaces[name].check(at.Child("interfaces").Key(name))...)
	}
	for _, name := range sortedKeys(f.Devices) {
		errs = append(errs, f.Devices[name].check(at.Child("devices").Key(name))...)
	}
	return errs
}

func sortedKeys[V any](of map[string]V) []string { return slices.Sorted(maps.Keys(of)) }

// checkHostPath accepts an absolute, clean path, or none.
func checkHostPath(at *field.Path, file string) field.ErrorList {
	if file != "" && (!isHostPath(file) || path.Clean(file) != file) {
		return field.ErrorList{field.Invalid(at, file, "must be an absolute path without ., .., empty names or names of more than 255 bytes")}
	}
	return nil
}

func (f *Firmware) check(at *field.Path) field.ErrorList {
	errs := oneOf(at.Child("architecture"), f.Architecture, architectureNames...)
	if f.Code == "" {
		errs = append(errs, field.Required(at.Child("code"), "name the file"))
	}
	errs = append(errs, checkHostPath(at.Child("code"), f.Code)...)
	errs = append(errs, checkHostPath(at.Child("vars"), f.Vars)...)
	return append(errs, oneOf(at.Child("confidential"), f.Confidential, "", "SEV", "SEV-SNP", "TDX")...)
}

func (v VolumeFacts) check(at *field.Path) field.ErrorList {
	errs := checkHostPath(at.Child("path"), v.Path)
	errs = append(errs, oneOf(at.Child("format"), v.Format, "", "raw", "qcow2")...)
	for _, size := range []struct {
		name  string
		bytes uint
	}{{"logicalBlockSize", v.LogicalBlockSize}, {"physicalBlockSize", v.PhysicalBlockSize}} {
		if n := size.bytes; n != 0 && (n < minBlockSize || n > maxBlockSize || n&(n-1) != 0) {
			errs = append(errs, field.Invalid(at.Child(size.name), n, fmt.Sprintf("must be a power of two from %d to %d", minBlockSize, maxBlockSize)))
		}
	}
	return errs
}

// unicastForm is the address of one adapter: its first byte is even.
var unicastForm = regexp.MustCompile(`^[0-9a-fA-F][02468aceACE](:[0-9a-fA-F]{2}){5}$`)

func (n interfaceFacts) check(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if n.MAC != "" && !unicastForm.MatchString(n.MAC) {
		errs = append(errs, field.Invalid(at.Child("mac"), n.MAC, "must be the address of one adapter, such as 02:00:00:00:00:01"))
	}
	if n.MTU != 0 && (n.MTU < minMTU || n.MTU > maxMTU) {
		errs = append(errs, field.Invalid(at.Child("mtu"), n.MTU, fmt.Sprintf("must be between %d and %d", minMTU, maxMTU)))
	}
	if n.Device != "" && (!deviceForm.MatchString(n.Device) || n.Device == "." || n.Device == "..") {
		errs = append(errs, field.Invalid(at.Child("device"), n.Device, "must be the name of a network device such as tap0, 15 characters at most"))
	}
	return append(errs, checkPCI(at.Child("pci"), n.PCI)...)
}

func checkPCI(at *field.Path, address string) field.ErrorList {
	if address != "" && parsePCI(address) == nil {
		return field.ErrorList{field.Invalid(at, address, "must be a PCI address such as 0000:81:00.2")}
	}
	return nil
}

// mdevForm is the UUID of a mediated device in the kernel's notation.
var mdevForm = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

func (d DeviceFacts) check(at *field.Path) field.ErrorList {
	errs := checkPCI(at.Child("pci"), d.PCI)
	if d.MDev != "" && !mdevForm.MatchString(d.MDev) {
		errs = append(errs, field.Invalid(at.Child("mdev"), d.MDev, "must be the UUID of a mediated device"))
	}
	usb := d.USBBus > 0 || d.USBDevice > 0
	if count(d.PCI != "", d.MDev != "", usb) > 1 {
		errs = append(errs, field.Forbidden(at, "must be one of pci, mdev and usbBus with usbDevice; leave out the others"))
	}
	if usb && (d.USBBus == 0 || d.USBDevice == 0) {
		errs = append(errs, field.Required(at, "usbBus and usbDevice must be set together, and count from 1"))
	}
	return errs
}

// Assumptions about an unknown host.
const (
	assumedTSC       = 2_000_000_000
	assumedBlockSize = 512
)

// assumedConfidential are UEFI builds for confidential guests, with the names that KubeVirt
// expects; no distribution has all of them.
var assumedConfidential = []Firmware{
	{Architecture: "amd64", Code: "/usr/share/OVMF/OVMF_CODE.cc.fd", Vars: "/usr/share/OVMF/OVMF_VARS.fd", Confidential: "SEV"},
	{Architecture: "amd64", Code: "/usr/share/OVMF/OVMF.amdsev.fd", Confidential: "SEV-SNP"},
	{Architecture: "amd64", Code: "/usr/share/OVMF/OVMF.inteltdx.fd", Confidential: "TDX"},
	{Architecture: "amd64", Code: "/usr/share/OVMF/OVMF.inteltdx.secboot.fd", Secure: true, Confidential: "TDX"},
}

// AssumedFacts returns the facts of an imaginary host that has all that a VMI asks for: hardware
// virtualization for its architecture, Debian's paths of UEFI, aliases of machine types that
// libvirt resolves, one NUMA node with enough CPUs, block devices for luns, and devices at made-up
// addresses. They are for rendering without a host.
func AssumedFacts(vmi *kubevirtv1.VirtualMachineInstance) *HostFacts {
	arch := cmp.Or(vmi.Spec.Architecture, string(v1alpha1.ArchitectureAMD64))
	facts := &HostFacts{
		Architecture: arch, KVM: true, Machines: map[string]map[string]string{},
		TSCFrequency: assumedTSC, VSOCKCID: ptr.Deref(vmi.Status.VSOCKCID, firstCID), QuoteSocket: "/var/run/tdx-qgs/qgs.socket",
		Volumes: map[string]VolumeFacts{}, Interfaces: map[string]interfaceFacts{}, Devices: map[string]DeviceFacts{},
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

// isClaim reports whether a volume is a claim, which may be a block device.
func isClaim(spec *kubevirtv1.VirtualMachineInstanceSpec, name string) bool {
	return slices.ContainsFunc(spec.Volumes, func(v kubevirtv1.Volume) bool {
		return v.Name == name && (v.PersistentVolumeClaim != nil || v.DataVolume != nil)
	})
}

// firstDevice is the number of the first made-up device, 0000:81:01.0. A bus has 32 slots, a domain
// 256 buses.
const firstDevice = 0x81<<5 + 1

func (f *HostFacts) assumeDevices(devices *kubevirtv1.Devices) {
	number := firstDevice - 1
	next := func() string {
		number++
		return fmt.Sprintf("%04x:%02x:%02x.0", number>>13, number>>5&0xff, number&0x1f)
	}
	for i := range devices.Interfaces {
		if devices.Interfaces[i].SRIOV != nil {
			f.Interfaces[devices.Interfaces[i].Name] = interfaceFacts{PCI: next()}
		}
	}
	for i := range devices.GPUs {
		f.Devices[devices.GPUs[i].Name] = DeviceFacts{PCI: next()}
	}
	for i := range devices.HostDevices {
		f.Devices[devices.HostDevices[i].Name] = DeviceFacts{PCI: next()}
	}
}

// Or returns f with the missing facts of others, field by field, also those of each volume and each
// interface. Facts about a device are not merged, since it is either PCI or another kind, and KVM
// is always that of f.
func (f *HostFacts) Or(others *HostFacts) *HostFacts {
	out := copied(f)
	fill(reflect.ValueOf(out).Elem(), reflect.ValueOf(others).Elem())
	out.KVM = f.KVM
	fillValues(out.Volumes, others.Volumes)
	fillValues(out.Interfaces, others.Interfaces)
	return out
}

// fillValues fills each value of a map from the value of another map with the same key.
func fillValues[V any](to, from map[string]V) {
	for key, value := range to {
		other := from[key]
		fill(reflect.ValueOf(&value).Elem(), reflect.ValueOf(&other).Elem())
		to[key] = value
	}
}

// assumedCPUs are enough for a VMI with dedicated CPUs, its pool of I/O threads and its emulator.
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
