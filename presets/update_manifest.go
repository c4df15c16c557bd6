package presets

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/presets/vmschema"
)

// writtenOut returns the record of the stored VM without the fields that the author's change takes
// from presets, but that the author's manifest has: from now on, they are the author's. It is nil
// if there are none. Only "kubectl apply" and server-side apply say what a manifest has.
func (m *merger) writtenOut() *provenance.Record {
	var taken []provenance.Path
	for p, n := range m.record.Decided() {
		if !m.record.Sources[n.Source].Role.OutranksUser() && m.takes(p) {
			taken = append(taken, slices.Clone(p))
		}
	}
	if len(taken) == 0 {
		return nil
	}
	manifest := manifestOf(m.sent)
	taken = slices.DeleteFunc(taken, func(p provenance.Path) bool { return !manifest.has(p) })
	out, err := provenance.Decode(m.recordText)
	if len(taken) == 0 || err != nil {
		return nil
	}
	for _, p := range taken {
		out.At(p).ClearDecision()
	}
	return out
}

// takes reports whether the author's change takes away a value that is sent.
func (m *merger) takes(p provenance.Path) bool {
	return ownerOf(p)&runState == 0 && differAt(m.before.root, m.after.root, p) && vmschema.Value(m.sent, p) != nil && differAt(m.sent, m.after.root, p)
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

// The identity of a guest, which KubeVirt writes into a VM.
var identity = []provenance.Path{
	vmschema.TemplateSpec.Field("domain").Field("firmware").Field("uuid"),
	vmschema.TemplateSpec.Field("domain").Field("firmware").Field("serial"),
}

// sentIntent is the user intent of the sent object, by a record. With the last field in an object,
// appliers remove the whole object. Alongside KubeVirt, that would remove what KubeVirt wrote into
// it: the identity of the guest, and volumes that users plugged. What a manifest had may go.
func (u *update) sentIntent(record *provenance.Record) map[string]any {
	root := u.intentBy(record, u.sent)
	if p := u.engine.Platform; p != nil && !p.Alongside {
		return root
	}
	var applied *manifest // before
	isOthers := func(p provenance.Path) bool {
		if applied == nil {
			applied = manifestOf(u.old)
		}
		return !u.record.At(p).IsDecided() && !applied.has(p)
	}
	r := &mergeState{root: root}
	for _, p := range identity {
		v := vmschema.Value(u.old, p)
		if v != nil && vmschema.Value(u.sent, p[:len(p)-1]) == nil && isOthers(p) {
			r.setAt(p, v, nil)
		}
	}
	if vmschema.Value(u.sent, vmschema.Volumes) == nil {
		r.keepPlugged(u.old, isOthers)
	}
	return root
}

// keepPlugged keeps the hotpluggable volumes of a stored VM that are others', with their disks.
func (r *mergeState) keepPlugged(stored map[string]any, isOthers func(provenance.Path) bool) {
	disks := vmschema.VolumeDevices[0]
	for _, volume := range tree.AsList(vmschema.Value(stored, vmschema.Volumes)) {
		name := tree.AsText(tree.AsObject(volume)["name"])
		at := provenance.Path{{Name: name, Kind: provenance.Element}}
		if !isHotpluggable(volume) || !isOthers(slices.Concat(vmschema.Volumes, at, provenance.Of("name"))) {
			continue
		}
		r.setAt(vmschema.Volumes, append(tree.AsList(vmschema.Value(r.root, vmschema.Volumes)), tree.Clone(volume)), nil)
		disk := vmschema.Value(stored, slices.Concat(disks, at))
		if disk != nil && vmschema.Value(r.root, slices.Concat(disks, at)) == nil {
			r.setAt(disks, append(tree.AsList(vmschema.Value(r.root, disks)), tree.Clone(disk)), nil)
		}
	}
}

func isHotpluggable(volume any) bool {
	for _, source := range []string{"persistentVolumeClaim", "dataVolume"} {
		if tree.AsObject(tree.AsObject(volume)[source])["hotpluggable"] == true {
			return true
		}
	}
	return false
}
