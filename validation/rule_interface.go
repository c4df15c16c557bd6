package validation

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

var interfaceRules = []Rule{{
	ID:          "interface-name-unique",
	Requirement: "No two interfaces have the same name.",
	Check:       uniqueNames(interfacesOf, func(nic *kubevirtv1.Interface) string { return nic.Name }, "domain", "devices", "interfaces"),
}, {
	ID:          "interface-name-characters",
	Leaf:        true,
	Requirement: "The name of an interface consists of letters, digits, '-' and '_'.",
	Check: forEach(interfacesOf, func(vm *ExpandedVM, r *Report, i int, nic *kubevirtv1.Interface) {
		if !interfaceNameForm.MatchString(nic.Name) {
			r.Add(field.Invalid(vm.interfacePath(i, "name"), nic.Name, "must be letters, digits, - and _"))
		}
	}),
}, {
	ID:          "interface-has-network",
	Requirement: "A network with the name of each interface exists.",
	Check: func(vm *ExpandedVM, r *Report) {
		for i, nic := range pointers(interfacesOf(vm)) {
			if nic.Name != "" && vm.Network(nic.Name) == nil {
				err := field.NotFound(vm.interfacePath(i, "name"), nic.Name)
				err.Detail = "must be the name of a network" + r.suggest(nic.Name, namesOf(networksOf(vm), networkName))
				r.Add(err)
			}
		}
	},
}, {
	ID:          "interface-model-known",
	Leaf:        true,
	Requirement: "The model of an interface is " + interfaceModels.String() + ".",
	Check: forEach(interfacesOf, func(vm *ExpandedVM, r *Report, i int, nic *kubevirtv1.Interface) {
		interfaceModels.checkIfSet(r, nic.Model, func() *field.Path { return vm.interfacePath(i, "model") })
	}),
}, {
	ID:          "interface-pci-address",
	Leaf:        true,
	Requirement: "The PCI address of an interface has the form dddd:bb:ss.f.",
	Check: forEach(interfacesOf, func(vm *ExpandedVM, r *Report, i int, nic *kubevirtv1.Interface) {
		if nic.PciAddress != "" && !pciAddressForm.MatchString(nic.PciAddress) {
			r.Add(field.Invalid(vm.interfacePath(i, "pciAddress"), nic.PciAddress, pciAddressDetail))
		}
	}),
}, {
	ID:          "mac-address-valid",
	Leaf:        true,
	Requirement: "A MAC address has six bytes.",
	Check: forEach(interfacesOf, func(vm *ExpandedVM, r *Report, i int, nic *kubevirtv1.Interface) {
		if nic.MacAddress == "" {
			return
		}
		if _, ok := parseMAC(nic.MacAddress); !ok {
			r.Add(field.Invalid(vm.interfacePath(i, "macAddress"), nic.MacAddress, "must be six bytes in hexadecimal, such as 02:42:ac:11:00:02"))
		}
	}),
}, {
	ID:          "mac-address-unique",
	Requirement: "No two interfaces of a VMI have the same MAC address.",
	Strictness:  StricterThanKubeVirt,
	Check: func(vm *ExpandedVM, r *Report) {
		interfaces := vm.Spec.Domain.Devices.Interfaces
		mac := func(i int) string {
			digits, _ := parseMAC(interfaces[i].MacAddress)
			return digits
		}
		for i, first := range repeated(len(interfaces), mac) {
			r.Add(duplicate(vm.interfacePath(i, "macAddress"), interfaces[i].MacAddress,
				"must differ from that of interface "+quoted(interfaces[first].Name)))
		}
	},
}, {
	ID:          "mac-address-free",
	Requirement: "The MAC address of a masquerade interface is not 02:00:00:00:00:00, the address of its bridge.",
	Check: forEach(interfacesOf, func(vm *ExpandedVM, r *Report, i int, nic *kubevirtv1.Interface) {
		if nic.Masquerade == nil || nic.MacAddress == "" {
			return
		}
		if mac, _ := parseMAC(nic.MacAddress); mac == bridgeMAC {
			reach := SameAsKubeVirt
			if nic.MacAddress != "02:00:00:00:00:00" {
				reach = StricterThanKubeVirt // which compares text
			}
			r.addStricter(reach, field.Invalid(vm.interfacePath(i, "macAddress"), nic.MacAddress,
				"must be another address: the bridge of a masquerade interface has this one"))
		}
	}),
}, {
	ID:          "interface-state-known",
	Leaf:        true,
	Requirement: "The state of an interface is " + interfaceStates.String() + ".",
	Check: forEach(interfacesOf, func(vm *ExpandedVM, r *Report, i int, nic *kubevirtv1.Interface) {
		interfaceStates.checkIfSet(r, string(nic.State), func() *field.Path { return vm.interfacePath(i, "state") })
	}),
}, {
	ID:          "sriov-state",
	Requirement: "The state of an sriov interface is not up or down.",
	Check: forEach(interfacesOf, func(vm *ExpandedVM, r *Report, i int, nic *kubevirtv1.Interface) {
		if nic.SRIOV != nil && (nic.State == kubevirtv1.InterfaceStateLinkUp || nic.State == kubevirtv1.InterfaceStateLinkDown) {
			r.Add(field.Invalid(vm.interfacePath(i, "state"), string(nic.State), "must be left out: the link of an sriov interface is the host's"))
		}
	}),
}, {
	ID:          "absent-interface-bridge",
	Requirement: "Only an interface with a bridge binding has the state absent.",
	Check: forEach(interfacesOf, func(vm *ExpandedVM, r *Report, i int, nic *kubevirtv1.Interface) {
		if nic.State == kubevirtv1.InterfaceStateAbsent && nic.Bridge == nil {
			r.Add(field.Invalid(vm.interfacePath(i, "state"), string(nic.State),
				"must not be absent: only an interface with a bridge can be unplugged"))
		}
	}),
}, {
	ID:          "absent-interface-secondary",
	Requirement: "The interface of the default network does not have the state absent.",
	Check: forEach(interfacesOf, func(vm *ExpandedVM, r *Report, i int, nic *kubevirtv1.Interface) {
		if nic.State != kubevirtv1.InterfaceStateAbsent || nic.Bridge == nil {
			return
		}
		if network := vm.Network(nic.Name); network != nil && (network.Pod != nil || multusDefault(network)) {
			r.Add(field.Invalid(vm.interfacePath(i, "state"), string(nic.State), "must not be absent: this is the interface of the default network"))
		}
	}),
}}

func interfacesOf(vm *ExpandedVM) []kubevirtv1.Interface { return vm.Spec.Domain.Devices.Interfaces }

func (vm *ExpandedVM) interfacePath(i int, more ...string) *field.Path {
	return childPath(vm.Device("interfaces").Index(i), more)
}

var (
	interfaceModels = valueSet{"virtio", "e1000", "e1000e", "igb", "ne2k_pci", "pcnet", "rtl8139"}
	interfaceStates = valueSet{"up", "down", "absent"}
)

// bridgeMAC is the MAC address of the bridge of a masquerade interface in KubeVirt.
const bridgeMAC = "020000000000"
