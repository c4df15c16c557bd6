package main

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/fleet"
)

func TestReapplyUsage(t *testing.T) {
	for args, want := range map[string]string{
		"":                             "select VMs by name, or by one of -l, --preset, --only, --all, -A",
		"vm":                           "cannot reapply presets to a vm: name VMs, for example web or vm/web",
		"vmi/web":                      "cannot reapply presets to a vmi: name VMs, for example web or vm/web",
		"pod/web":                      "pod: unsupported type",
		"vm web vm/db":                 "vm/db: use TYPE/NAME for each object, or one TYPE followed by names",
		"vm/web --all":                 "names cannot be combined with -l, --preset, --only, --all, -A",
		"-l =":                         "invalid selector",
		"--all --dry-run=all":          `--dry-run: Unsupported value: "all": supported values: "none", "client", "server"`,
		"--all --kubeconfig /no/where": "cannot read the kubeconfig: stat /no/where",
	} {
		got := call(t, "", append([]string{"reapply"}, strings.Fields(args)...)...)
		if got.code != exitUsage || got.out != "" {
			t.Errorf("%s: exit code %d: %s", args, got.code, got.out)
		}
		says(t, got.err, want)
	}
}

// TestReapplyChanges attributes changes to the presets of both records.
func TestReapplyChanges(t *testing.T) {
	preset := func(name, values string) string {
		return "apiVersion: virtwright.dev/v1alpha1\nkind: ClusterVirtualMachinePreset\nmetadata: {name: " + name + "}\n" +
			"spec: {defaults: {spec: {template: {spec: {" + values + "}}}}}\n---\n"
	}
	vm := "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: web, namespace: shop}\n" +
		"spec: {runStrategy: Halted, template: {spec: {domain: {memory: {guest: 1Gi}}}}}\n"
	stored := call(t, preset("size", "domain: {cpu: {cores: 1}}")+preset("gone", "subdomain: lab")+vm, "expand", "-f", "-").fine(t).out
	stored = strings.Replace(stored, "  name: web\n", "  name: web\n  resourceVersion: \"1\"\n  uid: u\n", 1)
	now := preset("size", "domain: {cpu: {cores: 2, sockets: 2, threads: 2}, firmware: {serial: x}}") + preset("rng", "domain: {devices: {rng: {}}}")
	damaged := strings.Replace(stored, "virtwright.dev/provenance: '{", "virtwright.dev/provenance: '", 1)
	for name, test := range map[string]struct{ before, after, want, others string }{
		"equal": {stored, stored, "", ""},
		"changed, added and removed": {
			stored, call(t, now+stored, "expand", "-f", "-", "--reapply").fine(t).out,
			"cluster/gone (spec.template.spec.subdomain), cluster/rng (spec.template.spec.domain.devices.rng), cluster/size (spec.template.spec.domain.cpu.cores, " +
				"spec.template.spec.domain.cpu.sockets, spec.template.spec.domain.cpu.threads and 1 more)",
			"Warning: also brings changes of cluster/gone to 1 VM; --only cluster/size leaves them out\nWarning: also brings changes of cluster/rng to 1 VM; --only cluster/size leaves them out\n",
		},
		"the record cannot be read": {damaged, strings.Replace(stored, "cores: 1", "cores: 2", 1), "cluster/size (spec.template.spec.domain.cpu.cores)", ""},
	} {
		changes, err := fleet.ReappliedChanges(object(t, test.before), object(t, test.after), fleet.NoUpdates)
		if err != nil {
			t.Fatal(err)
		}
		if got := changesByPreset(changes); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
		var out strings.Builder
		r, count := reapplyCommand{preset: "cluster/size", dryRun: dryRunServer}, reapplyCount{others: map[string]int{}}
		count.add(r.preset, changes)
		if r.warnOfOthers(&out, count.others); out.String() != test.others {
			t.Errorf("%s: %s, want %s", name, out.String(), test.others)
		}
	}
}

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	out := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &out.Object); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestRestartRequired(t *testing.T) {
	vm := &unstructured.Unstructured{Object: map[string]any{}}
	if restartRequired(vm) {
		t.Error("a VM without conditions requires a restart")
	}
	vm.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "RestartRequired", "status": "True"}}}
	if !restartRequired(vm) {
		t.Error("the condition is not seen")
	}
}

// TestReapplyWarnings prints equal warnings once.
func TestReapplyWarnings(t *testing.T) {
	var w vmWarnings
	for _, vm := range []string{"vm/c", "vm/a", "vm/b"} {
		ctx := context.WithValue(t.Context(), vmKey{}, vm)
		w.HandleWarningHeaderWithContext(ctx, 299, "", "old machine type\n")
		w.HandleWarningHeaderWithContext(ctx, 199, "", "not a warning")
	}
	w.HandleWarningHeaderWithContext(context.WithValue(t.Context(), vmKey{}, "vm/b"), 299, "", "no device")
	var out strings.Builder
	if w.print(&out); out.String() != "Warning: vm/a and 2 more: old machine type\nWarning: vm/b: no device\n" {
		t.Errorf("got %s", out.String())
	}
}
