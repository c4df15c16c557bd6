package presets

import "github.com/virtwright/virtwright/presets/provenance"

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
