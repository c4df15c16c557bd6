package presets

import (
	"slices"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/presets/vmschema"
	"github.com/virtwright/virtwright/test/cases"
)

// A revisionCase has VMs of a first revision of all presets. Each preset has a second one.
type revisionCase struct {
	lawCase
	second []*Compiled
}

func (c lawCase) withRevisions() revisionCase {
	out := revisionCase{lawCase: c}
	for i, first := range c.presets {
		second := *c.preset(i)
		second.Ref, second.Namespace, second.Generation = first.Ref, first.Namespace, 2
		out.second = append(out.second, &second)
	}
	return out
}

// plain makes the VM one that an API server accepts: it has a spec, and no unknown field.
func (c lawCase) plain() {
	delete(c.vm, "unknown")
	if c.vm["spec"] == nil {
		c.vm["spec"] = map[string]any{"template": map[string]any{}}
	}
}

// reapply reapplies one preset to a stored VM. All presets have the revision now, and the record
// may name the others.
func (c revisionCase) reapply(t *testing.T, stored map[string]any, now []*Compiled, only string, times string) *Result {
	t.Helper()
	sent := roundTrip(stored)
	meta, _ := sent["metadata"].(map[string]any)
	if meta == nil {
		meta = map[string]any{}
		sent["metadata"] = meta
	}
	all := tree.AsObject(meta["annotations"])
	if all == nil {
		all = map[string]any{}
		meta["annotations"] = all
	}
	all[v1alpha1.AnnotationReapply] = v1alpha1.ReapplyOnlyPrefix + only + " " + times
	return c.request(t, now, Request{
		Kind: VirtualMachine, Object: encode(sent), OldObject: encode(stored),
		Revisions: func(name PresetName, s provenance.Source) (*Compiled, error) {
			for _, all := range [][]*Compiled{c.presets, c.second} {
				for _, p := range all {
					if p.Name() == name && p.Generation == s.Generation {
						return p, nil
					}
				}
			}
			return nil, nil
		},
	})
}

func withoutReapply(vm map[string]any) map[string]any {
	out := roundTrip(vm)
	if meta, ok := out["metadata"].(map[string]any); ok {
		delete(tree.AsObject(meta["annotations"]), v1alpha1.AnnotationReapply)
	}
	return normalized(out)
}

// With one changed preset, a reapply of it makes the VM that a create makes. A second reapply
// changes nothing, and a reapply of the first revision restores the VM.
func TestLawReapplyOfOnePreset(t *testing.T) {
	changed, seen := 0, 0
	checkLaw(t, func(t *testing.T, c lawCase) {
		r := c.withRevisions()
		c.plain()
		created := c.resolve(t, c.vm, c.presets)
		stored := roundTrip(created.Object())
		k := c.Intn(len(c.presets))
		only := c.presets[k].Ref
		now := slices.Clone(c.presets)
		now[k] = r.second[k]

		after := roundTrip(r.reapply(t, stored, now, only, "1").Object())
		intent := roundTrip(stored)
		keepUserIntent(intent, created.Record)
		clearRecord(intent)
		want := normalized(roundTrip(c.resolve(t, intent, now).Object()))
		if diff := cmp.Diff(want, withoutReapply(after)); diff != "" {
			t.Errorf("%s: a create gives something else (-create +reapply): %s\nstored %s", only, diff, encode(stored))
		}
		again := roundTrip(r.reapply(t, after, now, only, "2").Object())
		if diff := cmp.Diff(withoutReapply(after), withoutReapply(again)); diff != "" {
			t.Errorf("%s: a second reapply changes the VM: %s", only, diff)
		}
		back := roundTrip(r.reapply(t, after, c.presets, only, "3").Object())
		if diff := cmp.Diff(withoutReapply(stored), withoutReapply(back)); diff != "" {
			t.Errorf("%s: the first revision does not restore the VM: %s\nstored %s\nafter %s", only, diff, encode(stored), encode(after))
		}
		seen++
		if !cmp.Equal(withoutReapply(stored), withoutReapply(after)) {
			changed++
		}
	})
	if changed < seen/4 || seen < cases.Of(400) {
		t.Errorf("%d of %d reapplies changed a VM: the law needs more", changed, seen)
	}
}

// With other changed presets, too, a reapply of one of them brings no values of the others.
func TestLawReapplyLeavesOtherPresets(t *testing.T) {
	checkLaw(t, func(t *testing.T, c lawCase) {
		r := c.withRevisions()
		c.plain()
		created := c.resolve(t, c.vm, c.presets)
		k := c.Intn(len(c.presets))
		now := slices.Clone(c.presets)
		now[k] = r.second[k]
		want := r.reapply(t, roundTrip(created.Object()), now, c.presets[k].Ref, "1")
		for i, p := range r.second { // those that the record does not name act as they are now
			if slices.ContainsFunc(created.Record.Sources, func(s provenance.Source) bool { return s.Preset == p.Ref }) {
				now[i] = p
			}
		}
		got := r.reapply(t, roundTrip(created.Object()), now, c.presets[k].Ref, "1")
		if diff := cmp.Diff(roundTrip(want.Object()), roundTrip(got.Object())); diff != "" {
			t.Errorf("%s: changes of other presets come, too (-without +with): %s\nstored %s", c.presets[k].Ref, diff, encode(roundTrip(created.Object())))
		}
	})
}

// What presets set whose revisions are not kept stays, but for elements of lists and empty objects.
func TestLawReapplyLeavesUnkeptRevisions(t *testing.T) {
	checkLaw(t, func(t *testing.T, c lawCase) {
		r := c.withRevisions()
		c.plain()
		created := c.resolve(t, c.vm, c.presets)
		stored := roundTrip(created.Object())
		k := c.Intn(len(c.presets))
		only := c.presets[k].Ref
		r.presets = c.presets[k : k+1] // the finder has no others
		after := roundTrip(r.reapply(t, stored, r.second, only, "1").Object())
		for p, n := range created.Record.Decided() {
			by := created.Record.Sources[n.Source]
			was, is := vmschema.Value(stored, p), vmschema.Value(after, p)
			if by.Preset != only && !p.InList() && by.Role != provenance.Platform && !tree.IsObject(was) && !tree.IsObject(is) && !tree.Equal(was, is) {
				t.Errorf("%s of %s was %s and is %s\nstored %s\nafter %s", p, by, tree.Show(was), tree.Show(is), encode(stored), encode(after))
			}
		}
	})
}

func TestReapplyOfSomePresetsIsRejected(t *testing.T) {
	memory := func(size string) *Compiled {
		return compileSpec("ns", "size", map[string]any{"defaults": map[string]any{"spec": map[string]any{"template": map[string]any{
			"spec": map[string]any{"domain": map[string]any{"memory": map[string]any{"guest": size}}},
		}}}})
	}
	c := lawCase{vm: map[string]any{"spec": map[string]any{"template": map[string]any{}}}, presets: []*Compiled{memory("1Gi")}}
	now := memory("2Gi")
	now.Generation = 2
	created := c.resolve(t, c.vm, c.presets)
	for name, test := range map[string]struct {
		only, edit, want string
		deleted          bool
	}{
		"a preset that does not exist":            {only: "sizes", want: `metadata.annotations[virtwright.dev/reapply]: Invalid value: "sizes": preset does not exist; did you mean "size"`},
		"no name":                                 {only: "size,", want: `Invalid value: "size,": must name presets, each once`},
		"too many":                                {only: strings.Repeat("a,", 16) + "a", want: "Too many: 17: must have at most 16 items"},
		"a preset that was deleted":               {only: "size", deleted: true, want: "the VM has revision 1 of preset size, which was deleted with its revisions, so"},
		"a preset that is invalid":                {only: "broken", want: `Invalid value: "broken": preset is invalid: see its status`},
		"a revision that is not kept":             {only: "size", want: "the VM has revision 1 of preset size, which is no longer kept, so the change of this preset is unknown: reapply all presets"},
		"another change of spec":                  {only: "size", edit: `"spec": {"template": {"spec": {"hostname": "x"}}}`, want: "must not change spec, labels or the annotations that select presets"},
		"another change of the choice of presets": {only: "size", edit: `"metadata": {"annotations": {"virtwright.dev/exclude": "size"}}`, want: "must not change spec, labels or the annotations that select presets"},
	} {
		sent := roundTrip(created.Object())
		meta := sent["metadata"].(map[string]any)["annotations"].(map[string]any)
		meta[v1alpha1.AnnotationReapply] = v1alpha1.ReapplyOnlyPrefix + test.only
		merged, err := jsonpatch.MergePatch(encode(sent), []byte("{"+test.edit+"}"))
		if err != nil {
			t.Fatal(err)
		}
		snapshot := NewSnapshot([]*Compiled{now}, []PresetName{{"ns", "broken"}})
		if test.deleted {
			snapshot = NewSnapshot(nil, nil)
		}
		_, err = c.engine.Resolve(t.Context(), snapshot, Request{
			Kind: VirtualMachine, Object: merged, OldObject: encode(roundTrip(created.Object())), Namespace: Namespace{Name: "ns"},
		})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: want %q, got %v", name, test.want, err)
		}
	}
}

// A targeted reapply brings nothing that rules forbid now, although their preset is newer than the
// VM. What the VM has already may stay.
func TestReapplyOfSomePresetsObeysNewRules(t *testing.T) {
	hostname := func(name string) *Compiled {
		return compileSpec("ns", "names", map[string]any{"defaults": map[string]any{"spec": map[string]any{"template": map[string]any{
			"spec": map[string]any{"hostname": name, "subdomain": "x"},
		}}}})
	}
	before, after := hostname("a"), hostname("b")
	after.Generation = 2
	c := revisionCase{lawCase{vm: map[string]any{"spec": map[string]any{"template": map[string]any{}}}, presets: []*Compiled{before}}, nil}
	created := c.resolve(t, c.vm, c.presets)
	for forbidden, want := range map[string]string{"hostname": "(preset cluster/rule)", "subdomain": ""} {
		rule := compileSpec("", "rule", map[string]any{"forbid": []any{map[string]any{"path": "spec.template.spec." + forbidden}}})
		sent := roundTrip(created.Object())
		sent["metadata"].(map[string]any)["annotations"].(map[string]any)[v1alpha1.AnnotationReapply] = "only:names"
		_, err := c.engine.Resolve(t.Context(), NewSnapshot([]*Compiled{after, rule}, nil), Request{
			Kind: VirtualMachine, Object: encode(sent), OldObject: encode(roundTrip(created.Object())), Namespace: Namespace{Name: "ns"},
			Revisions: func(PresetName, provenance.Source) (*Compiled, error) { return before, nil },
		})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: want %q, got %v", forbidden, want, err)
		}
	}
}

// A revision with the same values, but another selector, is not the recorded one.
func TestReapplyNeedsTheRecordedSelector(t *testing.T) {
	preset := func(match map[string]any) *Compiled {
		return compileSpec("ns", "names", map[string]any{"match": match, "defaults": map[string]any{"spec": map[string]any{"template": map[string]any{
			"spec": map[string]any{"hostname": "a"},
		}}}})
	}
	before, after := preset(map[string]any{}), preset(map[string]any{"labels": map[string]any{"matchLabels": map[string]any{"a": "b"}}})
	after.Generation = 2
	c := lawCase{vm: map[string]any{"spec": map[string]any{"template": map[string]any{}}}}
	created := c.resolve(t, c.vm, []*Compiled{before})
	sent := roundTrip(created.Object())
	sent["metadata"].(map[string]any)["annotations"].(map[string]any)[v1alpha1.AnnotationReapply] = "only:names"
	_, err := c.engine.Resolve(t.Context(), NewSnapshot([]*Compiled{after}, nil), Request{
		Kind: VirtualMachine, Object: encode(sent), OldObject: encode(roundTrip(created.Object())), Namespace: Namespace{Name: "ns"},
	})
	if err == nil || !strings.Contains(err.Error(), "the VM has revision 1 of preset names, which is no longer kept") {
		t.Error(err)
	}
}

// What a preset set whose revision is not kept stays, although another member of its one-of comes.
func TestReapplyKeepsAlternativesOfUnkeptRevisions(t *testing.T) {
	firmware := func(bootloader map[string]any) map[string]any {
		return map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
			"domain": map[string]any{"firmware": map[string]any{"bootloader": bootloader}},
		}}}}
	}
	secure := compileSpec("", "secure", map[string]any{"overrides": firmware(map[string]any{"efi": map[string]any{"secureBoot": false}})})
	plain := compileSpec("ns", "plain", map[string]any{"defaults": map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": "b"}}}})
	c := lawCase{vm: map[string]any{"spec": map[string]any{"template": map[string]any{}}}}
	created := c.resolve(t, c.vm, []*Compiled{secure, plain})
	for _, bios := range []map[string]any{{}, {"useSerial": true}} {
		changed := compileSpec("ns", "plain", map[string]any{"defaults": firmware(map[string]any{"bios": bios})})
		changed.Generation = 2
		sent := roundTrip(created.Object())
		sent["metadata"].(map[string]any)["annotations"].(map[string]any)[v1alpha1.AnnotationReapply] = "only:plain"
		out, err := c.engine.Resolve(t.Context(), NewSnapshot([]*Compiled{changed}, nil), Request{
			Kind: VirtualMachine, Object: encode(sent), OldObject: encode(roundTrip(created.Object())), Namespace: Namespace{Name: "ns"},
			Revisions: func(name PresetName, _ provenance.Source) (*Compiled, error) {
				if name.Ref == "plain" {
					return plain, nil
				}
				return nil, nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		loader := provenance.Of("spec", "template", "spec", "domain", "firmware", "bootloader")
		if got := vmschema.Value(out.Object(), loader); !tree.Equal(got, map[string]any{"efi": map[string]any{"secureBoot": false}}) {
			t.Errorf("bios %v: the boot loader is %s", bios, encode(got.(map[string]any)))
		}
	}
}
