package domain

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// lateDevice hands the guest a device of the host that somebody has got ready:
// a PCI function, a mediated device or a USB device, as KubeVirt does. The
// field that asks for it says what it is to the guest.
func (h *host) lateDevice(late Late) {
	var out *libvirtxml.DomainHostdev
	switch {
	case strings.Contains(late.Field, ".interfaces["):
		out = h.function(late)
	case strings.Contains(late.Field, ".gpus["):
		out = h.gpu(late)
	default:
		out = h.hostDevice(late, h.facts.Devices[late.Device])
		if out != nil {
			out.Alias = deviceAlias("hostdevice-", late.Device)
		}
	}
	if out == nil {
		return
	}
	h.devices.Hostdevs = append(h.devices.Hostdevs, *out)
	h.resolved(late, fmt.Sprintf("devices/hostdev[alias/@name='%s']", out.Alias.Name), h.deviceText(late), "the device that the host has got ready")
}

func deviceAlias(prefix, name string) *libvirtxml.DomainAlias {
	return &libvirtxml.DomainAlias{Name: "ua-" + prefix + name}
}

// deviceText names a device of the host.
func (h *host) deviceText(late Late) string {
	facts := h.facts.Devices[late.Device]
	if strings.Contains(late.Field, ".interfaces[") {
		facts = DeviceFacts{PCI: h.facts.Interfaces[late.Device].PCI}
	}
	if facts.PCI == "" && facts.MDev == "" {
		return fmt.Sprintf("USB %d:%d", facts.USBBus, facts.USBDevice)
	}
	return cmp.Or(facts.PCI, facts.MDev)
}

// function is a network function of its own (SR-IOV). Its address on the
// network is set by whoever gets it ready.
func (h *host) function(late Late) *libvirtxml.DomainHostdev {
	address := h.facts.Interfaces[late.Device].PCI
	if address == "" {
		h.missing(late, fmt.Sprintf("interfaces[%s].pci", late.Device))
		return nil
	}
	out := h.hostDevice(late, DeviceFacts{PCI: address})
	spec, at := h.interfaceSpec(late.Device)
	if out == nil || spec == nil {
		return out
	}
	out.Alias = deviceAlias("sriov-", late.Device)
	if spec.BootOrder != nil {
		out.Boot = &libvirtxml.DomainDeviceBoot{Order: *spec.BootOrder}
	}
	if spec.ACPIIndex > 0 {
		out.ACPI = &libvirtxml.DomainDeviceACPI{Index: uint(spec.ACPIIndex)}
	}
	if spec.PciAddress != "" {
		out.Address = &libvirtxml.DomainAddress{PCI: hostAddress(spec.PciAddress)}
	}
	if spec.MacAddress != "" {
		h.decide(Decision{Field: at.Child("macAddress").String(), Element: fmt.Sprintf("devices/hostdev[alias/@name='%s']", out.Alias.Name), Value: spec.MacAddress, Reason: "whoever gets the function ready sets its address"})
	}
	return out
}

// interfaceSpec is the instance's interface of a name, and where it stands.
func (h *host) interfaceSpec(name string) (*kubevirtv1.Interface, *field.Path) {
	for i := range h.spec.Domain.Devices.Interfaces {
		if h.spec.Domain.Devices.Interfaces[i].Name == name {
			return &h.spec.Domain.Devices.Interfaces[i], devicesAt.Child("interfaces").Index(i)
		}
	}
	return nil, nil
}

// gpu is a device that may show a picture: a mediated one does unless the
// instance says otherwise, if there is a display to show it on.
func (h *host) gpu(late Late) *libvirtxml.DomainHostdev {
	out := h.hostDevice(late, h.facts.Devices[late.Device])
	if out == nil {
		return nil
	}
	out.Alias = deviceAlias("gpu-", late.Device)
	if out.SubsysMDev == nil {
		return out
	}
	spec, at := h.gpuSpec(late.Device)
	display, ramfb := showsPicture(spec)
	switch {
	case display && h.hasGraphics():
		out.SubsysMDev.Display = "on"
		if ramfb {
			h.frameBuffer(out.SubsysMDev, spec, at.Child("virtualGPUOptions", "display", "ramFB", "enabled"))
		}
	case display && spec.VirtualGPUOptions != nil:
		h.refuse(field.Invalid(at.Child("virtualGPUOptions", "display", "enabled"), true, "needs a display: remove autoattachGraphicsDevice: false"))
	}
	return out
}

// frameBuffer lets a GPU show a picture before its driver runs. One of a guest
// can: it is the first that does not say otherwise.
func (h *host) frameBuffer(out *libvirtxml.DomainHostdevSubsysMDev, spec *kubevirtv1.GPU, at *field.Path) {
	taken := slices.ContainsFunc(h.devices.Hostdevs, func(d libvirtxml.DomainHostdev) bool {
		return d.SubsysMDev != nil && d.SubsysMDev.RamFB != ""
	})
	switch {
	case !taken:
		out.RamFB = "on"
	case spec.VirtualGPUOptions != nil:
		h.refuse(field.Invalid(at, true, "one GPU of a guest can have it, and an earlier one has: set it to false"))
	}
}

// gpuSpec is the instance's GPU of a name, and where it stands.
func (h *host) gpuSpec(name string) (*kubevirtv1.GPU, *field.Path) {
	for i := range h.spec.Domain.Devices.GPUs {
		if h.spec.Domain.Devices.GPUs[i].Name == name {
			return &h.spec.Domain.Devices.GPUs[i], devicesAt.Child("gpus").Index(i)
		}
	}
	return &kubevirtv1.GPU{}, devicesAt.Child("gpus")
}

// showsPicture says whether a GPU shows a picture, and whether it does before
// its driver runs.
func showsPicture(g *kubevirtv1.GPU) (display, ramfb bool) {
	if g.VirtualGPUOptions == nil {
		return true, true
	}
	d := g.VirtualGPUOptions.Display
	if d == nil || !ptr.Deref(d.Enabled, true) {
		return false, false
	}
	return true, on(d.RamFB)
}

// hostDevice is a device of the host as libvirt writes it.
func (h *host) hostDevice(late Late, facts DeviceFacts) *libvirtxml.DomainHostdev {
	switch {
	case facts.PCI != "":
		address := hostAddress(facts.PCI)
		if address == nil {
			h.refuse(field.Invalid(field.NewPath(late.Field), facts.PCI, "the host names the device by what is no PCI address"))
			return nil
		}
		return &libvirtxml.DomainHostdev{Managed: "no", SubsysPCI: &libvirtxml.DomainHostdevSubsysPCI{
			Source: &libvirtxml.DomainHostdevSubsysPCISource{Address: address},
		}}
	case facts.MDev != "":
		return &libvirtxml.DomainHostdev{SubsysMDev: &libvirtxml.DomainHostdevSubsysMDev{
			Model: "vfio-pci", Source: &libvirtxml.DomainHostdevSubsysMDevSource{Address: &libvirtxml.DomainAddressMDev{UUID: facts.MDev}},
		}}
	case facts.USBBus > 0 && facts.USBDevice > 0:
		h.plugUSB()
		return &libvirtxml.DomainHostdev{Managed: "no", SubsysUSB: &libvirtxml.DomainHostdevSubsysUSB{
			Source: &libvirtxml.DomainHostdevSubsysUSBSource{Address: &libvirtxml.DomainAddressUSB{Bus: new(facts.USBBus), Device: new(facts.USBDevice)}},
		}}
	}
	h.missing(late, fmt.Sprintf("devices[%s]", late.Device))
	return nil
}

// hostAddress is where on the host a PCI function is; nil where text is no
// address.
func hostAddress(text string) *libvirtxml.DomainAddressPCI {
	parts := pciForm.FindStringSubmatch(text)
	if parts == nil {
		return nil
	}
	numbers := make([]uint, len(parts))
	for i, part := range parts[1:] {
		n, err := strconv.ParseUint(part, 16, 16)
		if err != nil { // pciForm lets nothing through that is no number
			return nil
		}
		numbers[i] = uint(n)
	}
	return pciAddress(numbers[0], numbers[1], numbers[2], numbers[3]).PCI
}

// plugUSB gives a guest that was to have no USB the controller for a device of
// the host's that turns out to be on USB.
func (h *host) plugUSB() {
	for i := range h.devices.Controllers {
		if c := &h.devices.Controllers[i]; c.Type == "usb" && c.Model == "none" {
			c.Model = "qemu-xhci"
		}
	}
}
