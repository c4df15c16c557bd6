package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const clusterPresetHead = "apiVersion: virtwright.dev/v1alpha1\nkind: ClusterVirtualMachinePreset\n"

// planRootDisk is a preset whose disk has a name that is computed from the name of the VM.
func planRootDisk(class string) string {
	const name = `{$cel: "object.metadata.name + '-root'"}`
	return clusterPresetHead + "metadata: {name: disk}\nspec: {defaults: {spec: {" +
		"dataVolumeTemplates: [{metadata: {name: " + name + "}, spec: {source: {blank: {}}, storage: {storageClassName: " + class + ", resources: {requests: {storage: 1Gi}}}}}], " +
		"template: {spec: {domain: {devices: {disks: [{name: root, disk: {bus: virtio}}]}}, volumes: [{name: root, dataVolume: {name: " + name + "}}]}}}}}\n"
}

// planFileVMs are new VMs.
func planFileVMs(n int, fields string) string {
	var out strings.Builder
	for i := range n {
		fmt.Fprintf(&out, "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: vm-%d, namespace: shop}\nspec: {runStrategy: Halted, template: {spec: {%sdomain: {memory: {guest: 1Gi}, devices: {}}}}}\n---\n", i, fields)
	}
	return out.String()
}

// TestPlanEffects tests what a running VM needs for each kind of field.
func TestPlanEffects(t *testing.T) {
	launch := func(site string) string {
		return clusterPresetHead + "metadata: {name: place}\nspec: {applyAt: Launch, defaults: {spec: {template: {spec: {nodeSelector: {site: " + site + "}}}}}}\n"
	}
	running := strings.Replace(planStored("shop", "vm-0", "", ""), "\n---", "\nstatus: {created: true}\n---", 1)
	strategy := func(value string) string {
		return clusterPresetHead + "metadata: {name: run}\nspec: {overrides: {spec: {runStrategy: " + value + "}}}\n"
	}
	for name, test := range map[string]struct {
		old, now, vms string
		want          []string
	}{
		"a preset at launch":     {launch("zurich"), launch("basel"), running, []string{"1 running would need a restart", "nodeSelector.site  zurich → basel  restart  cluster/place"}},
		"a preset at definition": {planPreset("place", "{nodeSelector: {site: zurich}}"), planPreset("place", "{nodeSelector: {site: basel}}"), running, []string{"1 running would need a live migration", "zurich → basel  live migration  cluster/place"}},
		"from definition to launch": {planPreset("place", "{nodeSelector: {site: zurich}}"), launch("basel"), running,
			[]string{"1 running would need a restart", "nodeSelector.site  zurich → basel  restart  cluster/place"}},
		"an existing disk": {planRootDisk("a"), planRootDisk("b"), running, []string{"dataVolumeTemplates[*-root].spec.storage.storageClassName  a → b  new VMs only  cluster/disk"}},
		"a new disk":       {planPreset("x", "{hostname: h}"), planRootDisk("b"), running, []string{"storageClassName            (none) → b       restart  cluster/disk"}},
		"run state": {strategy("Manual"), strategy("Always"), planFileVMs(1, ""),
			[]string{"spec.runStrategy  Manual → Always  new VMs only  cluster/run", "Presets do not start or stop stored VMs"}},
	} {
		got := call(t, "", "plan", "-f", write(t, "new.yaml", test.now), "-f", write(t, "vms.yaml", test.vms), "--base-dir", write(t, "old.yaml", test.old), "--mode", "addon")
		if got.code != exitRejected {
			t.Errorf("%s: exit code %d: %s", name, got.code, got.err)
		}
		says(t, got.out, test.want...)
	}
}

// TestPlanGroups prints one group for 300 VMs whose values differ only by their names.
func TestPlanGroups(t *testing.T) {
	renamed := strings.ReplaceAll(planRootDisk("a"), "-root'", "-data'")
	secret := func(text string) string {
		return planPreset("init", `{domain: {devices: {disks: [{name: init, disk: {bus: virtio}}]}}, volumes: [{name: init, cloudInitNoCloud: {userData: {$cel: "'`+text+`' + object.metadata.name"}}}]}`)
	}
	vms := write(t, "vms.yaml", planFileVMs(300, ""))
	for name, test := range map[string]struct {
		old, now, want string
	}{
		"a storage class": {planRootDisk("a"), planRootDisk("b"), "  300 VMs\n    spec.dataVolumeTemplates[*-root].spec.storage.storageClassName  a → b  new VMs only  cluster/disk\n"},
		"a renamed disk":  {planRootDisk("a"), renamed, "spec.template.spec.volumes[root].dataVolume.name                          *-root → *-data  restart       cluster/disk\n"},
		"cloud-init":      {secret("a"), secret("b"), "  300 VMs\n    spec.template.spec.volumes[init].cloudInitNoCloud.userData  (hidden) → (hidden)  restart  cluster/init\n"},
	} {
		got := call(t, "", "plan", "-f", write(t, "new.yaml", test.now), "-f", vms, "--base-dir", write(t, "old.yaml", test.old))
		_, changes, _ := strings.Cut(got.out, "\nCHANGES\n")
		says(t, changes, test.want, "shop/vm-0, shop/vm-1, shop/vm-10, shop/vm-100, shop/vm-101 and 295 more\n")
		if n := strings.Count(changes, " VMs\n"); n != 1 {
			t.Errorf("%s: %d groups", name, n)
		}
	}
}

// TestPlanComment cuts a comment that is too long for a forge, and says so.
func TestPlanComment(t *testing.T) {
	var old, now, vms strings.Builder
	for i := range 400 {
		name := fmt.Sprint("a-preset-with-a-long-name-so-that-the-comment-gets-long-", i)
		match := fmt.Sprintf("match: {labels: {matchLabels: {n: n%d}}}", i)
		fmt.Fprintf(&old, "%smetadata: {name: %s}\nspec: {%s, forbid: [{path: spec.running}], defaults: {spec: {template: {spec: {hostname: a}}}}}\n---\n", clusterPresetHead, name, match)
		fmt.Fprintf(&now, "%smetadata: {name: %s}\nspec: {%s, defaults: {spec: {template: {spec: {hostname: b%d}}}}}\n---\n", clusterPresetHead, name, match, i)
		vms.WriteString(planStored("shop", fmt.Sprint("vm-", i), fmt.Sprint("n: n", i), ""))
	}
	args := []string{"plan", "-f", write(t, "new.yaml", now.String()), "-f", write(t, "vms.yaml", vms.String()), "--base-dir", write(t, "old.yaml", old.String()), "-o", "markdown"}
	got := call(t, "", args...)
	says(t, got.out, "- Presets: 400 changed; 400 loosen\n", "- VMs: 400 of 400 VMs change\n", "- changed: `cluster/a-preset-with-a-long-name-so-that-the-comment-gets-long-0` **loosens**\n")
	lines := strings.Split(strings.TrimSpace(got.out), "\n")
	if last := lines[len(lines)-1]; len(got.out) >= 60_000 || !strings.HasPrefix(last, "This comment is too long for a forge and was cut. It leaves out ") {
		t.Errorf("%d characters, ending in %q", len(got.out), last)
	}
	says(t, lines[len(lines)-1], " change groups, ", " preset fields; `-o table` and `-o json` show them.")
}

// TestPlanLoosens shows a preset that no longer enforces, and can fail for it.
func TestPlanLoosens(t *testing.T) {
	hardening := func(mode string) string {
		return clusterPresetHead + "metadata: {name: hardening}\nspec: {mode: " + mode + ", forbid: [{path: spec.template.spec.domain.devices.hostDevices}]}\n"
	}
	args := []string{"plan", "-f", write(t, "new.yaml", hardening("Audit")), "-f", write(t, "vms.yaml", planFileVMs(2, "")), "--base-dir", write(t, "old.yaml", hardening("Enforce"))}
	for output, want := range map[string]string{
		"table":    "Presets: 1 changed; 1 loosens\nVMs: 0 of 2 VMs change\n  changed  cluster/hardening  loosens\n    spec.mode  Enforce → Audit  loosens\n",
		"markdown": "  - changed: `cluster/hardening` **loosens**\n\n| preset | field | old | new | effect |\n|---|---|---|---|---|\n| `cluster/hardening` | `spec.mode` | `Enforce` | `Audit` | loosens |\n",
		"json":     "\"name\": \"cluster/hardening\",\n      \"action\": \"changed\",\n      \"loosens\": true,\n      \"fields\": [\n        {\n          \"field\": \"spec.mode\",\n          \"before\": \"Enforce\",\n          \"after\": \"Audit\",\n          \"loosens\": true\n",
	} {
		got := call(t, "", append(args, "-o", output)...)
		if says(t, got.out, want); got.code != exitRejected {
			t.Errorf("%s: exit code %d: %s", output, got.code, got.err)
		}
		got = call(t, "", append(args, "-o", output, "--fail-on", "loosening")...)
		if says(t, got.out, want); got.code != exitPlan {
			t.Errorf("%s, --fail-on loosening: exit code %d: %s", output, got.code, got.err)
		}
		says(t, got.err, "--fail-on loosening")
	}
	args[2], args[6] = args[6], args[2]
	if got := call(t, "", append(args, "--fail-on", "loosening")...); got.code != exitFine {
		t.Errorf("a stricter mode: exit code %d: %s", got.code, got.out)
	}
	if got := call(t, "", append(args, "--fail-on", "loosen")...); got.code != exitUsage {
		t.Errorf("exit code %d", got.code)
	} else {
		says(t, got.err, `--fail-on: Unsupported value: "loosen"`)
	}
}

// TestPlanContext plans exceptions, labels of namespaces, and policies, from a folder and files.
func TestPlanContext(t *testing.T) {
	const rules = clusterPresetHead + "metadata: {name: prod}\nspec: {match: {namespaces: {matchLabels: {env: prod}}}, overrides: {spec: {template: {spec: {hostname: fixed}}}}}\n---\n"
	namespace := func(name, env string) string {
		return "apiVersion: v1\nkind: Namespace\nmetadata: {name: " + name + ", labels: {env: " + env + "}}\n---\n"
	}
	const exempt = "apiVersion: virtwright.dev/v1alpha1\nkind: PresetException\nmetadata: {name: legacy, namespace: shop}\nspec: {presets: [cluster/prod], vmSelector: {}, reason: old}\n---\n"
	const policy = "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: names}\nspec:\n" +
		"  matchConstraints: {resourceRules: [{apiGroups: [kubevirt.io], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [virtualmachines]}]}\n" +
		"  validations: [{expression: \"object.metadata.name != 'no'\"}]\n---\n"
	const binding = "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {name: names}\nspec: {policyName: names, validationActions: [Deny]}\n---\n"
	vms := write(t, "vms.yaml", planFileVMs(2, "")+strings.ReplaceAll(planFileVMs(1, ""), "namespace: shop", "namespace: lab"))
	for name, test := range map[string]struct {
		old, now string
		want     []string
	}{
		"relabelled": {namespace("shop", "prod"), namespace("shop", "dev"), []string{
			"Presets: no changes\nNamespaces: 1 changed; 1 loosens\nVMs: 2 of 3 VMs change\n  changed  namespace shop  loosens\n    2 VMs change or are rejected: shop/vm-0, shop/vm-1\n" +
				"    preset cluster/prod  selects the namespace → does not select it  loosens\n    metadata.labels.env  prod → dev\n",
		}},
		"only in the files":  {"", namespace("shop", "prod"), []string{"Presets: no changes\nVMs: 0 of 3 VMs change\n"}},
		"only in the folder": {namespace("shop", "prod"), "", []string{"Presets: no changes\nVMs: 0 of 3 VMs change\n"}},
		"an exception": {namespace("shop", "prod"), namespace("shop", "prod") + exempt, []string{
			"Exceptions: 1 added; 1 loosens\nVMs: 2 of 3 VMs change\n  added    exception shop/legacy  loosens\n    2 VMs use it: shop/vm-0, shop/vm-1\n",
		}},
		"no exception": {namespace("shop", "prod") + exempt, namespace("shop", "prod"), []string{
			"Exceptions: 1 deleted\nVMs: 2 of 3 VMs change\n  deleted  exception shop/legacy\n    2 VMs use it: shop/vm-0, shop/vm-1\n",
		}},
		"no policy":  {policy + binding, "", []string{"Policies: 1 deleted; 1 loosens\nVMs: 0 of 3 VMs change\n  deleted  policy names  loosens\n"}},
		"no binding": {policy + binding, policy, []string{"Policies: 1 deleted; 1 loosens\n", "  deleted  policy names  loosens\n"}},
		"a policy":   {"", policy + binding, []string{"Policies: 1 added\nVMs: 0 of 3 VMs change\n  added    policy names\n"}},
		"one policy": {policy + binding, policy + binding, []string{"Presets: no changes\nVMs: 0 of 3 VMs change\n"}},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "all.yaml"), []byte(rules+test.old), 0o600); err != nil {
			t.Fatal(err)
		}
		got := call(t, "", "plan", "-f", write(t, "new.yaml", rules+test.now), "-f", vms, "--base-dir", dir)
		if says(t, got.out, test.want...); got.code == exitUsage {
			t.Errorf("%s: %s", name, got.err)
		}
	}
}

// TestPlanStillRejected counts VMs that are rejected before and after.
func TestPlanStillRejected(t *testing.T) {
	vms := write(t, "vms.yaml", strings.ReplaceAll(planFileVMs(2, ""), "runStrategy: Halted", "runStrategy: Halt"))
	got := call(t, "", "plan", "-f", write(t, "new.yaml", planPreset("p", "{hostname: b}")), "-f", vms, "--base-dir", write(t, "old.yaml", planPreset("p", "{hostname: a}")))
	says(t, got.out, "VMs: 0 of 2 VMs change, 2 rejected before and after, so not compared\n")
}
