package v1alpha1

import (
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// BackendSettings are how a host provides what a guest sees. A field that is
// left out here is decided by the next profile, at last by what is built in,
// which is what KubeVirt chooses. Where an instance speaks of the host's side
// itself (a disk's cache, io or errorPolicy, huge pages, dedicated CPUs, I/O
// threads) its words are stronger. No setting here changes what a guest sees, but
// softwareEmulation, which says what it takes away.
type BackendSettings struct {
	// softwareEmulation says what happens where a host cannot virtualize for the
	// guest's architecture: Forbid (built in) refuses, Allow emulates, slowly, and
	// records what the guest loses.
	//
	// +optional
	SoftwareEmulation SoftwareEmulation `json:"softwareEmulation,omitempty"`

	// emulator is the path of QEMU on the host; built in: what the host's libvirt
	// names for the architecture.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:Pattern=`^/`
	Emulator string `json:"emulator,omitempty"`

	// disks says how disks that leave it open are read and written.
	//
	// +optional
	Disks *DiskBacking `json:"disks,omitempty"`

	// cpu says on which CPUs of the host the threads of a guest may run that has
	// not been promised CPUs of its own.
	//
	// +optional
	CPU *CPUBacking `json:"cpu,omitempty"`

	// memory says what the host keeps a guest's memory in.
	//
	// +optional
	Memory *MemoryBacking `json:"memory,omitempty"`

	// networks are rules by which an interface finds its way out; the first one
	// that matches its network decides. Built in: a tap device for each.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Networks []NetworkRule `json:"networks,omitempty"`

	// paths are rules that say where on the host things are.
	//
	// +optional
	Paths *Paths `json:"paths,omitempty"`

	// entropy is the device that feeds a guest's source of entropy; built in:
	// /dev/urandom.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:Pattern=`^/`
	Entropy string `json:"entropy,omitempty"`

	// balloonStatsSeconds is how often a guest reports its memory; 0 is never.
	// Built in: 10.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	BalloonStatsSeconds *int32 `json:"balloonStatsSeconds,omitempty"`

	// serialLog keeps what a guest writes to its serial console in a file; built
	// in: true. An instance's logSerialConsole is stronger.
	//
	// +optional
	SerialLog *bool `json:"serialLog,omitempty"`
}

// SoftwareEmulation says what happens where a host cannot virtualize.
// +kubebuilder:validation:Enum=Forbid;Allow
type SoftwareEmulation string

const (
	// SoftwareEmulationForbid refuses the instance.
	SoftwareEmulationForbid SoftwareEmulation = "Forbid"
	// SoftwareEmulationAllow emulates it.
	SoftwareEmulationAllow SoftwareEmulation = "Allow"
)

// DiskBacking is how disks are read and written.
type DiskBacking struct {
	// cache mode of disks that name none: none, or writeback. Built in: none where
	// the file system under the disk can do direct I/O, writethrough elsewhere. A
	// profile cannot say writethrough, since guests see that: their disks are
	// then without a write cache.
	//
	// +optional
	// +kubebuilder:validation:Enum=none;writeback
	Cache kubevirtv1.DriverCache `json:"cache,omitempty"`

	// io mode of disks that name none. Built in: native where cache is none and
	// the disk is a block device or preallocated.
	//
	// +optional
	// +kubebuilder:validation:Enum=native;threads
	IO kubevirtv1.DriverIO `json:"io,omitempty"`

	// discard hands a guest's discards to the host (unmap, built in, except for
	// volumes that are preallocated) or not (ignore).
	//
	// +optional
	// +kubebuilder:validation:Enum=unmap;ignore
	Discard string `json:"discard,omitempty"`

	// errorPolicy of disks that name none; built in: stop.
	//
	// +optional
	// +kubebuilder:validation:Enum=stop;report;ignore;enospace
	ErrorPolicy kubevirtv1.DiskErrorPolicy `json:"errorPolicy,omitempty"`

	// ioThreads gives the disks of instances that say nothing of I/O threads this
	// many between them; built in: 0.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=64
	IOThreads *int32 `json:"ioThreads,omitempty"`
}

// CPUBacking is where on a host the threads of a guest run. Each is a list of
// CPUs as the kernel writes it, such as 0-3,8.
type CPUBacking struct {
	// vcpus are the CPUs that virtual CPUs may run on.
	//
	// +optional
	// +kubebuilder:validation:Pattern=`^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$`
	// +kubebuilder:validation:MaxLength=1024
	VCPUs string `json:"vcpus,omitempty"`

	// emulator are the CPUs that the emulator's own threads may run on.
	//
	// +optional
	// +kubebuilder:validation:Pattern=`^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$`
	// +kubebuilder:validation:MaxLength=1024
	Emulator string `json:"emulator,omitempty"`

	// ioThreads are the CPUs that I/O threads may run on.
	//
	// +optional
	// +kubebuilder:validation:Pattern=`^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$`
	// +kubebuilder:validation:MaxLength=1024
	IOThreads string `json:"ioThreads,omitempty"`
}

// MemoryBacking is what a host keeps a guest's memory in.
type MemoryBacking struct {
	// source is Anonymous (built in), or Memfd, which other processes may share.
	//
	// +optional
	// +kubebuilder:validation:Enum=Anonymous;Memfd
	Source MemorySource `json:"source,omitempty"`

	// locked keeps the memory from being swapped out; built in: false.
	//
	// +optional
	Locked *bool `json:"locked,omitempty"`

	// preallocated takes all of it at the start; built in: false.
	//
	// +optional
	Preallocated *bool `json:"preallocated,omitempty"`

	// mergeable lets the kernel merge equal pages of guests; built in: true, the
	// kernel's own setting decides.
	//
	// +optional
	Mergeable *bool `json:"mergeable,omitempty"`
}

// MemorySource is what a host keeps a guest's memory in.
type MemorySource string

const (
	// MemoryAnonymous is a process's own memory.
	MemoryAnonymous MemorySource = "Anonymous"
	// MemoryMemfd is memory that can be shared.
	MemoryMemfd MemorySource = "Memfd"
)

// NetworkRule gives the interfaces of some networks a backing.
type NetworkRule struct {
	// network is what the rule is for: pod (the network of the cluster), the
	// networkName of a secondary network as instances write it, or * for all.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Network string `json:"network"`

	// type is Tap (a device that somebody else has made), ManagedTap (libvirt makes
	// it), Bridge (ManagedTap, on a bridge of the host), or User (connections of
	// the emulator's own process, for labs: the guest can call out and nobody can
	// call in).
	Type NetworkBackingType `json:"type"`

	// bridge is the name of the host's bridge, for the type Bridge.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_.-]+$`
	Bridge string `json:"bridge,omitempty"`

	// vhost moves the packets in the kernel; built in: libvirt's choice, which is
	// the kernel where it can. Not for the type User.
	//
	// +optional
	Vhost *bool `json:"vhost,omitempty"`
}

// NetworkBackingType is how an interface finds its way out.
// +kubebuilder:validation:Enum=Tap;ManagedTap;Bridge;User
type NetworkBackingType string

const (
	// NetworkTap is a tap device that somebody else has made. It is built in.
	NetworkTap NetworkBackingType = "Tap"
	// NetworkManagedTap is a tap device that libvirt makes.
	NetworkManagedTap NetworkBackingType = "ManagedTap"
	// NetworkBridge is a tap device that libvirt makes and ties to a bridge.
	NetworkBridge NetworkBackingType = "Bridge"
	// NetworkUser are connections of the emulator's own process.
	NetworkUser NetworkBackingType = "User"
)

// Paths are rules that say where on a host things are. Each is an absolute
// path in which {namespace}, {name} and {uid} stand for the instance's,
// {volume} for the name of a volume, {claim} for that of a
// PersistentVolumeClaim or DataVolume, {image} for that of a container disk.
// What a file name cannot have is written as %2F and the like, so that two names
// never become one. A rule must keep things apart: two instances, two volumes,
// two claims, two images. What is left out is where KubeVirt has it in the pod
// of an instance.
type Paths struct {
	// sockets is the folder of the sockets of console and display.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Sockets string `json:"sockets,omitempty"`

	// nvram is the file of a guest's UEFI variables.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	NVRAM string `json:"nvram,omitempty"`

	// hostDisk is the image of a hostDisk; with {path} for the path that the
	// volume names, {base} for the last part of it.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	HostDisk string `json:"hostDisk,omitempty"`

	// claim is the image of a PersistentVolumeClaim or DataVolume with a file
	// system.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Claim string `json:"claim,omitempty"`

	// blockClaim is the device of a PersistentVolumeClaim or DataVolume in block
	// mode.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	BlockClaim string `json:"blockClaim,omitempty"`

	// containerDisk is the image that a container disk brings; with {index} for
	// the place of the volume among all, from 0. It is never written to.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	ContainerDisk string `json:"containerDisk,omitempty"`

	// overlay is the image that takes what a guest writes to a container disk or an
	// ephemeral volume.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Overlay string `json:"overlay,omitempty"`

	// emptyDisk is the image of an emptyDisk.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	EmptyDisk string `json:"emptyDisk,omitempty"`

	// cloudInit is the image of cloud-init data; with {format} for noCloud or
	// configdrive.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	CloudInit string `json:"cloudInit,omitempty"`

	// data is the image of a volume made of files: configMap, secret, downwardAPI,
	// serviceAccount, sysprep, downwardMetrics; with {kind} for that word, {folder}
	// and {file} for KubeVirt's names.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Data string `json:"data,omitempty"`
}
