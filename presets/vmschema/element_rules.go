package vmschema

import (
	"slices"

	"github.com/virtwright/virtwright/presets/provenance"
)

// A Pairing connects an element with the elements of the same name in other lists. They are added
// together or not at all.
type Pairing struct {
	Key      string            // the name that the elements share
	Partners []provenance.Path // lists beneath template.spec; one must have an element of that name
	// UsefulAlone says that the element is useful without a partner, unless the same preset has a
	// partner that cannot be added.
	UsefulAlone bool
}

// PairedLists are the lists with elements that belong together, by their path beneath
// spec.template.spec. KubeVirt adds a disk to a volume without one, hence UsefulAlone.
var PairedLists = map[string]Pairing{
	"domain.devices.disks":       {Partners: []provenance.Path{provenance.Of("volumes")}},
	"domain.devices.filesystems": {Partners: []provenance.Path{provenance.Of("volumes")}},
	"domain.devices.interfaces":  {Partners: []provenance.Path{provenance.Of("networks")}},
	"networks":                   {Partners: []provenance.Path{provenance.Of("domain", "devices", "interfaces")}},
	"volumes": {UsefulAlone: true, Partners: []provenance.Path{
		provenance.Of("domain", "devices", "disks"), provenance.Of("domain", "devices", "filesystems")}},
}

// PairingOf returns the pairing of the element at p; nil if it is in no such list.
func PairingOf(p provenance.Path) *Pairing {
	if len(p) < 5 || !p.HasPrefix(TemplateSpec) {
		return nil
	}
	l, ok := PairedLists[p[3:len(p)-1].String()]
	if !ok {
		return nil
	}
	l.Key = p[len(p)-1].Name
	return &l
}

// A UniqueElement is a kind of element that KubeVirt allows only once in a list.
type UniqueElement struct {
	What   string            // for messages
	List   provenance.Path   // of these elements
	Fields []provenance.Path // make an element one
}

// UniqueElements are the elements that KubeVirt allows once (rules single-pod-network,
// single-multus-default, single-default-network and single-volumes).
var UniqueElements = []*UniqueElement{
	DefaultNetwork,
	{"a service account volume", Volumes, []provenance.Path{provenance.Of("serviceAccount")}},
	{"a volume of downward metrics", Volumes, []provenance.Path{provenance.Of("downwardMetrics")}},
	{"a volume for a memory dump", Volumes, []provenance.Path{provenance.Of("memoryDump")}},
}

// DefaultNetwork is the network of the default route.
var DefaultNetwork = &UniqueElement{
	"a default network", TemplateSpec.Field("networks"), []provenance.Path{provenance.Of("pod"), provenance.Of("multus", "default")},
}

// UniqueElementOf returns the unique element that the field at p makes of its own; nil for most
// fields.
func UniqueElementOf(p provenance.Path) *UniqueElement {
	for _, s := range UniqueElements {
		if n := len(s.List); len(p) > n+1 && p.HasPrefix(s.List) && slices.ContainsFunc(s.Fields, func(f provenance.Path) bool { return slices.Equal(f, p[n+1:]) }) {
			return s
		}
	}
	return nil
}

// UniqueElementAt returns the unique element that a field at or above p makes; nil for most fields.
func UniqueElementAt(p provenance.Path) *UniqueElement {
	for i := range p {
		if s := UniqueElementOf(p[:i+1]); s != nil {
			return s
		}
	}
	return nil
}
