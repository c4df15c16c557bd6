package launcher

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"

	"github.com/virtwright/virtwright/launcher/files"
)

// userNetwork sets the options of QEMU's user network that libvirt has no elements for: forwarded
// ports and DHCP. libvirt passes the network as plain text instead of JSON, so that QEMU's -set can
// add to it; the guest sees the same hardware.
func userNetwork(d *libvirtxml.Domain, vmi *kubevirtv1.VirtualMachineInstance, search []string) error {
	var args []libvirtxml.DomainQEMUCommandlineArg
	var errs field.ErrorList
	specs := vmi.Spec.Domain.Devices.Interfaces
	for i := range specs {
		spec := &specs[i]
		nic := slices.IndexFunc(d.Devices.Interfaces, func(n libvirtxml.DomainInterface) bool {
			return n.Alias != nil && n.Alias.Name == "ua-"+spec.Name && n.Source != nil && n.Source.User != nil
		})
		if nic < 0 {
			continue
		}
		addresses, err := networkAddresses(&vmi.Spec, spec.Name)
		if err != nil {
			errs = append(errs, err)
		}
		d.Devices.Interfaces[nic].IP = addresses
		options := leaseOptions(spec, vmi, search)
		for _, port := range forwardedPorts(spec, &vmi.Spec, i == 0) {
			options = append(options, "hostfwd="+port)
		}
		for _, option := range options {
			args = append(args, libvirtxml.DomainQEMUCommandlineArg{Value: "-set"}, libvirtxml.DomainQEMUCommandlineArg{Value: "netdev.hostua-" + spec.Name + "." + option})
		}
	}
	if len(args) > 0 {
		d.QEMUCommandline = &libvirtxml.DomainQEMUCommandline{Args: args}
		d.QEMUCapabilities = &libvirtxml.DomainQEMUCapabilities{Del: []libvirtxml.DomainQEMUCapabilitiesEntry{{Name: "netdev.json"}}}
	}
	return errs.ToAggregate()
}

// userNetworkOf returns QEMU's ID of the VMI's first user network; empty if there is none.
func userNetworkOf(vmi *kubevirtv1.VirtualMachineInstance) string {
	pod := map[string]bool{}
	for i := range vmi.Spec.Networks {
		pod[vmi.Spec.Networks[i].Name] = vmi.Spec.Networks[i].Pod != nil
	}
	specs := vmi.Spec.Domain.Devices.Interfaces
	for i := range specs {
		if pod[specs[i].Name] {
			return "hostua-" + specs[i].Name
		}
	}
	return ""
}

// networkAddresses returns the guest's networks of an interface. By default it is QEMU's
// 10.0.2.0/24.
func networkAddresses(spec *kubevirtv1.VirtualMachineInstanceSpec, name string) ([]libvirtxml.DomainInterfaceIP, *field.Error) {
	var out []libvirtxml.DomainInterfaceIP
	for i := range spec.Networks {
		n := &spec.Networks[i]
		if n.Name != name || n.Pod == nil {
			continue
		}
		at := field.NewPath("spec", "networks").Index(i).Child("pod")
		for _, network := range []struct{ field, family, cidr string }{
			{"vmNetworkCIDR", "ipv4", n.Pod.VMNetworkCIDR}, {"vmIPv6NetworkCIDR", "ipv6", n.Pod.VMIPv6NetworkCIDR},
		} {
			if network.cidr == "" {
				continue
			}
			prefix, err := netip.ParsePrefix(network.cidr)
			if err != nil {
				return nil, field.Invalid(at.Child(network.field), network.cidr, "must be a CIDR")
			}
			out = append(out, libvirtxml.DomainInterfaceIP{Family: network.family, Address: prefix.Masked().Addr().String(), Prefix: uint(prefix.Bits())})
		}
	}
	return out, nil
}

// longestLeaseName is the longest host name that QEMU's DHCP server does not truncate.
const longestLeaseName = 32

// leaseOptions are the DHCP options. A longer host name is left to cloud-init.
func leaseOptions(spec *kubevirtv1.Interface, vmi *kubevirtv1.VirtualMachineInstance, search []string) []string {
	var options []string
	if name := files.Hostname(vmi); len(name) <= longestLeaseName {
		options = append(options, "hostname="+name)
	}
	if dhcp := spec.DHCPOptions; dhcp != nil {
		if dhcp.BootFileName != "" {
			options = append(options, "bootfile="+dhcp.BootFileName)
		}
		if dhcp.TFTPServerName != "" {
			options = append(options, "tftp-server-name="+dhcp.TFTPServerName)
		}
	}
	for i, name := range search {
		if i == 0 {
			options = append(options, "domainname="+strings.TrimPrefix(vmi.Spec.Subdomain+"."+name, "."))
		}
		options = append(options, "dnssearch="+name)
	}
	return options
}

// searchDomains returns the search domains of a resolv.conf: those of its last line "search".
func searchDomains(resolver string) []string {
	var out []string
	for line := range strings.Lines(resolver) {
		if words := strings.Fields(line); len(words) > 0 && words[0] == "search" {
			out = words[1:]
		}
	}
	return out
}

// forwardedPorts returns the ports that are forwarded from the pod to the guest, in QEMU's
// notation: those of an interface and, for the first one, those of the VMI's probes.
func forwardedPorts(spec *kubevirtv1.Interface, of *kubevirtv1.VirtualMachineInstanceSpec, first bool) []string {
	var out []string
	forward := func(protocol string, port int32) {
		text := fmt.Sprintf("%s::%d-:%d", strings.ToLower(cmp.Or(protocol, "TCP")), port, port)
		if port > 0 && !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	for _, p := range spec.Ports {
		forward(p.Protocol, p.Port)
	}
	for _, r := range spec.PortRanges {
		for port := r.Start; port <= r.End; port++ {
			forward(r.Protocol, port)
		}
	}
	for _, probe := range []*kubevirtv1.Probe{of.ReadinessProbe, of.LivenessProbe} {
		switch {
		case !first || probe == nil:
		case probe.HTTPGet != nil:
			forward("TCP", portNumber(probe.HTTPGet.Port, spec))
		case probe.TCPSocket != nil:
			forward("TCP", portNumber(probe.TCPSocket.Port, spec))
		}
	}
	return out
}

// portNumber resolves a port by the names of an interface's ports; 0 if there is none.
func portNumber(port intstr.IntOrString, spec *kubevirtv1.Interface) int32 {
	if port.Type == intstr.Int {
		return port.IntVal
	}
	for _, p := range spec.Ports {
		if p.Name == port.StrVal {
			return p.Port
		}
	}
	return 0
}

// deviceAddress returns the bus of a device and its address on the bus.
func deviceAddress(a *libvirtxml.DomainAddress) (bus, address string) {
	number := func(n *uint) uint { return ptr.Deref(n, 0) }
	switch {
	case a == nil:
		return "", ""
	case a.PCI != nil:
		return "pci", fmt.Sprintf("%04x:%02x:%02x.%x", number(a.PCI.Domain), number(a.PCI.Bus), number(a.PCI.Slot), number(a.PCI.Function))
	case a.Drive != nil:
		return "scsi", fmt.Sprintf("%d:%d:%d:%d", number(a.Drive.Controller), number(a.Drive.Bus), number(a.Drive.Target), number(a.Drive.Unit))
	case a.USB != nil:
		return "usb", fmt.Sprintf("%d:%s", number(a.USB.Bus), a.USB.Port)
	}
	return "", ""
}
