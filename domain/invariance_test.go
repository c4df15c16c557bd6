package domain

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// TestBackendsShowTheSameGuest runs every case with two backends that differ in everything that a
// backend decides. The guest must see the same. Late-bound facts and the accelerator are the same.
func TestBackendsShowTheSameGuest(t *testing.T) {
	for name, c := range goldenCases(t) {
		t.Run(name, func(t *testing.T) {
			one, other := *c, *c
			one.Backend.Networks = []v1alpha1.NetworkRule{{Network: "*", Type: v1alpha1.NetworkManagedTap}}
			other.Backend = contrary(c.Backend.SoftwareEmulation)
			guest, a, errs := one.run()
			if len(errs) > 0 {
				t.Skip("rejected")
			}
			other.Facts = contraryFacts(&guest.VMI.Spec, c.facts(guest.VMI.Spec.Architecture))
			_, b, errs := other.run()
			if len(errs) > 0 {
				t.Fatalf("the other backend rejects it: %v", errs)
			}
			if diff := cmp.Diff(rendered(t, guestView(&a.Domain)), rendered(t, guestView(&b.Domain))); diff != "" {
				t.Errorf("-one backend, +the other:\n%s", diff)
			}
			if rendered(t, &a.Domain) == rendered(t, &b.Domain) {
				t.Error("the backends are the same")
			}
		})
	}
}

// TestBackendDoesNotChangeTheGuest gives one guest domain to two backends.
func TestBackendDoesNotChangeTheGuest(t *testing.T) {
	for name, c := range goldenCases(t) {
		t.Run(name, func(t *testing.T) {
			guest, _, errs := c.run()
			if len(errs) > 0 {
				t.Skip("rejected")
			}
			before := *copied(&guest.Domain)
			settings := contrary(v1alpha1.SoftwareEmulationAllow)
			Backend(guest, &settings, c.facts(guest.VMI.Spec.Architecture))
			if diff := cmp.Diff(rendered(t, &before), rendered(t, &guest.Domain)); diff != "" {
				t.Errorf("-before, +after:\n%s", diff)
			}
		})
	}
}

// contrary returns settings that all differ from the built-in ones.
func contrary(emulation v1alpha1.SoftwareEmulation) v1alpha1.BackendSettings {
	return v1alpha1.BackendSettings{
		SoftwareEmulation: emulation,
		Emulator:          "/opt/qemu",
		Disks: &v1alpha1.DiskBacking{
			Cache: kubevirtv1.CacheWriteBack, IO: kubevirtv1.IOThreads, Discard: "ignore",
			ErrorPolicy: kubevirtv1.DiskErrorPolicyReport, IOThreads: ptr.To[int32](3),
		},
		CPU:                 &v1alpha1.CPUBacking{VCPUs: "0-3", Emulator: "4", IOThreads: "5"},
		Memory:              &v1alpha1.MemoryBacking{Source: v1alpha1.MemoryMemfd, Locked: new(true), Preallocated: new(true), Mergeable: new(false)},
		Networks:            []v1alpha1.NetworkRule{{Network: "*", Type: v1alpha1.NetworkBridge, Bridge: "br0", Vhost: new(false)}},
		Entropy:             "/dev/hwrng",
		BalloonStatsSeconds: ptr.To[int32](99),
		SerialLog:           new(false),
		Paths: &v1alpha1.Paths{
			Sockets: "/s/{name}", NVRAM: "/n/{name}", HostDisk: "/h/{volume}", Claim: "/c/{volume}", BlockClaim: "/b/{volume}",
			ContainerDisk: "/i/{volume}", Overlay: "/o/{volume}", EmptyDisk: "/e/{volume}", CloudInit: "/ci/{volume}", Data: "/d/{volume}",
		},
	}
}

// contraryFacts returns facts that differ in everything that a guest does not see.
func contraryFacts(spec *kubevirtv1.VirtualMachineInstanceSpec, facts *HostFacts) *HostFacts {
	out := *facts
	out.Emulators = map[string]string{"amd64": "/opt/a", "arm64": "/opt/b", "s390x": "/opt/c"}
	out.CPUs = nil
	for _, c := range facts.CPUs {
		c.ID, c.Core = c.ID+100, c.Core+100
		out.CPUs = append(out.CPUs, c)
	}
	out.Firmware = nil
	for _, f := range facts.Firmware {
		f.Code = "/opt" + f.Code
		if f.Vars != "" {
			f.Vars = "/opt" + f.Vars
		}
		out.Firmware = append(out.Firmware, f)
	}
	out.Interfaces = map[string]interfaceFacts{}
	for i := range spec.Domain.Devices.Interfaces {
		name := spec.Domain.Devices.Interfaces[i].Name
		f := facts.Interfaces[name]
		f.Device = "other"
		out.Interfaces[name] = f
	}
	out.Volumes = map[string]VolumeFacts{}
	for i := range spec.Volumes {
		name := spec.Volumes[i].Name
		f := facts.Volumes[name]
		f.Path, f.Block, f.Preallocated = "/other/"+name, true, !f.Preallocated
		out.Volumes[name] = f
	}
	return &out
}

// guestView returns a domain without the parts that a guest does not see.
func guestView(d *libvirtxml.Domain) *libvirtxml.Domain {
	out := copied(d)
	out.Name, out.Metadata = "", nil
	out.MemoryBacking, out.CPUTune, out.NUMATune, out.SecLabel = nil, nil, nil, nil
	out.IOThreads, out.IOThreadIDs = 0, nil
	if os := out.OS; os != nil {
		os.Kernel, os.Initrd = "", ""
		if os.Loader != nil {
			os.Loader.Path = ""
		}
		if os.NVRam != nil {
			os.NVRam = &libvirtxml.DomainNVRam{}
		}
		if os.ACPI != nil {
			for i := range os.ACPI.Tables {
				os.ACPI.Tables[i].Path = ""
			}
		}
	}
	if out.Devices != nil {
		stripStorage(out.Devices)
		stripNetwork(out.Devices)
		stripDevices(out.Devices)
	}
	return out
}

// stripStorage keeps the parts of drivers that the guest sees: queues and the IOMMU.
func stripStorage(d *libvirtxml.DomainDeviceList) {
	for i := range d.Disks {
		disk := &d.Disks[i]
		disk.Source, disk.BackingStore = nil, nil
		if disk.Driver != nil {
			disk.Driver = unlessEmpty(&libvirtxml.DomainDiskDriver{Queues: disk.Driver.Queues, IOMMU: disk.Driver.IOMMU})
		}
	}
	for i := range d.Controllers {
		if c := &d.Controllers[i]; c.Driver != nil {
			c.Driver = unlessEmpty(&libvirtxml.DomainControllerDriver{Queues: c.Driver.Queues, IOMMU: c.Driver.IOMMU})
		}
	}
	for i := range d.Filesystems {
		d.Filesystems[i].Source = nil
	}
}

func stripNetwork(d *libvirtxml.DomainDeviceList) {
	for i := range d.Interfaces {
		nic := &d.Interfaces[i]
		nic.Source, nic.Target, nic.Backend, nic.PortForward = nil, nil, nil, nil
		if nic.Driver != nil {
			nic.Driver.Name = ""
			nic.Driver = unlessEmpty(nic.Driver)
		}
	}
}

func stripDevices(d *libvirtxml.DomainDeviceList) {
	d.Emulator, d.Graphics = "", nil
	for i := range d.Serials {
		d.Serials[i].Source, d.Serials[i].Log = nil, nil
	}
	for i := range d.Consoles {
		d.Consoles[i].Source = nil
	}
	for i := range d.Channels {
		d.Channels[i].Source = nil
	}
	for i := range d.RedirDevs {
		d.RedirDevs[i].Source = nil
	}
	for i := range d.RNGs {
		d.RNGs[i].Backend = nil
	}
	for i := range d.TPMs {
		d.TPMs[i].Backend = nil
	}
	if d.MemBalloon != nil {
		d.MemBalloon.Stats = nil
	}
}
