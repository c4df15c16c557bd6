package presets

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"

	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/presets/vmschema"
)

// writtenOut returns the record of the stored VM without the fields that the author's change takes
// from presets, but that the author's manifest has: from now on, they are the author's. It is nil
// if there are none. Only "kubectl apply" and server-side apply say what a manifest has.
func (m *merger) writtenOut() *provenance.Record {
	if m.recordText == "" {
		return nil
	}
	var manifest *manifest
	out, err := provenance.Decode(m.recordText)
	if err != nil {
		return nil
	}
	found := false
	for p, n := range m.record.Decided() {
		if m.record.Sources[n.Source].Role.OutranksUser() || ownerOf(p)&runState != 0 {
			continue
		}
		sent := vmschema.Value(m.sent, p)
		if sent == nil || tree.Equal(vmschema.Value(m.before.root, p), vmschema.Value(m.after.root, p)) {
			continue
		}
		if manifest == nil {
			manifest = manifestOf(m.sent)
		}
		if manifest.has(p) {
			out.At(p).ClearDecision()
			found = true
		}
	}
	if !found {
		return nil
	}
	return out
}

// A manifest is what authors applied.
type manifest struct {
	applied map[string]any   // by "kubectl apply"
	owned   []map[string]any // by server-side apply, as FieldsV1
}

func manifestOf(vm map[string]any) *manifest {
	out := &manifest{}
	text := tree.AsText(annotations(vm)[corev1.LastAppliedConfigAnnotation])
	if json.Unmarshal([]byte(text), &out.applied) != nil {
		out.applied = nil
	}
	for _, entry := range tree.AsList(vmschema.Value(vm, provenance.Of("metadata", "managedFields"))) {
		if fields := tree.AsObject(entry); fields["operation"] == "Apply" {
			out.owned = append(out.owned, tree.AsObject(fields["fieldsV1"]))
		}
	}
	return out
}

func (m *manifest) has(p provenance.Path) bool {
	if vmschema.Value(m.applied, p) != nil {
		return true
	}
	for _, fields := range m.owned {
		if owns(fields, p) {
			return true
		}
	}
	return false
}

// owns reports whether FieldsV1 have a path. Lists that are one value are owned as a whole.
func owns(fields map[string]any, p provenance.Path) bool {
	for _, s := range p {
		next, has := fields["f:"+s.Name]
		if s.Kind == provenance.Element || !has {
			return false
		}
		if fields = tree.AsObject(next); len(fields) == 0 {
			return true
		}
	}
	return true
}
