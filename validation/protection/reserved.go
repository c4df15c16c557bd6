package protection

import (
	"maps"
	"slices"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
)

// ReservedFields lists fields of a new object that only controllers write: reserved annotations,
// and the status of a VMI. Manifests that were copied from a cluster contain them, so they are
// removed rather than rejected.
func ReservedFields(kind presets.Kind, object map[string]any) [][]string {
	var out [][]string
	reserved := reservedKeys("metadata")
	found, _ := reserved.of(object).(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(found)) {
		out = append(out, []string{"metadata", "annotations", key})
	}
	copied := v1alpha1.AnnotationRolledOut
	if kind == presets.VirtualMachineInstance {
		copied = VMGeneration
	}
	meta, _ := object["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	if _, has := annotations[copied]; has {
		out = append(out, []string{"metadata", "annotations", copied})
	}
	if _, has := object["status"]; has && kind == presets.VirtualMachineInstance {
		out = append(out, []string{"status"})
	}
	return out
}

// ReservedFieldMarkers returns texts. An object has reserved fields only if its JSON contains one
// of them.
func ReservedFieldMarkers(kind presets.Kind) []string {
	if kind == presets.VirtualMachineInstance {
		return []string{v1alpha1.AnnotationPrefix, VMGeneration, `"status"`}
	}
	return []string{v1alpha1.AnnotationPrefix}
}
