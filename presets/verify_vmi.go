package presets

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets/provenance"
)

// VerifyPlugged checks volumes and networks that KubeVirt plugs into a running VMI: the presets
// that would act on the VMI if it started now must not forbid them. The error is a *Rejection or a
// *Malformed.
func (e *Engine) VerifyPlugged(ctx context.Context, s *Snapshot, req Request) error {
	r, err := load(req.Kind, req.Object)
	if err != nil {
		return err
	}
	old, err := load(req.Kind, req.OldObject)
	if err != nil {
		return nil //nolint:nilerr // an unreadable stored object has nothing to keep
	}
	x, err := e.prepare(ctx, s.For(req), r, req)
	if err != nil {
		return err
	}
	if found := notIn(old, x.violations(x.enforced)); len(found) > 0 {
		return r.rejection(problemsOf(found))
	}
	return nil
}

// HasLegacy reports whether KubeVirt has applied a VirtualMachineInstancePreset to a VMI.
func HasLegacy(annotations map[string]any) bool {
	for key := range annotations {
		if strings.HasPrefix(key, legacyApplied) {
			return true
		}
	}
	return false
}

// VerifyLegacy checks a new VMI to which KubeVirt has applied VirtualMachineInstancePresets, after
// presets: they must not add what the presets on its VM, which is req.Owner, forbid. The error is a
// *Rejection, a *Malformed, or that of req.Instancetypes.
func (e *Engine) VerifyLegacy(s *Snapshot, req Request) error {
	r, err := load(req.Kind, req.Object)
	if err != nil || len(req.Owner) == 0 {
		return err
	}
	vm, err := expansionOf(Request{Kind: VirtualMachine, Instancetypes: req.Instancetypes}, req.Owner)
	if err != nil {
		return err
	}
	own := cmp.Or(recorded(r), provenance.New())
	added := slices.DeleteFunc(r.violations(s.For(req).ruling(req.Namespace.Name, recorded(vm.state))), func(v violation) bool {
		n := own.At(v.path) // decided by a preset that acts at launch
		return v.isIn(vm.expanded) || n != nil && n.IsDecided()
	})
	if len(added) > 0 {
		return r.rejection(problemsOf(added))
	}
	return nil
}

// ruling returns the presets with rules that a record names, as they are now.
func (s *Snapshot) ruling(namespace string, record *provenance.Record) []*Compiled {
	var out []*Compiled
	for _, source := range cmp.Or(record, provenance.New()).Sources {
		c, ok := s.Lookup(namespace, source.Preset)
		if ok && source.Role == provenance.Forbid && c.Mode == v1alpha1.ModeEnforce {
			out = append(out, c)
		}
	}
	return out
}
