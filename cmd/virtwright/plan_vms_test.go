package main

import (
	"fmt"
	"strings"
	"testing"
)

// planPreset is a cluster preset with defaults beneath spec.template.spec.
func planPreset(name, defaults string) string {
	return "apiVersion: virtwright.dev/v1alpha1\nkind: ClusterVirtualMachinePreset\nmetadata: {name: " + name + "}\n" +
		"spec: {defaults: {spec: {template: {spec: " + defaults + "}}}}\n"
}

// planStored is a stored VM with labels and with fields beneath spec.template.spec.domain.
func planStored(namespace, name, labels, fields string) string {
	return fmt.Sprintf("apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: %s, namespace: %s, resourceVersion: \"1\", uid: %s, labels: {%s}}\n"+
		"spec: {runStrategy: Halted, template: {spec: {domain: {memory: {guest: 1Gi}, devices: {}%s}}}}\n---\n", name, namespace, name, labels, fields)
}

// TestPlanAcrossVMs tests rules about several VMs: VMs are reapplied in order, so each one is
// compared with changed VMs before it and with unchanged VMs after it.
func TestPlanAcrossVMs(t *testing.T) {
	shared := "apiVersion: virtwright.dev/v1alpha1\nkind: ClusterVirtualMachinePreset\nmetadata: {name: disk}\n" +
		"spec: {match: {labels: {matchLabels: {disk: shared}}}, defaults: {spec: {dataVolumeTemplates: [{metadata: {name: shared}, spec: {storage: {resources: {requests: {storage: 1Gi}}}, source: {blank: {}}}}], " +
		"template: {spec: {domain: {devices: {disks: [{name: d, disk: {bus: virtio}}]}}, volumes: [{name: d, dataVolume: {name: shared}}]}}}}}\n"
	vms := ""
	for i := range 4 {
		vms += planStored("shop", fmt.Sprint("vm-", i), "disk: shared", "")
	}
	args := []string{"plan", "-f", write(t, "new.yaml", shared), "-f", write(t, "vms.yaml", vms), "--base-dir", write(t, "old.yaml", planPreset("small", "{hostname: h}"))}
	got := call(t, "", args...)
	if got.code != exitPlan {
		t.Errorf("exit code %d: %s", got.code, got.err)
	}
	says(t, got.out, "VMs: 1 of 4 VMs change, 3 would be rejected", "3 VMs: shop/vm-1, shop/vm-2, shop/vm-3\n    spec.dataVolumeTemplates[0].metadata.name: Invalid value: \"shared\": VirtualMachine vm-0 has")
	for range 3 {
		if again := call(t, "", args...); again.out != got.out {
			t.Fatalf("want the same again, got\n%s", again.out)
		}
	}
	// vm-9 has the disk, and is reapplied last.
	vms += strings.Replace(planStored("shop", "vm-9", "", ""), "spec: {", "spec: {dataVolumeTemplates: [{metadata: {name: shared}, spec: {storage: {resources: {requests: {storage: 1Gi}}}, source: {blank: {}}}}], ", 1)
	got = call(t, "", append(args, "-f", write(t, "vms.yaml", vms))...)
	if got.code != exitUsage {
		t.Errorf("the same VM in two files: exit code %d: %s", got.code, got.out)
	}
	says(t, got.err, "VirtualMachine shop/vm-0 is rejected:", `metadata.name: Duplicate value: "vm-0", also in `)
	args[4] = write(t, "vms.yaml", vms)
	says(t, call(t, "", args...).out, "4 VMs: shop/vm-0, shop/vm-1, shop/vm-2, shop/vm-3\n", "VirtualMachine vm-9 has")
}

// TestPlanSelects selects VMs of files, and ignores namespaces without presets and VMs that are
// being deleted, whose record anyone could destroy.
func TestPlanSelects(t *testing.T) {
	going := strings.Replace(planStored("shop", "going", "app: a", ""), "uid:", "deletionTimestamp: \"2026-01-02T00:00:00Z\", finalizers: [a/b], annotations: {virtwright.dev/provenance: x}, uid:", 1)
	vms := write(t, "vms.yaml", going+planStored("shop", "a", "app: a", "")+planStored("shop", "b", "app: b", "")+planStored("prod", "a", "app: a", "")+
		planStored("kube-system", "a", "app: a", "")+planStored("virtwright-system", "a", "app: a", ""))
	args := []string{"plan", "-f", write(t, "new.yaml", planPreset("p", "{hostname: new}")), "-f", vms, "--base-dir", write(t, "old.yaml", planPreset("p", "{hostname: old}"))}
	for flags, want := range map[string]string{
		"":                  "shop/a, shop/b",
		"-n shop":           "shop/a, shop/b",
		"-l app=a":          "prod/a, shop/a",
		"-n shop -l app!=a": "shop/b",
	} {
		got := call(t, "", append(args, strings.Fields(flags)...)...)
		if got.code != exitRejected || !strings.Contains(got.out, "\n    "+want+"\n") && !strings.HasSuffix(got.out, want+"\n") {
			t.Errorf("%s: exit code %d: %s%s", flags, got.code, got.out, got.err)
		}
	}
	says(t, call(t, "", args...).err, "Note: presets are not applied in namespaces kube-system and virtwright-system: ignored 2 VMs\n")
	says(t, call(t, "", append(args, "-n", "shop")...).err, "Note: -n and -l do not select 3 VMs of -f: ignored\n")
}

// TestPlanWithoutVMs compares only presets, and ignores invalid old presets.
func TestPlanWithoutVMs(t *testing.T) {
	misspelt := strings.ReplaceAll(planPreset("misspelt", "{hostname: a}"), "VirtualMachinePreset", "VirtualMachinePrest")
	old := write(t, "old.yaml", planPreset("p", "{hostname: a}")+"---\n"+planPreset("broken", "{hostnmae: a}")+"---\n"+misspelt)
	both := planPreset("p", "{hostname: a}") + "---\n" + planPreset("q", "{hostname: b}")
	got := call(t, "", "plan", "-f", write(t, "new.yaml", both), "--base-dir", old)
	if got.code != exitPlan {
		t.Errorf("exit code %d: %s", got.code, got.err)
	}
	says(t, got.out, "Presets: 1 added\nVMs: 0 of 0 VMs change\nConflicts: 1 new, 0 solved\n")
	says(t, got.err, "Note: no VM in -f ", "ClusterVirtualMachinePreset broken is invalid, and is ignored in the old presets: spec.defaults.spec.template.spec.hostnmae: ",
		"ignored 1 of kind ClusterVirtualMachinePrest (virtwright.dev/v1alpha1)")
	got = call(t, "", "plan", "-f", write(t, "same.yaml", planPreset("p", "{hostname: a}")), "--base-dir", old)
	if got.code != exitFine {
		t.Errorf("exit code %d: %s", got.code, got.err)
	}
}

// TestPlanShowsNoSecret hides cloud-init data in each output format.
func TestPlanShowsNoSecret(t *testing.T) {
	preset := func(password string) string {
		return write(t, password+".yaml", planPreset("p", "{domain: {devices: {disks: [{name: init, disk: {bus: virtio}}]}}, volumes: [{name: init, cloudInitNoCloud: {userData: "+password+"}}]}"))
	}
	vm := write(t, "vm.yaml", "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: a, namespace: shop}\n"+
		"spec: {runStrategy: Halted, template: {spec: {domain: {memory: {guest: 1Gi}, devices: {}}}}}\n")
	for _, output := range []string{"table", "diff", "markdown", "json"} {
		got := call(t, "", "plan", "-f", preset("hunter3"), "-f", vm, "--base-dir", preset("hunter2"), "-o", output)
		if got.code != exitRejected || strings.Contains(got.out, "hunter") || strings.Count(got.out, "(hidden)") < 2 {
			t.Errorf("%s: exit code %d: %s%s", output, got.code, got.out, got.err)
		}
		if output == "diff" {
			says(t, got.out, "-          userData: (hidden)\n+          userData: (hidden)\n")
		}
	}
}

// TestPlanNeutral escapes values for terminals and forges.
func TestPlanNeutral(t *testing.T) {
	vm := write(t, "vm.yaml", planStored("shop", "a", "", ""))
	preset := write(t, "new.yaml", "apiVersion: virtwright.dev/v1alpha1\nkind: ClusterVirtualMachinePreset\nmetadata: {name: p}\n"+
		`spec: {forbid: [{path: spec.template.spec.domain.memory, message: "ask @admins\e[31m at https://example.com, ~~not~~ `+"`here`"+`"}]}`)
	old := write(t, "old.yaml", planPreset("p", "{hostname: a}"))
	for output, want := range map[string]string{
		"table":    ": Forbidden: ask @admins\\u001b[31m at https://example.com, ~~not~~ `here` (preset cluster/p)\n",
		"markdown": "  - `` spec.template.spec.domain.memory: Forbidden: ask @admins\\u001b[31m at https://example.com, ~~not~~ `here` (preset cluster/p) ``\n",
		"json":     `@admins\u001b[31m`,
	} {
		got := call(t, "", "plan", "-f", preset, "-f", vm, "--base-dir", old, "-o", output)
		if says(t, got.out, want); strings.Contains(got.out, "\x1b") {
			t.Errorf("%s: %q", output, got.out)
		}
	}
}
