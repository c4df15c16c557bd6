package v1alpha1

import (
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// BackendSettings configure how a host provides the devices of a guest. A field that is not set is
// taken from the next profile, or else has its built-in default, which is KubeVirt's. Fields of the
// VMI (a disk's cache, io or errorPolicy, huge pages, dedicated CPUs, I/O threads) take precedence.
// Except for softwareEmulation, these settings do not change the hardware that a guest sees.
type BackendSettings struct {
	// softwareEmulation applies if a host cannot virtualize the guest's architecture: Forbid
	// (default) rejects the VMI, Allow emulates it, slowly, and records the features that the guest
	// loses. The pod of a VMI with Allow requests no KVM, so that its guest is emulated on every
	// node.
	//
	// +optional
	SoftwareEmulation SoftwareEmulation `json:"softwareEmulation,omitempty"`

	// emulator is the path of QEMU on the host. Default: the path that libvirt uses for the
	// architecture.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:Pattern=`^/`
	Emulator string `json:"emulator,omitempty"`

	// disks configures how disks are read and written if the VMI does not say it.
	//
	// +optional
	Disks *DiskBacking `json:"disks,omitempty"`

	// cpu restricts the host CPUs of guests without dedicated CPUs.
	//
	// +optional
	CPU *CPUBacking `json:"cpu,omitempty"`

	// memory configures the host memory of guests.
	//
	// +optional
	Memory *MemoryBacking `json:"memory,omitempty"`

	// networks are rules that connect interfaces to the host. The first rule that matches the
	// network of an interface applies. Default: a tap device for each interface.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Networks []NetworkRule `json:"networks,omitempty"`

	// paths are the locations of files on the host.
	//
	// +optional
	Paths *Paths `json:"paths,omitempty"`

	// entropy is the device that feeds the guest's source of entropy. Default: /dev/urandom.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:Pattern=`^/`
	Entropy string `json:"entropy,omitempty"`

	// balloonStatsSeconds is how often a guest reports its memory; 0 means never. Default: 10.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	BalloonStatsSeconds *int32 `json:"balloonStatsSeconds,omitempty"`

	// serialLog writes the output of the serial console to a file. Default: true. The VMI's
	// logSerialConsole takes precedence.
	//
	// +optional
	SerialLog *bool `json:"serialLog,omitempty"`
}

// SoftwareEmulation applies if a host cannot virtualize the guest's architecture.
// +kubebuilder:validation:Enum=Forbid;Allow
type SoftwareEmulation string

const (
	// SoftwareEmulationForbid rejects the VMI.
	SoftwareEmulationForbid SoftwareEmulation = "Forbid"
	// SoftwareEmulationAllow emulates the VMI.
	SoftwareEmulationAllow SoftwareEmulation = "Allow"
)

// DiskBacking configures how disks are read and written.
type DiskBacking struct {
	// cache is the default cache mode of disks: none or writeback. Default: none if the file system
	// supports direct I/O, otherwise writethrough. A profile cannot set writethrough, because
	// guests see it as a disk without write cache.
	//
	// +optional
	// +kubebuilder:validation:Enum=none;writeback
	Cache kubevirtv1.DriverCache `json:"cache,omitempty"`

	// io is the default I/O mode of disks. Default: native if cache is none and the disk is a block
	// device or preallocated.
	//
	// +optional
	// +kubebuilder:validation:Enum=native;threads
	IO kubevirtv1.DriverIO `json:"io,omitempty"`

	// discard passes a guest's discards to the host (unmap) or ignores them (ignore). Default:
	// unmap, except for preallocated volumes.
	//
	// +optional
	// +kubebuilder:validation:Enum=unmap;ignore
	Discard string `json:"discard,omitempty"`

	// errorPolicy is the default error policy of disks. Default: stop.
	//
	// +optional
	// +kubebuilder:validation:Enum=stop;report;ignore;enospace
	ErrorPolicy kubevirtv1.DiskErrorPolicy `json:"errorPolicy,omitempty"`

	// ioThreads is the number of I/O threads that the disks of a VMI share if it does not configure
	// I/O threads. Default: 0.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=64
	IOThreads *int32 `json:"ioThreads,omitempty"`
}

// CPUBacking restricts the threads of a guest to host CPUs. Each field is a list of CPUs such as
// 0-3,8.
type CPUBacking struct {
	// vcpus are the CPUs for virtual CPUs.
	//
	// +optional
	// +kubebuilder:validation:Pattern=`^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$`
	// +kubebuilder:validation:MaxLength=1024
	VCPUs string `json:"vcpus,omitempty"`

	// emulator are the CPUs for the threads of the emulator itself.
	//
	// +optional
	// +kubebuilder:validation:Pattern=`^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$`
	// +kubebuilder:validation:MaxLength=1024
	Emulator string `json:"emulator,omitempty"`

	// ioThreads are the CPUs for I/O threads.
	//
	// +optional
	// +kubebuilder:validation:Pattern=`^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$`
	// +kubebuilder:validation:MaxLength=1024
	IOThreads string `json:"ioThreads,omitempty"`
}

// MemoryBacking configures the host memory of a guest.
type MemoryBacking struct {
	// source is Anonymous (default) or Memfd, which other processes can share.
	//
	// +optional
	// +kubebuilder:validation:Enum=Anonymous;Memfd
	Source MemorySource `json:"source,omitempty"`

	// locked prevents the memory from being swapped out. Default: false.
	//
	// +optional
	Locked *bool `json:"locked,omitempty"`

	// preallocated allocates all memory at the start. Default: false.
	//
	// +optional
	Preallocated *bool `json:"preallocated,omitempty"`

	// mergeable lets the kernel merge equal pages of guests, if it is configured to. Default: true.
	//
	// +optional
	Mergeable *bool `json:"mergeable,omitempty"`
}

// MemorySource is the kind of host memory of a guest.
type MemorySource string

const (
	// MemoryAnonymous is private memory of the process.
	MemoryAnonymous MemorySource = "Anonymous"
	// MemoryMemfd is memory that can be shared.
	MemoryMemfd MemorySource = "Memfd"
)

// NetworkRule connects the interfaces of a network to the host.
type NetworkRule struct {
	// network selects interfaces: pod (the cluster's network), the networkName of a secondary
	// network, or * for all.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Network string `json:"network"`

	// type is Tap (an existing tap device), ManagedTap (libvirt creates it), Bridge (ManagedTap on
	// a bridge of the host) or User (connections of the emulator process, for labs: the guest can
	// open connections but not accept any).
	Type NetworkBackingType `json:"type"`

	// bridge is the name of the host's bridge, for the type Bridge.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_.-]+$`
	Bridge string `json:"bridge,omitempty"`

	// vhost processes packets in the kernel. Default: libvirt decides, and uses the kernel if it
	// can. Not allowed with type User.
	//
	// +optional
	Vhost *bool `json:"vhost,omitempty"`
}

// NetworkBackingType is how an interface is connected to the host.
// +kubebuilder:validation:Enum=Tap;ManagedTap;Bridge;User
type NetworkBackingType string

const (
	// NetworkTap is an existing tap device. It is the default.
	NetworkTap NetworkBackingType = "Tap"
	// NetworkManagedTap is a tap device that libvirt creates.
	NetworkManagedTap NetworkBackingType = "ManagedTap"
	// NetworkBridge is a tap device that libvirt creates and adds to a bridge.
	NetworkBridge NetworkBackingType = "Bridge"
	// NetworkUser uses connections of the emulator process.
	NetworkUser NetworkBackingType = "User"
)

// Paths are locations of files on a host. Each is an absolute path with placeholders: {namespace},
// {name} and {uid} of the VMI, {volume} for the name of a volume, {claim} for the name of a
// PersistentVolumeClaim or DataVolume, {image} for the image of a container disk. Characters that a
// file name cannot contain are escaped, as %2F. A path must differ for different VMIs, volumes,
// claims and images. Default: the location in KubeVirt's pods.
type Paths struct {
	// sockets is the directory of the sockets of console and display.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Sockets string `json:"sockets,omitempty"`

	// nvram is the file with the guest's UEFI variables.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	NVRAM string `json:"nvram,omitempty"`

	// hostDisk is the image of a hostDisk. {path} is the path in the volume, {base} its last
	// element.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	HostDisk string `json:"hostDisk,omitempty"`

	// claim is the image of a PersistentVolumeClaim or DataVolume with a file system.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Claim string `json:"claim,omitempty"`

	// blockClaim is the device of a PersistentVolumeClaim or DataVolume in block mode.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	BlockClaim string `json:"blockClaim,omitempty"`

	// containerDisk is the image of a container disk, which is read-only. {index} is the position
	// of the volume in the list of volumes, from 0.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	ContainerDisk string `json:"containerDisk,omitempty"`

	// overlay is the image to which a guest's writes to a container disk or an ephemeral volume go.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Overlay string `json:"overlay,omitempty"`

	// emptyDisk is the image of an emptyDisk.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	EmptyDisk string `json:"emptyDisk,omitempty"`

	// cloudInit is the image of cloud-init data. {format} is noCloud or configdrive.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	CloudInit string `json:"cloudInit,omitempty"`

	// data is the image of a volume of files: configMap, secret, downwardAPI, serviceAccount,
	// sysprep or downwardMetrics. {kind} is that word; {folder} and {file} are KubeVirt's names.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Data string `json:"data,omitempty"`
}
