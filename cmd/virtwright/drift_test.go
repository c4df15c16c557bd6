package main

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/virtwright/virtwright/fleet"
)

// driftFleet has three stored VMs. A reapply would change the first, which runs, and reject the
// second; a preset in mode Audit forbids a field of the third.
func driftFleet(t *testing.T) string {
	t.Helper()
	const old = `apiVersion: virtwright.dev/v1alpha1
kind: ClusterVirtualMachinePreset
metadata: {name: size}
spec: {match: {labels: {matchLabels: {size: s}}}, defaults: {spec: {template: {spec: {domain: {cpu: {cores: 2}}}}}}}
---
`
	var out strings.Builder
	out.WriteString(strings.Replace(old, "cores: 2", "cores: 4", 1) + `apiVersion: virtwright.dev/v1alpha1
kind: ClusterVirtualMachinePreset
metadata: {name: no-rng}
spec: {forbid: [{path: spec.template.spec.domain.devices.rng, message: no random numbers}]}
---
apiVersion: virtwright.dev/v1alpha1
kind: VirtualMachinePreset
metadata: {name: no-host, namespace: shop}
spec: {mode: Audit, forbid: [{path: spec.template.spec.hostname}]}
---
`)
	for _, vm := range []struct{ name, meta, spec string }{
		{"a", "labels: {size: s}", "domain: {memory: {guest: 1Gi}}"},
		{"b", "labels: {}", "domain: {memory: {guest: 1Gi}, devices: {rng: {}}}"},
		{"c", "labels: {}", "hostname: c, domain: {memory: {guest: 1Gi}}"},
	} {
		in := "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: " + vm.name + ", namespace: shop, " + vm.meta + "}\n" +
			"spec: {runStrategy: Halted, template: {spec: {" + vm.spec + "}}}\n"
		stored := call(t, old+in, "expand", "-f", "-").fine(t).out
		out.WriteString(strings.Replace(stored, "  name: "+vm.name+"\n", "  name: "+vm.name+"\n  resourceVersion: \"1\"\n  uid: u-"+vm.name+"\n", 1) + "status: {created: " + strconv.FormatBool(vm.name == "a") + "}\n---\n")
	}
	return out.String()
}

func TestDrift(t *testing.T) {
	in := driftFleet(t)
	got := call(t, in, "drift", "-f", "-")
	if got.code != exitRejected {
		t.Errorf("exit code %d: %s%s", got.code, got.out, got.err)
	}
	says(t, single(got.out), "NAMESPACE NAME EFFECT WHY shop a change, restart cluster/size (spec.template.spec.domain.cpu.cores)",
		"shop b reject spec.template.spec.domain.devices.rng: Forbidden: no random numbers (preset cluster/no-rng)", "2 of 3 VMs drifted: a reapply would change 1 and reject 1; 1 would need a restart")

	got = call(t, in, "drift", "-f", "-", "-o", "json")
	var report driftReport
	if err := json.Unmarshal([]byte(got.out), &report); err != nil {
		t.Fatal(err)
	}
	want := driftReport{Checked: 3, Changed: 1, Rejected: 1, Restart: 1, VMs: []driftedVM{
		{Namespace: "shop", Name: "a", Effect: "change", Needs: "restart", Presets: []string{"cluster/size"}, Changes: []fleet.Change{{Path: "spec.template.spec.domain.cpu.cores", Before: 2.0, After: 4.0, Preset: "cluster/size", Effect: "restart"}}},
		{Namespace: "shop", Name: "b", Effect: "reject", Presets: []string{"cluster/no-rng"}, Problems: []string{"spec.template.spec.domain.devices.rng: Forbidden: no random numbers (preset cluster/no-rng)"}},
	}}
	if diff := cmp.Diff(want, report, cmp.AllowUnexported(driftedVM{}), cmpopts.IgnoreUnexported(fleet.Change{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	says(t, call(t, in, "drift", "-f", "-", "-o", "yaml").out, "checked: 3\n", "  effect: change\n")

	const vm = "apiVersion: kubevirt.io"
	rules, _, _ := strings.Cut(in, vm)
	last := rules + in[strings.LastIndex(in, vm):]
	says(t, call(t, last, "drift", "-f", "-").fine(t).out, "0 of 1 VM drifted: a reapply would change 0 and reject 0\n")
}

func TestViolations(t *testing.T) {
	in := driftFleet(t)
	got := call(t, in, "violations", "-f", "-")
	if got.code != exitRejected {
		t.Errorf("exit code %d: %s%s", got.code, got.out, got.err)
	}
	says(t, single(got.out), "PRESET MODE NAMESPACE VM PATH MESSAGE cluster/no-rng Enforce shop b spec.template.spec.domain.devices.rng no random numbers "+
		"no-host Audit shop c spec.template.spec.hostname must not be set 2 of 3 VMs with 2 violations")
	says(t, call(t, in, "violations", "-f", "-", "--preset", "no-host", "-o", "json").out, `"vms": 1`, `"checked": 3`, `"mode": "Audit"`)
	says(t, call(t, in, "violations", "-f", "-", "--preset", "cluster/size").fine(t).out, "0 of 3 VMs with 0 violations\n")
	says(t, call(t, in, "violations", "-f", "-", "--preset", "cluster/no-rgn").err, `--preset cluster/no-rgn: there is no such preset; did you mean "cluster/no-rng"?`)
}

// TestValidateStoredNote checks that validate says what it does not cover.
func TestValidateStoredNote(t *testing.T) {
	const covers = "Note: stored VMs (3) are validated as they are, without presets and their forbid rules: see the commands violations and drift, or use --reapply\n"
	in := driftFleet(t)
	says(t, call(t, in, "validate", "-f", "-").fine(t).err, covers)
	if got := call(t, in, "validate", "-f", "-", "--reapply"); got.code != exitRejected || strings.Contains(got.err, "validated as they are") {
		t.Errorf("exit code %d: %s", got.code, got.err)
	}
}
