package domain

import (
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// maxQueues is how many queues a tap device has at most.
const maxQueues = 256

// interfaces gives the guest its network adapters. As KubeVirt has it, an
// absent one is left out, one with sriov is a device of the host, and those
// that do not boot are without option ROM. A MAC that the instance does not
// name is late-bound, and so is the MTU.
func (g *guest) interfaces() {
	for i := range g.spec.Domain.Devices.Interfaces {
		nic, at := &g.spec.Domain.Devices.Interfaces[i], devicesAt.Child("interfaces").Index(i)
		if nic.State == kubevirtv1.InterfaceStateAbsent {
			continue
		}
		g.checkInterface(nic, at)
		if nic.SRIOV != nil {
			g.boot(at.Child("bootOrder"), nic.BootOrder)
			g.pciAddress(at.Child("pciAddress"), nic.PciAddress)
			g.bind(Late{Kind: LateHostDevice, Field: at.Child("sriov").String(), Device: nic.Name})
			continue
		}
		g.devices.Interfaces = append(g.devices.Interfaces, g.adapter(nic, at))
	}
}

func (g *guest) adapter(nic *kubevirtv1.Interface, at *field.Path) libvirtxml.DomainInterface {
	out := libvirtxml.DomainInterface{
		Model:   &libvirtxml.DomainInterfaceModel{Type: nic.Model},
		MAC:     g.mac(nic, at.Child("macAddress")),
		Boot:    g.boot(at.Child("bootOrder"), nic.BootOrder),
		Alias:   g.alias(at.Child("name"), nic.Name),
		Address: g.pciAddress(at.Child("pciAddress"), nic.PciAddress),
	}
	if nic.Model == "" || nic.Model == kubevirtv1.VirtIO {
		out.Model.Type = g.virtio()
		if ptr.Deref(g.spec.Domain.Devices.NetworkInterfaceMultiQueue, false) {
			out.Driver = &libvirtxml.DomainInterfaceDriver{Queues: min(g.vcpus(), maxQueues)}
		}
	}
	if nic.ACPIIndex > 0 {
		out.ACPI = &libvirtxml.DomainDeviceACPI{Index: uint(nic.ACPIIndex)}
	}
	if g.arch.optionROM && nic.BootOrder == nil && nic.PasstBinding == nil && !ptr.Deref(g.settings.NetworkBoot, false) {
		out.ROM = &libvirtxml.DomainROM{Enabled: "no"}
	}
	if nic.State == kubevirtv1.InterfaceStateLinkDown {
		out.Link = &libvirtxml.DomainInterfaceLink{State: "down"}
	}
	g.bind(Late{Kind: LateMTU, Field: at.String(), Device: nic.Name})
	return out
}

var (
	adapterModels   = []string{"e1000", "e1000e", "igb", "ne2k_pci", "pcnet", "rtl8139", "virtio"}
	interfaceStates = []string{"absent", "down", "up"}
)

func (g *guest) checkInterface(nic *kubevirtv1.Interface, at *field.Path) {
	models := adapterModels
	if g.arch.channelIO() {
		models = []string{kubevirtv1.VirtIO}
	}
	g.oneOf(at.Child("model"), nic.Model, models)
	g.oneOf(at.Child("state"), string(nic.State), interfaceStates)
	if nic.SRIOV != nil && nic.State != "" {
		g.refuse(field.Invalid(at.Child("state"), string(nic.State), "must be left out: the link of an sriov interface is the host's"))
	}
	if nic.ACPIIndex < 0 {
		g.refuse(field.Invalid(at.Child("acpiIndex"), nic.ACPIIndex, "must be at least 1; leave it out where there is none"))
	}
	if g.networks == nil {
		g.networks = networksByName(g.spec)
	}
	if nic.Name != "" && g.networks[nic.Name] == nil {
		err := field.NotFound(at.Child("name"), nic.Name)
		err.Detail = "must be the name of a network"
		g.refuse(err)
	}
	g.checkBinding(nic, at)
}

// checkBinding wants one way into the network. Those that are not supported
// have been refused by the table of fields.
func (g *guest) checkBinding(nic *kubevirtv1.Interface, at *field.Path) {
	unsupported := nic.DeprecatedSlirp != nil || nic.DeprecatedMacvtap != nil || nic.DeprecatedPasst != nil || nic.Binding != nil
	count := 0
	for _, bound := range []bool{nic.Bridge != nil, nic.Masquerade != nil, nic.SRIOV != nil, nic.PasstBinding != nil} {
		if bound {
			count++
		}
	}
	switch {
	case unsupported:
	case count == 0:
		g.refuse(field.Required(at, "must be one of bridge, masquerade, passtBinding and sriov"))
	case count > 1:
		g.refuse(field.Forbidden(at, "must be one of bridge, masquerade, passtBinding and sriov; leave out the others"))
	}
}

var macForm = regexp.MustCompile(`^([0-9a-f]{2}(:[0-9a-f]{2}){5}|[0-9a-f]{2}(-[0-9a-f]{2}){5}|[0-9a-f]{4}(\.[0-9a-f]{4}){2})$`)

// mac is the address of an adapter as libvirt writes it.
func (g *guest) mac(nic *kubevirtv1.Interface, at *field.Path) *libvirtxml.DomainInterfaceMAC {
	text := strings.ToLower(nic.MacAddress)
	if text == "" {
		g.bind(Late{Kind: LateMAC, Field: at.String(), Device: nic.Name})
		return nil
	}
	if !macForm.MatchString(text) {
		g.refuse(field.Invalid(at, nic.MacAddress, "must be six bytes in hexadecimal, such as 02:42:ac:11:00:02"))
		return nil
	}
	digits := strings.NewReplacer(":", "", "-", "", ".", "").Replace(text)
	if !strings.ContainsAny(digits[1:2], "02468ace") {
		g.refuse(field.Invalid(at, nic.MacAddress, "must be the address of one adapter: its first byte must be even"))
	}
	var parts []string
	for pair := range slices.Chunk([]byte(digits), 2) {
		parts = append(parts, string(pair))
	}
	return &libvirtxml.DomainInterfaceMAC{Address: strings.Join(parts, ":")}
}
