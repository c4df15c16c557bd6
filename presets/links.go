package presets

import (
	"slices"

	"github.com/virtwright/virtwright/presets/provenance"
)

// A link ties an element to the element of the same name in other lists, so
// that they are added together or not at all.
type link struct {
	// key is the name that the elements share.
	key string
	// partners are the lists, beneath template.spec, of which one must hold
	// an element of that name.
	partners []provenance.Path
	// alone says that the element is of use without a partner, unless the
	// same preset brings one that cannot be added.
	alone bool
}

// links are the linked lists, by their path beneath spec.template.spec.
// KubeVirt gives a volume without a disk a disk, hence alone.
var links = map[string]link{
	"domain.devices.disks":       {partners: []provenance.Path{provenance.Of("volumes")}},
	"domain.devices.filesystems": {partners: []provenance.Path{provenance.Of("volumes")}},
	"domain.devices.interfaces":  {partners: []provenance.Path{provenance.Of("networks")}},
	"networks":                   {partners: []provenance.Path{provenance.Of("domain", "devices", "interfaces")}},
	"volumes": {alone: true, partners: []provenance.Path{
		provenance.Of("domain", "devices", "disks"), provenance.Of("domain", "devices", "filesystems")}},
}

var templateSpec = provenance.Of("spec", "template", "spec")

// linkOf returns the link of the element at p, nil where it has none.
func linkOf(p provenance.Path) *link {
	if len(p) < 5 || !p.HasPrefix(templateSpec) {
		return nil
	}
	l, ok := links[p[3:len(p)-1].String()]
	if !ok {
		return nil
	}
	l.key = p[len(p)-1].Name
	return &l
}

// isReferenced reports whether a volume names the dataVolumeTemplate, or will: KubeVirt
// refuses one that no volume names.
func (w *resolution) isReferenced(template string) bool {
	for _, e := range elementsAt(w.root, volumesPath) {
		if namesTemplate(e, template) {
			return true
		}
	}
	return slices.ContainsFunc(w.layers, func(l layer) bool {
		volumes := l.root.find(volumesPath)
		return volumes != nil && slices.ContainsFunc(volumes.kids, func(volume *fieldNode) bool { return l.willReference(volume, template) })
	})
}

var templateReferences = []provenance.Path{provenance.Of("dataVolume", "name"), provenance.Of("persistentVolumeClaim", "claimName")}

func namesTemplate(volume any, template string) bool {
	return slices.ContainsFunc(templateReferences, func(p provenance.Path) bool {
		return lookup(volume, vmSchema().at(volumesPath).elem, p) == template
	})
}

// willReference reports whether the layer adds the volume, and that names the template. While
// values are computed, a computed name may be it.
func (l *layer) willReference(volume *fieldNode, template string) bool {
	names := slices.ContainsFunc(templateReferences, func(p provenance.Path) bool {
		name := volume.find(p)
		return name != nil && (name.value == template || l.w.trial && name.computed != nil)
	})
	return names && l.canAdd(volume) && (l.role.Outranks() || !hasSource(lookup(l.w.root, vmSchema(), volumesPath.With(volume.seg))))
}

// hasSource reports whether a volume has anything but a name.
func hasSource(volume any) bool {
	fields, _ := volume.(map[string]any)
	return len(fields) > 1
}
