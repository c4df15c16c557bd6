package launcher

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/launcher/files"
)

func specOf(t *testing.T, text string) *kubevirtv1.VirtualMachineInstance {
	t.Helper()
	vmi := &kubevirtv1.VirtualMachineInstance{}
	vmi.Name, vmi.Namespace = "web.shop", "shop"
	if err := yaml.UnmarshalStrict([]byte(text), &vmi.Spec); err != nil {
		t.Fatal(err)
	}
	return vmi
}

func TestUserNetwork(t *testing.T) {
	vmi := specOf(t, `
subdomain: servers
readinessProbe: {httpGet: {port: http}}
livenessProbe: {tcpSocket: {port: 22}}
domain:
  devices:
    interfaces:
    - name: default
      ports: [{port: 80, name: http}, {port: 80}, {port: 53, protocol: UDP}]
      portRanges: [{start: 9000, end: 9001}]
      dhcpOptions: {bootFileName: pxe.0, tftpServerName: 10.1.1.1}
networks: [{name: default, pod: {vmNetworkCIDR: 10.9.0.7/16, vmIPv6NetworkCIDR: "fd10::/64"}}]`)
	d := &libvirtxml.Domain{Devices: &libvirtxml.DomainDeviceList{Interfaces: []libvirtxml.DomainInterface{{
		Alias:  &libvirtxml.DomainAlias{Name: "ua-default"},
		Source: &libvirtxml.DomainInterfaceSource{User: &libvirtxml.DomainInterfaceSourceUser{}},
	}}}}
	if err := userNetwork(d, vmi, []string{"shop.svc", "svc"}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, arg := range d.QEMUCommandline.Args {
		if arg.Value != "-set" {
			got = append(got, strings.TrimPrefix(arg.Value, "netdev.hostua-default."))
		}
	}
	want := []string{
		"hostname=web", "bootfile=pxe.0", "tftp-server-name=10.1.1.1", "domainname=servers.shop.svc", "dnssearch=shop.svc", "dnssearch=svc",
		"hostfwd=tcp::80-:80", "hostfwd=udp::53-:53", "hostfwd=tcp::9000-:9000", "hostfwd=tcp::9001-:9001", "hostfwd=tcp::22-:22",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	addresses := []libvirtxml.DomainInterfaceIP{{Family: "ipv4", Address: "10.9.0.0", Prefix: 16}, {Family: "ipv6", Address: "fd10::", Prefix: 64}}
	if diff := cmp.Diff(addresses, d.Devices.Interfaces[0].IP); diff != "" {
		t.Error(diff)
	}
	vmi.Spec.Networks[0].Pod.VMNetworkCIDR = "ten"
	if err := userNetwork(d, vmi, nil); err == nil || !strings.Contains(err.Error(), "spec.networks[0].pod.vmNetworkCIDR") {
		t.Errorf("the error is %v", err)
	}
}

func TestSearchDomains(t *testing.T) {
	got := searchDomains("nameserver 10.0.0.1\nsearch old\nsearch a.svc svc\noptions ndots:5\n")
	if diff := cmp.Diff([]string{"a.svc", "svc"}, got); diff != "" || searchDomains("") != nil {
		t.Error(diff)
	}
}

func TestTaggedDevices(t *testing.T) {
	vmi := specOf(t, `
domain:
  devices:
    interfaces: [{name: default, tag: front}, {name: other}]
    gpus: [{name: g, tag: accelerator, deviceName: a/b}]
    disks: [{name: root, tag: system, disk: {}}, {name: data, tag: bulk, disk: {}}, {name: seed, disk: {}}]`)
	d := &libvirtxml.Domain{Devices: &libvirtxml.DomainDeviceList{
		Interfaces: []libvirtxml.DomainInterface{{
			Alias: &libvirtxml.DomainAlias{Name: "ua-default"}, MAC: &libvirtxml.DomainInterfaceMAC{Address: "02:00:00:00:00:01"},
			Address: &libvirtxml.DomainAddress{PCI: &libvirtxml.DomainAddressPCI{Domain: new(uint(0)), Bus: new(uint(1)), Slot: new(uint(0)), Function: new(uint(0))}},
		}},
		Disks: []libvirtxml.DomainDisk{
			{Alias: &libvirtxml.DomainAlias{Name: "ua-root"}, Serial: "r-1", Address: &libvirtxml.DomainAddress{PCI: &libvirtxml.DomainAddressPCI{Bus: new(uint(4))}}},
			{Alias: &libvirtxml.DomainAlias{Name: "ua-data"}, Address: &libvirtxml.DomainAddress{Drive: &libvirtxml.DomainAddressDrive{Unit: new(uint(3))}}},
			{Alias: &libvirtxml.DomainAlias{Name: "ua-seed"}},
		},
		Hostdevs: []libvirtxml.DomainHostdev{{
			Alias: &libvirtxml.DomainAlias{Name: "ua-gpu-g"}, Address: &libvirtxml.DomainAddress{PCI: &libvirtxml.DomainAddressPCI{Bus: new(uint(9))}},
		}},
	}}
	want := []files.Device{
		{Type: "nic", Bus: "pci", Address: "0000:01:00.0", MAC: "02:00:00:00:00:01", Tags: []string{"front"}},
		{Type: "disk", Bus: "pci", Address: "0000:04:00.0", Serial: "r-1", Tags: []string{"system"}},
		{Type: "disk", Bus: "scsi", Address: "0:0:0:3", Tags: []string{"bulk"}},
		{Type: "hostdev", Bus: "pci", Address: "0000:09:00.0", Tags: []string{"accelerator"}},
	}
	if diff := cmp.Diff(want, taggedDevices(vmi, d)); diff != "" {
		t.Error(diff)
	}
}
