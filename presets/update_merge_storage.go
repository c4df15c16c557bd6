package presets

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/presets/vmschema"
)

// Storage is sticky: an update never changes or removes volumes, their disks and
// dataVolumeTemplates that presets added to the stored VM, unless the author asks for it.

func (m *merger) findPresetStorage() {
	isByPreset := func(n *provenance.Node) bool {
		return n.IsDecided() && m.record.Sources[n.Source].Role != provenance.Platform
	}
	for _, list := range []provenance.Path{vmschema.Volumes, vmschema.DataVolumeTemplates} {
		for p := range vmschema.ElementsAt(m.old, list) {
			if slices.ContainsFunc(keyNodes(m.record, p), isByPreset) {
				m.presetStorage = append(m.presetStorage, p)
			}
		}
	}
}

// isStorage reports whether the current field lies in storage that a preset added: in a volume, a
// dataVolumeTemplate, or the disk or filesystem of such a volume.
func (m *merger) isStorage() bool {
	if len(m.presetStorage) == 0 {
		return false
	}
	element := m.element()
	if len(element) > 0 && slices.ContainsFunc(vmschema.VolumeDevices, element[:len(element)-1].Equal) {
		element = vmschema.Volumes.With(element[len(element)-1])
	}
	return slices.ContainsFunc(m.presetStorage, element.Equal)
}

// element returns the path of the outermost list element around the current field.
func (m *merger) element() provenance.Path {
	i := m.path.ElementIndex()
	return m.path[: i+1 : i+1]
}

// keepsStorage reports whether the current field is storage that only presets would change.
func (m *merger) keepsStorage(d difference) bool {
	isRemoved := d.afterNode.IsDecided() && m.after.record.Sources[d.afterNode.Source].Role == provenance.Remove
	if !m.isStorage() || isRemoved || !m.changedByPresets(d) {
		return false
	}
	if p := slices.Clone(m.element()); !slices.ContainsFunc(m.keptStorage, p.Equal) {
		m.keptStorage = append(m.keptStorage, p)
	}
	return true
}

func (m *merger) changedByPresets(d difference) bool {
	switch {
	case d.before == nil:
		return d.afterNode.IsDecided() && m.presetsReplaceAlternative()
	case d.after != nil:
		return d.beforeNode.IsDecided() && d.afterNode.IsDecided()
	case m.path[len(m.path)-1].Kind == provenance.Element:
		return true
	}
	return d.beforeNode.IsDecided() && !m.after.ownsField(m.path) && !m.authorChoosesAlternative()
}

func (m *merger) presetsReplaceAlternative() bool {
	for member, alternative := range vmschema.AlternativesOf(m.path) {
		if vmschema.Value(m.result.root, alternative) != nil && isFullyDecided(m.after.record.At(member), vmschema.Value(m.after.root, member)) {
			return true
		}
	}
	return false
}

func (m *merger) authorChoosesAlternative() bool {
	for _, alternative := range vmschema.AlternativesOf(m.path) {
		if v := vmschema.Value(m.after.root, alternative); v != nil && !isFullyDecided(m.after.record.At(alternative), v) {
			return true
		}
	}
	return false
}

func (r *mergeState) ownsField(p provenance.Path) bool {
	return r.contributions.instancetype.owns(p) || r.contributions.preference.owns(p)
}

func (m *merger) isKey() bool {
	for i, seg := range m.path[:len(m.path)-1] {
		if seg.Kind != provenance.Element {
			continue
		}
		rest := m.path[i+1:].String()
		if slices.ContainsFunc(vmschema.VM().At(m.path[:i]).Keys, func(k vmschema.ListKey) bool { return k.Field == rest }) {
			return true
		}
	}
	return false
}

// isFullyDecided reports whether presets or the platform decided every leaf of v, which n records.
func isFullyDecided(n *provenance.Node, v any) bool {
	fields, ok := v.(map[string]any)
	switch {
	case n == nil || !ok || len(fields) == 0:
		return n.IsDecided()
	case n.EmptyByUser:
		return false
	}
	for name, sub := range fields {
		if !isFullyDecided(n.Find(provenance.Segment{Name: name}), sub) {
			return false
		}
	}
	return true
}

// isAddedByPresets reports whether the element e at p is new and comes from presets only.
func (m *merger) isAddedByPresets(p provenance.Path, e any) bool {
	return vmschema.Value(m.old, p) == nil && isFullyDecided(m.result.record.At(p), e)
}

// dropExtraUniqueElements removes new elements that KubeVirt allows only once, if kept storage has
// one.
func (m *merger) dropExtraUniqueElements() {
	for _, s := range vmschema.UniqueElements {
		for p, e := range vmschema.ElementsAt(m.result.root, s.List) {
			isUnique := slices.ContainsFunc(s.Fields, func(f provenance.Path) bool { return vmschema.VM().At(p).ValueAt(e, f) != nil })
			if isUnique && m.isAddedByPresets(p, e) && m.result.hasOther(s, p[len(p)-1]) {
				m.drop(p)
			}
		}
	}
}

// dropUnusedTemplates removes dataVolumeTemplates of presets that no volume names: new ones, and
// those whose volume the author replaced. KubeVirt rejects a VM with an unused template.
func (m *merger) dropUnusedTemplates() {
	used, wasUsed := namedDataVolumes(m.result.root), namedDataVolumes(m.old)
	for p, e := range vmschema.ElementsAt(m.result.root, vmschema.DataVolumeTemplates) {
		name := p[len(p)-1].Name
		isReplaced := wasUsed.Has(name) && slices.ContainsFunc(m.keptStorage, p.Equal)
		if !used.Has(name) && (isReplaced || m.isAddedByPresets(p, e)) {
			m.drop(p)
		}
	}
	if tree.IsEmpty(vmschema.Value(m.result.root, vmschema.DataVolumeTemplates)) && vmschema.Value(m.after.root, vmschema.DataVolumeTemplates) == nil {
		m.drop(vmschema.DataVolumeTemplates)
	}
}

// namedDataVolumes returns the names of the DataVolumes and claims that the volumes of a VM use.
func namedDataVolumes(vm map[string]any) sets.Set[string] {
	names := sets.New[string]()
	for p := range vmschema.ElementsAt(vm, vmschema.Volumes) {
		for _, name := range templateReferences {
			names.Insert(tree.AsText(vmschema.Value(vm, slices.Concat(p, name))))
		}
	}
	return names
}

// dropUnpaired removes elements of presets that lost the element that they are linked to.
func (m *merger) dropUnpaired() {
	for _, text := range slices.Sorted(maps.Keys(vmschema.PairedLists)) {
		if vmschema.PairedLists[text].UsefulAlone {
			continue
		}
		for p := range vmschema.ElementsAt(m.result.root, paths(text)[0]) {
			isByPreset := slices.ContainsFunc(keyNodes(m.result.record, p), (*provenance.Node).IsDecided)
			isGone := vmschema.Value(m.after.root, p) == nil || len(m.keptStorage) > 0
			if isGone && isByPreset && m.lostPartner(p) {
				m.drop(p)
			}
		}
	}
}

// lostPartner reports whether the update removed all elements that the one at p is linked to.
func (m *merger) lostPartner(p provenance.Path) bool {
	had := false
	for _, list := range vmschema.PairingOf(p).Partners {
		partner := append(slices.Clone(vmschema.TemplateSpec), list...).With(p[len(p)-1])
		if vmschema.Value(m.result.root, partner) != nil {
			return false
		}
		had = had || vmschema.Value(m.old, partner) != nil
	}
	return had
}
