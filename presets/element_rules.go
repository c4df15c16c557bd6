package presets

import (
	"slices"

	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
)

// A pairing connects an element with the elements of the same name in other lists. They are added
// together or not at all.
type pairing struct {
	key      string            // the name that the elements share
	partners []provenance.Path // lists beneath template.spec; one must have an element of that name
	// usefulAlone says that the element is useful without a partner, unless the same preset has a
	// partner that cannot be added.
	usefulAlone bool
}

// pairedLists are the lists with elements that belong together, by their path beneath
// spec.template.spec. KubeVirt adds a disk to a volume without one, hence usefulAlone.
var pairedLists = map[string]pairing{
	"domain.devices.disks":       {partners: []provenance.Path{provenance.Of("volumes")}},
	"domain.devices.filesystems": {partners: []provenance.Path{provenance.Of("volumes")}},
	"domain.devices.interfaces":  {partners: []provenance.Path{provenance.Of("networks")}},
	"networks":                   {partners: []provenance.Path{provenance.Of("domain", "devices", "interfaces")}},
	"volumes": {usefulAlone: true, partners: []provenance.Path{
		provenance.Of("domain", "devices", "disks"), provenance.Of("domain", "devices", "filesystems")}},
}

func pairingOf(p provenance.Path) *pairing {
	if len(p) < 5 || !p.HasPrefix(templateSpec) {
		return nil
	}
	l, ok := pairedLists[p[3:len(p)-1].String()]
	if !ok {
		return nil
	}
	l.key = p[len(p)-1].Name
	return &l
}

// isReferenced reports whether a volume names the dataVolumeTemplate, or will: KubeVirt rejects a
// template without a volume.
func (r *mergeState) isReferenced(template string) bool {
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
		return vmSchema().at(volumesPath).elem.valueAt(volume, p) == template
	})
}

// willReference reports whether the layer adds the volume, and the volume names the template.
// During a trial, a computed name may be the template's.
func (l *layer) willReference(volume *fieldNode, template string) bool {
	names := slices.ContainsFunc(templateReferences, func(p provenance.Path) bool {
		name := volume.find(p)
		return name != nil && (name.value == template || l.state.trial && name.computed != nil)
	})
	return names && l.canAdd(volume) && (l.role.OutranksUser() || len(tree.AsObject(vmValue(l.state.root, volumesPath.With(volume.segment)))) <= 1)
}

// A uniqueElement is a kind of element that KubeVirt allows only once in a list.
type uniqueElement struct {
	what   string            // for messages
	list   provenance.Path   // of these elements
	fields []provenance.Path // make an element one
}

// uniqueElements are the elements that KubeVirt allows once (rules single-pod-network,
// single-multus-default, single-default-network and single-volumes).
var uniqueElements = []*uniqueElement{
	defaultNetwork,
	{"a service account volume", volumesPath, []provenance.Path{provenance.Of("serviceAccount")}},
	{"a volume of downward metrics", volumesPath, []provenance.Path{provenance.Of("downwardMetrics")}},
	{"a volume for a memory dump", volumesPath, []provenance.Path{provenance.Of("memoryDump")}},
}

var defaultNetwork = &uniqueElement{
	"a default network", templateSpec.Field("networks"), []provenance.Path{provenance.Of("pod"), provenance.Of("multus", "default")},
}

// uniqueElementOf returns the unique element that the field at p makes of its own; nil for most
// fields.
func uniqueElementOf(p provenance.Path) *uniqueElement {
	for _, s := range uniqueElements {
		if n := len(s.list); len(p) > n+1 && p.HasPrefix(s.list) && slices.ContainsFunc(s.fields, func(f provenance.Path) bool { return slices.Equal(f, p[n+1:]) }) {
			return s
		}
	}
	return nil
}

func uniqueElementAt(p provenance.Path) *uniqueElement {
	for i := range p {
		if s := uniqueElementOf(p[:i+1]); s != nil {
			return s
		}
	}
	return nil
}

// existingUniqueElement returns the unique element at or beneath f that another element already is,
// or nil.
func (l *layer) existingUniqueElement(f *fieldNode) *uniqueElement {
	if s := f.unique; s != nil {
		isUnknown := l.state.trial && f.computed != nil
		if f.value == false || isUnknown || !l.state.hasOther(s, f.path[len(s.list)]) {
			return nil
		}
		return s
	}
	for _, kid := range f.children {
		if s := l.existingUniqueElement(kid); s != nil {
			return s
		}
	}
	return nil
}

func (r *mergeState) hasOther(s *uniqueElement, seg provenance.Segment) bool {
	for at, e := range elementsAt(r.root, s.list) {
		for _, f := range s.fields {
			if v := vmSchema().at(at).valueAt(e, f); v != nil && v != false && at[len(at)-1] != seg {
				return true
			}
		}
	}
	return false
}

// wouldRepeatUniqueElement reports whether the layer skips f, because the VM has such an element.
func (l *layer) wouldRepeatUniqueElement(f *fieldNode) bool {
	if l.role.OutranksUser() {
		return false
	}
	s := l.existingUniqueElement(f)
	if s != nil {
		l.noteSkip(f.text, "the VM already has "+s.what, true)
	}
	return s != nil
}
