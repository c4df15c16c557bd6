package domain

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// An image is a volume as the host provides it.
type image struct {
	path, format string
	origin       string // the fact or path rule that the path comes from
	block        bool
	backing      *image // the image below an overlay
	data         bool   // the image was made of files, for the guest to read
}

// A knownVolume is a volume with its position and the facts about it.
type knownVolume struct {
	*kubevirtv1.Volume
	index int
	facts VolumeFacts
}

// volumeKinds are the kinds of volumes that a disk can have, in KubeVirt's order, and the functions
// that find their images.
var volumeKinds = []struct {
	is    func(*kubevirtv1.Volume) bool
	image func(*host, *knownVolume) *image
}{
	{func(v *kubevirtv1.Volume) bool { return v.ContainerDisk != nil }, (*host).containerDisk},
	{func(v *kubevirtv1.Volume) bool { return v.CloudInitNoCloud != nil }, madeImage(cloudInitRule, "format", "noCloud")},
	{func(v *kubevirtv1.Volume) bool { return v.CloudInitConfigDrive != nil }, madeImage(cloudInitRule, "format", "configdrive")},
	{func(v *kubevirtv1.Volume) bool { return v.Sysprep != nil }, dataImage("sysprep", "sysprep-disks")},
	{func(v *kubevirtv1.Volume) bool { return v.HostDisk != nil }, (*host).hostDisk},
	{func(v *kubevirtv1.Volume) bool { return v.PersistentVolumeClaim != nil || v.DataVolume != nil }, (*host).claimed},
	{func(v *kubevirtv1.Volume) bool { return v.Ephemeral != nil }, (*host).ephemeral},
	{func(v *kubevirtv1.Volume) bool { return v.EmptyDisk != nil }, (*host).emptyDisk},
	{func(v *kubevirtv1.Volume) bool { return v.ConfigMap != nil }, dataImage("configMap", "config-map-disks")},
	{func(v *kubevirtv1.Volume) bool { return v.Secret != nil }, dataImage("secret", "secret-disks")},
	{func(v *kubevirtv1.Volume) bool { return v.DownwardAPI != nil }, dataImage("downwardAPI", "downwardapi-disks")},
	{func(v *kubevirtv1.Volume) bool { return v.ServiceAccount != nil }, dataImage("serviceAccount", "service-account-disk", "file", "service-account.iso")},
	{func(v *kubevirtv1.Volume) bool { return v.DownwardMetrics != nil }, dataImage("downwardMetrics", "downwardapi-disks", "file", "vhostmd0")},
}

// volume returns the VMI's volume with a name, and its position.
func (h *host) volume(name string) (*kubevirtv1.Volume, int) {
	i := slices.IndexFunc(h.spec.Volumes, func(v kubevirtv1.Volume) bool { return v.Name == name })
	if i < 0 {
		return nil, 0
	}
	return &h.spec.Volumes[i], i
}

// image returns the image of a volume. For an overlay, the facts are about its backing image.
func (h *host) image(v *kubevirtv1.Volume, index int) (*image, *field.Error) {
	at := field.NewPath("spec", "volumes").Index(index)
	for _, kind := range volumeKinds {
		if !kind.is(v) {
			continue
		}
		if v.HostDisk != nil && !isHostPath(v.HostDisk.Path) {
			return nil, field.Invalid(at.Child("hostDisk", "path"), v.HostDisk.Path, "must be an absolute path without .., and without a name of more than 255 bytes")
		}
		if claim, name := ClaimOf(v); name != "" && claim == "" {
			return nil, field.Required(at.Child(name), "name the claim")
		}
		return kind.image(h, &knownVolume{Volume: v, index: index, facts: h.facts.Volumes[v.Name]}), nil
	}
	if v.ContainerPath != nil {
		return nil, field.Forbidden(at.Child("containerPath"), "it is a folder, for filesystems; disks need an image")
	}
	return nil, field.Required(at, "say what the volume is, such as a persistentVolumeClaim")
}

// hostDisk is an image of the host, at the VMI's path where a rule has {path}.
func (h *host) hostDisk(v *knownVolume) *image {
	return h.located(v, hostDiskRule, "path", v.HostDisk.Path, "base", path.Base(v.HostDisk.Path))
}

// isHostPath reports whether a path is absolute, has no .., and has only names that files can have.
func isHostPath(at string) bool {
	long := slices.ContainsFunc(strings.Split(at, "/"), func(name string) bool { return len(name) > maxFileName })
	return strings.HasPrefix(at, "/") && !strings.Contains(at+"/", "/../") && !long
}

// ClaimOf returns the claim of a volume and the field that names it; both are empty for volumes
// without a claim.
func ClaimOf(v *kubevirtv1.Volume) (claim, field string) {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName, "persistentVolumeClaim.claimName"
	case v.DataVolume != nil:
		return v.DataVolume.Name, "dataVolume.name"
	case v.Ephemeral != nil && v.Ephemeral.PersistentVolumeClaim != nil:
		return v.Ephemeral.PersistentVolumeClaim.ClaimName, "ephemeral.persistentVolumeClaim.claimName"
	case v.Ephemeral != nil:
		return "", "ephemeral.persistentVolumeClaim"
	}
	return "", ""
}

// claimed is the image, or the block device, of a PersistentVolumeClaim or a DataVolume.
func (h *host) claimed(v *knownVolume) *image {
	claim, _ := ClaimOf(v.Volume)
	if h.isBlock(v) {
		img := h.located(v, blockClaimRule, "claim", claim)
		img.block = true
		return img
	}
	return h.located(v, claimRule, "claim", claim)
}

// isBlock reports whether a claim is a block device. Without facts, a lun is assumed to be one.
func (h *host) isBlock(v *knownVolume) bool {
	if _, known := h.facts.Volumes[v.Name]; known || v.Ephemeral != nil {
		return v.facts.Block
	}
	i := slices.IndexFunc(h.spec.Domain.Devices.Disks, func(d kubevirtv1.Disk) bool { return d.Name == v.Name })
	return i >= 0 && h.spec.Domain.Devices.Disks[i].LUN != nil
}

// located is an image at the path of the facts, or else of a rule that knows the volume's name and
// some values; it is raw unless the facts say otherwise.
func (h *host) located(v *knownVolume, r pathRule, values ...string) *image {
	img := &image{path: v.facts.Path, format: cmp.Or(v.facts.Format, "raw"), origin: fmt.Sprintf("facts.volumes[%s].path", v.Name)}
	if img.path == "" {
		named := map[string]string{"volume": v.Name, "file": v.Name + ".iso"}
		for pair := range slices.Chunk(values, 2) { //nolint:mnd // name and value
			named[pair[0]] = pair[1]
		}
		img.path, img.origin = h.expand(r, named), r.origin()
	}
	return img
}

// containerDisk is an overlay of a container's image. {index} is the position of the volume in the
// VMI, as in KubeVirt.
func (h *host) containerDisk(v *knownVolume) *image {
	backing := h.located(v, containerDiskRule, "image", v.ContainerDisk.Image, "index", fmt.Sprint(v.index))
	backing.format = cmp.Or(v.facts.Format, "qcow2")
	return h.overlay(v, backing)
}

func (h *host) ephemeral(v *knownVolume) *image { return h.overlay(v, h.claimed(v)) }

func (h *host) overlay(v *knownVolume, backing *image) *image {
	file := h.expand(overlayRule, map[string]string{"volume": v.Name})
	return &image{path: file, origin: overlayRule.origin(), format: "qcow2", backing: backing}
}

func (h *host) emptyDisk(v *knownVolume) *image {
	img := h.located(v, emptyDiskRule)
	img.format = cmp.Or(v.facts.Format, "qcow2")
	return img
}

// madeImage returns images that are made of files, at the path of a rule.
func madeImage(r pathRule, values ...string) func(*host, *knownVolume) *image {
	return func(h *host, v *knownVolume) *image {
		img := h.located(v, r, values...)
		img.data = true
		return img
	}
}

// dataImage returns images with files of one kind. The folder is that of KubeVirt's pods, and so is
// the file if it is not named after the volume.
func dataImage(kind, folder string, file ...string) func(*host, *knownVolume) *image {
	return madeImage(dataRule, append([]string{"kind", kind, "folder", folder}, file...)...)
}

func (i *image) source() *libvirtxml.DomainDiskSource {
	if i.block {
		return &libvirtxml.DomainDiskSource{Block: &libvirtxml.DomainDiskSourceBlock{Dev: i.path}}
	}
	return &libvirtxml.DomainDiskSource{File: &libvirtxml.DomainDiskSourceFile{File: i.path}}
}

const (
	virtiofsQueue = 1024 // the number of requests that QEMU accepts at a time
	maxTag        = 36   // the longest tag of a file system in QEMU
)

// filesystems adds file systems, which the guest mounts by name. As in KubeVirt, each is virtiofs
// and shares the volume of the same name.
func (g *guest) filesystems() {
	for i := range g.spec.Domain.Devices.Filesystems {
		fs, at := &g.spec.Domain.Devices.Filesystems[i], devicesAt.Child("filesystems").Index(i)
		switch known := slices.ContainsFunc(g.spec.Volumes, func(v kubevirtv1.Volume) bool { return v.Name == fs.Name }); {
		case fs.Name == "":
			g.reject(field.Required(at.Child("name"), "must be the name of a volume"))
		case !known:
			g.reject(detailed(field.NotFound(at.Child("name"), fs.Name), "must be the name of a volume"))
		case len(fs.Name) > maxTag:
			g.reject(field.TooLongMaxLength(at.Child("name"), fs.Name, maxTag))
		case fs.Virtiofs == nil:
			g.reject(field.Required(at.Child("virtiofs"), "file systems of other kinds are not supported"))
		}
		g.devices.Filesystems = append(g.devices.Filesystems, libvirtxml.DomainFilesystem{
			AccessMode: "passthrough",
			Driver:     &libvirtxml.DomainFilesystemDriver{Type: "virtiofs", Queue: virtiofsQueue},
			Target:     &libvirtxml.DomainFilesystemTarget{Dir: fs.Name},
		})
	}
}

// filesystems sets the sockets of the virtiofsd processes, which KubeVirt runs in containers of
// their own.
func (h *host) filesystems() {
	for i := range h.devices.Filesystems {
		fs := &h.devices.Filesystems[i]
		if fs.Target != nil {
			socket := h.socket("virtiofs-"+fs.Target.Dir+".sock", devicesAt.Child("filesystems").Index(i).Child("name"))
			fs.Source = &libvirtxml.DomainFilesystemSource{Mount: &libvirtxml.DomainFilesystemSourceMount{Socket: socket}}
		}
	}
}
