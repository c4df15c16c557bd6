package domain

import (
	"cmp"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// An image is what the host has of a volume.
type image struct {
	path, format string
	block        bool
	// beneath is the image that an overlay lies on.
	beneath *image
	// data says that it was made of files, for the guest to read.
	data bool
}

// A mounted is a volume and what is known of it.
type mounted struct {
	*kubevirtv1.Volume
	index int
	facts VolumeFacts
}

// A volumeKind turns one kind of volume into an image.
type volumeKind struct {
	of    func(*kubevirtv1.Volume) bool
	image func(*host, *mounted) *image
}

// volumeKinds are those that a disk can have, in KubeVirt's order.
var volumeKinds = []volumeKind{
	{func(v *kubevirtv1.Volume) bool { return v.ContainerDisk != nil }, (*host).containerDisk},
	{func(v *kubevirtv1.Volume) bool { return v.CloudInitNoCloud != nil }, cloudInit("noCloud")},
	{func(v *kubevirtv1.Volume) bool { return v.CloudInitConfigDrive != nil }, cloudInit("configdrive")},
	{func(v *kubevirtv1.Volume) bool { return v.Sysprep != nil }, dataImage("sysprep")},
	{func(v *kubevirtv1.Volume) bool { return v.HostDisk != nil }, (*host).hostDisk},
	{func(v *kubevirtv1.Volume) bool { return v.PersistentVolumeClaim != nil }, (*host).claimed},
	{func(v *kubevirtv1.Volume) bool { return v.DataVolume != nil }, (*host).claimed},
	{func(v *kubevirtv1.Volume) bool { return v.Ephemeral != nil }, (*host).ephemeral},
	{func(v *kubevirtv1.Volume) bool { return v.EmptyDisk != nil }, (*host).emptyDisk},
	{func(v *kubevirtv1.Volume) bool { return v.ConfigMap != nil }, dataImage("configMap")},
	{func(v *kubevirtv1.Volume) bool { return v.Secret != nil }, dataImage("secret")},
	{func(v *kubevirtv1.Volume) bool { return v.DownwardAPI != nil }, dataImage("downwardAPI")},
	{func(v *kubevirtv1.Volume) bool { return v.ServiceAccount != nil }, dataImage("serviceAccount")},
	{func(v *kubevirtv1.Volume) bool { return v.DownwardMetrics != nil }, dataImage("downwardMetrics")},
}

// volume is the instance's volume of a name, and where in the list it stands.
func (h *host) volume(name string) (*kubevirtv1.Volume, int) {
	for i := range h.spec.Volumes {
		if h.spec.Volumes[i].Name == name {
			return &h.spec.Volumes[i], i
		}
	}
	return nil, 0
}

// image is what the host has of a volume. What the facts say of the volume is
// about the image beneath, where there is an overlay.
func (h *host) image(v *kubevirtv1.Volume, index int) (*image, *field.Error) {
	at := field.NewPath("spec", "volumes").Index(index)
	for _, kind := range volumeKinds {
		if !kind.of(v) {
			continue
		}
		if v.HostDisk != nil && !isHostPath(v.HostDisk.Path) {
			return nil, field.Invalid(at.Child("hostDisk", "path"), v.HostDisk.Path, "must be an absolute path that does not go up by ..")
		}
		return kind.image(h, &mounted{Volume: v, index: index, facts: h.facts.Volumes[v.Name]}), nil
	}
	if v.ContainerPath != nil {
		return nil, field.Forbidden(at.Child("containerPath"), "it is a folder, for filesystems; disks need an image")
	}
	return nil, field.Required(at, "say what the volume is, such as a persistentVolumeClaim")
}

// hostDisk is an image of the host's. An instance that may name one may name
// any: where {path} stands in the rule its path is what counts.
func (h *host) hostDisk(m *mounted) *image {
	return m.raw(cmp.Or(m.facts.Path, h.expand(hostDiskRule, map[string]string{"volume": m.Name, "path": m.HostDisk.Path})))
}

// isHostPath says whether a path can stand for itself below a folder.
func isHostPath(at string) bool {
	return strings.HasPrefix(at, "/") && !strings.Contains(at+"/", "/../")
}

// claimed is the image, or the block device, of a PersistentVolumeClaim or of
// the DataVolume that fills one.
func (h *host) claimed(m *mounted) *image {
	claim := ""
	switch {
	case m.PersistentVolumeClaim != nil:
		claim = m.PersistentVolumeClaim.ClaimName
	case m.DataVolume != nil:
		claim = m.DataVolume.Name
	case m.Ephemeral.PersistentVolumeClaim != nil:
		claim = m.Ephemeral.PersistentVolumeClaim.ClaimName
	}
	values := map[string]string{"volume": m.Name, "claim": claim}
	if h.isBlock(m) {
		img := m.raw(cmp.Or(m.facts.Path, h.expand(blockClaimRule, values)))
		img.block = true
		return img
	}
	return m.raw(cmp.Or(m.facts.Path, h.expand(claimRule, values)))
}

// isBlock says whether a claim is a block device: where nobody has looked, if
// the guest gets it as a lun, which nothing else can be.
func (h *host) isBlock(m *mounted) bool {
	if _, known := h.facts.Volumes[m.Name]; known || m.Ephemeral != nil {
		return m.facts.Block
	}
	for i := range h.spec.Domain.Devices.Disks {
		if d := &h.spec.Domain.Devices.Disks[i]; d.Name == m.Name {
			return d.LUN != nil
		}
	}
	return false
}

// raw is an image at a path, raw unless the facts say otherwise.
func (m *mounted) raw(at string) *image {
	return &image{path: at, format: cmp.Or(m.facts.Format, "raw")}
}

// containerDisk is an overlay of the image that a container brings. {index}
// is the position of the volume in the instance, as in KubeVirt.
func (h *host) containerDisk(m *mounted) *image {
	beneath := cmp.Or(m.facts.Path, h.expand(containerDiskRule, map[string]string{
		"volume": m.Name, "image": m.ContainerDisk.Image, "index": fmt.Sprint(m.index),
	}))
	return h.overlay(m, &image{path: beneath, format: cmp.Or(m.facts.Format, "qcow2")})
}

// ephemeral is an overlay of a claim.
func (h *host) ephemeral(m *mounted) *image { return h.overlay(m, h.claimed(m)) }

func (h *host) overlay(m *mounted, beneath *image) *image {
	return &image{path: h.expand(overlayRule, map[string]string{"volume": m.Name}), format: "qcow2", beneath: beneath}
}

func (h *host) emptyDisk(m *mounted) *image {
	at := cmp.Or(m.facts.Path, h.expand(emptyDiskRule, map[string]string{"volume": m.Name}))
	return &image{path: at, format: cmp.Or(m.facts.Format, "qcow2")}
}

// cloudInit is an image with the data of cloud-init in one of its formats.
func cloudInit(format string) func(*host, *mounted) *image {
	return func(h *host, m *mounted) *image {
		img := m.raw(cmp.Or(m.facts.Path, h.expand(cloudInitRule, map[string]string{"volume": m.Name, "format": format})))
		img.data = true
		return img
	}
}

// dataImage is an image with files of one kind.
func dataImage(kind string) func(*host, *mounted) *image {
	return func(h *host, m *mounted) *image {
		img := m.raw(cmp.Or(m.facts.Path, h.expand(dataRule, map[string]string{"volume": m.Name, "kind": kind})))
		img.data = true
		return img
	}
}

// source is an image as libvirt writes it.
func (i *image) source() *libvirtxml.DomainDiskSource {
	if i.block {
		return &libvirtxml.DomainDiskSource{Block: &libvirtxml.DomainDiskSourceBlock{Dev: i.path}}
	}
	return &libvirtxml.DomainDiskSource{File: &libvirtxml.DomainDiskSourceFile{File: i.path}}
}
