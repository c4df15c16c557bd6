package domain

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// What QEMU takes: how many requests may be under way, and how long a tag is.
const (
	virtiofsQueue = 1024
	maxTag        = 36
)

// filesystems gives the guest its file systems, which it mounts by their name.
// As KubeVirt has it, each is virtiofs and has the volume of its name.
func (g *guest) filesystems() {
	for i := range g.spec.Domain.Devices.Filesystems {
		fs, at := &g.spec.Domain.Devices.Filesystems[i], devicesAt.Child("filesystems").Index(i)
		switch known := slices.ContainsFunc(g.spec.Volumes, func(v kubevirtv1.Volume) bool { return v.Name == fs.Name }); {
		case fs.Name == "":
			g.refuse(field.Required(at.Child("name"), "must be the name of a volume"))
		case !known:
			err := field.NotFound(at.Child("name"), fs.Name)
			err.Detail = "must be the name of a volume"
			g.refuse(err)
		case len(fs.Name) > maxTag:
			g.refuse(field.TooLongMaxLength(at.Child("name"), fs.Name, maxTag))
		case fs.Virtiofs == nil:
			g.refuse(field.Required(at.Child("virtiofs"), "must be there; file systems are of no other kind"))
		}
		g.devices.Filesystems = append(g.devices.Filesystems, libvirtxml.DomainFilesystem{
			AccessMode: "passthrough",
			Driver:     &libvirtxml.DomainFilesystemDriver{Type: "virtiofs", Queue: virtiofsQueue},
			Target:     &libvirtxml.DomainFilesystemTarget{Dir: fs.Name},
		})
	}
}
