package domain

import (
	"crypto/sha256"
	"fmt"

	"libvirt.org/go/libvirtxml"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// defaultMTU is that of an interface of which nothing is said. slirp, behind
// the rule User, has no other.
const defaultMTU = 1500

// adapter is the one of stage 2 for an interface of the instance.
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

// lateMAC gives an adapter the address that the host has for it, else one that
// follows from the names of instance and interface: the same on every host,
// and not a manufacturer's.
func (h *host) lateMAC(late Late) {
	nic := h.adapter(late.Device)
	if nic == nil {
		h.missing(late, fmt.Sprintf("interfaces[%s].mac", late.Device))
		return
	}
	address, reason := h.facts.Interfaces[late.Device].MAC, "the host's"
	if address == "" {
		sum := h.digest(late.Device)
		address = fmt.Sprintf("02:%02x:%02x:%02x:%02x:%02x", sum[0], sum[1], sum[2], sum[3], sum[4])
		reason = "made of the names of instance and interface"
	}
	nic.MAC = &libvirtxml.DomainInterfaceMAC{Address: address}
	h.resolved(late, fmt.Sprintf("devices/interface[alias/@name='%s']/mac/@address", nic.Alias.Name), address, reason)
}

// digest is what an interface of the instance is known by.
func (h *host) digest(name string) [sha256.Size]byte {
	return sha256.Sum256([]byte(h.vmi.Namespace + "/" + h.vmi.Name + "/" + name))
}

// lateMTU tells the guest how large its packets may be, where the host has
// something to say of it.
func (h *host) lateMTU(late Late) {
	mtu, nic := h.facts.Interfaces[late.Device].MTU, h.adapter(late.Device)
	if mtu == 0 || nic == nil {
		return
	}
	element := fmt.Sprintf("devices/interface[alias/@name='%s']/mtu/@size", nic.Alias.Name)
	spec, _ := h.interfaceSpec(late.Device)
	if spec != nil && h.networkRule(spec).Type == v1alpha1.NetworkUser && spec.PasstBinding == nil {
		h.decide(Decision{Field: late.Field, Element: element, Reason: fmt.Sprintf("connections of the emulator's own process have %d, and libvirt tells the guest nothing of it", defaultMTU), Degraded: mtu != defaultMTU})
		return
	}
	nic.MTU = &libvirtxml.DomainInterfaceMTU{Size: mtu}
	h.resolved(late, element, fmt.Sprint(mtu), "the host's")
}
