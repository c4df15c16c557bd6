package presets

import (
	"slices"

	"github.com/virtwright/virtwright/presets/provenance"
)

// A singleton is something that KubeVirt allows once among the elements of a list.
type singleton struct {
	// what it is, for messages.
	what string
	// list that it is in, and the fields that each make an element one.
	list   provenance.Path
	fields []provenance.Path
}

// singletons are what KubeVirt allows once (rules single-pod-network,
// single-multus-default, single-default-network and single-volumes).
var singletons = []*singleton{
	{"a default network", provenance.Of("spec", "template", "spec", "networks"), []provenance.Path{provenance.Of("pod"), provenance.Of("multus", "default")}},
	{"a service account volume", volumesPath, []provenance.Path{provenance.Of("serviceAccount")}},
	{"a volume of downward metrics", volumesPath, []provenance.Path{provenance.Of("downwardMetrics")}},
	{"a volume for a memory dump", volumesPath, []provenance.Path{provenance.Of("memoryDump")}},
}

// singletonOf returns what the field at p makes of its element; nil for most fields.
func singletonOf(p provenance.Path) *singleton {
	for _, s := range singletons {
		if n := len(s.list); len(p) > n+1 && p.HasPrefix(s.list) && slices.ContainsFunc(s.fields, func(f provenance.Path) bool { return slices.Equal(f, p[n+1:]) }) {
			return s
		}
	}
	return nil
}

// singletonAt returns what the field at p, or one that holds it, makes of its element.
func singletonAt(p provenance.Path) *singleton {
	for i := range p {
		if s := singletonOf(p[:i+1]); s != nil {
			return s
		}
	}
	return nil
}

// second returns the singleton at or beneath p if the VM has another; nil where
// it has none. A default that would add a second one is held back.
func (l *layer) second(p *fieldNode) *singleton {
	if s := p.singleton; s != nil {
		isUnknown := l.w.trial && p.computed != nil
		if p.value != false && !isUnknown && l.w.hasOther(s, p.at[len(s.list)]) {
			return s
		}
		return nil
	}
	for _, kid := range p.kids {
		if s := l.second(kid); s != nil {
			return s
		}
	}
	return nil
}

// hasOther reports whether another element than the one at seg is s.
func (w *resolution) hasOther(s *singleton, seg provenance.Segment) bool {
	for at, e := range elementsAt(w.root, s.list) {
		for _, f := range s.fields {
			if v := lookup(e, vmSchema().at(at), f); v != nil && v != false && at[len(at)-1] != seg {
				return true
			}
		}
	}
	return false
}

// holdsBack reports whether the layer holds back p, a field or a new element, because it
// would be a second singleton.
func (l *layer) holdsBack(p *fieldNode) bool {
	if l.role.Outranks() {
		return false
	}
	s := l.second(p)
	if s != nil && l.preset != nil {
		l.note(&l.w.skips, p.path, "the VM already has "+s.what)
	}
	return s != nil
}
