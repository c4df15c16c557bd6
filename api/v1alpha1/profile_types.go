package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// ProfileMatch selects the VMIs to which a profile applies. All fields that are set must match; an
// empty match selects every VMI of the cluster.
type ProfileMatch struct {
	// labels selects VMIs by their labels, which come from the VM's template. For example
	// `labels: {matchLabels: {os: windows}}`.
	//
	// +optional
	Labels *metav1.LabelSelector `json:"labels,omitempty"`

	// namespaces selects VMIs by the labels of their namespaces.
	//
	// +optional
	Namespaces *metav1.LabelSelector `json:"namespaces,omitempty"`

	// architectures selects VMIs by architecture: amd64, arm64 or s390x. Default: all.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	Architectures []Architecture `json:"architectures,omitempty"`
}

// Architecture is the value of spec.architecture of a VMI.
// +kubebuilder:validation:Enum=amd64;arm64;s390x
type Architecture string

// Architectures of guests that can be rendered.
const (
	ArchitectureAMD64 Architecture = "amd64"
	ArchitectureARM64 Architecture = "arm64"
	ArchitectureS390X Architecture = "s390x"
)

// FrontendSettings configure the virtual hardware of a guest. A field that is not set is taken from
// the next profile, or else has its built-in default, which is KubeVirt's. Fields of the VMI always
// take precedence.
type FrontendSettings struct {
	// guestFamily sets timers and, for Windows, Hyper-V enlightenments that suit the family. Other
	// (default) sets none, as KubeVirt does.
	//
	// +optional
	GuestFamily GuestFamily `json:"guestFamily,omitempty"`

	// machine is the machine type of VMIs that name none, or only the alias of their architecture
	// (q35, virt, s390-ccw-virtio). A versioned type, such as pc-q35-7.2, stays the same when hosts
	// are upgraded.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9._-]*[a-z0-9])?$`
	Machine string `json:"machine,omitempty"`

	// smbios is the system information in the guest's firmware tables.
	//
	// +optional
	SMBIOS *SMBIOS `json:"smbios,omitempty"`

	// timers are added to the timers of the VMI, in the form of spec.domain.clock.timer.
	//
	// +optional
	Timers *kubevirtv1.Timer `json:"timers,omitempty"`

	// hyperv are enlightenments that are added to those of the VMI, in the form of
	// spec.domain.features.hyperv.
	//
	// +optional
	HyperV *kubevirtv1.FeatureHyperv `json:"hyperv,omitempty"`

	// vmport enables the VMware port of x86 guests. Default: false.
	//
	// +optional
	VMPort *bool `json:"vmport,omitempty"`

	// virtio is the generation of virtio devices on a PCI bus: NonTransitional (virtio 1.0,
	// default) or Transitional (also 0.9, for old guests).
	//
	// +optional
	Virtio VirtioGeneration `json:"virtio,omitempty"`

	// rng adds a source of entropy to VMIs that have none. Default: false.
	//
	// +optional
	RNG *bool `json:"rng,omitempty"`

	// balloon configures the memory balloon of VMIs that do not disable it.
	//
	// +optional
	Balloon *Balloon `json:"balloon,omitempty"`

	// video is the display adapter of VMIs that name none.
	//
	// +optional
	Video *Video `json:"video,omitempty"`

	// usbController is added always (Always), or if a device needs it (AsNeeded, default).
	//
	// +optional
	USBController ControllerPresence `json:"usbController,omitempty"`

	// scsiController is added unless hotplug is disabled (Always, default), or if a disk needs it
	// (AsNeeded).
	//
	// +optional
	SCSIController ControllerPresence `json:"scsiController,omitempty"`

	// guestAgent adds the channel of the guest agent. Default: true.
	//
	// +optional
	GuestAgent *bool `json:"guestAgent,omitempty"`

	// networkBoot keeps the option ROM of network adapters without bootOrder. Default: false.
	//
	// +optional
	NetworkBoot *bool `json:"networkBoot,omitempty"`
}

// GuestFamily is a family of operating systems.
// +kubebuilder:validation:Enum=Linux;Windows;Other
type GuestFamily string

const (
	// GuestFamilyLinux sets a clock that catches up, and no HPET.
	GuestFamilyLinux GuestFamily = "Linux"
	// GuestFamilyWindows sets the same, the hypervclock and enlightenments.
	GuestFamilyWindows GuestFamily = "Windows"
	// GuestFamilyOther sets nothing. It is the default.
	GuestFamilyOther GuestFamily = "Other"
)

// VirtioGeneration is the generation of virtio devices on a PCI bus.
// +kubebuilder:validation:Enum=NonTransitional;Transitional
type VirtioGeneration string

const (
	// VirtioNonTransitional supports virtio 1.0 only.
	VirtioNonTransitional VirtioGeneration = "NonTransitional"
	// VirtioTransitional also supports virtio 0.9.
	VirtioTransitional VirtioGeneration = "Transitional"
)

// ControllerPresence controls when a guest has a controller.
// +kubebuilder:validation:Enum=Always;AsNeeded
type ControllerPresence string

const (
	// ControllerAlways adds it for devices that may be plugged later.
	ControllerAlways ControllerPresence = "Always"
	// ControllerAsNeeded adds it if a device needs it.
	ControllerAsNeeded ControllerPresence = "AsNeeded"
)

// SMBIOS is the system information in the firmware tables of a guest.
type SMBIOS struct {
	// manufacturer of the system. Default: KubeVirt.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Manufacturer string `json:"manufacturer,omitempty"`

	// family of the system. Default: KubeVirt.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Family string `json:"family,omitempty"`

	// product is the name of the system. Default: None.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Product string `json:"product,omitempty"`

	// version of the system.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Version string `json:"version,omitempty"`

	// sku is the system's stock keeping unit.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=128
	SKU string `json:"sku,omitempty"`
}

// Balloon configures the memory balloon of a guest.
type Balloon struct {
	// freePageReporting lets the guest report free memory to the host. Default: true. With
	// dedicated CPUs or huge pages it is always false.
	//
	// +optional
	FreePageReporting *bool `json:"freePageReporting,omitempty"`
}

// Video is a display adapter.
type Video struct {
	// type of the adapter. Default: on amd64 vga, or bochs with EFI; virtio elsewhere.
	//
	// +optional
	// +kubebuilder:validation:Enum=vga;cirrus;qxl;virtio;ramfb;bochs;none
	Type string `json:"type,omitempty"`

	// vram in KiB. Default: 16384, for adapters that have it.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1024
	// +kubebuilder:validation:Maximum=1048576
	VRAM int32 `json:"vram,omitempty"`
}

// FrontendProfileSpec selects VMIs and configures their virtual hardware.
type FrontendProfileSpec struct {
	// priority orders profiles that set the same field: the highest priority wins, then the name
	// that sorts first.
	//
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=-1000000
	// +kubebuilder:validation:Maximum=1000000
	Priority int32 `json:"priority,omitempty"`

	// match selects the VMIs to which this profile applies.
	//
	// +optional
	Match ProfileMatch `json:"match,omitempty"`

	FrontendSettings `json:",inline"`
}

// BackendProfileSpec selects VMIs and configures how hosts provide their devices.
type BackendProfileSpec struct {
	// priority orders profiles that set the same field: the highest priority wins, then the name
	// that sorts first.
	//
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=-1000000
	// +kubebuilder:validation:Maximum=1000000
	Priority int32 `json:"priority,omitempty"`

	// match selects the VMIs to which this profile applies.
	//
	// +optional
	Match ProfileMatch `json:"match,omitempty"`

	BackendSettings `json:",inline"`
}
