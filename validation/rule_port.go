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
	ID:    "port-name-unique",
	Says:  "No two ports of an interface have the same name.",
	Check: portNameUnique,
}, {
	ID:    "port-name-valid",
	Says:  "The name of a port is that of a service: at most 15 lower-case letters, digits and dashes.",
	Check: portNameValid,
}, {
	ID:    "port-number",
	Says:  "A port is a number from 1 to 65535.",
	Check: portNumber,
}, {
	ID:    "port-protocol",
	Says:  "The protocol of a port is TCP or UDP.",
	Check: portProtocol,
}, {
	ID:      "port-ranges-enabled",
	Leaf:    true,
	Says:    "Port ranges are given only where PortRangesSpec is enabled.",
	Cluster: true,
	Check:   portRangesEnabled,
}, {
	ID:    "port-ranges-or-ports",
	Says:  "An interface has ports or port ranges, not both.",
	Check: portRangesOrPorts,
}, {
	ID:    "port-ranges-masquerade",
	Says:  "Only an interface that is bound by masquerade has port ranges.",
	Check: portRangesMasquerade,
}, {
	ID:    "port-ranges-few",
	Says:  "An interface has at most 10 port ranges.",
	Check: portRangesFew,
}, {
	ID:    "port-range-protocol",
	Leaf:  true,
	Says:  "The protocol of a port range is TCP or UDP.",
	Check: portRangeProtocol,
}, {
	ID:    "port-range-bounds",
	Says:  "A port range leads from one port to an equal or higher one, both from 1 to 65535.",
	Check: portRangeBounds,
}, {
	ID:    "port-ranges-apart",
	Says:  "No two port ranges of a protocol overlap.",
	Check: portRangesApart,
}, {
	ID:    "dhcp-private-option",
	Leaf:  true,
	Says:  "A private DHCP option is a number from 224 to 254.",
	Check: dhcpPrivateOption,
}, {
	ID:    "dhcp-private-option-unique",
	Says:  "No private DHCP option is given twice.",
	Check: dhcpPrivateOptionUnique,
}, {
	ID:    "dhcp-ntp-server",
	Leaf:  true,
	Says:  "An NTP server is an IPv4 address.",
	Check: dhcpNTPServer,
}}

const (
	maxPort       = 65535
	maxPortRanges = 10
)

// eachPort visits the ports of interfaces on the pod network, which are the
// only ones that are forwarded.
func (m *Machine) eachPort(visit func(nic, port int, p *kubevirtv1.Port)) {
	for i, nic := range m.eachInterface() {
		if len(nic.Ports) == 0 {
			continue
		}
		if network := m.Network(nic.Name); network == nil || network.Pod == nil {
			continue
		}
		for j := range nic.Ports {
			visit(i, j, &nic.Ports[j])
		}
	}
}

// port is the path of a part of a port.
func (m *Machine) port(nic, port int, more ...string) *field.Path {
	return under(m.nic(nic, "ports").Index(port), more)
}

func portNameUnique(m *Machine, r *Report) {
	for i, nic := range m.eachInterface() {
		if network := m.Network(nic.Name); len(nic.Ports) < 2 || network == nil || network.Pod == nil {
			continue
		}
		for j, first := range repeated(len(nic.Ports), func(j int) string { return nic.Ports[j].Name }) {
			r.Add(duplicate(m.port(i, j, "name"), nic.Ports[j].Name, "ports", first))
		}
	}
}

func portNameValid(m *Machine, r *Report) {
	m.eachPort(func(nic, port int, p *kubevirtv1.Port) {
		if p.Name == "" {
			return
		}
		if wrong := validation.IsValidPortName(p.Name); len(wrong) > 0 {
			r.Add(field.Invalid(m.port(nic, port, "name"), p.Name, strings.Join(wrong, "; ")))
		}
	})
}

func portNumber(m *Machine, r *Report) {
	m.eachPort(func(nic, port int, p *kubevirtv1.Port) {
		if p.Port < 1 || p.Port > maxPort {
			r.Add(field.Invalid(m.port(nic, port, "port"), p.Port, "must be from 1 to 65535"))
		}
	})
}

func portProtocol(m *Machine, r *Report) {
	m.eachPort(func(nic, port int, p *kubevirtv1.Port) {
		if p.Protocol != "" && p.Protocol != "TCP" && p.Protocol != "UDP" {
			r.Add(r.unsupported(m.port(nic, port, "protocol"), p.Protocol, "TCP", "UDP"))
		}
	})
}

// portRange is the path of a part of a port range.
func (m *Machine) portRange(nic, i int, more ...string) *field.Path {
	return under(m.nic(nic, "portRanges").Index(i), more)
}

func portRangesEnabled(m *Machine, r *Report) {
	for i, nic := range m.eachInterface() {
		if len(nic.PortRanges) > 0 && !m.Config.Enabled(GatePortRanges) {
			r.Add(disabled(m.nic(i, "portRanges"), GatePortRanges))
		}
	}
}

func portRangesOrPorts(m *Machine, r *Report) {
	for i, nic := range m.eachInterface() {
		if len(nic.PortRanges) > 0 && len(nic.Ports) > 0 {
			r.Add(field.Forbidden(m.nic(i, "portRanges"), "must be left out where ports are given; write a port as a range of one"))
		}
	}
}

func portRangesMasquerade(m *Machine, r *Report) {
	for i, nic := range m.eachInterface() {
		if len(nic.PortRanges) > 0 && nic.Masquerade == nil {
			r.Add(field.Forbidden(m.nic(i, "portRanges"), "must be left out unless the interface is bound by masquerade"))
		}
	}
}

func portRangesFew(m *Machine, r *Report) {
	for i, nic := range m.eachInterface() {
		if len(nic.PortRanges) > maxPortRanges {
			r.Add(field.Forbidden(m.nic(i, "portRanges"), "must have at most 10 elements"))
		}
	}
}

func portRangeProtocol(m *Machine, r *Report) {
	for i, nic := range m.eachInterface() {
		for j, p := range pointers(nic.PortRanges) {
			if p.Protocol != "TCP" && p.Protocol != "UDP" {
				r.Add(r.unsupported(m.portRange(i, j, "protocol"), p.Protocol, "TCP", "UDP"))
			}
		}
	}
}

func isPort(n int32) bool { return n >= 1 && n <= maxPort }

func portRangeBounds(m *Machine, r *Report) {
	for i, nic := range m.eachInterface() {
		for j, p := range pointers(nic.PortRanges) {
			if !isPort(p.Start) {
				r.Add(field.Invalid(m.portRange(i, j, "start"), p.Start, "must be from 1 to 65535"))
			}
			switch {
			case !isPort(p.End):
				r.Add(field.Invalid(m.portRange(i, j, "end"), p.End, "must be from 1 to 65535"))
			case isPort(p.Start) && p.Start > p.End:
				r.Add(field.Invalid(m.portRange(i, j, "end"), p.End, fmt.Sprintf("must be at least the start, which is %d", p.Start)))
			}
		}
	}
}

// portRangesApart looks at as many ranges as an interface may have.
func portRangesApart(m *Machine, r *Report) {
	for i, nic := range m.eachInterface() {
		ranges := nic.PortRanges[:min(len(nic.PortRanges), maxPortRanges)]
		for j := range ranges {
			for k := range j {
				if overlap(&ranges[j], &ranges[k]) {
					r.Add(field.Invalid(m.portRange(i, j), fmt.Sprintf("%d-%d", ranges[j].Start, ranges[j].End),
						fmt.Sprintf("must not overlap with portRanges[%d], which is %d-%d", k, ranges[k].Start, ranges[k].End)))
					break
				}
			}
		}
	}
}

// overlap reports whether two ranges that are right by themselves share a port.
func overlap(a, b *kubevirtv1.PortRange) bool {
	return a.Protocol == b.Protocol && a.Start <= a.End && b.Start <= b.End && a.Start <= b.End && b.Start <= a.End
}

func dhcpPrivateOption(m *Machine, r *Report) {
	for i, nic := range m.eachInterface() {
		if nic.DHCPOptions == nil {
			continue
		}
		for j, option := range pointers(nic.DHCPOptions.PrivateOptions) {
			if option.Option < 224 || option.Option > 254 {
				r.Add(field.Invalid(m.nic(i, "dhcpOptions", "privateOptions").Index(j).Child("option"), option.Option, "must be from 224 to 254"))
			}
		}
	}
}

func dhcpPrivateOptionUnique(m *Machine, r *Report) {
	for i, nic := range m.eachInterface() {
		if nic.DHCPOptions == nil {
			continue
		}
		seen := map[int]bool{}
		for j, option := range pointers(nic.DHCPOptions.PrivateOptions) {
			if seen[option.Option] {
				r.Add(field.Duplicate(m.nic(i, "dhcpOptions", "privateOptions").Index(j).Child("option"), option.Option))
			}
			seen[option.Option] = true
		}
	}
}

func dhcpNTPServer(m *Machine, r *Report) {
	for i, nic := range m.eachInterface() {
		if nic.DHCPOptions == nil {
			continue
		}
		for j, server := range nic.DHCPOptions.NTPServers {
			if at, err := netip.ParseAddr(server); err != nil || at.Zone() != "" || !at.Unmap().Is4() {
				r.Add(field.Invalid(m.nic(i, "dhcpOptions", "ntpServers").Index(j), server, "must be an IPv4 address"))
			}
		}
	}
}
