package domain

import (
	"libvirt.org/go/libvirtxml"
)

// filesystems says where the process listens that serves each file system,
// virtiofsd, as KubeVirt runs it in a container of its own.
func (h *host) filesystems() {
	for i := range h.devices.Filesystems {
		fs := &h.devices.Filesystems[i]
		if fs.Target == nil {
			continue
		}
		at := devicesAt.Child("filesystems").Index(i).Child("name")
		fs.Source = &libvirtxml.DomainFilesystemSource{Mount: &libvirtxml.DomainFilesystemSourceMount{Socket: h.socket("virtiofs-"+fs.Target.Dir+".sock", at)}}
	}
}
