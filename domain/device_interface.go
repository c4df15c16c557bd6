package domain

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// maxQueues is the largest number of queues of a tap device.
const maxQueues = 256

// interfaces adds network adapters. As in KubeVirt, an absent interface is left out, one with sriov
// is a host device, and adapters that do not boot have no option ROM. The MTU, and a MAC address
// that the VMI does not set, are left to the host.
func (g *guest) interfaces() {
	for i := range g.spec.Domain.Devices.Interfaces {
		nic, at := &g.spec.Domain.Devices.Interfaces[i], devicesAt.Child("interfaces").Index(i)
		if nic.State == kubevirtv1.InterfaceStateAbsent {
			continue
		}
		g.checkInterface(nic, at)
		if nic.SRIOV != nil {
			g.boot(at.Child("bootOrder"), nic.BootOrder)
			g.pciAddress(at.Child("pciAddress"), nic.PciAddress, "")
			g.leaveToHost(kindHostDevice, at.Child("sriov"), nic.Name)
			continue
		}
		g.devices.Interfaces = append(g.devices.Interfaces, g.adapter(nic, at))
	}
}

func (g *guest) adapter(nic *kubevirtv1.Interface, at *field.Path) libvirtxml.DomainInterface {
	out := libvirtxml.DomainInterface{
		Model: &libvirtxml.DomainInterfaceModel{Type: nic.Model},
		MAC:   g.mac(nic, at.Child("macAddress")),
		Boot:  g.boot(at.Child("bootOrder"), nic.BootOrder),
		Alias: g.alias(at.Child("name"), "", nic.Name),
	}
	if nic.Model == "" || nic.Model == kubevirtv1.VirtIO {
		out.Model.Type = g.virtio()
		if ptr.Deref(g.spec.Domain.Devices.NetworkInterfaceMultiQueue, false) {
			out.Driver = &libvirtxml.DomainInterfaceDriver{Queues: min(g.vcpus(), maxQueues)}
		}
	}
	out.Address = g.pciAddress(at.Child("pciAddress"), nic.PciAddress, out.Model.Type)
	if nic.ACPIIndex > 0 {
		out.ACPI = &libvirtxml.DomainDeviceACPI{Index: uint(nic.ACPIIndex)}
	}
	if g.arch.optionROM && nic.BootOrder == nil && nic.PasstBinding == nil && !ptr.Deref(g.settings.NetworkBoot, false) {
		out.ROM = &libvirtxml.DomainROM{Enabled: "no"}
	}
	if nic.State == kubevirtv1.InterfaceStateLinkDown {
		out.Link = &libvirtxml.DomainInterfaceLink{State: "down"}
	}
	g.leaveToHost(kindMTU, at, nic.Name)
	return out
}

var (
	adapterModels   = []string{"e1000", "e1000e", "igb", "ne2k_pci", "pcnet", "rtl8139", "virtio"}
	interfaceStates = []string{"absent", "down", "up"}
)

// mostACPIIndex is QEMU's limit.
const mostACPIIndex = 16_383

func (g *guest) checkInterface(nic *kubevirtv1.Interface, at *field.Path) {
	models := adapterModels
	if g.arch.channelIO() {
		models = []string{kubevirtv1.VirtIO}
	}
	g.oneOf(at.Child("model"), nic.Model, models)
	g.oneOf(at.Child("state"), string(nic.State), interfaceStates)
	if nic.SRIOV != nil && nic.State != "" {
		g.reject(field.Invalid(at.Child("state"), string(nic.State), "must be left out: the link of an sriov interface is the host's"))
	}
	if nic.ACPIIndex < 0 || nic.ACPIIndex > mostACPIIndex {
		g.reject(field.Invalid(at.Child("acpiIndex"), nic.ACPIIndex, fmt.Sprintf("must be from 1 to %d; leave it out where there is none", mostACPIIndex)))
	}
	if nic.Name != "" && g.networks[nic.Name] == nil {
		g.reject(detailed(field.NotFound(at.Child("name"), nic.Name), "must be the name of a network"))
	}
	g.checkBinding(nic, at)
}

func (g *guest) checkBinding(nic *kubevirtv1.Interface, at *field.Path) {
	if nic.DeprecatedSlirp != nil || nic.DeprecatedMacvtap != nil || nic.DeprecatedPasst != nil || nic.Binding != nil {
		return // rejected as unsupported
	}
	switch bindings := count(nic.Bridge != nil, nic.Masquerade != nil, nic.SRIOV != nil, nic.PasstBinding != nil); {
	case bindings == 0:
		g.reject(field.Required(at, "must be one of bridge, masquerade, passtBinding and sriov"))
	case bindings > 1:
		g.reject(field.Forbidden(at, "must be one of bridge, masquerade, passtBinding and sriov; leave out the others"))
	}
}

func networksByName(spec *kubevirtv1.VirtualMachineInstanceSpec) map[string]*kubevirtv1.Network {
	out := make(map[string]*kubevirtv1.Network, len(spec.Networks))
	for i := range spec.Networks {
		out[spec.Networks[i].Name] = &spec.Networks[i]
	}
	return out
}

var macForm = regexp.MustCompile(`^([0-9a-f]{2}(:[0-9a-f]{2}){5}|[0-9a-f]{2}(-[0-9a-f]{2}){5}|[0-9a-f]{4}(\.[0-9a-f]{4}){2})$`)

// mac returns the address of an adapter in libvirt's notation.
func (g *guest) mac(nic *kubevirtv1.Interface, at *field.Path) *libvirtxml.DomainInterfaceMAC {
	text := strings.ToLower(nic.MacAddress)
	if text == "" {
		g.leaveToHost(kindMAC, at, nic.Name)
		return nil
	}
	if !macForm.MatchString(text) {
		g.reject(field.Invalid(at, nic.MacAddress, "must be six bytes in hexadecimal, such as 02:42:ac:11:00:02"))
		return nil
	}
	digits := strings.NewReplacer(":", "", "-", "", ".", "").Replace(text)
	if !strings.ContainsAny(digits[1:2], "02468ace") {
		g.reject(field.Invalid(at, nic.MacAddress, "must be the address of one adapter: its first byte must be even"))
	}
	var parts []string
	for pair := range slices.Chunk([]byte(digits), 2) {
		parts = append(parts, string(pair))
	}
	return &libvirtxml.DomainInterfaceMAC{Address: strings.Join(parts, ":")}
}

const (
	podNetwork = "pod"  // the name of the cluster's network in network rules
	podDevice  = "eth0" // the network device of KubeVirt's pods
	tapLength  = 12     // the number of digits in the name of a tap device: Linux allows 15 characters
	maxPort    = 65535
	// defaultMTU is the MTU of an interface by default, and always of slirp, behind the rule User.
	defaultMTU = 1500
)

// interfaces backs every adapter by the first rule for its network, or by passt if the VMI asks for
// it. KubeVirt always uses a tap device that virt-handler has created.
func (h *host) interfaces() {
	for i := range h.spec.Domain.Devices.Interfaces {
		spec, at := &h.spec.Domain.Devices.Interfaces[i], devicesAt.Child("interfaces").Index(i)
		if spec.SRIOV != nil || spec.State == kubevirtv1.InterfaceStateAbsent {
			continue
		}
		nic := h.adapter(spec.Name)
		if spec.PasstBinding != nil {
			h.passt(spec, nic, at)
		} else {
			h.backing(h.networkRule(spec.Name), spec, nic, at)
		}
	}
}

// adapter returns the adapter that stage 2 added for an interface of the VMI.
func (h *host) adapter(name string) *libvirtxml.DomainInterface {
	if h.adapters == nil {
		h.adapters = make(map[string]*libvirtxml.DomainInterface, len(h.devices.Interfaces))
		for i := range h.devices.Interfaces {
			if nic := &h.devices.Interfaces[i]; nic.Alias != nil {
				h.adapters[nic.Alias.Name] = nic
			}
		}
	}
	return h.adapters["ua-"+name]
}

// builtinTap is the rule for networks without a rule: a tap device that exists already.
var builtinTap = v1alpha1.NetworkRule{Type: v1alpha1.NetworkTap}

// networkRule returns the first rule for the network of an interface. The network of a claim has no
// name.
func (h *host) networkRule(name string) *v1alpha1.NetworkRule {
	network := ""
	switch n := h.networks[name]; {
	case n == nil:
	case n.Pod != nil:
		network = podNetwork
	case n.Multus != nil:
		network = n.Multus.NetworkName
	}
	for i := range h.settings.Networks {
		if rule := &h.settings.Networks[i]; rule.Network == "*" || network != "" && rule.Network == network {
			return rule
		}
	}
	return &builtinTap
}

func (h *host) interfaceDigest(name string) [sha256.Size]byte {
	return sha256.Sum256([]byte(h.vmi.Namespace + "/" + h.vmi.Name + "/" + name))
}

func (h *host) backing(rule *v1alpha1.NetworkRule, spec *kubevirtv1.Interface, nic *libvirtxml.DomainInterface, at *field.Path) {
	sum := h.interfaceDigest(spec.Name)
	device := cmp.Or(h.facts.Interfaces[spec.Name].Device, "tap"+hex.EncodeToString(sum[:])[:tapLength])
	tap, value := &libvirtxml.DomainInterfaceTarget{Dev: device}, string(rule.Type)
	switch rule.Type {
	case v1alpha1.NetworkUser:
		nic.Source = &libvirtxml.DomainInterfaceSource{User: &libvirtxml.DomainInterfaceSourceUser{}}
	case v1alpha1.NetworkBridge:
		nic.Source = &libvirtxml.DomainInterfaceSource{Bridge: &libvirtxml.DomainInterfaceSourceBridge{Bridge: rule.Bridge}}
		nic.Target, value = tap, fmt.Sprintf("Bridge %s, %s", rule.Bridge, tap.Dev)
	default:
		nic.Source = &libvirtxml.DomainInterfaceSource{Ethernet: &libvirtxml.DomainInterfaceSourceEthernet{}}
		nic.Target, value = tap, value+" "+tap.Dev
		if rule.Type == v1alpha1.NetworkTap {
			tap.Managed = "no"
		}
	}
	reason := "the backend profile's rule for " + rule.Network
	if rule == &builtinTap {
		reason = "built in: the backend profile has no rule for its network"
	}
	h.decide(Decision{Field: at.String(), Element: elementOf("interface", nic.Alias) + "/@type", Value: value, Reason: reason})
	h.networkDriver(rule, nic)
}

// networkDriver selects whether the kernel or QEMU moves the packets of virtio adapters. As in
// KubeVirt, it is the kernel for several queues.
func (h *host) networkDriver(rule *v1alpha1.NetworkRule, nic *libvirtxml.DomainInterface) {
	if nic.Model == nil || !strings.HasPrefix(nic.Model.Type, kubevirtv1.VirtIO) {
		return
	}
	if rule.Type == v1alpha1.NetworkUser {
		if nic.Driver != nil && nic.Driver.Queues > 0 {
			nic.Driver.Queues = 0
			h.decide(Decision{
				Field: devicesAt.Child("networkInterfaceMultiqueue").String(), Element: elementOf("interface", nic.Alias) + "/driver/@queues",
				Reason: "QEMU's user network has one queue", Degraded: true,
			})
			nic.Driver = unlessEmpty(nic.Driver)
		}
		return
	}
	if rule.Vhost == nil && nic.Driver == nil {
		return
	}
	nic.Driver = orNew(nic.Driver)
	nic.Driver.Name = "qemu"
	if ptr.Deref(rule.Vhost, true) {
		nic.Driver.Name = "vhost"
	}
}

// passt connects an adapter to a passt process, which binds to a network device and forwards the
// ports that the interface declares, or all.
func (h *host) passt(spec *kubevirtv1.Interface, nic *libvirtxml.DomainInterface, at *field.Path) {
	device := cmp.Or(h.facts.Interfaces[spec.Name].Device, podDevice)
	nic.Source = &libvirtxml.DomainInterfaceSource{VHostUser: &libvirtxml.DomainInterfaceSourceVHostUser{Dev: device}}
	nic.Backend = &libvirtxml.DomainInterfaceBackend{Type: "passt", LogFile: h.runtimeFile("passt-" + spec.Name + ".log")}
	forward := h.forwardedPorts(spec, at)
	for _, protocol := range []string{"tcp", "udp"} {
		if ranges := forward[protocol]; len(forward) == 0 || len(ranges) > 0 {
			nic.PortForward = append(nic.PortForward, libvirtxml.DomainInterfaceSourcePortForward{Proto: protocol, Ranges: ranges})
		}
	}
}

func (h *host) forwardedPorts(spec *kubevirtv1.Interface, at *field.Path) map[string][]libvirtxml.DomainInterfaceSourcePortForwardRange {
	out := map[string][]libvirtxml.DomainInterfaceSourcePortForwardRange{}
	add := func(at *field.Path, protocol string, start, end int32) {
		protocol = strings.ToLower(cmp.Or(protocol, "TCP"))
		last := cmp.Or(end, start)
		switch {
		case protocol != "tcp" && protocol != "udp":
			h.reject(field.NotSupported(at.Child("protocol"), protocol, []string{"TCP", "UDP"}))
		case start < 1 || last < start || last > maxPort:
			h.reject(field.Invalid(at, fmt.Sprintf("%d-%d", start, last), "ports must be between 1 and 65535, and the first must not be greater than the last"))
		default:
			out[protocol] = append(out[protocol], libvirtxml.DomainInterfaceSourcePortForwardRange{Start: uint(start), End: uint(end)})
		}
	}
	for i, p := range spec.Ports {
		add(at.Child("ports").Index(i), p.Protocol, p.Port, 0)
	}
	for i, p := range spec.PortRanges {
		add(at.Child("portRanges").Index(i), p.Protocol, p.Start, p.End)
	}
	return out
}

// resolveMAC sets the host's address for an adapter, or else a locally administered one that
// depends only on the names of VMI and interface, so that it is the same on every host.
func (h *host) resolveMAC(p Placeholder) {
	nic := h.adapter(p.Device)
	if nic == nil {
		h.missing(p, fmt.Sprintf("interfaces[%s].mac", p.Device))
		return
	}
	address, reason := h.facts.Interfaces[p.Device].MAC, "the host's"
	if address == "" {
		sum := h.interfaceDigest(p.Device)
		address = fmt.Sprintf("02:%02x:%02x:%02x:%02x:%02x", sum[0], sum[1], sum[2], sum[3], sum[4])
		reason = "derived from the names of VMI and interface"
	}
	nic.MAC = &libvirtxml.DomainInterfaceMAC{Address: address}
	h.resolved(p, elementOf("interface", nic.Alias)+"/mac/@address", address, reason)
}

func (h *host) resolveMTU(p Placeholder) {
	mtu, nic := h.facts.Interfaces[p.Device].MTU, h.adapter(p.Device)
	if mtu == 0 || nic == nil {
		return
	}
	element := elementOf("interface", nic.Alias) + "/mtu/@size"
	i := h.interfaceIndex(p.Device)
	if i >= 0 && h.networkRule(p.Device).Type == v1alpha1.NetworkUser && h.spec.Domain.Devices.Interfaces[i].PasstBinding == nil {
		h.decide(Decision{
			Field: p.Field, Element: element, Degraded: mtu != defaultMTU,
			Reason: fmt.Sprintf("QEMU's user network has %d, and libvirt does not announce it to the guest", defaultMTU),
		})
		return
	}
	nic.MTU = &libvirtxml.DomainInterfaceMTU{Size: mtu}
	h.resolved(p, element, fmt.Sprint(mtu), "the host's")
}
