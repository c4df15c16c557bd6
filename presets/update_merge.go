package presets

import (
	"iter"
	"maps"
	"slices"

	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/presets/vmschema"
)

// A merger applies an author's change to a stored VM.
//
// Two expansions show what the change means: the expansion of the stored intent and that of the
// sent intent, both by the current presets. Where both agree, the stored VM keeps its value and its
// record, even if presets have changed since. Where they differ, the VM gets the value and the
// record of the sent intent.
type merger struct {
	*update
	// before is the expansion of the stored intent, after that of the sent intent.
	before, after *expansion
	// unevaluable presets have conditions that cannot be evaluated in one of the expansions. They
	// act in neither, and the fields that they set earlier keep their values.
	unevaluable []*Compiled
	// only lists the presets that a reapply brings; nil for an author's update.
	only []string
	// result is the merged VM; it starts as the stored one.
	result *mergeState
	path   provenance.Path
	// presetStorage lists the stored elements that hold storage and that presets added.
	presetStorage []provenance.Path
	// keptStorage lists those of presetStorage that presets would now change or remove.
	keptStorage []provenance.Path
	// excused are presets whose rules the VM breaks as before, and that are not recorded for them.
	excused []string
}

// A difference compares one field in both expansions: its values, and the nodes that record them.
type difference struct {
	before, after         any
	beforeNode, afterNode *provenance.Node
	schema                *vmschema.Schema
}

// run merges labels, annotations and spec. Then it removes elements that the merge left invalid.
func (m *merger) run() {
	if m.only == nil { // a reapply may change storage
		m.findPresetStorage()
	}
	for _, p := range []provenance.Path{vmLabels, vmAnnotations, provenance.Of("spec")} {
		m.path = append(m.path[:0], p...)
		m.merge(difference{
			vmschema.Value(m.before.root, p), vmschema.Value(m.after.root, p), m.before.record.At(p), m.after.record.At(p), vmschema.VM().At(p),
		})
	}
	for _, p := range matcherPaths { // as a whole: KubeVirt adds a kind to the author's name
		if vmschema.Value(m.before.root, p) != nil && vmschema.Value(m.after.root, p) == nil {
			m.drop(p)
		}
	}
	if len(m.keptStorage) > 0 {
		m.dropExtraUniqueElements()
		m.dropUnusedTemplates()
	}
	m.dropUnpaired()
	m.mergeForbids()
	if m.only == nil {
		m.result.record.Snapshot = m.snapshot.Hash()
	}
	if m.only == nil && m.after.query.recordedExceptions == nil {
		m.result.record.Exceptions = m.after.record.Exceptions
	}
}

func (m *merger) descend(s provenance.Segment, visit func()) {
	m.path = append(m.path, s)
	visit()
	m.path = m.path[:len(m.path)-1]
}

func (d difference) child(s provenance.Segment, before, after any, schema *vmschema.Schema) difference {
	return difference{before, after, d.beforeNode.Find(s), d.afterNode.Find(s), schema}
}

func (m *merger) merge(d difference) {
	switch {
	case d.beforeNode == nil && d.afterNode == nil && tree.Equal(d.before, d.after):
	case d.after == nil && (d.afterNode.IsDecided() || d.before == nil && d.beforeNode.IsDecided()):
		m.mergeLeaf(d) // a preset removes it
	case d.areLists():
		m.mergeElements(d)
	case d.areObjects():
		m.mergeFields(d)
	default:
		m.mergeLeaf(d)
	}
}

func (d difference) areObjects() bool {
	return d.schema.Shape != vmschema.Keyed && (d.before == nil || tree.IsObject(d.before)) && (d.after == nil || tree.IsObject(d.after))
}

func (d difference) areLists() bool {
	return d.schema.Shape == vmschema.Keyed && d.schema.HasUniqueKeys(d.before) && d.schema.HasUniqueKeys(d.after)
}

func (m *merger) mergeLeaf(d difference) {
	switch {
	case !tree.Equal(d.before, d.after):
		if !m.keepsStorage(d) {
			m.replace(d.after, d.afterNode)
		}
	case !d.afterNode.IsDecided() && m.isStorage() && m.isKey():
		// The element still belongs to the preset, even if the author changed other fields of it.
	case !m.sameDecision(d.beforeNode, d.afterNode) && !m.onlyPresetsChanged(d):
		m.replace(d.after, d.afterNode)
	}
}

// onlyPresetsChanged reports whether both expansions agree on a value that is not the stored one.
func (m *merger) onlyPresetsChanged(d difference) bool {
	return d.afterNode.IsDecided() && sameIntent(d.beforeNode, d.afterNode) && !tree.Equal(m.stored(), d.after)
}

func (m *merger) stored() any { return vmschema.Value(m.result.root, m.path) }

func (m *merger) mergeFields(d difference) {
	before, after := tree.AsObject(d.before), tree.AsObject(d.after)
	m.mergeExistence(d)
	mergeField := func(name string) {
		s := provenance.Segment{Name: name}
		m.descend(s, func() { m.merge(d.child(s, before[name], after[name], d.schema.Field(name))) })
	}
	for _, name := range slices.Sorted(maps.Keys(before)) { // new sources of the record keep this order
		mergeField(name)
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if before[name] == nil {
			mergeField(name)
		}
	}
	for s := range d.recorded() {
		if before[s.Name] == nil && after[s.Name] == nil {
			mergeField(s.Name)
		}
	}
	m.prune(d)
}

func (m *merger) mergeElements(d difference) {
	before, after := tree.AsList(d.before), tree.AsList(d.after)
	m.mergeExistence(d)
	mergeElement := func(key string, v, w any, merge func(difference)) {
		s := provenance.Segment{Name: key, Kind: provenance.Element}
		m.descend(s, func() { merge(d.child(s, v, w, d.schema.Elem)) })
	}
	for _, e := range after {
		key := d.schema.KeyOf(e)
		mergeElement(key, d.schema.ElementOf(before, key), e, m.merge)
	}
	for _, e := range before {
		if key := d.schema.KeyOf(e); d.schema.ElementOf(after, key) == nil {
			mergeElement(key, e, nil, m.dropElement)
		}
	}
	for s := range d.recorded() {
		if d.schema.ElementOf(before, s.Name) == nil && d.schema.ElementOf(after, s.Name) == nil {
			mergeElement(s.Name, nil, nil, m.merge)
		}
	}
	m.prune(d)
}

// recorded yields the segments of the fields and elements that one of the records mentions.
func (d difference) recorded() iter.Seq[provenance.Segment] {
	return func(yield func(provenance.Segment) bool) {
		for _, n := range []*provenance.Node{d.beforeNode, d.afterNode} {
			for c := range n.Children() {
				if c.HasContent() && !yield(c.Segment()) {
					return
				}
			}
		}
	}
}

// dropElement removes the current element, with the fields that outdated presets set.
func (m *merger) dropElement(d difference) {
	if !m.keepsStorage(d) {
		m.replace(nil, d.afterNode)
	}
}

// mergeExistence merges whether an object or list exists, and whether its author wrote it empty.
func (m *merger) mergeExistence(d difference) {
	if d.after == nil || d.before != nil && m.sameDecision(d.beforeNode, d.afterNode) {
		return
	}
	isMissing := m.stored() == nil
	if isMissing && d.before != nil && d.afterNode.IsDecided() {
		return // both expansions have it from presets; the stored VM has an alternative of it
	}
	if isMissing && d.createsContainer() {
		if m.isHeldByUnevaluable() {
			return
		}
		m.dropAlternatives()
		m.set(tree.EmptyLike(d.after))
	}
	m.recordDecision(d.afterNode, isMissing)
}

// createsContainer reports whether a container exists for its own sake, not for its first field.
func (d difference) createsContainer() bool {
	return tree.IsEmpty(d.after) || tree.IsObject(d.after) && d.afterNode.IsDecided()
}

// prune removes an object or list that the sent intent lacks, if nothing is left in it.
func (m *merger) prune(d difference) {
	if d.before == nil || d.after != nil || tree.IsEmpty(d.before) && m.keepsStorage(d) {
		return
	}
	m.clearDecision()
	if tree.IsEmpty(m.stored()) {
		m.unset(m.path)
	}
}

// sameDecision reports whether the two expansions record the same source and the same user value.
func (m *merger) sameDecision(before, after *provenance.Node) bool {
	return sameIntent(before, after) &&
		(!before.IsDecided() || m.before.record.Sources[before.Source] == m.after.record.Sources[after.Source])
}

// sameIntent reports whether two nodes record the same about the user's value of a field.
func sameIntent(before, after *provenance.Node) bool {
	isEmptyByUser := func(n *provenance.Node) bool { return n != nil && n.EmptyByUser }
	if before.IsDecided() != after.IsDecided() || isEmptyByUser(before) != isEmptyByUser(after) {
		return false
	}
	return !before.IsDecided() || before.Overruled == after.Overruled && before.TooLarge == after.TooLarge &&
		tree.Equal(before.UserValue, after.UserValue)
}

// replace sets the current field to value, or removes it if value is nil. The node records it.
func (m *merger) replace(value any, n *provenance.Node) {
	if (value == nil || n.IsDecided() || m.only != nil) && m.isHeldByUnevaluable() {
		return
	}
	isNew := !tree.Equal(m.stored(), value)
	if recorded := m.result.record.At(m.path); recorded != nil {
		recorded.ClearSubtree()
	}
	if value == nil {
		m.unset(m.path)
	} else {
		m.dropAlternatives()
		m.set(tree.Clone(value))
	}
	m.recordDecisions(n, isNew)
}

func (m *merger) set(v any) {
	m.result.unshare(m.path)
	m.result.setAt(m.path, v, m.after.root)
}

func (m *merger) unset(p provenance.Path) {
	m.result.unshare(p)
	m.result.unset(p)
}

func (m *merger) drop(p provenance.Path) {
	m.unset(p)
	if n := m.result.record.At(p); n != nil {
		n.ClearSubtree()
	}
}

func (m *merger) recordDecisions(n *provenance.Node, isNew bool) {
	m.recordDecision(n, isNew)
	for c := range n.Children() {
		m.descend(c.Segment(), func() { m.recordDecisions(c, isNew) })
	}
}

// recordDecision copies the record of one node. isNew says that the value changes.
func (m *merger) recordDecision(from *provenance.Node, isNew bool) {
	m.clearDecision()
	if !from.IsDecided() && (from == nil || !from.EmptyByUser) {
		return
	}
	n := m.result.record.Ensure(m.path)
	n.EmptyByUser = from.EmptyByUser
	if from.IsDecided() {
		n.Source = m.result.addSource(m.after.record.Sources[from.Source], m.after.sourcePresets[from.Source])
		n.Overruled, n.TooLarge, n.UserValue, n.DecidedNow = from.Overruled, from.TooLarge, from.UserValue, isNew
	}
}

func (m *merger) clearDecision() {
	if n := m.result.record.At(m.path); n != nil {
		n.ClearDecision()
		n.EmptyByUser = false
	}
}

// isHeldByUnevaluable reports whether the current field, or an alternative of it or of a field
// above, has its value from a preset with conditions that cannot be evaluated now. It stays as it
// is.
func (m *merger) isHeldByUnevaluable() bool {
	if len(m.unevaluable) == 0 {
		return false
	}
	isHeld := func(p provenance.Path) bool {
		n := m.result.record.At(p)
		if m.only == nil {
			n = firstDecided(n)
		}
		return m.hasUnevaluable(n)
	}
	for _, alternative := range vmschema.AlternativesOf(m.path) {
		if isHeld(alternative) {
			return true
		}
	}
	return isHeld(m.path)
}

// hasUnevaluable reports whether an unevaluable preset set the field of a node, or one below it.
func (m *merger) hasUnevaluable(n *provenance.Node) bool {
	if n == nil {
		return false
	}
	isUnevaluable := func(c *Compiled) bool { return c.Ref == m.result.record.Sources[n.Source].Preset }
	if n.IsDecided() && slices.ContainsFunc(m.unevaluable, isUnevaluable) {
		return true
	}
	for c := range n.Children() {
		if m.hasUnevaluable(c) {
			return true
		}
	}
	return false
}

// dropAlternatives removes the alternatives of the current field that the sent intent lacks. Their
// record keeps what the author wrote.
func (m *merger) dropAlternatives() {
	at := m.path
	for _, alternative := range vmschema.AlternativesOf(at) {
		if vmschema.Value(m.result.root, alternative) != nil && vmschema.Value(m.after.root, alternative) == nil {
			m.drop(alternative)
			m.path = slices.Clone(alternative)
			m.recordDecisions(m.after.record.At(alternative), true)
			m.path = at
		}
	}
}
