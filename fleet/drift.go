package fleet

import (
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
)

// A Drift is what a reapply of all presets would do to a stored VM.
type Drift struct {
	Changes []Change
	// Problems with which the reapply would be rejected.
	Problems []presets.Problem
}

// Presets returns the Refs of the presets that change the VM or cause its rejection.
func (d Drift) Presets() []string {
	var out []string
	for _, c := range d.Changes {
		out = append(out, c.Preset, c.was)
	}
	for _, p := range d.Problems {
		out = append(out, p.Presets()...)
	}
	slices.Sort(out)
	return slices.DeleteFunc(slices.Compact(out), func(ref string) bool { return ref == "" })
}

// ReappliedChanges returns the fields that differ between a stored and a reapplied VM, with their
// presets according to the records of both. A record that cannot be read names no presets.
func ReappliedChanges(before, after *unstructured.Unstructured, updates Updates) ([]Change, error) {
	var fields [2][]presets.Origin
	for i, vm := range []*unstructured.Unstructured{before, after} {
		record := vm.GetAnnotations()[v1alpha1.AnnotationProvenance]
		if _, err := provenance.Decode(record); err != nil {
			record = ""
		}
		raw, err := json.Marshal(writtenWith(vm, record))
		if err != nil {
			return nil, err
		}
		x, err := presets.ExplainStored(presets.Request{Kind: presets.VirtualMachine, Object: raw})
		if err != nil {
			return nil, err
		}
		fields[i] = x.Fields
	}
	return Changes(fields[0], fields[1], updates), nil
}

// Written returns what users and presets write of a VM: its spec, labels and annotations, without
// the record and the request for a reapply.
func Written(vm *unstructured.Unstructured) map[string]any { return writtenWith(vm, "") }

// writtenWith returns Written with a record, unless it is empty.
func writtenWith(vm *unstructured.Unstructured, record string) map[string]any {
	annotations := vm.GetAnnotations()
	delete(annotations, v1alpha1.AnnotationProvenance)
	delete(annotations, v1alpha1.AnnotationReapply)
	if record != "" {
		annotations[v1alpha1.AnnotationProvenance] = record
	}
	meta := map[string]any{}
	for key, values := range map[string]map[string]string{"annotations": annotations, "labels": vm.GetLabels()} {
		if len(values) > 0 {
			meta[key] = values
		}
	}
	out := map[string]any{"spec": vm.Object["spec"]}
	if len(meta) > 0 {
		out["metadata"] = meta
	}
	return out
}
