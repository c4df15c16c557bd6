package validation

import (
	"iter"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

var interfaceRules = []Rule{{
	ID:    "interface-name-unique",
	Says:  "No two interfaces have the same name.",
	Check: interfaceNameUnique,
}, {
	ID:    "interface-name-characters",
	Leaf:  true,
	Says:  "The name of an interface is letters, digits, - and _.",
	Check: interfaceNameCharacters,
}, {
	ID:    "interface-has-network",
	Says:  "There is a network with the name of each interface.",
	Check: interfaceHasNetwork,
}, {
	ID:    "interface-model-known",
	Leaf:  true,
	Says:  "The model of an interface is virtio, e1000, e1000e, igb, ne2k_pci, pcnet or rtl8139.",
	Check: interfaceModelKnown,
}, {
	ID:    "interface-pci-address",
	Leaf:  true,
	Says:  "The PCI address of an interface has the form dddd:bb:ss.f.",
	Check: interfacePCIAddress,
}, {
	ID:    "mac-address-valid",
	Leaf:  true,
	Says:  "A MAC address has six bytes.",
	Check: macAddressValid,
}, {
	ID:    "mac-address-unique",
	Says:  "No two interfaces of a machine have the same MAC address.",
	Reach: BeyondKubeVirt,
	Check: macAddressUnique,
}, {
	ID:    "mac-address-free",
	Says:  "The MAC address of a masquerade interface is not 02:00:00:00:00:00, which its bridge has.",
	Check: macAddressFree,
}, {
	ID:    "interface-state-known",
	Leaf:  true,
	Says:  "The state of an interface is up, down or absent.",
	Check: interfaceStateKnown,
}, {
	ID:    "sriov-state",
	Says:  "The link of an sriov interface is not set up or down.",
	Check: sriovState,
}, {
	ID:    "absent-interface-bridge",
	Says:  "Only an interface with a bridge is absent.",
	Check: absentInterfaceBridge,
}, {
	ID:    "absent-interface-secondary",
	Says:  "The interface of the default network is not absent.",
	Check: absentInterfaceSecondary,
}}

// eachInterface yields the interfaces with their positions, without copying them.
func (m *Machine) eachInterface() iter.Seq2[int, *kubevirtv1.Interface] {
	return pointers(m.Spec.Domain.Devices.Interfaces)
}

// nic is the path of a part of an interface.
func (m *Machine) nic(i int, more ...string) *field.Path {
	return under(m.Device("interfaces").Index(i), more)
}

func interfaceNameUnique(m *Machine, r *Report) {
	interfaces := m.Spec.Domain.Devices.Interfaces
	for i, first := range repeated(len(interfaces), func(i int) string { return interfaces[i].Name }) {
		r.Add(duplicate(m.nic(i, "name"), interfaces[i].Name, "interfaces", first))
	}
}

func interfaceNameCharacters(m *Machine, r *Report) {
	for i, nic := range m.eachInterface() {
		if !isInterfaceName(nic.Name) {
			r.Add(field.Invalid(m.nic(i, "name"), nic.Name, "must be letters, digits, - and _"))
		}
	}
}

func isInterfaceName(name string) bool {
	for _, c := range []byte(name) {
		if !isLower(c) && !isUpper(c) && !isDigit(c) && c != '-' && c != '_' {
			return false
		}
	}
	return name != ""
}

func interfaceHasNetwork(m *Machine, r *Report) {
	names := func(yield func(string) bool) {
		for _, network := range m.eachNetwork() {
			if !yield(network.Name) {
				return
			}
		}
	}
	for i, nic := range m.eachInterface() {
		if nic.Name != "" && m.Network(nic.Name) == nil {
			err := field.NotFound(m.nic(i, "name"), nic.Name)
			err.Detail = "must be the name of a network" + r.Suggest(nic.Name, names)
			r.Add(err)
		}
	}
}

func interfaceModelKnown(m *Machine, r *Report) {
	for i, nic := range m.eachInterface() {
		switch nic.Model {
		case "", "virtio", "e1000", "e1000e", "igb", "ne2k_pci", "pcnet", "rtl8139":
		default:
			r.Add(r.unsupported(m.nic(i, "model"), nic.Model, "virtio", "e1000", "e1000e", "igb", "ne2k_pci", "pcnet", "rtl8139"))
		}
	}
}

func interfacePCIAddress(m *Machine, r *Report) {
	for i, nic := range m.eachInterface() {
		if nic.PciAddress != "" && !isPCIAddress(nic.PciAddress) {
			r.Add(field.Invalid(m.nic(i, "pciAddress"), nic.PciAddress, pciAddressDetail))
		}
	}
}

func macAddressValid(m *Machine, r *Report) {
	for i, nic := range m.eachInterface() {
		if nic.MacAddress == "" {
			continue
		}
		if _, ok := parseMAC(nic.MacAddress); !ok {
			r.Add(field.Invalid(m.nic(i, "macAddress"), nic.MacAddress, "must be six bytes in hexadecimal, such as 02:42:ac:11:00:02"))
		}
	}
}

func macAddressUnique(m *Machine, r *Report) {
	interfaces := m.Spec.Domain.Devices.Interfaces
	mac := func(i int) string {
		digits, _ := parseMAC(interfaces[i].MacAddress)
		return digits
	}
	for i, first := range repeated(len(interfaces), mac) {
		err := field.Duplicate(m.nic(i, "macAddress"), interfaces[i].MacAddress)
		err.Detail = "must differ from that of interface " + quoted(interfaces[first].Name)
		r.Add(err)
	}
}

// bridgeMAC is what KubeVirt gives the bridge of a masquerade interface.
const bridgeMAC = "020000000000"

func macAddressFree(m *Machine, r *Report) {
	for i, nic := range m.eachInterface() {
		if nic.Masquerade == nil || nic.MacAddress == "" {
			continue
		}
		if mac, _ := parseMAC(nic.MacAddress); mac == bridgeMAC {
			reach := AsKubeVirt
			if nic.MacAddress != "02:00:00:00:00:00" {
				reach = BeyondKubeVirt // which compares text
			}
			r.addAs(reach, field.Invalid(m.nic(i, "macAddress"), nic.MacAddress, "must be another address: the bridge of a masquerade interface has this one"))
		}
	}
}

func interfaceStateKnown(m *Machine, r *Report) {
	for i, nic := range m.eachInterface() {
		switch nic.State {
		case "", kubevirtv1.InterfaceStateLinkUp, kubevirtv1.InterfaceStateLinkDown, kubevirtv1.InterfaceStateAbsent:
		default:
			r.Add(r.unsupported(m.nic(i, "state"), string(nic.State), "up", "down", "absent"))
		}
	}
}

func sriovState(m *Machine, r *Report) {
	for i, nic := range m.eachInterface() {
		if nic.SRIOV != nil && (nic.State == kubevirtv1.InterfaceStateLinkUp || nic.State == kubevirtv1.InterfaceStateLinkDown) {
			r.Add(field.Invalid(m.nic(i, "state"), string(nic.State), "must be left out: the link of an sriov interface is the host's"))
		}
	}
}

func absentInterfaceBridge(m *Machine, r *Report) {
	for i, nic := range m.eachInterface() {
		if nic.State == kubevirtv1.InterfaceStateAbsent && nic.Bridge == nil {
			r.Add(field.Invalid(m.nic(i, "state"), string(nic.State), "must not be absent: only an interface with a bridge can be unplugged"))
		}
	}
}

func absentInterfaceSecondary(m *Machine, r *Report) {
	for i, nic := range m.eachInterface() {
		if nic.State != kubevirtv1.InterfaceStateAbsent || nic.Bridge == nil {
			continue
		}
		if network := m.Network(nic.Name); network != nil && (network.Pod != nil || multusDefault(network)) {
			r.Add(field.Invalid(m.nic(i, "state"), string(nic.State), "must not be absent: this is the interface of the default network"))
		}
	}
}
