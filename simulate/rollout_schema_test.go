package simulate_test

import (
	"strings"
	"testing"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/simulate"
	"github.com/virtwright/virtwright/simulate/manifest"
	"github.com/virtwright/virtwright/validation"
)

// Rollouts that API servers reject by their schema are rejected, and parts without effect warned
// about.
func TestRollouts(t *testing.T) {
	const preset = "apiVersion: virtwright.dev/v1alpha1\nkind: ClusterVirtualMachinePreset\nmetadata: {name: s}\nspec: {defaults: {spec: {template: {spec: {hostname: a}}}}}\n---\n"
	for spec, want := range map[string]string{
		"{presets: [cluster/s], waves: [{name: a, vms: {matchLabels: {a: b}}, steps: [1%, 50%, 100%], bake: 1h, approval: Required}, {name: b}]}": "",
		"{presets: [cluster/s], waves: [{name: a}], restart: Rolling}":                                                                            "warning: spec.budgets: without any",
		"{presets: [s], waves: [{name: a}]}":                                     `spec.presets[0]: Invalid value: "s": must be cluster/ and the name`,
		"{presets: [], waves: [{name: a}]}":                                      "spec.presets: Required value",
		"{presets: [cluster/s, cluster/s], waves: [{name: a}]}":                  `spec.presets[1]: Duplicate value: "cluster/s"`,
		"{presets: [cluster/s], waves: []}":                                      "spec.waves: Required value",
		"{presets: [cluster/s], waves: [{name: a}, {name: a}]}":                  `spec.waves[1].name: Duplicate value: "a"`,
		"{presets: [cluster/s], waves: [{name: A}]}":                             `spec.waves[0].name: Invalid value: "A"`,
		"{presets: [cluster/s], waves: [{name: a, vms: {}}]}":                    "the last wave takes all other VMs",
		"{presets: [cluster/s], waves: [{name: a, steps: [200%]}]}":              `spec.waves[0].steps[0]: Invalid value: "200%": must be a percentage`,
		"{presets: [cluster/s], waves: [{name: a, steps: [50%, 20%, 100%]}]}":    `spec.waves[0].steps[1]: Invalid value: "20%": each step must be larger`,
		"{presets: [cluster/s], waves: [{name: a, steps: [50%]}]}":               "the last step must be 100%",
		"{presets: [cluster/s], waves: [{name: a, approval: Requird}]}":          `spec.waves[0].approval: Unsupported value: "Requird"`,
		"{presets: [cluster/s], waves: [{name: a, bake: -1h}]}":                  `spec.waves[0].bake: Invalid value: "-1h0m0s"`,
		"{presets: [cluster/s], waves: [{name: a}], restart: Rollling}":          `spec.restart: Unsupported value: "Rollling"`,
		"{presets: [cluster/s], waves: [{name: a}], failure: {maxFailed: 200%}}": `spec.failure.maxFailed: Invalid value: "200%": must be a number`,
		"{presets: [cluster/s], waves: [{name: a}], health: {vmDeadline: 0s}}":   "spec.health.vmDeadline: Invalid value",
		"{presets: [cluster/s], waves: [{name: a}], restart: Rolling, failure: {maxFailed: 3}, budgets: [{maxUnavailable: 10%, per: Namespace, schedule: '0 1 * * *', duration: 2h, timeZone: UTC}, {maxUnavailable: 0}]}": "",
		"{presets: [cluster/s], waves: [{name: a}], restart: Rolling, budgets: [{maxUnavailable: -1, per: Galaxy}]}":                                                                                                       "spec.budgets[0].per: Unsupported value",
		"{presets: [cluster/s], waves: [{name: a}], restart: Rolling, budgets: [{maxUnavailable: 1, timeZone: UTC}]}":                                                                                                      "timeZone needs schedule",
		"{presets: [cluster/none], waves: [{name: a}]}": `warning: spec.presets[0]: preset "cluster/none" does not exist`,
	} {
		objects, err := manifest.Parse("f.yaml", []byte(preset+"apiVersion: virtwright.dev/v1alpha1\nkind: PresetRollout\nmetadata: {name: r}\nspec: "+spec))
		if err != nil {
			t.Fatal(err)
		}
		report, err := simulate.Review(t.Context(), objects, simulate.Settings{Engine: &presets.Engine{}, Rules: &validation.Config{}})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, v := range report.Verdicts {
			for _, p := range v.Problems {
				got = append(got, p.Field+": "+p.Message)
			}
			for _, w := range v.Warnings {
				got = append(got, "warning: "+w)
			}
		}
		if text := strings.Join(got, "\n"); !strings.Contains(text, want) || (want == "") != (text == "") {
			t.Errorf("%s: got %q, want %q", spec, text, want)
		}
	}
}
