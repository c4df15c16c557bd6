package presets

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"slices"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/presets/vmschema"
	"github.com/virtwright/virtwright/test/cases"
)

// compileSpec compiles a preset given as decoded JSON; nil when it is rejected.
func compileSpec(namespace, name string, spec map[string]any) *Compiled {
	raw, err := json.Marshal(spec)
	if err != nil {
		panic(err)
	}
	var p v1alpha1.Preset = &v1alpha1.ClusterVirtualMachinePreset{}
	if namespace != "" {
		p = &v1alpha1.VirtualMachinePreset{}
	}
	p.SetName(name)
	p.SetNamespace(namespace)
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, p.GetSpec()); err != nil {
		panic(err)
	}
	c, _ := Compile(p)
	return c
}

// A law is checked on many random cases; a failure names the seed.
func checkLaw(t *testing.T, law func(t *testing.T, c lawCase)) {
	t.Helper()
	for seed := range int64(cases.Of(400)) {
		g := generator{Rand: rand.New(rand.NewSource(seed)), sparseness: 85}
		c := lawCase{generator: g, seed: seed, vm: g.vm(), engine: Engine{}}
		if seed%3 == 0 {
			c.engine.Platform = &Platform{}
		}
		for i := range 1 + g.Intn(5) {
			c.presets = append(c.presets, g.preset(i))
		}
		if seed%4 == 1 {
			c.exceptions = someExceptions(rand.New(rand.NewSource(-seed)), c.presets)
		}
		law(t, c)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

type lawCase struct {
	generator
	seed    int64
	vm      map[string]any
	presets []*Compiled
	engine  Engine
	// exceptions do not change while the law is checked.
	exceptions []*Exception
}

// someExceptions keep some presets away from some VMs.
func someExceptions(r *rand.Rand, presets []*Compiled) []*Exception {
	var out []*Exception
	for i := range 1 + r.Intn(2) {
		e := &Exception{Namespace: "ns", Name: fmt.Sprintf("e%d", i)}
		for _, c := range presets {
			if r.Intn(2) == 0 {
				e.Presets = append(e.Presets, c.Ref)
			}
		}
		if r.Intn(2) == 0 {
			e.vms = labels.SelectorFromSet(labels.Set{pick(generator{Rand: r}, names): pick(generator{Rand: r}, words)})
		}
		out = append(out, e)
	}
	return out
}

func (c lawCase) resolve(t *testing.T, vm map[string]any, presets []*Compiled) *Result {
	t.Helper()
	return c.request(t, presets, Request{Kind: VirtualMachine, Object: encode(vm)})
}

func (c lawCase) request(t *testing.T, presets []*Compiled, req Request) *Result {
	t.Helper()
	req.Namespace = Namespace{Name: "ns"}
	out, err := c.engine.Resolve(t.Context(), NewSnapshot(presets, nil).WithExceptions(c.exceptions, time.Now), req)
	if err != nil {
		t.Fatalf("seed %d: %v\n%s", c.seed, err, req.Object)
	}
	return out
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// roundTrip returns v as an API server would return it.
func roundTrip(v any) map[string]any {
	out, err := decode("test", encode(v))
	if err != nil {
		panic(err)
	}
	return out
}

// apply applies a patch, strictly by RFC 6902.
func apply(t *testing.T, to []byte, patch any) map[string]any {
	t.Helper()
	decoded, err := jsonpatch.DecodePatch(encode(patch))
	if err != nil {
		t.Fatal(err)
	}
	options := jsonpatch.NewApplyOptions()
	options.SupportNegativeIndices = false
	out, err := decoded.ApplyWithOptions(to, options)
	if err != nil {
		t.Fatalf("cannot apply %s to %s: %v", encode(patch), to, err)
	}
	v, err := decode("patched", out)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestLawOrderIndependence(t *testing.T) {
	checkLaw(t, func(t *testing.T, c lawCase) {
		want := c.resolve(t, c.vm, c.presets)
		shuffled := slices.Clone(c.presets)
		for range 3 {
			c.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
			got := c.resolve(t, c.vm, shuffled)
			if diff := cmp.Diff(roundTrip(want.Object()), roundTrip(got.Object())); diff != "" {
				t.Errorf("order of presets changed the result: %s", diff)
			}
			if diff := cmp.Diff(want.Warnings, got.Warnings); diff != "" {
				t.Errorf("order of presets changed the warnings: %s", diff)
			}
		}
	})
}

func TestLawIdempotence(t *testing.T) {
	checkLaw(t, func(t *testing.T, c lawCase) {
		once := roundTrip(c.resolve(t, c.vm, c.presets).Object())
		again := c.resolve(t, once, c.presets)
		if len(again.Patch) > 0 {
			t.Errorf("a second pass changes:\n%s\nof\n%s\nfrom\n%s", encode(again.Patch), encode(once), encode(c.vm))
		}
	})
}

// A copy of a stored VM that is created under other presets keeps every value, unless an override
// or removal acts on it, and its record is true.
func TestLawRestoringKeepsValues(t *testing.T) {
	checkLaw(t, func(t *testing.T, c lawCase) {
		stored := roundTrip(c.resolve(t, c.vm, c.presets).Object())
		now := append(slices.Clone(c.presets[1:]), c.preset(7), c.preset(8))
		out := c.resolve(t, stored, now)
		got := apply(t, encode(stored), out.Patch)
		if diff := cmp.Diff(roundTrip(out.Object()), got); diff != "" {
			t.Fatalf("the patch makes something else than the result: %s", diff)
		}
		eachLeaf(stored, vmschema.VM(), nil, func(p provenance.Path, v any) {
			is := vmschema.Value(got, p)
			if p.HasPrefix(provenanceOn(VirtualMachine)) || tree.Equal(v, is) || tree.IsObject(v) && tree.IsObject(is) {
				return
			}
			for depth := range p { // an override of a choice decides above it
				if n := out.Record.At(p[:depth+1]); n.IsDecided() && out.Record.Sources[n.Source].Role.OutranksUser() {
					return
				}
			}
			t.Errorf("%s changed from %s to %s\nstored %s", p, tree.Show(v), tree.Show(is), encode(stored))
		})
		intent := roundTrip(out.Object())
		keepUserIntent(intent, out.Record)
		dropAnnotation(intent)
		again := roundTrip(c.resolve(t, intent, now).Object())
		sortLists(again, vmschema.VM())
		sortLists(got, vmschema.VM())
		clearRecord(again, got)
		if diff := cmp.Diff(again, got); diff != "" && !emptyMetadata(again, got) {
			t.Errorf("what the record calls the user's expands to something else (-want +got): %s", diff)
		}
	})
}

func TestLawPatchIsMinimalAndRight(t *testing.T) {
	checkLaw(t, func(t *testing.T, c lawCase) {
		c.plantUnknown()
		raw := encode(c.vm)
		out := c.resolve(t, c.vm, c.presets)
		got := apply(t, raw, out.Patch)
		want := roundTrip(out.Object())
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("the patch makes something else than the result: %s\npatch %s\nof %s", diff, encode(out.Patch), raw)
		}
		if diff := cmp.Diff(unknowns(roundTrip(c.vm)), unknowns(got)); diff != "" {
			t.Errorf("unknown fields changed: %s", diff)
		}
		for _, op := range out.Patch {
			if was := pointer(roundTrip(c.vm), op.Path); op.Operation == "replace" && tree.Equal(was, op.Value) {
				t.Errorf("operation %v changes nothing", op)
			}
		}
	})
}

func TestLawDefaultsNeverChangeUserLeaves(t *testing.T) {
	checkLaw(t, func(t *testing.T, c lawCase) {
		only := slices.DeleteFunc(slices.Clone(c.presets), func(p *Compiled) bool { return p.outranksUser() })
		got := roundTrip(c.resolve(t, c.vm, only).Object())
		eachLeaf(c.vm, vmschema.VM(), nil, func(p provenance.Path, v any) {
			is := vmschema.Value(got, p)
			if fields, ok := v.(map[string]any); ok && len(fields) == 0 {
				if _, still := is.(map[string]any); still {
					return
				}
			}
			if !tree.Equal(v, is) {
				t.Errorf("a default changed %s from %s to %s", p, tree.Show(v), tree.Show(is))
			}
		})
	})
}

func TestLawProvenanceIsComplete(t *testing.T) {
	checkLaw(t, func(t *testing.T, c lawCase) {
		out := c.resolve(t, c.vm, c.presets)
		got := roundTrip(out.Object())
		stored, _ := vmschema.Value(got, provenanceOn(VirtualMachine)).(string)
		rec := provenance.New()
		if stored != "" {
			var err error
			if rec, err = provenance.Decode(stored); err != nil {
				t.Fatal(err)
			}
		}
		eachLeaf(got, vmschema.VM(), nil, func(p provenance.Path, v any) {
			if p.HasPrefix(provenanceOn(VirtualMachine)) {
				return
			}
			_, ours := rec.SourceOf(p)
			was := vmschema.Value(c.vm, p)
			if was == nil && !ours {
				t.Errorf("%s = %s came from nowhere", p, tree.Show(v))
			}
			if ours && was != nil && !rec.At(p).Overruled {
				t.Errorf("%s is the user's, but the record has it as %v", p, rec.Sources[rec.At(p).Source])
			}
		})
		keepUserIntent(got, rec)
		dropAnnotation(got)
		want := roundTrip(c.vm)
		sortLists(want, vmschema.VM()) // a removed element returns at the end
		sortLists(got, vmschema.VM())
		if diff := cmp.Diff(want, got); diff != "" && !emptyMetadata(want, got) {
			t.Errorf("what the record says is not the user's leaves (-sent +left): %s\nof %s\nsent %s", diff, stored, encode(c.vm))
		}
	})
}

func TestLawSendingTheSameAgainChangesNothing(t *testing.T) {
	checkLaw(t, func(t *testing.T, c lawCase) {
		stored := roundTrip(c.resolve(t, c.vm, c.presets).Object())
		for reason, sent := range map[string]map[string]any{"the whole VM": relabelled(stored), "the sparse VM": c.vm} {
			if tree.Equal(withoutRunState(sent["spec"]), withoutRunState(stored["spec"])) && tree.Equal(vmschema.Value(sent, vmLabels), vmschema.Value(stored, vmLabels)) {
				continue // only annotations changed
			}
			out := c.request(t, c.presets, Request{Kind: VirtualMachine, Object: encode(sent), OldObject: encode(stored)})
			got := apply(t, encode(sent), out.Patch)
			want := roundTrip(stored)
			if reason == "the whole VM" {
				want = relabelled(stored)
			}
			if reason == "the sparse VM" {
				// Run state belongs to the user once it is stored.
				for _, name := range []string{"running", "runStrategy"} {
					copyField(want, got, "spec", name)
				}
				clearRecord(want, got)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("updating with %s changed it (-stored +got): %s\nsent %s\nstored %s", reason, diff, encode(sent), encode(stored))
			}
		}
	})
}

// Of forbid and require, exactly one rejects a VM. The other one does not change it.
func TestLawRequireIsTheOppositeOfForbid(t *testing.T) {
	checkLaw(t, func(t *testing.T, c lawCase) {
		c.engine = Engine{} // a platform default gives way to forbid
		plain := c.resolve(t, c.vm, c.presets)
		spec, _ := plain.Object()["spec"].(map[string]any)
		eachLeaf(c.generator.vm(), vmschema.VM(), nil, func(p provenance.Path, _ any) {
			rules := []any{map[string]any{"path": p.String()}}
			forbids := compileSpec("", "rule", map[string]any{"forbid": rules})
			requires := compileSpec("", "rule", map[string]any{"require": rules})
			if (forbids == nil) != (requires == nil) {
				t.Errorf("only one of forbid and require may have path %s", p)
			}
			if forbids == nil || awaitsExpansion(spec, p) {
				return
			}
			rejected := 0
			for _, rule := range []*Compiled{forbids, requires} {
				snapshot := NewSnapshot(append(slices.Clone(c.presets), rule), nil).WithExceptions(c.exceptions, time.Now)
				out, err := c.engine.Resolve(t.Context(), snapshot, Request{Kind: VirtualMachine, Object: encode(c.vm), Namespace: Namespace{Name: "ns"}})
				if err != nil {
					rejected++
				} else if !tree.Equal(roundTrip(out.Object())["spec"], roundTrip(plain.Object())["spec"]) {
					t.Errorf("a rule on %s changes the VM", p)
				}
			}
			if rejected != 1 {
				t.Errorf("%d of forbid and require of %s reject the VM, want 1:\n%s", rejected, p, encode(plain.Object()))
			}
		})
	})
}
