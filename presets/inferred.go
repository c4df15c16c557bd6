package presets

import (
	"fmt"

	"github.com/virtwright/virtwright/presets/provenance"
)

// matcherFields are the fields of a VM's spec that choose an instancetype or a preference.
var matcherFields = []string{"instancetype", "preference"}

// dropInferred removes an instancetype and a preference that are to be inferred
// from a volume and may be ignored, where neither is served: inferring fails
// there. virtctl writes both into most VMs. It returns a warning for each.
func (e *Engine) dropInferred(w *resolution) []string {
	if e.servesInstancetypes() || w.instance != nil {
		return nil
	}
	spec, _ := w.root["spec"].(map[string]any)
	var warnings []string
	for _, name := range matcherFields {
		matcher, _ := spec[name].(map[string]any)
		volume, _ := matcher["inferFromVolume"].(string)
		if !isIgnorable(matcher) {
			continue
		}
		delete(spec, name)
		w.rec.Child(w.rec.Child(w.rec.Root(), provenance.Segment{Name: "spec"}), provenance.Segment{Name: name}).Change = provenance.Removed
		warnings = append(warnings, fmt.Sprintf("spec.%s was dropped: it cannot be inferred from volume %s in standalone mode, and its inferFromVolumeFailurePolicy is Ignore", name, show(volume)))
	}
	return warnings
}

// isIgnorable reports whether a matcher names nothing and may come to nothing.
func isIgnorable(matcher map[string]any) bool {
	return matcher["inferFromVolume"] != nil && matcher["inferFromVolumeFailurePolicy"] == "Ignore" && matcher["name"] == nil
}

func (e *Engine) servesInstancetypes() bool { return e.Platform == nil || e.Platform.Instancetypes }
