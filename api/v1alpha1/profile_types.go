package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// ProfileMatch says which instances a profile is for. Every part that is given
// must hold; an empty match is every instance of the cluster.
type ProfileMatch struct {
	// labels selects instances by their labels, which a VM's template gives them.
	// For example `labels: {matchLabels: {os: windows}}`.
	//
	// +optional
	Labels *metav1.LabelSelector `json:"labels,omitempty"`

	// namespaces selects the namespaces, by their labels, whose instances this
	// profile is for.
	//
	// +optional
	Namespaces *metav1.LabelSelector `json:"namespaces,omitempty"`

	// architectures are those of the guests that this profile is for: amd64, arm64
	// or s390x. None given means all.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	Architectures []Architecture `json:"architectures,omitempty"`
}

// Architecture of a guest, as spec.architecture of an instance names it.
// +kubebuilder:validation:Enum=amd64;arm64;s390x
type Architecture string

// Architectures that stages 2 and 3 know.
const (
	ArchitectureAMD64 Architecture = "amd64"
	ArchitectureARM64 Architecture = "arm64"
	ArchitectureS390X Architecture = "s390x"
)

// FrontendSettings are what a guest sees where its instance says nothing. A
// field that is left out here is decided by the next profile, at last by what
// is built in, which is what KubeVirt chooses. An instance's own words are
// always stronger.
type FrontendSettings struct {
	// guestFamily gives timers and, for Windows, Hyper-V enlightenments that the
	// family is known to want. Other, the built-in choice, gives none, as KubeVirt
	// does.
	//
	// +optional
	GuestFamily GuestFamily `json:"guestFamily,omitempty"`

	// machine is the machine type of instances that name none, or the bare alias
	// of their architecture (q35, virt, s390-ccw-virtio). A versioned one, such as
	// pc-q35-7.2, is what a guest keeps when its host is upgraded.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9._-]*[a-z0-9])?$`
	Machine string `json:"machine,omitempty"`

	// smbios is what the guest's firmware tables say of the system.
	//
	// +optional
	SMBIOS *SMBIOS `json:"smbios,omitempty"`

	// timers are added to those that the instance names; written as
	// spec.domain.clock.timer of an instance.
	//
	// +optional
	Timers *kubevirtv1.Timer `json:"timers,omitempty"`

	// hyperv are enlightenments that are added to those that the instance names;
	// written as spec.domain.features.hyperv of an instance.
	//
	// +optional
	HyperV *kubevirtv1.FeatureHyperv `json:"hyperv,omitempty"`

	// vmport switches the VMware port of x86 guests; built in: off.
	//
	// +optional
	VMPort *bool `json:"vmport,omitempty"`

	// virtio is the generation of virtio devices on a PCI bus: NonTransitional
	// (virtio 1.0, built in) or Transitional (also 0.9, for guests of old).
	//
	// +optional
	Virtio VirtioGeneration `json:"virtio,omitempty"`

	// rng gives instances that do not ask for one a source of entropy; built in:
	// false.
	//
	// +optional
	RNG *bool `json:"rng,omitempty"`

	// balloon is the memory balloon of instances that do not refuse it.
	//
	// +optional
	Balloon *Balloon `json:"balloon,omitempty"`

	// video is the display adapter of instances that name none.
	//
	// +optional
	Video *Video `json:"video,omitempty"`

	// usbController is always there (Always), or where a device needs it
	// (AsNeeded, built in).
	//
	// +optional
	USBController ControllerPresence `json:"usbController,omitempty"`

	// scsiController is always there unless hotplug is disabled (Always, built
	// in), or where a disk needs it (AsNeeded).
	//
	// +optional
	SCSIController ControllerPresence `json:"scsiController,omitempty"`

	// guestAgent gives the channel that a guest agent answers on; built in: true.
	//
	// +optional
	GuestAgent *bool `json:"guestAgent,omitempty"`

	// networkBoot leaves network adapters their option ROM although they name no
	// bootOrder; built in: false.
	//
	// +optional
	NetworkBoot *bool `json:"networkBoot,omitempty"`
}

// GuestFamily is a family of operating systems.
// +kubebuilder:validation:Enum=Linux;Windows;Other
type GuestFamily string

const (
	// GuestFamilyLinux wants a clock that catches up and no HPET.
	GuestFamilyLinux GuestFamily = "Linux"
	// GuestFamilyWindows wants the same, the hypervclock and enlightenments.
	GuestFamilyWindows GuestFamily = "Windows"
	// GuestFamilyOther wants nothing. It is built in.
	GuestFamilyOther GuestFamily = "Other"
)

// VirtioGeneration is the generation of virtio devices on a PCI bus.
// +kubebuilder:validation:Enum=NonTransitional;Transitional
type VirtioGeneration string

const (
	// VirtioNonTransitional speaks virtio 1.0 only.
	VirtioNonTransitional VirtioGeneration = "NonTransitional"
	// VirtioTransitional speaks virtio 0.9 as well.
	VirtioTransitional VirtioGeneration = "Transitional"
)

// ControllerPresence says when a guest has a controller.
// +kubebuilder:validation:Enum=Always;AsNeeded
type ControllerPresence string

const (
	// ControllerAlways is there for devices to come.
	ControllerAlways ControllerPresence = "Always"
	// ControllerAsNeeded is there for devices that are.
	ControllerAsNeeded ControllerPresence = "AsNeeded"
)

// SMBIOS is what the firmware tables of a guest say of the system.
type SMBIOS struct {
	// manufacturer of the system; built in: KubeVirt.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Manufacturer string `json:"manufacturer,omitempty"`

	// family of the system; built in: KubeVirt.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Family string `json:"family,omitempty"`

	// product is the system's name; built in: None.
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

// Balloon is a guest's memory balloon.
type Balloon struct {
	// freePageReporting lets the guest tell the host of memory that it does not
	// use. Built in: true, except for dedicated CPUs and huge pages, where it is
	// false whatever stands here.
	//
	// +optional
	FreePageReporting *bool `json:"freePageReporting,omitempty"`
}

// Video is a display adapter.
type Video struct {
	// type of the adapter; built in: vga on amd64, virtio elsewhere.
	//
	// +optional
	// +kubebuilder:validation:Enum=vga;cirrus;qxl;virtio;ramfb;bochs;none
	Type string `json:"type,omitempty"`

	// vram in KiB; built in: 16384, for the adapters that have it.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1024
	// +kubebuilder:validation:Maximum=1048576
	VRAM int32 `json:"vram,omitempty"`
}

// FrontendProfileSpec says for which instances a profile decides, and what.
type FrontendProfileSpec struct {
	// priority orders profiles that decide the same field: the higher one wins,
	// then the name that sorts first.
	//
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=-1000000
	// +kubebuilder:validation:Maximum=1000000
	Priority int32 `json:"priority,omitempty"`

	// match says which instances this profile is for.
	//
	// +optional
	Match ProfileMatch `json:"match,omitempty"`

	FrontendSettings `json:",inline"`
}

// BackendProfileSpec says for which instances a profile decides, and what.
type BackendProfileSpec struct {
	// priority orders profiles that decide the same field: the higher one wins,
	// then the name that sorts first.
	//
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=-1000000
	// +kubebuilder:validation:Maximum=1000000
	Priority int32 `json:"priority,omitempty"`

	// match says which instances this profile is for.
	//
	// +optional
	Match ProfileMatch `json:"match,omitempty"`

	BackendSettings `json:",inline"`
}
