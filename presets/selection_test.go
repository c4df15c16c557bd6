package presets

import (
	"strings"
	"testing"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// An annotation is as long as a request may be when a webhook sees it.
func TestSteeringIsBounded(t *testing.T) {
	for _, key := range []string{v1alpha1.AnnotationPresets, v1alpha1.AnnotationExclude} {
		fits := strings.Repeat("p,", maxSelected)
		if s := parseSelection(map[string]any{key: fits}); len(s.problems) != 0 || len(s.named)+len(s.excluded) != maxSelected {
			t.Errorf("%s: %d items: %v", key, maxSelected, s.problems)
		}
		s := parseSelection(map[string]any{key: fits + "p"})
		if len(s.problems) != 1 || s.problems[0].Error() != "metadata.annotations["+key+"]: Too many: 257: must have at most 256 items" || len(s.named)+len(s.excluded) != 0 {
			t.Errorf("%s: %d items: %v", key, maxSelected+1, s.problems)
		}
	}
}
