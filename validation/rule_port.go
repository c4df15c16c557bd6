package validation

import (
	"fmt"
	"net/netip"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

var portRules = []Rule{{
	ID:          "port-name-unique",
	Requirement: "No two ports of an interface have the same name.",
	Check: forEach(interfacesOf, func(vm *ExpandedVM, r *Report, i int, nic *kubevirtv1.Interface) {
		if network := vm.Network(nic.Name); len(nic.Ports) < 2 || network == nil || network.Pod == nil {
			return
		}
		for j, first := range repeated(len(nic.Ports), func(j int) string { return nic.Ports[j].Name }) {
			r.Add(duplicateName(vm.interfacePath(i, "ports"), j, nic.Ports[j].Name, first))
		}
	}),
}, {
	ID:          "port-name-valid",
	Requirement: "The name of a port is a service name: at most 15 lower-case letters, digits and dashes.",
	Check: func(vm *ExpandedVM, r *Report) {
		vm.eachPort(func(nic, port int, p *kubevirtv1.Port) {
			if p.Name == "" {
				return
			}
			if wrong := validation.IsValidPortName(p.Name); len(wrong) > 0 {
				r.Add(field.Invalid(vm.portPath(nic, port, "name"), p.Name, strings.Join(wrong, "; ")))
			}
		})
	},
}, {
	ID:          "port-number",
	Requirement: "A port is a number from 1 to 65535.",
	Check: func(vm *ExpandedVM, r *Report) {
		vm.eachPort(func(nic, port int, p *kubevirtv1.Port) {
			if !isPort(p.Port) {
				r.Add(field.Invalid(vm.portPath(nic, port, "port"), p.Port, "must be from 1 to 65535"))
			}
		})
	},
}, {
	ID:          "port-protocol",
	Requirement: "The protocol of a port is " + portProtocols.String() + ".",
	Check: func(vm *ExpandedVM, r *Report) {
		vm.eachPort(func(nic, port int, p *kubevirtv1.Port) {
			portProtocols.checkIfSet(r, p.Protocol, func() *field.Path { return vm.portPath(nic, port, "protocol") })
		})
	},
}, {
	ID:          "port-ranges-enabled",
	Requirement: "Port ranges are given only if feature gate PortRangesSpec is enabled.",
	Gate:        GatePortRanges,
	Check: forEach(interfacesOf, func(vm *ExpandedVM, r *Report, i int, nic *kubevirtv1.Interface) {
		if len(nic.PortRanges) > 0 {
			r.addDisabled(vm.interfacePath(i, "portRanges"))
		}
	}),
}, {
	ID:          "port-ranges-or-ports",
	Requirement: "An interface on the pod network has ports or port ranges, not both.",
	Check: forEachOnPodNetwork(func(vm *ExpandedVM, r *Report, i int, nic *kubevirtv1.Interface) {
		if len(nic.PortRanges) > 0 && len(nic.Ports) > 0 {
			r.Add(field.Forbidden(vm.interfacePath(i, "portRanges"), "must be left out if ports are set; write a port as a range of one"))
		}
	}),
}, {
	ID:          "port-ranges-masquerade",
	Requirement: "Only an interface with the binding masquerade has port ranges on the pod network.",
	Check: forEachOnPodNetwork(func(vm *ExpandedVM, r *Report, i int, nic *kubevirtv1.Interface) {
		if len(nic.PortRanges) > 0 && nic.Masquerade == nil {
			r.Add(field.Forbidden(vm.interfacePath(i, "portRanges"), "must be left out unless the binding is masquerade"))
		}
	}),
}, {
	ID:          "port-ranges-few",
	Requirement: "An interface on the pod network has at most 10 port ranges.",
	Check: forEachOnPodNetwork(func(vm *ExpandedVM, r *Report, i int, nic *kubevirtv1.Interface) {
		if len(nic.PortRanges) > maxPortRanges {
			r.Add(field.Forbidden(vm.interfacePath(i, "portRanges"), "must have at most 10 elements"))
		}
	}),
}, {
	ID:          "port-range-protocol",
	Leaf:        true,
	Requirement: "The protocol of a port range is " + portProtocols.String() + ".",
	Check: forEach(interfacesOf, func(vm *ExpandedVM, r *Report, i int, nic *kubevirtv1.Interface) {
		for j, p := range pointers(nic.PortRanges) {
			portProtocols.check(r, p.Protocol, func() *field.Path { return vm.portRangePath(i, j, "protocol") })
		}
	}),
}, {
	ID:          "port-range-bounds",
	Requirement: "A port range on the pod network has start and end from 1 to 65535, and end is not lower than start.",
	Check: forEachOnPodNetwork(func(vm *ExpandedVM, r *Report, i int, nic *kubevirtv1.Interface) {
		for j, p := range pointers(nic.PortRanges) {
			if !isPort(p.Start) {
				r.Add(field.Invalid(vm.portRangePath(i, j, "start"), p.Start, "must be from 1 to 65535"))
			}
			switch {
			case !isPort(p.End):
				r.Add(field.Invalid(vm.portRangePath(i, j, "end"), p.End, "must be from 1 to 65535"))
			case isPort(p.Start) && p.Start > p.End:
				r.Add(field.Invalid(vm.portRangePath(i, j, "end"), p.End, fmt.Sprintf("must be at least the start, which is %d", p.Start)))
			}
		}
	}),
}, {
	ID:          "port-ranges-apart",
	Requirement: "No two port ranges of a protocol overlap on the pod network.",
	Check: forEachOnPodNetwork(func(vm *ExpandedVM, r *Report, i int, nic *kubevirtv1.Interface) {
		// Compares at most maxPortRanges ranges.
		ranges := nic.PortRanges[:min(len(nic.PortRanges), maxPortRanges)]
		for j := range ranges {
			for k := range j {
				if overlap(&ranges[j], &ranges[k]) {
					r.Add(field.Invalid(vm.portRangePath(i, j), fmt.Sprintf("%d-%d", ranges[j].Start, ranges[j].End),
						fmt.Sprintf("must not overlap with portRanges[%d], which is %d-%d", k, ranges[k].Start, ranges[k].End)))
					break
				}
			}
		}
	}),
}, {
	ID:          "dhcp-private-option",
	Leaf:        true,
	Requirement: "A private DHCP option is a number from 224 to 254.",
	Check: forEach(interfacesOf, func(vm *ExpandedVM, r *Report, i int, nic *kubevirtv1.Interface) {
		for j, option := range pointers(orEmpty(nic.DHCPOptions).PrivateOptions) {
			if option.Option < 224 || option.Option > 254 {
				r.Add(field.Invalid(vm.interfacePath(i, "dhcpOptions", "privateOptions").Index(j).Child("option"), option.Option,
					"must be from 224 to 254"))
			}
		}
	}),
}, {
	ID:          "dhcp-private-option-unique",
	Requirement: "Private DHCP options are unique.",
	Check: forEach(interfacesOf, func(vm *ExpandedVM, r *Report, i int, nic *kubevirtv1.Interface) {
		seen := map[int]bool{}
		for j, option := range pointers(orEmpty(nic.DHCPOptions).PrivateOptions) {
			if seen[option.Option] {
				r.Add(field.Duplicate(vm.interfacePath(i, "dhcpOptions", "privateOptions").Index(j).Child("option"), option.Option))
			}
			seen[option.Option] = true
		}
	}),
}, {
	ID:          "dhcp-ntp-server",
	Leaf:        true,
	Requirement: "An NTP server is an IPv4 address.",
	Check: forEach(interfacesOf, func(vm *ExpandedVM, r *Report, i int, nic *kubevirtv1.Interface) {
		for j, server := range orEmpty(nic.DHCPOptions).NTPServers {
			if at, err := netip.ParseAddr(server); err != nil || at.Zone() != "" || !at.Unmap().Is4() {
				r.Add(field.Invalid(vm.interfacePath(i, "dhcpOptions", "ntpServers").Index(j), server, "must be an IPv4 address"))
			}
		}
	}),
}}

const (
	maxPort       = 65535
	maxPortRanges = 10
)

var portProtocols = valueSet{"TCP", "UDP"}

// forEachOnPodNetwork returns a check that applies to every interface on the pod network. KubeVirt
// validates the port ranges of no other network.
func forEachOnPodNetwork(check func(vm *ExpandedVM, r *Report, i int, nic *kubevirtv1.Interface)) func(*ExpandedVM, *Report) {
	return forEach(interfacesOf, func(vm *ExpandedVM, r *Report, i int, nic *kubevirtv1.Interface) {
		if len(nic.PortRanges) == 0 {
			return
		}
		if network := vm.Network(nic.Name); network != nil && network.Pod != nil {
			check(vm, r, i, nic)
		}
	})
}

// eachPort visits the ports of interfaces on the pod network; others are not forwarded.
func (vm *ExpandedVM) eachPort(visit func(nic, port int, p *kubevirtv1.Port)) {
	for i, nic := range pointers(interfacesOf(vm)) {
		if len(nic.Ports) == 0 {
			continue
		}
		if network := vm.Network(nic.Name); network == nil || network.Pod == nil {
			continue
		}
		for j := range nic.Ports {
			visit(i, j, &nic.Ports[j])
		}
	}
}

func (vm *ExpandedVM) portPath(nic, port int, more ...string) *field.Path {
	return childPath(vm.interfacePath(nic, "ports").Index(port), more)
}

func (vm *ExpandedVM) portRangePath(nic, i int, more ...string) *field.Path {
	return childPath(vm.interfacePath(nic, "portRanges").Index(i), more)
}

func isPort(n int32) bool { return n >= 1 && n <= maxPort }

// overlap reports whether two valid ranges share a port.
func overlap(a, b *kubevirtv1.PortRange) bool {
	return a.Protocol == b.Protocol && a.Start <= a.End && b.Start <= b.End && a.Start <= b.End && b.Start <= a.End
}
