package main

import (
	"strings"
	"testing"
)

const (
	bootRule = `apiVersion: virtwright.dev/v1alpha1
kind: ClusterVirtualMachinePreset
metadata: {name: secure-boot}
spec: {overrides: {spec: {template: {spec: {terminationGracePeriodSeconds: 7}}}}, forbid: [{path: spec.template.spec.domain.devices.rng}]}
---
`
	bootException = `apiVersion: virtwright.dev/v1alpha1
kind: PresetException
metadata: {name: old, namespace: shop}
spec: {presets: [cluster/secure-boot], vmSelector: {matchLabels: {image: old}}, reason: no loader, until: "2999-01-01T00:00:00Z"}
---
`
	bootVM = `apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: web, namespace: shop, labels: {image: old}}
spec: {runStrategy: Halted, template: {spec: {terminationGracePeriodSeconds: 30, domain: {memory: {guest: 1Gi}, devices: {rng: {}}}}}}
---
`
)

// TestExceptionsAct: exceptions of files act in every command, until they end.
func TestExceptionsAct(t *testing.T) {
	in := bootRule + bootException + bootVM
	expired := strings.Replace(in, "2999", "2001", 1)
	for _, verb := range []string{"expand", "explain", "validate"} {
		call(t, in, verb, "-f", "-").fine(t)
		got := call(t, expired, verb, "-f", "-")
		if got.code != exitRefused {
			t.Errorf("%s: exit code %d: %s%s", verb, got.code, got.out, got.err)
		}
		says(t, got.out+got.err, "spec.template.spec.domain.devices.rng")
	}
	says(t, call(t, in, "explain", "-f", "-").out, "exception old until 2999-01-01T00:00:00Z")
	says(t, call(t, expired, "validate", "-f", "-").err, "the exception has ended; a cluster that does not have it refuses to create it")
	got := call(t, strings.Replace(bootRule+bootException, "presets: [cluster/", "presets: [x, cluster/", 1), "validate", "-f", "-").fine(t)
	says(t, got.err, `spec.presets[0]: preset "x" does not exist`)
	says(t, call(t, strings.Replace(bootException, "reason: no loader, ", "", 1), "validate", "-f", "-").out, "spec.reason: Required value")
}

// TestExceptionsPlanned: plan shows what an exception changes.
func TestExceptionsPlanned(t *testing.T) {
	old, vm := write(t, "old.yaml", bootRule), write(t, "vm.yaml", strings.Replace(bootVM, "rng: {}", "", 1))
	with := write(t, "new.yaml", bootRule+bootException)
	got := call(t, "", "plan", "-f", with, "-f", vm, "--base-dir", old, "-o", "json")
	if got.code != exitRefused {
		t.Errorf("exit code %d: %s", got.code, got.err)
	}
	says(t, got.out, "terminationGracePeriodSeconds")
}
