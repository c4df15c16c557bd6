package protection

import (
	"maps"
	"slices"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
)

// Forged lists the fields of a new object that its author cannot mean: they
// come with what was copied from a cluster, and controllers write them. They
// are taken out rather than refused: reserved annotations, and the status of
// an instance.
func Forged(kind presets.Kind, object map[string]any) [][]string {
	var out [][]string
	reserved := reservedKeys("metadata")
	found, _ := reserved.of(object).(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(found)) {
		out = append(out, []string{"metadata", "annotations", key})
	}
	if kind == presets.VirtualMachineInstance {
		meta, _ := object["metadata"].(map[string]any)
		annotations, _ := meta["annotations"].(map[string]any)
		if _, has := annotations[VMGeneration]; has {
			out = append(out, []string{"metadata", "annotations", VMGeneration})
		}
	}
	if _, has := object["status"]; has && kind == presets.VirtualMachineInstance {
		out = append(out, []string{"status"})
	}
	return out
}

// Marks are what every object has in its JSON from which Forged would take
// something; the others need no look.
func Marks(kind presets.Kind) []string {
	if kind == presets.VirtualMachineInstance {
		return []string{v1alpha1.AnnotationPrefix, VMGeneration, `"status"`}
	}
	return []string{v1alpha1.AnnotationPrefix}
}
