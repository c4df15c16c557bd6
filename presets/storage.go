package presets

import (
	"maps"
	"slices"

	"github.com/virtwright/virtwright/presets/provenance"
)

var (
	volumesPath   = provenance.Of("spec", "template", "spec", "volumes")
	templatesPath = provenance.Of("spec", "dataVolumeTemplates")
	volumeDevices = []provenance.Path{
		provenance.Of("spec", "template", "spec", "domain", "devices", "disks"),
		provenance.Of("spec", "template", "spec", "domain", "devices", "filesystems"),
	}
)

// keepStorage finds the volumes, their disks and the dataVolumeTemplates that presets
// gave and give no longer, or give differently. An update keeps them as they are.
func (m *merger) keepStorage() {
	for _, list := range []provenance.Path{volumesPath, templatesPath} {
		for at, was := range elementsAt(m.a.root, list) {
			is, q := lookup(m.b.root, vmSchema(), at), m.b.rec.At(at)
			replaced := is == nil && !isDecided(q) || is != nil && !equalJSON(was, is) && gives(q, is)
			if replaced && gives(m.a.rec.At(at), was) && lookup(m.old, vmSchema(), at) != nil {
				m.kept = append(m.kept, at)
			}
		}
	}
	for _, volume := range slices.Clone(m.kept) {
		for _, list := range volumeDevices {
			at := list.With(volume[len(volume)-1])
			if volume.HasPrefix(volumesPath) && lookup(m.b.root, vmSchema(), at) == nil && !isDecided(m.b.rec.At(at)) {
				m.kept = append(m.kept, at)
			}
		}
	}
}

// elementsAt yields the elements of the list at p, by path.
func elementsAt(root map[string]any, p provenance.Path) func(func(provenance.Path, any) bool) {
	return func(yield func(provenance.Path, any) bool) {
		list, _ := lookup(root, vmSchema(), p).([]any)
		keys := vmSchema().at(p).keys
		for _, e := range slices.Clone(list) {
			fields, _ := e.(map[string]any)
			key, missing := elementKey(keys, fields)
			if missing == "" && !yield(p.With(provenance.Segment{Name: key, Kind: provenance.Element}), e) {
				return
			}
		}
	}
}

// gives reports whether presets or the platform decided every leaf of v, recorded at n.
func gives(n *provenance.Node, v any) bool {
	fields, ok := v.(map[string]any)
	if n == nil || !ok || len(fields) == 0 {
		return isDecided(n)
	}
	for name, sub := range fields {
		if !gives(n.Find(provenance.Segment{Name: name}), sub) {
			return false
		}
	}
	return true
}

// dropTemplates drops new dataVolumeTemplates of presets that no volume names,
// because the volumes of the VM stayed.
func (m *merger) dropTemplates() {
	if len(m.kept) == 0 {
		return
	}
	named := map[any]bool{}
	for at := range elementsAt(m.into.root, volumesPath) {
		named[lookup(m.into.root, vmSchema(), append(at, provenance.Of("dataVolume", "name")...))] = true
	}
	for at, e := range elementsAt(m.into.root, templatesPath) {
		if !named[at[len(at)-1].Name] && lookup(m.old, vmSchema(), at) == nil && gives(m.into.rec.At(at), e) {
			m.drop(at)
		}
	}
}

// dropWidowed drops elements that outdated presets gave and that lost the element
// that they are linked to.
func (m *merger) dropWidowed() {
	for _, text := range slices.Sorted(maps.Keys(links)) {
		list, _ := provenance.ParsePath("spec.template.spec." + text)
		for at := range elementsAt(m.into.root, list) {
			if !links[text].alone && lookup(m.b.root, vmSchema(), at) == nil && m.ours(at) && m.widowed(at) {
				m.drop(at)
			}
		}
	}
}

// ours reports whether the element at p was added by a preset or the platform.
func (m *merger) ours(p provenance.Path) bool {
	return slices.ContainsFunc(keysOf(m.into.rec, p), isDecided)
}

// widowed reports whether the stored object had an element that the one at p is
// linked to, and the new one has none.
func (m *merger) widowed(p provenance.Path) bool {
	had := false
	for _, list := range linkOf(p).partners {
		partner := append(slices.Clone(templateSpec), list...).With(p[len(p)-1])
		if lookup(m.into.root, vmSchema(), partner) != nil {
			return false
		}
		had = had || lookup(m.old, vmSchema(), partner) != nil
	}
	return had
}
