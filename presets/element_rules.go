package presets

import (
	"slices"

	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/presets/vmschema"
)

// isReferenced reports whether a volume names the dataVolumeTemplate, or will: KubeVirt rejects a
// template without a volume.
func (r *mergeState) isReferenced(template string) bool {
	for _, e := range vmschema.ElementsAt(r.root, vmschema.Volumes) {
		if namesTemplate(e, template) {
			return true
		}
	}
	return slices.ContainsFunc(r.layers, func(l layer) bool {
		volumes := l.root.find(vmschema.Volumes)
		return volumes != nil && slices.ContainsFunc(volumes.children, func(volume *fieldNode) bool { return l.willReference(volume, template) })
	})
}

var templateReferences = []provenance.Path{provenance.Of("dataVolume", "name"), provenance.Of("persistentVolumeClaim", "claimName")}

func namesTemplate(volume any, template string) bool {
	return slices.ContainsFunc(templateReferences, func(p provenance.Path) bool {
		return vmschema.VM().At(vmschema.Volumes).Elem.ValueAt(volume, p) == template
	})
}

// willReference reports whether the layer adds the volume, and the volume names the template.
// During a trial, a computed name may be the template's.
func (l *layer) willReference(volume *fieldNode, template string) bool {
	names := slices.ContainsFunc(templateReferences, func(p provenance.Path) bool {
		name := volume.find(p)
		return name != nil && (name.value == template || l.state.trial && name.computed != nil)
	})
	return names && l.canAdd(volume) && (l.role.OutranksUser() || len(tree.AsObject(vmschema.Value(l.state.root, vmschema.Volumes.With(volume.segment)))) <= 1)
}

// existingUniqueElement returns the unique element at or beneath f that another element already is,
// or nil.
func (l *layer) existingUniqueElement(f *fieldNode) *vmschema.UniqueElement {
	if s := f.unique; s != nil {
		isUnknown := l.state.trial && f.computed != nil
		if f.value == false || isUnknown || !l.state.hasOther(s, f.path[len(s.List)]) {
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

func (r *mergeState) hasOther(s *vmschema.UniqueElement, seg provenance.Segment) bool {
	for at, e := range vmschema.ElementsAt(r.root, s.List) {
		for _, f := range s.Fields {
			if v := vmschema.VM().At(at).ValueAt(e, f); v != nil && v != false && at[len(at)-1] != seg {
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
		l.noteSkip(f.text, "the VM already has "+s.What, true)
	}
	return s != nil
}
