package webhooks

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/condition"
	"github.com/virtwright/virtwright/validation"
)

// A problem that the analysis in a request does not reach is a warning there. The whole analysis
// rejects the preset.
func TestPresetBeyondAnalysis(t *testing.T) {
	var conditions []string
	for i := range 6 {
		var reads []string
		for k := range 28 {
			reads = append(reads, fmt.Sprintf("object.metadata.?labels.?a%d.orValue('') != 'x'", k))
		}
		if i == 5 {
			reads = append(reads, "object.metadata.labels.last == 'x'")
		}
		conditions = append(conditions, fmt.Sprintf("{name: c%d, expression: %q}", i, strings.Join(reads, " && ")))
	}
	object := `{metadata: {name: p}, spec: {defaults: {spec: {runStrategy: Always}}, match: {conditions: [` + strings.Join(conditions, ", ") + `]}}}`
	handler := Preset{Kind: v1alpha1.KindClusterVirtualMachinePreset, Rules: &validation.Config{}, Steps: analysisSteps}
	response := handler.Handle(t.Context(), creates(handler.Kind, "", object))
	if !response.Allowed || len(response.Warnings) != 1 || !strings.Contains(response.Warnings[0], "the condition Deprecated") {
		t.Errorf("in a request: %+v, warnings %q", response.Result, response.Warnings)
	}
	handler.Steps = condition.AllSteps
	response = handler.Handle(t.Context(), creates(handler.Kind, "", object))
	if response.Allowed || !strings.Contains(response.Result.Message, "fails for VMs without object.metadata.labels") {
		t.Errorf("with all steps: %+v", response.Result)
	}
}

// The analysis in requests is complete for each preset of our examples, with a tenth of its steps.
func TestAnalysisOfExamples(t *testing.T) {
	tested := 0
	err := filepath.WalkDir("../examples", func(path string, _ os.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".yaml" {
			return err
		}
		content, err := os.ReadFile(path)
		for document := range strings.SplitSeq(string(content), "\n---") {
			preset := &v1alpha1.ClusterVirtualMachinePreset{}
			if yaml.Unmarshal([]byte(document), preset) != nil || !strings.HasSuffix(preset.Kind, "VirtualMachinePreset") {
				continue
			}
			compiled, problems := presets.Compile(preset)
			if len(problems) > 0 {
				continue // an example of a rejected preset
			}
			tested++
			if _, complete := compiled.Expressions().Unguarded(analysisSteps / 10); !complete {
				t.Errorf("%s: the analysis of %s takes more than a tenth of %d steps", path, preset.Name, analysisSteps)
			}
		}
		return err
	})
	if err != nil || tested < 20 {
		t.Errorf("%d presets, %v", tested, err)
	}
}
