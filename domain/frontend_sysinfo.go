package domain

import (
	"libvirt.org/go/libvirtxml"
)

// sysinfo writes the firmware tables that tell the guest what machine it is,
// in KubeVirt's order. Entries without a value are left out: libvirt refuses
// them.
func (g *guest) sysinfo() {
	if !g.arch.smbios {
		return
	}
	system := &libvirtxml.DomainSysInfoSystem{}
	add := func(to *[]libvirtxml.DomainSysInfoEntry, name, value string) {
		if value != "" {
			*to = append(*to, libvirtxml.DomainSysInfoEntry{Name: name, Value: value})
		}
	}
	add(&system.Entry, "uuid", g.domain.UUID)
	if s := g.settings.SMBIOS; s != nil {
		add(&system.Entry, "manufacturer", s.Manufacturer)
		add(&system.Entry, "family", s.Family)
		add(&system.Entry, "product", s.Product)
		add(&system.Entry, "sku", s.SKU)
		add(&system.Entry, "version", s.Version)
	}
	if f := g.spec.Domain.Firmware; f != nil {
		add(&system.Entry, "serial", f.Serial)
	}
	tables := &libvirtxml.DomainSysInfoSMBIOS{System: system}
	if c := g.spec.Domain.Chassis; c != nil {
		chassis := &libvirtxml.DomainSysInfoChassis{}
		add(&chassis.Entry, "manufacturer", c.Manufacturer)
		add(&chassis.Entry, "version", c.Version)
		add(&chassis.Entry, "serial", c.Serial)
		add(&chassis.Entry, "asset", c.Asset)
		add(&chassis.Entry, "sku", c.Sku)
		if len(chassis.Entry) > 0 {
			tables.Chassis = chassis
		}
	}
	g.domain.SysInfo = []libvirtxml.DomainSysInfo{{SMBIOS: tables}}
}
