package validation_test

import (
	"os"
	"strings"
	"testing"

	"github.com/virtwright/virtwright/test/validationtest"
)

// TestWhatKubeVirtAdmits: alongside KubeVirt no rule rejects what KubeVirt admits. The file names
// fixtures that a rule rejects or warns of, and that the admitters of KubeVirt v1.9.0 accept after
// its defaults.
func TestWhatKubeVirtAdmits(t *testing.T) {
	content, err := os.ReadFile("testdata/admitted-by-kubevirt.txt")
	if err != nil {
		t.Fatal(err)
	}
	admitted := map[string]bool{}
	for line := range strings.Lines(string(content)) {
		admitted[strings.TrimSpace(line)] = true
	}
	for _, fixtures := range validationtest.Fixtures(t) {
		for i := range fixtures {
			f := &fixtures[i]
			name := f.Rule + "/" + f.Name
			if !admitted[name] {
				continue
			}
			delete(admitted, name)
			f.Config.Addon, f.Config.Architecture = true, ""
			if problems := f.Config.Validate(f.ExpandedVM(t)).Errors; len(problems) > 0 {
				t.Errorf("%s: KubeVirt admits it: %v", name, problems)
			}
		}
	}
	for name := range admitted {
		t.Errorf("%s is no fixture", name)
	}
}
