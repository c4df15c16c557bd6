package domain

// HostFacts are what a host tells about itself and about what it has got ready
// for an instance. They are values: whoever renders has gathered or assumed
// them.
type HostFacts struct {
	// Architecture of the host: amd64, arm64 or s390x.
	Architecture string `json:"architecture"`
	// KVM says that the host runs guests of its architecture in hardware: that one
	// has run, not that there is a device.
	KVM bool `json:"kvm"`
	// Emulators are the paths of QEMU by the architecture of the guest. Where one
	// is missing libvirt chooses.
	Emulators map[string]string `json:"emulators,omitempty"`
	// Machines are the versioned machine types behind aliases, by the architecture
	// of the guest: amd64 → q35 → pc-q35-7.2. An alias that stands for itself is
	// left to libvirt.
	Machines map[string]map[string]string `json:"machines,omitempty"`
	// CPUs are those that the host can give to guests alone, in order of their ID.
	CPUs []HostCPU `json:"cpus,omitempty"`
	// Distances between NUMA nodes, [from][to]; without it nodes are equally far.
	Distances map[uint]map[uint]uint `json:"distances,omitempty"`
	// Firmware are the UEFI builds that the host has.
	Firmware []Firmware `json:"firmware,omitempty"`
	// TSCFrequency in Hz of the time stamp counter that guests can be given.
	TSCFrequency uint64 `json:"tscFrequency,omitempty"`
	// VSOCKCID is the context ID reserved for the instance.
	VSOCKCID uint32 `json:"vsockCID,omitempty"`
	// Volumes by their name in the instance.
	Volumes map[string]VolumeFacts `json:"volumes,omitempty"`
	// Interfaces by their name in the instance.
	Interfaces map[string]InterfaceFacts `json:"interfaces,omitempty"`
	// Devices of the host that the instance asked for, by their name in it.
	Devices map[string]DeviceFacts `json:"devices,omitempty"`
	// QuoteSocket is where TDX guests ask for quotes.
	QuoteSocket string `json:"quoteSocket,omitempty"`
}

// A HostCPU is one thread of the host's processors.
type HostCPU struct {
	// ID is the number that the kernel gives it.
	ID uint `json:"id"`
	// Core, Socket and Node say where it is.
	Core   uint `json:"core"`
	Socket uint `json:"socket"`
	Node   uint `json:"node"`
}

// Firmware is a UEFI build.
type Firmware struct {
	// Architecture of the guests that it is for.
	Architecture string `json:"architecture"`
	// Code is the path of its read-only part.
	Code string `json:"code"`
	// Vars is the path of the template of its variables; empty for firmware
	// without any.
	Vars string `json:"vars,omitempty"`
	// Secure says that it can enforce secure boot.
	Secure bool `json:"secure,omitempty"`
	// Confidential is SEV, SEV-SNP or TDX for firmware made for these.
	Confidential string `json:"confidential,omitempty"`
}

// VolumeFacts are what a host knows of a volume that it has got ready.
type VolumeFacts struct {
	// Path overrides what the path rules say.
	Path string `json:"path,omitempty"`
	// Format of the image: raw or qcow2. Empty is raw, and qcow2 for the image of
	// a container disk.
	Format string `json:"format,omitempty"`
	// Block says that the volume is a block device.
	Block bool `json:"block,omitempty"`
	// DirectIO says that what the image lies on can do direct I/O; nil is yes.
	DirectIO *bool `json:"directIO,omitempty"`
	// Preallocated says that the image has all its blocks.
	Preallocated bool `json:"preallocated,omitempty"`
	// LogicalBlockSize, PhysicalBlockSize and DiscardGranularity in bytes are
	// those of what the image lies on.
	LogicalBlockSize   uint `json:"logicalBlockSize,omitempty"`
	PhysicalBlockSize  uint `json:"physicalBlockSize,omitempty"`
	DiscardGranularity uint `json:"discardGranularity,omitempty"`
}

// InterfaceFacts are what a host knows of an interface that it has got ready.
type InterfaceFacts struct {
	// MAC is the address that the guest must use; empty leaves it open.
	MAC string `json:"mac,omitempty"`
	// MTU in bytes; 0 is 1500.
	MTU uint `json:"mtu,omitempty"`
	// Device is the tap device, or the network device that passt binds to.
	Device string `json:"device,omitempty"`
	// PCI is the address of an SR-IOV function, 0000:81:00.2.
	PCI string `json:"pci,omitempty"`
}

// DeviceFacts say which device of the host an instance gets. One of them is
// set.
type DeviceFacts struct {
	// PCI is an address, 0000:81:00.0.
	PCI string `json:"pci,omitempty"`
	// MDev is the UUID of a mediated device.
	MDev string `json:"mdev,omitempty"`
	// USBBus and USBDevice are the numbers of a USB device, from 1.
	USBBus    uint `json:"usbBus,omitempty"`
	USBDevice uint `json:"usbDevice,omitempty"`
}
