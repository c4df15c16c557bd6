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

// isStorage reports whether the merger is in storage that a preset gave: one of its
// volumes or dataVolumeTemplates, or a disk or file system of such a volume.
func (m *merger) isStorage() bool {
	if len(m.given) == 0 {
		return false
	}
	element := m.element()
	if len(element) > 0 && slices.ContainsFunc(volumeDevices, func(p provenance.Path) bool { return slices.Equal(p, element[:len(element)-1]) }) {
		element = volumesPath.With(element[len(element)-1])
	}
	return slices.ContainsFunc(m.given, func(p provenance.Path) bool { return slices.Equal(p, element) })
}

// element is the outermost element that the merger is in; empty outside of lists.
func (m *merger) element() provenance.Path {
	i := slices.IndexFunc(m.at, func(s provenance.Segment) bool { return s.Kind == provenance.Element })
	return m.at[: i+1 : i+1]
}

// findGiven finds the storage that presets gave the stored object.
func (m *merger) findGiven() {
	for _, list := range []provenance.Path{volumesPath, templatesPath} {
		for at := range elementsAt(m.old, list) {
			if slices.ContainsFunc(keysOf(m.record, at), func(n *provenance.Node) bool {
				return isDecided(n) && m.record.Sources[n.Source].Role != provenance.Platform
			}) {
				m.given = append(m.given, at)
			}
		}
	}
}

// keeps reports whether a change is one of storage that no author asked for: presets give
// something no longer, or something else. Updates keep storage as it is.
func (m *merger) keeps(d pair) bool {
	if !m.isStorage() || isDecided(d.q) && m.b.rec.Sources[d.q.Source].Role == provenance.Remove || !m.byPresets(d) {
		return false
	}
	m.noteKept()
	return true
}

// byPresets reports whether presets alone make the difference at the path.
func (m *merger) byPresets(d pair) bool {
	switch {
	case d.v == nil: // they make another choice
		return isDecided(d.q) && eachRival(m.at, func(member, rival provenance.Path) bool {
			return lookup(m.into.root, vmSchema(), rival) != nil && gives(m.b.rec.At(member), lookup(m.b.root, vmSchema(), member))
		})
	case d.w != nil: // they give another value
		return isDecided(d.p) && isDecided(d.q)
	case m.isElement():
		return true
	}
	// They give the leaf no longer, and the author made no other choice.
	return isDecided(d.p) && !m.b.owns(m.at) && !eachRival(m.at, func(_, rival provenance.Path) bool {
		v := lookup(m.b.root, vmSchema(), rival)
		return v != nil && !gives(m.b.rec.At(rival), v)
	})
}

// eachRival reports whether is holds for a member of a one-of that p is in, and one of
// its rivals.
func eachRival(p provenance.Path, is func(member, rival provenance.Path) bool) bool {
	s := vmSchema()
	for i, seg := range p {
		for _, name := range s.rivals[seg.Name] {
			if is(p[:i+1:i+1], p[:i:i].With(provenance.Segment{Name: name})) {
				return true
			}
		}
		if s = s.step(seg); s == nil {
			break
		}
	}
	return false
}

// isKey reports whether the merger is at a field that identifies its element.
func (m *merger) isKey() bool {
	for i, seg := range m.at[:len(m.at)-1] {
		if seg.Kind != provenance.Element {
			continue
		}
		rest := m.at[i+1:].String()
		if slices.ContainsFunc(vmSchema().at(m.at[:i]).keys, func(k listKey) bool { return k.field == rest }) {
			return true
		}
	}
	return false
}

// owns reports whether the instancetype or the preference of the VM owns p.
func (w *resolution) owns(p provenance.Path) bool {
	return w.contributions.instancetype != nil && w.contributions.instancetype.owns(p) ||
		w.contributions.preference != nil && w.contributions.preference.owns(p)
}

func (m *merger) isElement() bool { return m.at[len(m.at)-1].Kind == provenance.Element }

// noteKept notes the element that the merger is in, for a warning.
func (m *merger) noteKept() {
	at := slices.Clone(m.element())
	if !slices.ContainsFunc(m.kept, func(p provenance.Path) bool { return slices.Equal(p, at) }) {
		m.kept = append(m.kept, at)
	}
}

// dropSecond drops new volumes of presets that KubeVirt allows once, where a volume of
// that kind stayed.
func (m *merger) dropSecond() {
	for _, s := range singletons {
		for at, e := range elementsAt(m.into.root, s.list) {
			isNew := lookup(m.old, vmSchema(), at) == nil && gives(m.into.rec.At(at), e)
			is := slices.ContainsFunc(s.fields, func(f provenance.Path) bool { return lookup(e, vmSchema().at(at), f) != nil })
			if len(m.kept) > 0 && isNew && is && m.into.hasOther(s, at[len(at)-1]) {
				m.drop(at)
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
	switch {
	case n == nil || !ok || len(fields) == 0:
		return isDecided(n)
	case n.WasEmpty: // its author wrote it
		return false
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
			gone := lookup(m.b.root, vmSchema(), at) == nil || len(m.kept) > 0
			if !links[text].alone && gone && m.ours(at) && m.widowed(at) {
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
