package domain

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

const (
	// podNetwork is how a rule names the network of the cluster.
	podNetwork = "pod"
	// podDevice is the network device that KubeVirt's pods have.
	podDevice = "eth0"
	// tapLength is how many digits fit behind "tap" in the name of a device of
	// Linux, which has 15 characters at most.
	tapLength = 12
)

// interfaces gives every adapter the backing that the first rule for its
// network says; one with passtBinding has passt's process, whatever the rule.
// In KubeVirt it is always a tap device that virt-handler has made.
func (h *host) interfaces() {
	for i := range h.spec.Domain.Devices.Interfaces {
		spec, at := &h.spec.Domain.Devices.Interfaces[i], devicesAt.Child("interfaces").Index(i)
		if spec.SRIOV != nil || spec.State == kubevirtv1.InterfaceStateAbsent {
			continue
		}
		nic := h.adapter(spec.Name)
		switch {
		case nic == nil:
			h.refuse(field.InternalError(at, errors.New("stage 2 has made no adapter of it")))
		case spec.PasstBinding != nil:
			h.passt(spec, nic, at)
		default:
			h.backing(h.networkRule(spec), spec, nic, at)
		}
	}
}

// networkName is how rules name the network of an interface; empty where it
// has a claim of its own.
func (h *host) networkName(name string) string {
	if h.networks == nil {
		h.networks = networksByName(h.spec)
	}
	switch n := h.networks[name]; {
	case n == nil:
		return ""
	case n.Pod != nil:
		return podNetwork
	case n.Multus != nil:
		return n.Multus.NetworkName
	}
	return ""
}

// networksByName are the networks of an instance, of which there may be many.
func networksByName(spec *kubevirtv1.VirtualMachineInstanceSpec) map[string]*kubevirtv1.Network {
	out := make(map[string]*kubevirtv1.Network, len(spec.Networks))
	for i := range spec.Networks {
		out[spec.Networks[i].Name] = &spec.Networks[i]
	}
	return out
}

// builtinTap is the rule for networks that no rule is for.
var builtinTap = v1alpha1.NetworkRule{Type: v1alpha1.NetworkTap}

// networkRule is the first rule for the network of an interface; where there is
// none, a tap device that somebody else has made.
func (h *host) networkRule(spec *kubevirtv1.Interface) *v1alpha1.NetworkRule {
	network := h.networkName(spec.Name)
	for i := range h.settings.Networks {
		if rule := &h.settings.Networks[i]; rule.Network == "*" || network != "" && rule.Network == network {
			return rule
		}
	}
	return &builtinTap
}

// tapDevice is the name of an interface's tap device: the host's word, else
// one that no other interface of any instance has.
func (h *host) tapDevice(name string) string {
	sum := h.digest(name)
	return cmp.Or(h.facts.Interfaces[name].Device, "tap"+hex.EncodeToString(sum[:])[:tapLength])
}

func (h *host) backing(rule *v1alpha1.NetworkRule, spec *kubevirtv1.Interface, nic *libvirtxml.DomainInterface, at *field.Path) {
	tap := &libvirtxml.DomainInterfaceTarget{Dev: h.tapDevice(spec.Name)}
	value := string(rule.Type)
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
		reason = "built in: no rule of the backend profile is for its network"
	}
	h.decide(Decision{
		Field: at.String(), Element: fmt.Sprintf("devices/interface[alias/@name='%s']/@type", nic.Alias.Name),
		Value: value, Reason: reason,
	})
	h.networkDriver(rule, nic)
}

// networkDriver moves packets in the kernel or in QEMU, for virtio adapters.
// As in KubeVirt it is the kernel where the guest has several queues, which
// QEMU's own process cannot serve.
func (h *host) networkDriver(rule *v1alpha1.NetworkRule, nic *libvirtxml.DomainInterface) {
	if nic.Model == nil || !strings.HasPrefix(nic.Model.Type, kubevirtv1.VirtIO) {
		return
	}
	if rule.Type == v1alpha1.NetworkUser {
		if nic.Driver != nil && nic.Driver.Queues > 0 {
			nic.Driver.Queues = 0
			h.decide(Decision{
				Field: devicesAt.Child("networkInterfaceMultiqueue").String(), Element: fmt.Sprintf("devices/interface[alias/@name='%s']/driver/@queues", nic.Alias.Name),
				Reason: "connections of the emulator's own process have one queue", Degraded: true,
			})
			nic.Driver = unlessEmpty(nic.Driver)
		}
		return
	}
	switch {
	case rule.Vhost == nil && nic.Driver == nil:
	case ptr.Deref(rule.Vhost, true):
		nic.Driver = orNew(nic.Driver)
		nic.Driver.Name = "vhost"
	default:
		nic.Driver = orNew(nic.Driver)
		nic.Driver.Name = "qemu"
	}
}

// passt has a process of its own beside QEMU, which binds to a network device
// and forwards the ports that the interface names, or all.
func (h *host) passt(spec *kubevirtv1.Interface, nic *libvirtxml.DomainInterface, at *field.Path) {
	device := cmp.Or(h.facts.Interfaces[spec.Name].Device, podDevice)
	nic.Source = &libvirtxml.DomainInterfaceSource{VHostUser: &libvirtxml.DomainInterfaceSourceVHostUser{Dev: device}}
	nic.Backend = &libvirtxml.DomainInterfaceBackend{Type: "passt", LogFile: h.beside("passt-" + spec.Name + ".log")}
	forward := h.forwarded(spec, at)
	for _, protocol := range []string{"tcp", "udp"} {
		if ranges := forward[protocol]; len(forward) == 0 || len(ranges) > 0 {
			nic.PortForward = append(nic.PortForward, libvirtxml.DomainInterfaceSourcePortForward{Proto: protocol, Ranges: ranges})
		}
	}
}

// maxPort is the last port that there is.
const maxPort = 65535

// forwarded are the ports that an interface names, by protocol.
func (h *host) forwarded(spec *kubevirtv1.Interface, at *field.Path) map[string][]libvirtxml.DomainInterfaceSourcePortForwardRange {
	out := map[string][]libvirtxml.DomainInterfaceSourcePortForwardRange{}
	add := func(at *field.Path, protocol string, start, end int32) {
		protocol = strings.ToLower(cmp.Or(protocol, "TCP"))
		last := cmp.Or(end, start)
		switch {
		case protocol != "tcp" && protocol != "udp":
			h.refuse(field.NotSupported(at.Child("protocol"), protocol, []string{"TCP", "UDP"}))
		case start < 1 || last < start || last > maxPort:
			h.refuse(field.Invalid(at, fmt.Sprintf("%d-%d", start, last), "ports must be between 1 and 65535, the first not behind the last"))
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
