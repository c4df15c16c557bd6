package domain

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

const (
	// sidecars is the annotation by which KubeVirt runs programs next to a VMI.
	sidecars         = "hooks.kubevirt.io/hookSidecars"
	longestInterface = 56 // the longest name of an interface that QEMU can use to find its network
	// guestNetworkBits is the longest IPv4 prefix of the network between QEMU and a guest: QEMU
	// gives the guest the address that ends with 15.
	guestNetworkBits  = 27
	guestNetworkBits6 = 64 // the only IPv6 prefix length that libvirt accepts for such a network
)

// podProbes are the probes of the fields that a pod cannot provide, except launchSecurity, which
// CheckPod rejects as a whole.
var podProbes = slices.DeleteFunc(probesOf(notInPod, rejectedInPod), func(p fieldProbe) bool {
	return strings.HasPrefix(p.path, "spec.domain.launchSecurity.")
})

// CheckPod returns an error for each field of a VMI that a pod cannot provide.
func CheckPod(vmi *kubevirtv1.VirtualMachineInstance) field.ErrorList {
	errs := rejectSet(vmi, podProbes)
	at := field.NewPath("spec")
	if _, set := vmi.Annotations[sidecars]; set {
		errs = append(errs, field.Forbidden(field.NewPath("metadata", "annotations").Key(sidecars), "not supported: hook sidecars are not supported"))
	}
	if vmi.Spec.Domain.LaunchSecurity != nil {
		errs = append(errs, field.Forbidden(at.Child("domain", "launchSecurity"), "not supported: "+securityRejected))
	}
	if c := vmi.Spec.DNSConfig; c != nil && len(c.Options) > 0 {
		errs = append(errs, field.Forbidden(at.Child("dnsConfig", "options"), "not supported: they do not reach the guest; set them in the guest"))
	}
	for i := range vmi.Spec.Domain.Devices.Interfaces {
		if name := vmi.Spec.Domain.Devices.Interfaces[i].Name; len(name) > longestInterface {
			errs = append(errs, field.TooLong(devicesAt.Child("interfaces").Index(i).Child("name"), name, longestInterface))
		}
	}
	errs = append(errs, checkGuestNetworks(vmi, at.Child("networks"))...)
	return append(errs, checkTags(vmi)...)
}

// Reachable reports whether connections to the pod of a VMI reach its guest: only ports do that
// interfaces declare or probes use. A VMI without interfaces needs none.
func Reachable(vmi *kubevirtv1.VirtualMachineInstance) bool {
	nics := vmi.Spec.Domain.Devices.Interfaces
	for i := range nics {
		if len(nics[i].Ports) > 0 || len(nics[i].PortRanges) > 0 {
			return true
		}
	}
	for _, p := range []*kubevirtv1.Probe{vmi.Spec.ReadinessProbe, vmi.Spec.LivenessProbe} {
		if p != nil && (p.HTTPGet != nil || p.TCPSocket != nil) {
			return true
		}
	}
	return len(nics) == 0
}

func checkGuestNetworks(vmi *kubevirtv1.VirtualMachineInstance, at *field.Path) field.ErrorList {
	v4 := func(p netip.Prefix) bool { return p.Addr().Is4() && p.Bits() <= guestNetworkBits }
	v6 := func(p netip.Prefix) bool { return p.Addr().Is6() && p.Bits() == guestNetworkBits6 }
	var errs field.ErrorList
	for i := range vmi.Spec.Networks {
		pod := vmi.Spec.Networks[i].Pod
		if pod == nil {
			continue
		}
		at := at.Index(i).Child("pod")
		if !isCIDR(pod.VMNetworkCIDR, v4) {
			errs = append(errs, field.Invalid(at.Child("vmNetworkCIDR"), pod.VMNetworkCIDR,
				fmt.Sprintf("must be an IPv4 network with a prefix of at most %d bits, such as 10.0.2.0/24", guestNetworkBits)))
		}
		if !isCIDR(pod.VMIPv6NetworkCIDR, v6) {
			errs = append(errs, field.Invalid(at.Child("vmIPv6NetworkCIDR"), pod.VMIPv6NetworkCIDR,
				fmt.Sprintf("must be an IPv6 network with a prefix of %d bits, such as fd10:0:2::/64", guestNetworkBits6)))
		}
	}
	return errs
}

// isCIDR reports whether a text is empty or a valid network.
func isCIDR(text string, valid func(netip.Prefix) bool) bool {
	p, err := netip.ParsePrefix(text)
	return text == "" || err == nil && valid(p)
}

// checkTags rejects device tags that no guest can read: they are in cloud-init's metadata.
func checkTags(vmi *kubevirtv1.VirtualMachineInstance) field.ErrorList {
	for i := range vmi.Spec.Volumes {
		if v := &vmi.Spec.Volumes[i]; v.CloudInitNoCloud != nil || v.CloudInitConfigDrive != nil {
			return nil
		}
	}
	var errs field.ErrorList
	reject := func(tag, list string, i int) {
		if tag != "" {
			errs = append(errs, field.Forbidden(devicesAt.Child(list).Index(i).Child("tag"), "not supported: a guest reads tags from a cloud-init volume, and the VMI has none"))
		}
	}
	devices := &vmi.Spec.Domain.Devices
	for i := range devices.Disks {
		reject(devices.Disks[i].Tag, "disks", i)
	}
	for i := range devices.Interfaces {
		reject(devices.Interfaces[i].Tag, "interfaces", i)
	}
	for i := range devices.GPUs {
		reject(devices.GPUs[i].Tag, "gpus", i)
	}
	for i := range devices.HostDevices {
		reject(devices.HostDevices[i].Tag, "hostDevices", i)
	}
	return errs
}
