package presets_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/test/presettest"
)

// TestVerifyLegacy: KubeVirt's VirtualMachineInstancePresets do not add to a VMI what a preset
// forbids on its VM. What the VM, its instancetype or a launch preset has set stays.
func TestVerifyLegacy(t *testing.T) {
	engine := &presets.Engine{}
	namespace := presets.Namespace{Name: "default"}
	snapshot := presettest.Snapshot(t,
		presettest.Cluster("shared", `forbid: [{path: spec.template.spec.domain.cpu.dedicatedCpuPlacement, message: share CPUs}]`),
		presettest.Cluster("pinned", "match: {explicit: true}\napplyAt: Launch\noverrides: {spec: {template: {spec: {domain: {cpu: {dedicatedCpuPlacement: true}}}}}}"))
	expand := func(kind presets.Kind, object string, owner []byte) string {
		t.Helper()
		result, err := engine.Resolve(t.Context(), snapshot, presets.Request{Kind: kind, Namespace: namespace, Owner: owner, Object: presettest.JSON(object)})
		if err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(result.Object())
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	find := known(map[string]string{"VirtualMachineClusterInstancetype large": "{cpu: {guest: 2, dedicatedCPUPlacement: true}, memory: {guest: 2Gi}}"})
	const dedicated, cores = `"dedicatedCpuPlacement":true,`, `"cores":2`
	vm := expand(presets.VirtualMachine, `{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: a}, spec: {template: {spec: {domain: {cpu: {cores: 2}}}}}}`, nil)
	for name, c := range map[string]struct {
		vm       string
		adds     string
		launches bool
		rejected bool
	}{
		"nothing is added":        {vm: vm},
		"a legacy preset adds it": {vm: vm, adds: dedicated, rejected: true},
		"the VM has it":           {vm: strings.Replace(vm, cores, dedicated+cores, 1), adds: dedicated},
		"the instancetype has it": {vm: strings.Replace(vm, `"spec":{`, `"spec":{"instancetype":{"name":"large"},`, 1), adds: dedicated},
		"a launch preset sets it": {vm: strings.Replace(vm, `"template":{`, `"template":{"metadata":{"annotations":{"virtwright.dev/presets":"cluster/pinned"}},`, 1), launches: true},
	} {
		vmi := expand(presets.VirtualMachineInstance, `{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachineInstance","metadata":{"name":"a","ownerReferences":[{"kind":"VirtualMachine","name":"a","controller":true}]},"spec":{"domain":{"cpu":{`+cores+`},"devices":{}}}}`, []byte(c.vm))
		final := strings.Replace(vmi, cores, c.adds+cores, 1)
		if c.launches && !strings.Contains(final, dedicated[:len(dedicated)-1]) {
			t.Errorf("%s: it does not: %s", name, final)
		}
		err := engine.VerifyLegacy(snapshot, presets.Request{Kind: presets.VirtualMachineInstance, Namespace: namespace, Object: []byte(final), Owner: []byte(c.vm), Instancetypes: find})
		if (err != nil) != c.rejected || err != nil && !strings.Contains(err.Error(), "share CPUs (preset cluster/shared)") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
