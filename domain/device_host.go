package domain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// hostDevices leaves GPUs and host devices to the host, which knows their addresses and kinds. As
// in KubeVirt, the alias is the kind and the name of the device.
func (g *guest) hostDevices() {
	devices, seen := &g.spec.Domain.Devices, map[string]bool{}
	for i := range devices.Interfaces {
		if nic := &devices.Interfaces[i]; nic.SRIOV != nil && nic.State != kubevirtv1.InterfaceStateAbsent {
			g.alias(devicesAt.Child("interfaces").Index(i).Child("name"), "sriov-", nic.Name)
		}
	}
	add := func(at *field.Path, prefix, name string) {
		if seen[name] {
			g.reject(field.Duplicate(at, name))
		} else {
			g.alias(at, prefix, name)
		}
		seen[name] = name != ""
		g.leaveToHost(kindHostDevice, at, name)
	}
	for i := range devices.GPUs {
		add(devicesAt.Child("gpus").Index(i).Child("name"), "gpu-", devices.GPUs[i].Name)
	}
	for i := range devices.HostDevices {
		add(devicesAt.Child("hostDevices").Index(i).Child("name"), "hostdevice-", devices.HostDevices[i].Name)
	}
}

// resolveDevice adds the host device of a placeholder, as KubeVirt does: a PCI function, a mediated
// device or a USB device. The field of the placeholder says what it is to the guest.
func (h *host) resolveDevice(p Placeholder) {
	facts := h.facts.Devices[p.Device]
	var out *libvirtxml.DomainHostdev
	switch {
	case strings.Contains(p.Field, ".interfaces["):
		facts = DeviceFacts{PCI: h.facts.Interfaces[p.Device].PCI}
		out = h.networkFunction(p, facts)
	case strings.Contains(p.Field, ".gpus["):
		out = h.gpu(p, facts)
	default:
		out = h.hostDevice(p, "hostdevice-", facts)
	}
	if out == nil {
		return
	}
	address := cmp.Or(facts.PCI, facts.MDev, fmt.Sprintf("USB %d:%d", facts.USBBus, facts.USBDevice))
	h.devices.Hostdevs = append(h.devices.Hostdevs, *out)
	h.resolved(p, elementOf("hostdev", out.Alias), address, "the device that the host provides")
}

// networkFunction is an SR-IOV function. Its MAC address is set when the host prepares it.
func (h *host) networkFunction(p Placeholder, facts DeviceFacts) *libvirtxml.DomainHostdev {
	if facts.PCI == "" {
		h.missing(p, fmt.Sprintf("interfaces[%s].pci", p.Device))
		return nil
	}
	out := h.hostDevice(p, "sriov-", facts)
	i := h.interfaceIndex(p.Device)
	if out == nil || i < 0 {
		return out
	}
	spec, at := &h.spec.Domain.Devices.Interfaces[i], devicesAt.Child("interfaces").Index(i)
	if spec.BootOrder != nil {
		out.Boot = &libvirtxml.DomainDeviceBoot{Order: *spec.BootOrder}
	}
	if spec.ACPIIndex > 0 {
		out.ACPI = &libvirtxml.DomainDeviceACPI{Index: uint(spec.ACPIIndex)}
	}
	if spec.PciAddress != "" {
		out.Address = parsePCI(spec.PciAddress)
	}
	if spec.MacAddress != "" {
		h.decide(Decision{
			Field: at.Child("macAddress").String(), Element: elementOf("hostdev", out.Alias), Value: spec.MacAddress,
			Reason: "the address must be set when the host prepares the function",
		})
	}
	return out
}

// interfaceIndex is the position of the VMI's interface with a name, or -1.
func (h *host) interfaceIndex(name string) int {
	return slices.IndexFunc(h.spec.Domain.Devices.Interfaces, func(i kubevirtv1.Interface) bool { return i.Name == name })
}

// gpu is a device that may have a display. A mediated device has one by default if the VMI has
// graphics.
func (h *host) gpu(p Placeholder, facts DeviceFacts) *libvirtxml.DomainHostdev {
	out := h.hostDevice(p, "gpu-", facts)
	i := slices.IndexFunc(h.spec.Domain.Devices.GPUs, func(g kubevirtv1.GPU) bool { return g.Name == p.Device })
	if out == nil || out.SubsysMDev == nil || i < 0 {
		return out
	}
	options, at := h.spec.Domain.Devices.GPUs[i].VirtualGPUOptions, devicesAt.Child("gpus").Index(i).Child("virtualGPUOptions", "display")
	display, ramfb := displayOf(options)
	switch {
	case display && hasGraphics(h.spec):
		out.SubsysMDev.Display = "on"
		if ramfb {
			h.frameBuffer(out.SubsysMDev, options != nil, at.Child("ramFB", "enabled"))
		}
	case display && options != nil:
		h.reject(field.Invalid(at.Child("enabled"), true, "needs a display: remove autoattachGraphicsDevice: false"))
	}
	return out
}

// frameBuffer gives a GPU a picture before its driver runs. Only one GPU of a guest can have it:
// the first one that does not opt out.
func (h *host) frameBuffer(out *libvirtxml.DomainHostdevSubsysMDev, explicit bool, at *field.Path) {
	taken := slices.ContainsFunc(h.devices.Hostdevs, func(d libvirtxml.DomainHostdev) bool {
		return d.SubsysMDev != nil && d.SubsysMDev.RamFB != ""
	})
	if !taken {
		out.RamFB = "on"
	} else if explicit {
		h.reject(field.Invalid(at, true, "only one GPU of a guest can have it, and an earlier one has: set it to false"))
	}
}

// displayOf reports whether a GPU has a display, and whether it has one before its driver runs.
func displayOf(options *kubevirtv1.VGPUOptions) (display, ramfb bool) {
	if options == nil {
		return true, true
	}
	d := options.Display
	if d == nil || !ptr.Deref(d.Enabled, true) {
		return false, false
	}
	return true, on(d.RamFB)
}

func (h *host) hostDevice(p Placeholder, prefix string, facts DeviceFacts) *libvirtxml.DomainHostdev {
	out := &libvirtxml.DomainHostdev{Managed: "no", Alias: &libvirtxml.DomainAlias{Name: "ua-" + prefix + p.Device}}
	switch {
	case facts.PCI != "":
		address := parsePCI(facts.PCI)
		if address == nil {
			h.reject(field.Invalid(field.NewPath(p.Field), facts.PCI, "the host's name of the device is no PCI address"))
			return nil
		}
		out.SubsysPCI = &libvirtxml.DomainHostdevSubsysPCI{Source: &libvirtxml.DomainHostdevSubsysPCISource{Address: address.PCI}}
	case facts.MDev != "":
		out.Managed = ""
		out.SubsysMDev = &libvirtxml.DomainHostdevSubsysMDev{
			Model: "vfio-pci", Source: &libvirtxml.DomainHostdevSubsysMDevSource{Address: &libvirtxml.DomainAddressMDev{UUID: facts.MDev}},
		}
	case facts.USBBus > 0 && facts.USBDevice > 0:
		h.enableUSB()
		address := &libvirtxml.DomainAddressUSB{Bus: &facts.USBBus, Device: &facts.USBDevice}
		out.SubsysUSB = &libvirtxml.DomainHostdevSubsysUSB{Source: &libvirtxml.DomainHostdevSubsysUSBSource{Address: address}}
	default:
		h.missing(p, fmt.Sprintf("devices[%s]", p.Device))
		return nil
	}
	return out
}

// enableUSB replaces the controller that says that the guest has no USB.
func (h *host) enableUSB() {
	for i := range h.devices.Controllers {
		if c := &h.devices.Controllers[i]; c.Type == "usb" && c.Model == "none" {
			c.Model = "qemu-xhci"
		}
	}
}
