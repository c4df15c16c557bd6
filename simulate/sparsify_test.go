package simulate_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtwright/virtwright/simulate"
)

// TestSparsifyRejects: what the cluster rejects is not made sparse, also if a preset replaces it.
func TestSparsifyRejects(t *testing.T) {
	const preset = `
apiVersion: virtwright.dev/v1alpha1
kind: ClusterVirtualMachinePreset
metadata: {name: fixed}
spec:
  overrides: {spec: {template: {spec: {domain: {cpu: {cores: 2}, memory: {guest: 1Gi}}}}}}
  remove: ["spec.template.spec.domain.devices.rng"]
`
	for devices, want := range map[string]string{
		"rng: {bogus: 1}": "bogus", "rng: 7": "must be an object", "inputs: [{name: a, type: mouse, bus: usb}]": "inputs[0].type", "rng: {}": "",
	} {
		cluster, err := simulate.NewCluster(t.Context(), objects(t, preset, vm("web", "", devices)), standalone())
		if err != nil {
			t.Fatal(err)
		}
		out, err := cluster.Sparsify(t.Context(), cluster.VMs[0])
		if want == "" && err != nil || want != "" && !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: got %v, error %v, want %q", devices, out, err, want)
		}
	}
}

// TestSparsifyLargeRecord leaves out only as much as a record can hold.
func TestSparsifyLargeRecord(t *testing.T) {
	var annotations, presets []string
	for i := range 4 {
		var of []string
		for k := range 80 {
			of = append(of, fmt.Sprintf("%sexample.com/%d-%d: x", strings.Repeat("long.", 40), i, k))
		}
		annotations = append(annotations, of...)
		presets = append(presets, fmt.Sprintf("\napiVersion: virtwright.dev/v1alpha1\nkind: ClusterVirtualMachinePreset\nmetadata: {name: p%d}\nspec: {defaults: {metadata: {annotations: {%s}}}}\n", i, strings.Join(of, ", ")))
	}
	full := strings.Replace(vm("web", "", ""), "labels: {}", "annotations: {"+strings.Join(annotations, ", ")+"}", 1)
	cluster, err := simulate.NewCluster(t.Context(), objects(t, append(presets, size, strings.Replace(full, "domain: {", "domain: {memory: {guest: 1Gi}, ", 1))...), standalone())
	if err != nil {
		t.Fatal(err)
	}
	out, err := cluster.Sparsify(t.Context(), cluster.VMs[0])
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Given) == 0 || len(out.Kept) == 0 {
		t.Errorf("%d fields are given, %d stay", len(out.Given), len(out.Kept))
	}
}
