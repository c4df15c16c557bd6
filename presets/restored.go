package presets

import (
	"context"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/presets/vmschema"
)

// A restored VM is one that a controller writes as a snapshot has it.
type restored struct {
	// snapshot is the VM as the controller sent it.
	snapshot map[string]any
	// old is the VM that it replaces; nil if it is new.
	old *mergeState
}

// restored answers the restore of a VM from a snapshot, in place or as a new VM. The VM is that of
// the snapshot, with its run state. Overrides and forbid rules hold as for every other write, but
// defaults set nothing that the snapshot lacks, so the VM is not a mixture of the snapshot and of
// presets that were written later. The record counts as far as it is true.
//
// The snapshot may be edited, and the controller has no rights to use presets. So the annotations
// of a restored VM name only presets that the replaced VM named.
func (e *Engine) restored(ctx context.Context, s *Snapshot, req Request) (*Result, error) {
	r, err := loadDecoded(req.Kind, req.Object, req.Decoded)
	req.Decoded = nil // r changes it
	if err != nil {
		return nil, err
	}
	sent := copyMutable(r.root)
	r.restored, r.keepsRunState, r.lenient = &restored{snapshot: sent}, true, true
	if len(req.OldObject) > 0 {
		if r.restored.old, err = load(req.Kind, req.OldObject); err != nil {
			return nil, err
		}
	}
	r.dropNewNames()
	out, err := e.expandClaimed(ctx, s, r, req)
	if err != nil {
		return nil, err
	}
	out.Patch = r.withDecimalOps(diff(sent, out.state.root, vmschema.VM()))
	return out, nil
}

// dropNewNames removes the annotations that name presets, unless the replaced VM has them.
func (r *mergeState) dropNewNames() {
	for _, p := range []provenance.Path{vmAnnotations, vmschema.TemplateAnnotations} {
		at := tree.AsObject(vmschema.Value(r.root, p))
		name := at[v1alpha1.AnnotationPresets]
		if name != nil && (r.restored.old == nil || !tree.Equal(name, tree.AsObject(vmschema.Value(r.restored.old.root, p))[v1alpha1.AnnotationPresets])) {
			delete(at, v1alpha1.AnnotationPresets)
		}
	}
}

// wouldExtendSnapshot reports whether a layer must not set a field of a restored VM: a default, if
// the snapshot lacks the field, and an override, if it names another disk than the restored one.
func (l *layer) wouldExtendSnapshot(f *fieldNode) bool {
	from := l.state.restored
	switch {
	case from == nil:
		return false
	case !l.role.OutranksUser():
		return vmschema.Value(from.snapshot, f.path) == nil
	case f.path.HasPrefix(vmschema.DataVolumeTemplates) && len(f.path) > len(vmschema.DataVolumeTemplates):
		return vmschema.Value(from.snapshot, f.path[:len(vmschema.DataVolumeTemplates)+1]) == nil // a restore renames templates
	}
	return from.replaces(f.path)
}

// replaces reports whether a restore sets the volume source at p, or its name: it gives a claim or
// a DataVolume another name, and makes some DataVolumes claims.
func (from *restored) replaces(p provenance.Path) bool {
	at := len(vmschema.Volumes) + 1
	if !p.HasPrefix(vmschema.Volumes) || len(p) <= at || !isDisk(p[at].Name) {
		return false
	}
	volume := tree.AsObject(vmschema.Value(from.snapshot, p[:at]))
	if volume[p[at].Name] == nil { // an override of it would replace the other source
		return volume["persistentVolumeClaim"] != nil || volume["dataVolume"] != nil
	}
	return len(p) > at+1 && (p[at+1].Name == "claimName" || p[at+1].Name == "name")
}

func isDisk(source string) bool { return source == "persistentVolumeClaim" || source == "dataVolume" }

// newViolations returns the violations of enforced presets. A restore may keep those of the VM that
// it replaces.
func (x *expansion) newViolations() []violation {
	found := x.violations(x.enforced)
	if x.restored == nil {
		return found
	}
	return notIn(x.restored.old, found)
}
