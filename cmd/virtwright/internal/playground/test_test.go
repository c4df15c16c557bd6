package playground

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const suite = `apiVersion: virtwright.dev/v1alpha1
kind: VirtwrightTest
metadata: {name: cpus}
files: [absent.yaml]
cases:
- name: sets cores
  vm: {spec: {runStrategy: Halted, template: {}}}
  expect: {vm: {spec: {template: {spec: {domain: {cpu: {cores: 7}}}}}}}
- name: sets sockets
  vm: {spec: {runStrategy: Halted, template: {}}}
  expect: {vm: {spec: {template: {spec: {domain: {cpu: {sockets: 2}}}}}}}
`

// TestEvaluateTests runs tests in either text with the presets of both.
func TestEvaluateTests(t *testing.T) {
	differ := "  spec.template.spec.domain.cpu.sockets\n    - 2\n    + 1   platform (cpu-topology)\n"
	for name, in := range map[string]Input{inVM: {VM: suite, Presets: preset}, inPresets: {VM: preset, Presets: suite}} {
		out := new(Evaluator).Evaluate(t.Context(), in)
		want := []Test{{name, 6, 3, "cpus: sets cores", true, ""}, {name, 9, 3, "cpus: sets sockets", false, differ}}
		if diff := cmp.Diff(want, out.Tests); diff != "" || len(out.Problems)+len(out.Notes) > 0 {
			t.Errorf("%s: %v, %v: -want, +got:\n%s", name, out.Problems, out.Notes, diff)
		}
	}
	out := new(Evaluator).Evaluate(t.Context(), Input{VM: suite, Presets: preset, Mode: addon})
	if len(out.Tests) != 2 || !strings.Contains(out.Tests[1].Message, "(absent)") {
		t.Errorf("alongside KubeVirt: %+v", out.Tests)
	}
	out = new(Evaluator).Evaluate(t.Context(), Input{VM: strings.Replace(suite, "cases:", "cases:\n- {name: x, vmm: {}}", 1)})
	if len(out.Tests) > 0 || !slices.ContainsFunc(out.Problems, func(p Problem) bool { return strings.Contains(p.Message, `did you mean "vm"`) }) {
		t.Errorf("an invalid test: %+v, %v", out.Tests, out.Problems)
	}
	out = new(Evaluator).Evaluate(t.Context(), Input{VM: suite, Presets: strings.Replace(preset, "cores: 7", "cores: x", 1)})
	if len(out.Tests) != 2 || !strings.Contains(out.Tests[0].Message, "VirtualMachinePreset default/cores is rejected") {
		t.Errorf("an invalid preset: %+v", out.Tests)
	}
}
