package launcher

import (
	"path/filepath"
	"strings"

	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/domain"
	"github.com/virtwright/virtwright/launcher/files"
)

// facts are the facts of a pod.
type facts struct {
	*domain.HostFacts
	kernel, initrd string   // files; empty if the VMI names none
	search         []string // the search domains
}

// translationCache limits QEMU's cache of translated code, which can otherwise grow to 1 GiB. The
// guest does not see it.
const translationCache = 128 // MiB

// plan renders the domain of a VMI in its pod, and returns the decisions.
func plan(in *domain.Input, f *facts) (*libvirtxml.Domain, []domain.Decision, error) {
	guest, errs := domain.Frontend(in.VMI, in.Frontend)
	errs = append(domain.CheckPod(in.VMI), errs...) // admission has checked it, but a VMI may be older
	if len(errs) > 0 {
		return nil, nil, errs.ToAggregate()
	}
	host, errs := domain.Backend(guest, settingsInPod(in.Backend), f.HostFacts)
	if len(errs) > 0 {
		return nil, nil, errs.ToAggregate()
	}
	d := &host.Domain
	d.OnCrash = "preserve" // until watch has seen that the guest panicked
	if d.Type == "qemu" {
		d.Features = new(ptr.Deref(d.Features, libvirtxml.DomainFeatureList{}))
		d.Features.TCG = &libvirtxml.DomainFeatureTCG{TBCache: &libvirtxml.DomainFeatureTCGTBCache{Unit: "MiB", Size: translationCache}}
	}
	if d.OS != nil {
		d.OS.Kernel, d.OS.Initrd = f.kernel, f.initrd
		mountedTables(d.OS.ACPI)
	}
	for i := range d.Devices.Serials {
		d.Devices.Serials[i].Log = nil // the launcher logs the console
	}
	return d, host.Decisions, userNetwork(d, guest.VMI, f.search)
}

// settingsInPod returns a backend profile's settings with the paths and networks of a pod.
func settingsInPod(of *v1alpha1.BackendSettings) *v1alpha1.BackendSettings {
	out := v1alpha1.BackendSettings{}
	if of != nil {
		out = *of
	}
	out.Networks = []v1alpha1.NetworkRule{{Network: "*", Type: v1alpha1.NetworkUser}}
	volume := v1alpha1.VolumesFolder + "/{volume}/disk.img" // the facts of volumes have their real paths
	data := files.DataFolder + "/{volume}.iso"
	out.Paths = &v1alpha1.Paths{
		Sockets: v1alpha1.RunFolder, NVRAM: v1alpha1.RunFolder + "/nvram.fd", Overlay: files.OverlayFolder + "/{volume}.qcow2",
		HostDisk: volume, Claim: volume, BlockClaim: v1alpha1.BlockFolder + "/{volume}",
		ContainerDisk: volume, EmptyDisk: volume, CloudInit: data, Data: data,
	}
	return &out
}

// mountedTables sets the paths of ACPI tables to the folders of their Secrets.
func mountedTables(acpi *libvirtxml.DomainACPI) {
	if acpi == nil {
		return
	}
	for i := range acpi.Tables {
		if file, ok := strings.CutPrefix(acpi.Tables[i].Path, files.DataFolder); ok {
			acpi.Tables[i].Path = filepath.Join(v1alpha1.VolumesFolder, file)
		}
	}
}

// serialSocket is the socket of the first serial port; empty if there is none.
func serialSocket(d *libvirtxml.Domain) string {
	for i := range d.Devices.Serials {
		if s := d.Devices.Serials[i].Source; s != nil && s.UNIX != nil {
			return s.UNIX.Path
		}
	}
	return ""
}

// displaySocket is the socket of the display; empty if there is none.
func displaySocket(d *libvirtxml.Domain) string {
	for i := range d.Devices.Graphics {
		if vnc := d.Devices.Graphics[i].VNC; vnc != nil && len(vnc.Listeners) > 0 && vnc.Listeners[0].Socket != nil {
			return vnc.Listeners[0].Socket.Socket
		}
	}
	return ""
}

// agentConnected reports whether the guest's agent has opened its channel.
func agentConnected(d *libvirtxml.Domain) bool {
	for i := range d.Devices.Channels {
		target := d.Devices.Channels[i].Target
		if target != nil && target.VirtIO != nil && target.VirtIO.Name == "org.qemu.guest_agent.0" {
			return target.VirtIO.State == "connected"
		}
	}
	return false
}

// taggedDevices describes the tagged devices of a VMI, with the addresses of a domain.
func taggedDevices(vmi *kubevirtv1.VirtualMachineInstance, d *libvirtxml.Domain) []files.Device {
	tags, spec := map[string]string{}, &vmi.Spec.Domain.Devices
	for i := range spec.Interfaces {
		tags["ua-"+spec.Interfaces[i].Name] = spec.Interfaces[i].Tag
	}
	for i := range spec.Disks {
		tags["ua-"+spec.Disks[i].Name] = spec.Disks[i].Tag
	}
	for i := range spec.GPUs {
		tags["ua-gpu-"+spec.GPUs[i].Name] = spec.GPUs[i].Tag
	}
	for i := range spec.HostDevices {
		tags["ua-hostdevice-"+spec.HostDevices[i].Name] = spec.HostDevices[i].Tag
	}
	var out []files.Device
	describe := func(one files.Device, alias *libvirtxml.DomainAlias, address *libvirtxml.DomainAddress) {
		if alias != nil && tags[alias.Name] != "" {
			one.Bus, one.Address = deviceAddress(address)
			one.Tags = []string{tags[alias.Name]}
			out = append(out, one)
		}
	}
	for i := range d.Devices.Interfaces {
		nic, mac := &d.Devices.Interfaces[i], ""
		if nic.MAC != nil {
			mac = nic.MAC.Address
		}
		describe(files.Device{Type: "nic", MAC: mac}, nic.Alias, nic.Address)
	}
	for i := range d.Devices.Disks {
		disk := &d.Devices.Disks[i]
		describe(files.Device{Type: "disk", Serial: disk.Serial}, disk.Alias, disk.Address)
	}
	for i := range d.Devices.Hostdevs {
		describe(files.Device{Type: "hostdev"}, d.Devices.Hostdevs[i].Alias, d.Devices.Hostdevs[i].Address)
	}
	return out
}
