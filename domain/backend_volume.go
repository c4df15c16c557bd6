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

// An image is what the host has of a volume.
type image struct {
	path, format string
	// origin is who says that it is there.
	origin string
	block  bool
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
	{func(v *kubevirtv1.Volume) bool { return v.Sysprep != nil }, dataImage("sysprep", "sysprep-disks", "")},
	{func(v *kubevirtv1.Volume) bool { return v.HostDisk != nil }, (*host).hostDisk},
	{func(v *kubevirtv1.Volume) bool { return v.PersistentVolumeClaim != nil }, (*host).claimed},
	{func(v *kubevirtv1.Volume) bool { return v.DataVolume != nil }, (*host).claimed},
	{func(v *kubevirtv1.Volume) bool { return v.Ephemeral != nil }, (*host).ephemeral},
	{func(v *kubevirtv1.Volume) bool { return v.EmptyDisk != nil }, (*host).emptyDisk},
	{func(v *kubevirtv1.Volume) bool { return v.ConfigMap != nil }, dataImage("configMap", "config-map-disks", "")},
	{func(v *kubevirtv1.Volume) bool { return v.Secret != nil }, dataImage("secret", "secret-disks", "")},
	{func(v *kubevirtv1.Volume) bool { return v.DownwardAPI != nil }, dataImage("downwardAPI", "downwardapi-disks", "")},
	{func(v *kubevirtv1.Volume) bool { return v.ServiceAccount != nil }, dataImage("serviceAccount", "service-account-disk", "service-account.iso")},
	{func(v *kubevirtv1.Volume) bool { return v.DownwardMetrics != nil }, dataImage("downwardMetrics", "downwardapi-disks", "vhostmd0")},
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
			return nil, field.Invalid(at.Child("hostDisk", "path"), v.HostDisk.Path, "must be an absolute path that does not go up by .., without a name of more than 255 bytes")
		}
		if claim, name := claimOf(v); name != "" && claim == "" {
			return nil, field.Required(at.Child(name), "name the claim")
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
	return h.located(m, hostDiskRule, "path", m.HostDisk.Path, "base", path.Base(m.HostDisk.Path))
}

// isHostPath says whether a path can stand for itself below a folder.
func isHostPath(at string) bool {
	long := slices.ContainsFunc(strings.Split(at, "/"), func(name string) bool { return len(name) > maxFileName })
	return strings.HasPrefix(at, "/") && !strings.Contains(at+"/", "/../") && !long
}

// claimOf is the claim that a volume is of, and the field that names it; empty
// for volumes that have nothing to do with claims.
func claimOf(v *kubevirtv1.Volume) (claim, field string) {
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

// claimed is the image, or the block device, of a PersistentVolumeClaim or of
// the DataVolume that fills one.
func (h *host) claimed(m *mounted) *image {
	claim, _ := claimOf(m.Volume)
	if h.isBlock(m) {
		img := h.located(m, blockClaimRule, "claim", claim)
		img.block = true
		return img
	}
	return h.located(m, claimRule, "claim", claim)
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

// located is an image where the facts say, else where a rule says that knows
// the volume's name and some values; raw unless the facts say otherwise.
func (h *host) located(m *mounted, r pathRule, values ...string) *image {
	img := &image{path: m.facts.Path, format: cmp.Or(m.facts.Format, "raw"), origin: fmt.Sprintf("facts.volumes[%s].path", m.Name)}
	if img.path == "" {
		img.path, img.origin = h.expand(r, m.named(values...)), r.origin()
	}
	return img
}

// named are the volume's name and values, for a path rule.
func (m *mounted) named(values ...string) map[string]string {
	out := map[string]string{"volume": m.Name}
	for pair := range slices.Chunk(values, 2) { //nolint:mnd // name and value
		out[pair[0]] = pair[1]
	}
	return out
}

// containerDisk is an overlay of the image that a container brings. {index}
// is the position of the volume in the instance, as in KubeVirt.
func (h *host) containerDisk(m *mounted) *image {
	beneath := h.located(m, containerDiskRule, "image", m.ContainerDisk.Image, "index", fmt.Sprint(m.index))
	beneath.format = cmp.Or(m.facts.Format, "qcow2")
	return h.overlay(m, beneath)
}

// ephemeral is an overlay of a claim.
func (h *host) ephemeral(m *mounted) *image { return h.overlay(m, h.claimed(m)) }

func (h *host) overlay(m *mounted, beneath *image) *image {
	return &image{path: h.expand(overlayRule, m.named()), origin: overlayRule.origin(), format: "qcow2", beneath: beneath}
}

func (h *host) emptyDisk(m *mounted) *image {
	img := h.located(m, emptyDiskRule)
	img.format = cmp.Or(m.facts.Format, "qcow2")
	return img
}

// cloudInit is an image with the data of cloud-init in one of its formats.
func cloudInit(format string) func(*host, *mounted) *image {
	return func(h *host, m *mounted) *image {
		img := h.located(m, cloudInitRule, "format", format)
		img.data = true
		return img
	}
}

// dataImage is an image with files of one kind, and the folder and the file that
// it is in KubeVirt's pods; empty is one named after the volume.
func dataImage(kind, folder, file string) func(*host, *mounted) *image {
	return func(h *host, m *mounted) *image {
		img := h.located(m, dataRule, "kind", kind, "folder", folder, "file", cmp.Or(file, m.Name+".iso"))
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
