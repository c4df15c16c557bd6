package presets

import (
	"slices"

	"github.com/virtwright/virtwright/presets/provenance"
)

// A link connects an element with the elements of the same name in other lists. They are added
// together or not at all.
type link struct {
	key      string            // the name that the elements share
	partners []provenance.Path // lists beneath template.spec; one must have an element of that name
	// alone says that the element is useful without a partner, unless the same preset has a partner
	// that cannot be added.
	alone bool
}

// links are the linked lists, by their path beneath spec.template.spec. KubeVirt adds a disk to a
// volume without one, hence alone.
var links = map[string]link{
	"domain.devices.disks":       {partners: []provenance.Path{provenance.Of("volumes")}},
	"domain.devices.filesystems": {partners: []provenance.Path{provenance.Of("volumes")}},
	"domain.devices.interfaces":  {partners: []provenance.Path{provenance.Of("networks")}},
	"networks":                   {partners: []provenance.Path{provenance.Of("domain", "devices", "interfaces")}},
	"volumes": {alone: true, partners: []provenance.Path{
		provenance.Of("domain", "devices", "disks"), provenance.Of("domain", "devices", "filesystems")}},
}

var templateSpec = provenance.Of("spec", "template", "spec")

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

// isReferenced reports whether a volume names the dataVolumeTemplate, or will: KubeVirt rejects a
// template without a volume.
func (r *resolution) isReferenced(template string) bool {
	for _, e := range elementsAt(r.root, volumesPath) {
		if namesTemplate(e, template) {
			return true
		}
	}
	return slices.ContainsFunc(r.layers, func(l layer) bool {
		volumes := l.root.find(volumesPath)
		return volumes != nil && slices.ContainsFunc(volumes.children, func(volume *fieldNode) bool { return l.willReference(volume, template) })
	})
}

var templateReferences = []provenance.Path{provenance.Of("dataVolume", "name"), provenance.Of("persistentVolumeClaim", "claimName")}

func namesTemplate(volume any, template string) bool {
	return slices.ContainsFunc(templateReferences, func(p provenance.Path) bool {
		return lookup(volume, vmSchema().at(volumesPath).elem, p) == template
	})
}

// willReference reports whether the layer adds the volume, and the volume names the template.
// During a trial, a computed name may be the template's.
func (l *layer) willReference(volume *fieldNode, template string) bool {
	names := slices.ContainsFunc(templateReferences, func(p provenance.Path) bool {
		name := volume.find(p)
		return name != nil && (name.value == template || l.resolution.trial && name.computed != nil)
	})
	return names && l.canAdd(volume) && (l.role.OutranksUser() || len(asObject(vmValue(l.resolution.root, volumesPath.With(volume.segment)))) <= 1)
}

// A singleton is a kind of element that KubeVirt allows only once in a list.
type singleton struct {
	what   string            // for messages
	list   provenance.Path   // of these elements
	fields []provenance.Path // make an element one
}

// singletons are the elements that KubeVirt allows once (rules single-pod-network,
// single-multus-default, single-default-network and single-volumes).
var singletons = []*singleton{
	{"a default network", provenance.Of("spec", "template", "spec", "networks"), []provenance.Path{provenance.Of("pod"), provenance.Of("multus", "default")}},
	{"a service account volume", volumesPath, []provenance.Path{provenance.Of("serviceAccount")}},
	{"a volume of downward metrics", volumesPath, []provenance.Path{provenance.Of("downwardMetrics")}},
	{"a volume for a memory dump", volumesPath, []provenance.Path{provenance.Of("memoryDump")}},
}

// singletonOf returns the singleton that the field at p makes of its element; nil for most fields.
func singletonOf(p provenance.Path) *singleton {
	for _, s := range singletons {
		if n := len(s.list); len(p) > n+1 && p.HasPrefix(s.list) && slices.ContainsFunc(s.fields, func(f provenance.Path) bool { return slices.Equal(f, p[n+1:]) }) {
			return s
		}
	}
	return nil
}

func singletonAt(p provenance.Path) *singleton {
	for i := range p {
		if s := singletonOf(p[:i+1]); s != nil {
			return s
		}
	}
	return nil
}

// existingSingleton returns the singleton at or beneath f that another element already is, or nil.
func (l *layer) existingSingleton(f *fieldNode) *singleton {
	if s := f.singleton; s != nil {
		isUnknown := l.resolution.trial && f.computed != nil
		if f.value == false || isUnknown || !l.resolution.hasOther(s, f.path[len(s.list)]) {
			return nil
		}
		return s
	}
	for _, kid := range f.children {
		if s := l.existingSingleton(kid); s != nil {
			return s
		}
	}
	return nil
}

func (r *resolution) hasOther(s *singleton, seg provenance.Segment) bool {
	for at, e := range elementsAt(r.root, s.list) {
		for _, f := range s.fields {
			if v := lookup(e, vmSchema().at(at), f); v != nil && v != false && at[len(at)-1] != seg {
				return true
			}
		}
	}
	return false
}

// wouldAddSecondSingleton reports whether the layer skips f, because it would be a second
// singleton.
func (l *layer) wouldAddSecondSingleton(f *fieldNode) bool {
	if l.role.OutranksUser() {
		return false
	}
	s := l.existingSingleton(f)
	if s != nil {
		l.noteSkip(f.text, "the VM already has "+s.what, true)
	}
	return s != nil
}
