package presets

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/presets/vmschema"
)

// lawSpecs are the known instancetypes and preferences of the laws.
var lawSpecs = map[string]map[string]any{
	"VirtualMachineClusterInstancetype x": {
		"cpu": map[string]any{"guest": int64(2), "model": "x"}, "memory": map[string]any{"guest": "2Gi"},
		"annotations": map[string]any{"a": "x"}, "gpus": []any{map[string]any{"name": "a", "deviceName": "x"}},
	},
	"VirtualMachineClusterPreference x": {
		"devices": map[string]any{"preferredDiskBus": "virtio", "preferredRng": map[string]any{}}, "clock": map[string]any{"preferredTimer": map[string]any{}},
	},
}

func lawFinder(m Matcher) (map[string]any, error) { return lawSpecs[m.String()], nil }

// withMatchers gives a VM or a preset's partial VM matchers, known ones (x) and others (y).
func (c lawCase) withMatchers(vm map[string]any, chance int) {
	for _, name := range []string{"instancetype", "preference"} {
		if c.Intn(100) < chance {
			setDotted(vm, "spec."+name, map[string]any{"name": pick(c.generator, []string{"x", "y"})})
		}
	}
}

// typed adds presets whose defaults name instancetypes and preferences.
func (c *lawCase) typed() {
	c.engine.Platform = nil // as alongside KubeVirt
	for i := range 2 {
		defaults := map[string]any{}
		c.withMatchers(defaults, 60)
		if len(defaults) > 0 {
			c.presets = append(c.presets, compileSpec("", "matcher"+string(rune('a'+i)), map[string]any{"priority": int64(c.Intn(2)), "defaults": defaults}))
		}
	}
}

// TestLawInstancetypeUpdates: updates of the instancetype or preference give the VM that creating
// the user intent gives.
func TestLawInstancetypeUpdates(t *testing.T) {
	checkLaw(t, func(t *testing.T, c lawCase) {
		c.typed()
		c.withMatchers(c.vm, 30)
		manifest := c.vm
		stored := roundTrip(c.request(t, c.presets, Request{Kind: VirtualMachine, Object: encode(c.vm), Instancetypes: lawFinder}).Object())
		for range 3 {
			next := c.edited(manifest)
			for _, p := range matcherPaths {
				(&mergeState{root: next}).unset(p)
			}
			c.withMatchers(next, 40)
			client := pick(c.generator, slices.Sorted(maps.Keys(clients)))
			sent := clients[client](stored, roundTrip(manifest), roundTrip(next))
			out := c.request(t, c.presets, Request{Kind: VirtualMachine, Object: encode(sent), OldObject: encode(stored), Instancetypes: lawFinder})
			c.checkOwners(t, out, stored)
			got := roundTrip(out.Object())
			intent := roundTrip(got)
			keepUserIntent(intent, out.Record)
			clearRecord(intent)
			want := c.request(t, c.presets, Request{Kind: VirtualMachine, Object: encode(intent), Instancetypes: lawFinder})
			if diff := cmp.Diff(withoutStorage(normalized(roundTrip(want.Object()))), withoutStorage(normalized(got))); diff != "" {
				t.Fatalf("%s: a create of the intent gives something else (-create +update): %s\nstored %s\nsent %s", client, diff, encode(stored), encode(sent))
			}
			stored, manifest = got, next
		}
	})
}

// TestLawInstancetypes: presets set no field that the VM's instancetype owns or its preference
// fills; a default names no instancetype that the VM conflicts with. The result is the same in any
// order of presets, and a second expansion changes nothing.
func TestLawInstancetypes(t *testing.T) {
	checkLaw(t, func(t *testing.T, c lawCase) {
		c.typed()
		c.withMatchers(c.vm, 30)
		create := func(vm map[string]any, presets []*Compiled) *Result {
			return c.request(t, presets, Request{Kind: VirtualMachine, Object: encode(vm), Instancetypes: lawFinder})
		}
		out := create(c.vm, c.presets)
		c.checkOwners(t, out, nil)
		object := roundTrip(out.Object())
		if again := create(object, c.presets); len(again.Patch) > 0 {
			t.Errorf("a second pass changes %s", encode(again.Patch))
		}
		shuffled := slices.Clone(c.presets)
		c.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if diff := cmp.Diff(object, roundTrip(create(c.vm, shuffled).Object())); diff != "" {
			t.Errorf("another order of presets gives another VM:\n%s", diff)
		}
	})
}

// checkOwners checks that presets set no field that the instancetype or preference owns, but for
// storage that an update keeps.
func (c lawCase) checkOwners(t *testing.T, out *Result, stored map[string]any) {
	t.Helper()
	spec, _ := out.state.root["spec"].(map[string]any)
	out.state.findInstancetype = lawFinder
	named := out.state.contributionsOf(spec)
	for p, n := range out.Record.Decided() {
		if vmschema.Value(out.state.root, p) == nil {
			continue // a removal of an absent field
		}
		if list := enclosingList(p); isStorage(list) && tree.Equal(vmschema.Value(stored, p), vmschema.Value(out.state.root, p)) {
			continue
		}
		outranks := out.Record.Sources[n.Source].Role.OutranksUser()
		if named.instancetype != nil && named.instancetype.owns(p) && !(outranks && c.isDefault(out, "instancetype")) {
			t.Errorf("a preset decided %s, which %s owns", p, named.instancetype)
		}
		if named.preference != nil && named.preference.owns(p) && !outranks {
			t.Errorf("a default decided %s, which %s gives", p, named.preference)
		}
	}
	if c.isDefault(out, "instancetype") {
		if at := out.state.firstSet(named.instancetype); at != nil {
			t.Errorf("a default gave %s, and the VM sets %s", named.instancetype, at)
		}
	}
}

// isDefault reports whether a default gave the VM its matcher.
func (c lawCase) isDefault(out *Result, name string) bool {
	n := firstDecided(out.Record.At(provenance.Of("spec", name)))
	return n.IsDecided() && !out.Record.Sources[n.Source].Role.OutranksUser()
}
