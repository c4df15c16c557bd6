package presets

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/presets/vmschema"
)

// edited is a manifest with a few changes: fields removed, and fields of another random manifest
// taken over.
func (g generator) edited(manifest map[string]any) map[string]any {
	out := roundTrip(manifest)
	for range 1 + g.Intn(3) {
		var leaves []provenance.Path
		eachLeaf(out, vmschema.VM(), nil, func(p provenance.Path, _ any) {
			if len(p) > 0 {
				leaves = append(leaves, slices.Clone(p))
			}
		})
		if len(leaves) > 0 && g.Intn(2) == 0 {
			g.removeLeaf(out, pick(g, leaves))
			continue
		}
		other := g.vm()
		for _, place := range []string{"metadata", "spec"} {
			if g.Intn(2) == 0 && other[place] != nil {
				out[place] = laidOver(out[place], other[place], vmschema.VM().Field(place))
			}
		}
	}
	return out
}

// removeLeaf removes a leaf, or a whole element, as it must where the leaf is its key.
func (g generator) removeLeaf(vm map[string]any, p provenance.Path) {
	for i := len(p) - 1; i > 0; i-- {
		if p[i].Kind != provenance.Element {
			continue
		}
		isKey := slices.ContainsFunc(vmschema.VM().At(p[:i]).Keys, func(k vmschema.ListKey) bool { return k.Field == p[i+1:].String() })
		if isKey || g.Intn(3) == 0 {
			p = p[:i+1]
			break
		}
	}
	(&mergeState{root: vm}).unset(p)
}

// laidOver is from with some fields of other, so that at most one member of each one-of is set.
func laidOver(from, other any, s *vmschema.Schema) any {
	fields, ok := other.(map[string]any)
	base, isMap := from.(map[string]any)
	if !ok || !isMap {
		return other
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		for _, alternative := range s.Alternatives[name] {
			delete(base, alternative)
		}
		base[name] = laidOver(base[name], fields[name], s.Field(name))
	}
	return base
}

// A client sends a manifest as an update of the stored object.
var clients = map[string]func(stored, before, manifest map[string]any) map[string]any{
	"replace": func(_, _, manifest map[string]any) map[string]any { return roundTrip(manifest) },
	"apply": func(stored, before, manifest map[string]any) map[string]any {
		out, _ := applied(roundTrip(stored), before, manifest).(map[string]any)
		return out
	},
	"edit": func(stored, before, manifest map[string]any) map[string]any {
		out := roundTrip(stored)
		changed, _ := editedFields(out, before, manifest, vmschema.VM()).(map[string]any)
		return changed
	},
}

// applied is the merge of kubectl apply for custom resources: objects by field, lists whole.
func applied(stored, before, manifest any) any {
	to, ok := manifest.(map[string]any)
	at, isMap := stored.(map[string]any)
	if !ok || !isMap {
		return manifest
	}
	was := withoutRemoved(at, before, to)
	for name, v := range to {
		at[name] = applied(at[name], was[name], v)
	}
	return at
}

// withoutRemoved removes from at the fields that before has and to lacks. It returns before.
func withoutRemoved(at map[string]any, before any, to map[string]any) map[string]any {
	was, _ := before.(map[string]any)
	for name := range was {
		if to[name] == nil {
			delete(at, name)
		}
	}
	return was
}

// editedFields makes in the stored object the changes from before to manifest, by field and by
// element, as a person does with kubectl edit.
func editedFields(stored, before, manifest any, s *vmschema.Schema) any {
	if tree.Equal(before, manifest) {
		return stored
	}
	switch to := manifest.(type) {
	case map[string]any:
		at, ok := stored.(map[string]any)
		if !ok {
			return manifest
		}
		was := withoutRemoved(at, before, to)
		for name, v := range to {
			at[name] = editedFields(at[name], was[name], v, s.Field(name))
		}
		return at
	case []any:
		at, ok := stored.([]any)
		was, _ := before.([]any)
		if !ok || s.Shape != vmschema.Keyed {
			return manifest
		}
		for _, e := range was {
			key, _ := vmschema.ElementKey(s.Keys, e.(map[string]any))
			if i := vmschema.IndexOf(at, s.Keys, key); s.ElementOf(to, key) == nil && i >= 0 {
				at = slices.Delete(at, i, i+1)
			}
		}
		for _, e := range to {
			key, _ := vmschema.ElementKey(s.Keys, e.(map[string]any))
			if i := vmschema.IndexOf(at, s.Keys, key); i >= 0 {
				at[i] = editedFields(at[i], s.ElementOf(was, key), e, s.Elem)
			} else {
				at = append(at, e)
			}
		}
		return at
	}
	return manifest
}

// updates runs a sequence of updates and calls check after each. The presets change between them
// where now says so.
func (c lawCase) updates(t *testing.T, now func(int) []*Compiled, check func(step lawStep)) {
	t.Helper()
	delete(c.vm, "unknown")
	stored := roundTrip(c.resolve(t, c.vm, now(0)).Object())
	manifest := c.vm
	for i := range 3 {
		next := c.edited(manifest)
		name := pick(c.generator, slices.Sorted(maps.Keys(clients)))
		sent := clients[name](stored, roundTrip(manifest), roundTrip(next))
		req := Request{Kind: VirtualMachine, Object: encode(sent), OldObject: encode(stored)}
		out := c.request(t, now(i+1), req)
		got := apply(t, encode(sent), out.Patch)
		if diff := cmp.Diff(roundTrip(out.Object()), got); diff != "" {
			t.Fatalf("the patch makes something else than the result: %s", diff)
		}
		before := provenance.New()
		if text, _ := vmschema.Value(stored, provenanceOn(VirtualMachine)).(string); text != "" {
			before, _ = provenance.Decode(text)
		}
		check(lawStep{before: before, client: name, stored: stored, sent: sent, manifest: next, got: got, presets: now(i + 1), record: out.Record})
		if t.Failed() {
			t.Fatalf("seed %d, step %d\npresets %v\nstored %s\nsent %s\ngot %s", c.seed, i, len(now(i+1)), encode(stored), encode(sent), encode(got))
		}
		stored, manifest = got, next
	}
}

type lawStep struct {
	client                      string
	stored, sent, manifest, got map[string]any
	presets                     []*Compiled
	// before and record are the records of the stored VM and of the updated one.
	before, record *provenance.Record
}

// normalized is a VM without its record, run state, the layout of PCI devices, which stored VMs
// keep, and the order of lists.
func normalized(vm map[string]any) map[string]any {
	out := roundTrip(vm)
	clearRecord(out)
	layout := vmschema.TemplateAnnotations.Field("kubevirt.io/pci-topology-version")
	for r := (&mergeState{root: out}); len(layout) > 2; layout = layout[:len(layout)-1] {
		if fields, _ := vmschema.Value(out, layout).(map[string]any); len(fields) == 0 {
			r.unset(layout)
		}
	}
	if spec, ok := out["spec"].(map[string]any); ok {
		delete(spec, "running")
		delete(spec, "runStrategy")
		if len(spec) == 0 {
			delete(out, "spec")
		}
	}
	sortLists(out, vmschema.VM())
	if meta, ok := out["metadata"].(map[string]any); ok {
		if a, ok := meta["annotations"].(map[string]any); ok && len(a) == 0 {
			delete(meta, "annotations")
		}
		if len(meta) == 0 {
			delete(out, "metadata")
		}
	}
	return out
}

// withoutStorage is a VM without volumes, disks and dataVolumeTemplates.
func withoutStorage(vm map[string]any) map[string]any {
	out := roundTrip(vm)
	r := &mergeState{root: out}
	for _, p := range append([]provenance.Path{vmschema.Volumes, vmschema.DataVolumeTemplates}, vmschema.VolumeDevices...) {
		r.unset(p)
		for p = p[:len(p)-1]; len(p) > 0; p = p[:len(p)-1] {
			if fields, ok := vmschema.Value(out, p).(map[string]any); !ok || len(fields) == 0 {
				r.unset(p)
			}
		}
	}
	return out
}

// While presets are unchanged, a stored VM is what a create of its author's intent gives.
func TestLawPathIndependence(t *testing.T) {
	checkLaw(t, func(t *testing.T, c lawCase) {
		given := map[string]bool{} // values that an author repeated as presets had set them stay the presets'
		c.updates(t, func(int) []*Compiled { return c.presets }, func(step lawStep) {
			intent := roundTrip(step.got)
			keepUserIntent(intent, step.record)
			clearRecord(intent)
			want := normalized(roundTrip(c.resolve(t, intent, c.presets).Object()))
			if diff := cmp.Diff(withoutStorage(want), withoutStorage(normalized(step.got))); diff != "" {
				t.Errorf("%s: a create of the intent gives something else (-create +update): %s\nintent %s", step.client, diff, encode(intent))
			}
			// What the author sent is the intent, but for values that were overruled and those that
			// were as presets had set them.
			eachLeaf(normalized(step.manifest), vmschema.VM(), nil, func(p provenance.Path, v any) {
				is, n := vmschema.Value(intent, p), firstDecided(step.record.At(p))
				// So does an object that an author has emptied, and that presets had filled.
				was := vmschema.Value(step.stored, p)
				if (tree.Equal(v, was) || tree.IsObject(v) && tree.IsObject(was)) && firstDecided(step.before.At(p)) != nil {
					given[p.String()] = true
				}
				if !tree.Equal(v, is) && !(tree.IsObject(v) && tree.IsObject(is)) && n == nil && !given[p.String()] && !underOverruled(step.record, p) {
					t.Errorf("%s: %s is %s in the manifest and %s in the intent", step.client, p, tree.Show(v), tree.Show(is))
				}
			})
		})
	})
}

// underOverruled reports whether an override or removal decided at or above p.
func underOverruled(rec *provenance.Record, p provenance.Path) bool {
	for i := range p {
		if n := rec.At(p[:i+1]); n != nil && n.Overruled {
			return true
		}
	}
	return false
}

// With other presets, an update moves only what its author's change concerns.
func TestLawUpdatesMoveOnlyWhatTheyConcern(t *testing.T) {
	checkLaw(t, func(t *testing.T, c lawCase) {
		sets := [][]*Compiled{c.presets}
		for i := range 3 {
			sets = append(sets, append(slices.Clone(c.presets[min(1, len(c.presets)):]), c.preset(6+i), c.preset(9)))
		}
		c.updates(t, func(i int) []*Compiled { return sets[i] }, func(step lawStep) {
			from, unset := c.expanded(t, step, step.stored)
			to, unsetNow := c.expanded(t, step, step.sent)
			moved := normalized(step.got)
			eachLeaf(normalized(step.stored), vmschema.VM(), nil, func(p provenance.Path, v any) {
				is := vmschema.Value(moved, p)
				if tree.Equal(v, is) || tree.IsObject(v) && tree.IsObject(is) || step.concerned(from, to, p) || unset(p) != unsetNow(p) || underOverruled(step.before, p) || underOverruled(step.record, p) ||
					vmschema.Value(step.sent, p) != nil && !tree.Equal(v, vmschema.Value(step.sent, p)) {
					return
				}
				t.Errorf("%s: %s moved from %s to %s\nA %s\nB %s", step.client, p, tree.Show(v), tree.Show(is), encode(from), encode(to))
			})
		})
	})
}

// expanded is the expansion of the stored or sent intent, and whether a preset removes a field, or
// one above it.
func (c lawCase) expanded(t *testing.T, step lawStep, vm map[string]any) (object map[string]any, isRemoved func(provenance.Path) bool) {
	t.Helper()
	u := &update{old: roundTrip(step.stored), sent: roundTrip(step.sent), record: step.before}
	out := c.resolve(t, u.userIntent(vm), step.presets)
	object = normalized(roundTrip(out.Object()))
	return object, func(p provenance.Path) bool {
		for i := range p {
			if at := p[:i+1]; vmschema.Value(object, at) == nil && out.Record.At(at).IsDecided() {
				return true
			}
		}
		return false
	}
}

// concerned reports whether two expansions differ at p, above it in a list, or in another member of
// a one-of that p is in.
func (step lawStep) concerned(from, to map[string]any, p provenance.Path) bool {
	s := vmschema.VM()
	for i, seg := range p {
		a, b := vmschema.Value(from, p[:i+1]), vmschema.Value(to, p[:i+1])
		if i == len(p)-1 && !tree.Equal(a, b) || seg.Kind == provenance.Element && (a == nil) != (b == nil) || step.removed(p[:i+1]) {
			return true
		}
		for _, name := range s.Alternatives[seg.Name] {
			alternative := p[:i:i].Field(name)
			chosen := vmschema.Value(step.sent, alternative) != nil && vmschema.Value(step.stored, alternative) == nil
			if chosen || !tree.Equal(vmschema.Value(from, alternative), vmschema.Value(to, alternative)) {
				return true
			}
		}
		if l := vmschema.PairingOf(p[:i+1]); l != nil && a == nil && b == nil {
			for _, list := range l.Partners {
				partner := append(slices.Clone(vmschema.TemplateSpec), list...).With(seg)
				if step.removed(partner) || !tree.Equal(vmschema.Value(from, partner), vmschema.Value(to, partner)) {
					return true
				}
			}
		}
		if s = s.Step(seg); s == nil {
			break
		}
	}
	return strings.HasPrefix(p.String(), "spec.running")
}

// removed reports whether the author removed something of their own at p.
func (step lawStep) removed(p provenance.Path) bool {
	was := vmschema.Value(step.stored, p)
	return was != nil && vmschema.Value(step.sent, p) == nil && !isFullyDecided(step.before.At(p), was)
}

// TestLawSparseHandsOver: a sparse manifest replaces a VM that its author has written in full. No
// value changes, and the fields belong to the presets to which a create of the sparse manifest
// gives them. The same manifest again writes nothing.
func TestLawSparseHandsOver(t *testing.T) {
	handed := 0
	checkLaw(t, func(t *testing.T, c lawCase) {
		delete(c.vm, "unknown")
		c.plain()
		created := c.resolve(t, c.vm, c.presets)
		full := roundTrip(created.Object())
		clearRecord(full)
		stored := roundTrip(c.resolve(t, full, nil).Object())
		if cmp.Diff(normalized(full), normalized(stored)) != "" || tree.Equal(withoutRunState(c.vm["spec"]), withoutRunState(stored["spec"])) {
			return // the platform completes what presets removed, or only annotations would change
		}
		replace := func(old map[string]any) (*Result, map[string]any) {
			sent := encode(c.vm)
			out := c.request(t, c.presets, Request{Kind: VirtualMachine, Object: sent, OldObject: encode(old)})
			return out, apply(t, sent, out.Patch)
		}
		out, got := replace(stored)
		if diff := cmp.Diff(normalized(stored), normalized(got)); diff != "" {
			t.Errorf("the sparse manifest changes the VM (-stored +replaced): %s\nsparse %s", diff, encode(c.vm))
		}
		have := givers(out.Record)
		for path, by := range givers(created.Record) {
			if by.role == provenance.Default && have[path] != by && !c.staysAuthors(path) {
				t.Errorf("%s: want %v, got %v\nsparse %s\nstored %s", path, by, have[path], encode(c.vm), encode(stored))
			}
		}
		handed += len(have)
		if _, again := replace(got); cmp.Diff(got, again) != "" {
			t.Errorf("the same manifest again changes the VM: %s", cmp.Diff(got, again))
		}
	})
	if !t.Failed() && handed == 0 {
		t.Error("no field was handed over")
	}
}

// staysAuthors reports whether a field is not handed over: run state, and alongside KubeVirt what
// its programs write, the identity of the guest and plugged volumes.
func (c lawCase) staysAuthors(path string) bool {
	isPlugged := strings.HasPrefix(path, vmschema.Volumes.String()) && strings.Contains(path, "].")
	return path == "spec.running" || path == "spec.runStrategy" ||
		c.engine.Platform == nil && (isPlugged || slices.ContainsFunc(identity, func(p provenance.Path) bool { return p.String() == path }))
}
