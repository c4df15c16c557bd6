package presets

import (
	"slices"
	"testing"
	"time"

	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/presets/vmschema"
)

// TestLawSparsify: a sparse VM is a part of the full one. A create of it gives the full one, and
// nothing is left out of it a second time.
func TestLawSparsify(t *testing.T) {
	given, kept := 0, 0
	checkLaw(t, func(t *testing.T, c lawCase) {
		full := c.created(t, c.vm)
		out := c.sparsify(t, full)
		if lost := c.lost(t, full, out.Object); len(lost) > 0 {
			t.Errorf("%v do not match the sparse VM\nfull %s\nsparse %s", lost, encode(full), encode(out.Object))
		}
		if got := c.created(t, out.Object); !tree.Equal(got, c.created(t, full)) {
			t.Fatalf("it expands to something else\nfull %s\nsparse %s\ngives %s", encode(full), encode(out.Object), encode(got))
		}
		all := leavesByPath(full)
		for path, leaf := range leavesByPath(out.Object) {
			if !tree.Equal(all[path].Value, leaf.Value) {
				t.Errorf("%s is %v, and %v in the full VM", path, leaf.Value, all[path].Value)
			}
		}
		if again := c.sparsify(t, out.Object); !tree.Equal(again.Object, out.Object) {
			t.Errorf("the second time: %s\nfirst %s", encode(again.Object), encode(out.Object))
		}
		for _, k := range out.Kept {
			if vmschema.Value(out.Object, k.Path) == nil {
				t.Errorf("%s is not kept", k.Path)
			}
		}
		given, kept = given+len(out.Given), kept+len(out.Kept)
	})
	if given == 0 || kept == 0 {
		t.Errorf("%d leaves are given, %d kept", given, kept)
	}
	t.Logf("%d leaves are given, %d kept", given, kept)
}

// created returns a new VM without its record.
func (c lawCase) created(t *testing.T, vm map[string]any) map[string]any {
	t.Helper()
	out := c.request(t, c.presets, Request{Kind: VirtualMachine, Object: encode(vm)})
	out.state.dropProvenance(provenance.New())
	return roundTrip(out.state.root)
}

// lost are the presets that match a new VM, but not its sparse manifest.
func (c lawCase) lost(t *testing.T, full, sparse map[string]any) (out []string) {
	t.Helper()
	matched := func(vm map[string]any) map[string]bool {
		refs := map[string]bool{}
		for _, p := range c.request(t, c.presets, Request{Kind: VirtualMachine, Object: encode(vm)}).Matched {
			refs[p.Ref] = true
		}
		return refs
	}
	with := matched(sparse)
	for ref := range matched(full) {
		if !with[ref] {
			out = append(out, ref)
		}
	}
	return out
}

func (c lawCase) sparsify(t *testing.T, vm map[string]any) *Sparse {
	t.Helper()
	out, _, err := c.engine.Sparsify(t.Context(), NewSnapshot(c.presets, nil).WithExceptions(c.exceptions, time.Now), Request{Kind: VirtualMachine, Object: encode(vm), Namespace: Namespace{Name: "ns"}})
	if err != nil {
		t.Fatalf("%v: %s", err, encode(vm))
	}
	return out
}

// TestLawSparsifyIsMinimal compares with the smallest of all manifests.
func TestLawSparsifyIsMinimal(t *testing.T) {
	small, larger := 0, 0
	checkLaw(t, func(t *testing.T, c lawCase) {
		full := c.created(t, c.vm)
		out := c.sparsify(t, full)
		x := &sparsifier{full: &mergeState{root: roundTrip(full), record: provenance.New()}, leftOut: map[string]bool{}}
		x.divided = divide(x.full.root, vmschema.VM(), nil)
		for _, leaf := range leavesByPath(x.full.root) {
			if !slices.ContainsFunc(x.full.names(), leaf.Path.HasPrefix) {
				x.leaves = append(x.leaves, leaf)
			}
		}
		if len(x.leaves) > 9 {
			return
		}
		small++
		want := c.created(t, full)
		for set := range 1 << len(x.leaves) {
			count := 0
			for i, leaf := range x.leaves {
				x.leftOut[leaf.Path.String()] = set>>i&1 == 0
				count += set >> i & 1
			}
			if count < len(out.Kept) {
				if tree.Equal(c.created(t, x.manifest()), want) && len(c.lost(t, full, x.manifest())) == 0 {
					larger++
					t.Logf("%s is larger than %s", encode(out.Object), encode(x.manifest()))
					break
				}
			}
		}
	})
	if small == 0 || larger > 0 {
		t.Errorf("%d of %d small VMs are larger than needed", larger, small)
	}
}
