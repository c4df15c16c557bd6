package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/fleet"
)

// TestImportedPolicies compares VMs that imported presets expand with the VMs that the
// documentation of each engine promises for the policy.
func TestImportedPolicies(t *testing.T) {
	const rule = "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {name: p}\nspec:\n  rules:\n  - name: r\n    match: {any: [{resources: {kinds: [VirtualMachine]}}]}\n    mutate: {patchStrategicMerge: PATCH}\n"
	kyverno := func(patch string) string { return strings.Replace(rule, "PATCH", patch, 1) }
	excluding := strings.Replace(rule, "    mutate:", "    exclude: {any: [{resources: {selector: {matchLabels: {unmanaged: \"true\"}}}}]}\n    mutate:", 1)
	const constraints = "  matchConstraints: {resourceRules: [{apiGroups: [kubevirt.io], apiVersions: [v1], operations: [CREATE], resources: [virtualmachines]}]}\n"
	const admission = "apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingAdmissionPolicy\nmetadata: {name: p}\nspec:\n" + constraints +
		"  matchConditions: [{name: unset, expression: \"!has(object.spec.template.spec.schedulerName)\"}]\n" +
		"  mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: 'Object{metadata: Object.metadata{labels: {\"team\": \"a\"}}, spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{schedulerName: \"a\", terminationGracePeriodSeconds: 30}}}}'}}]\n" +
		"---\napiVersion: admissionregistration.k8s.io/v1\nkind: MutatingAdmissionPolicyBinding\nmetadata: {name: b}\nspec: {policyName: p}\n"
	const gatekeeper = "apiVersion: mutations.gatekeeper.sh/v1\nkind: Assign\nmetadata: {name: p}\nspec:\n  applyTo: [{groups: [kubevirt.io], versions: [v1], kinds: [VirtualMachine]}]\n"
	const tests = "\n    pathTests: [{subPath: SUBPATH, condition: CONDITION}]\n"
	tested := func(path, condition string) string {
		return gatekeeper + "  location: spec.template.spec.domain.cpu.model\n  parameters:\n    assign: {value: host-model}" + strings.NewReplacer("SUBPATH", path, "CONDITION", condition).Replace(tests)
	}
	const metadata = "apiVersion: mutations.gatekeeper.sh/v1\nkind: AssignMetadata\nmetadata: {name: p}\nspec:\n  match: {namespaces: [shop]}\n  location: metadata.labels.\"example.com/team\"\n  parameters: {assign: {value: a}}\n"
	for name, c := range map[string]struct{ policy, vm, want string }{
		"KyvernoAddsIfAbsent":   {kyverno("{spec: {template: {spec: {+(schedulerName): a}}}}"), "{}", "{spec: {schedulerName: a}}"},
		"KyvernoLeavesPresent":  {kyverno("{spec: {template: {spec: {+(schedulerName): a}}}}"), "{spec: {schedulerName: b}}", "{spec: {schedulerName: b}}"},
		"KyvernoReplaces":       {kyverno("{spec: {template: {spec: {schedulerName: a}}}}"), "{spec: {schedulerName: b, subdomain: c}}", "{spec: {schedulerName: a, subdomain: c}}"},
		"KyvernoRemoves":        {kyverno("{spec: {template: {spec: {schedulerName: null}}}}"), "{spec: {schedulerName: b, subdomain: c}}", "{spec: {subdomain: c}}"},
		"KyvernoExcludes":       {strings.Replace(excluding, "PATCH", "{spec: {template: {spec: {schedulerName: a}}}}", 1), "{labels: {unmanaged: \"true\"}, spec: {schedulerName: b}}", "{labels: {unmanaged: \"true\"}, spec: {schedulerName: b}}"},
		"KyvernoDoesNotExclude": {strings.Replace(excluding, "PATCH", "{spec: {template: {spec: {schedulerName: a}}}}", 1), "{labels: {unmanaged: \"false\"}, spec: {schedulerName: b}}", "{labels: {unmanaged: \"false\"}, spec: {schedulerName: a}}"},
		"KyvernoCELPolicy": {strings.NewReplacer("admissionregistration.k8s.io/v1\nkind: MutatingAdmissionPolicy\n", "policies.kyverno.io/v1\nkind: MutatingPolicy\n").Replace(strings.Split(admission, "---")[0]),
			"{spec: {terminationGracePeriodSeconds: 5}}", "{labels: {team: a}, spec: {schedulerName: a, terminationGracePeriodSeconds: 30}}"},
		"AdmissionPolicy":          {admission, "{labels: {app: b, team: c}, spec: {subdomain: s}}", "{labels: {app: b, team: a}, spec: {subdomain: s, schedulerName: a, terminationGracePeriodSeconds: 30}}"},
		"AdmissionPolicyCondition": {admission, "{spec: {schedulerName: b}}", "{spec: {schedulerName: b}}"},
		"GatekeeperAssigns":        {gatekeeper + "  location: spec.template.spec.domain.cpu.model\n  parameters: {assign: {value: host-model}}\n", "{spec: {domain: {cpu: {cores: 2, model: Nehalem}}}}", "{spec: {domain: {cpu: {cores: 2, model: host-model}}}}"},
		"GatekeeperElement": {gatekeeper + "  location: 'spec.template.spec.domain.devices.disks[name: \"b\"].cache'\n  parameters: {assign: {value: none}}\n",
			"{spec: {domain: {devices: {disks: [{name: a, cache: writeback}, {name: b, cache: writeback}]}}, volumes: [{name: a, emptyDisk: {capacity: 1Gi}}, {name: b, emptyDisk: {capacity: 1Gi}}]}}",
			"{spec: {domain: {devices: {disks: [{name: a, cache: writeback}, {name: b, cache: none}]}}, volumes: [{name: a, emptyDisk: {capacity: 1Gi}}, {name: b, emptyDisk: {capacity: 1Gi}}]}}"},
		"GatekeeperAbsent":         {tested("spec.template.spec.domain.cpu.model", "MustNotExist"), "{}", "{spec: {domain: {cpu: {model: host-model}}}}"},
		"GatekeeperPresent":        {tested("spec.template.spec.domain.cpu.model", "MustNotExist"), "{spec: {domain: {cpu: {model: Nehalem}}}}", "{spec: {domain: {cpu: {model: Nehalem}}}}"},
		"GatekeeperParent":         {tested("spec.template.spec.domain.cpu", "MustExist"), "{spec: {domain: {cpu: {cores: 2}}}}", "{spec: {domain: {cpu: {cores: 2, model: host-model}}}}"},
		"GatekeeperNoParent":       {tested("spec.template.spec.domain.cpu", "MustExist"), "{}", "{}"},
		"GatekeeperAddsLabel":      {metadata, "{}", "{labels: {example.com/team: a}}"},
		"GatekeeperLeavesLabel":    {metadata, "{labels: {example.com/team: b}}", "{labels: {example.com/team: b}}"},
		"GatekeeperOtherNamespace": {strings.Replace(metadata, "[shop]", "[other]", 1), "{}", "{}"},
	} {
		t.Run(name, func(t *testing.T) {
			imported := write(t, "presets.yaml", call(t, c.policy, "import", "-f", "-").fine(t).out)
			call(t, "", "lint", "-f", imported).fine(t)
			got := call(t, "", "expand", "-f", write(t, "vm.yaml", wholeVM(t, c.vm)), "-f", imported, "--mode", "addon", "-o", "json").fine(t)
			var is, want map[string]any
			if err := json.Unmarshal([]byte(got.out), &is); err != nil {
				t.Fatal(err)
			}
			if err := yaml.Unmarshal([]byte(wholeVM(t, c.want)), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, fleet.WithoutRecord(is)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestImportOfSeveralPolicies gives each preset its own name, and names policies that conflict.
func TestImportOfSeveralPolicies(t *testing.T) {
	const mutator = "---\napiVersion: mutations.gatekeeper.sh/v1\nkind: Assign\nmetadata: {name: cpu}\nspec:\n" +
		"  applyTo: [{groups: [kubevirt.io], versions: [v1], kinds: [VirtualMachine]}]\n  location: spec.template.spec.domain.cpu.model\n  parameters: {assign: {value: MODEL}}\n"
	const kyverno = "---\napiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {name: cpu}\nspec:\n" +
		"  rules: [{name: a, match: {any: [{resources: {kinds: [VirtualMachine]}}]}, mutate: {patchStrategicMerge: {spec: {template: {spec: {domain: {cpu: {model: Nehalem}}}}}}}}]\n"
	got := call(t, kyverno+strings.Replace(mutator, "MODEL", "host-model", 1), "import", "-f", "-").fine(t)
	says(t, got.out, "name: cpu\n", "name: cpu-assign\n")
	says(t, got.err, "spec.overrides.spec.template.spec.domain.cpu.model: conflicts with preset cluster/cpu", "set spec.priority")
	unknown := call(t, "apiVersion: example.com/v1\nkind: Other\nmetadata: {name: a}\n"+kyverno, "import", "-f", "-").fine(t)
	says(t, unknown.err, "ignored 1 of kind Other (example.com/v1)")
	says(t, call(t, strings.Replace(kyverno, "rules: [{name: a", "rules: [{name: [a]", 1), "import", "-f", "-").err,
		"ClusterPolicy cpu: not expressed: spec.rules[0]: cannot be read: name must not be of type array")
}

// TestMutatingPoliciesAreNotEvaluated names the policies for VMs once, and only those.
func TestMutatingPoliciesAreNotEvaluated(t *testing.T) {
	const policy = "---\napiVersion: admissionregistration.k8s.io/v1\nkind: MutatingAdmissionPolicy\nmetadata: {name: NAME}\nspec:\n" +
		"  matchConstraints: {resourceRules: [{apiGroups: [GROUP], apiVersions: [v1], operations: [CREATE], resources: [virtualmachines]}]}\n" +
		"  mutations: [{patchType: JSONPatch, jsonPatch: {expression: '[]'}}]\n" +
		"---\napiVersion: admissionregistration.k8s.io/v1\nkind: MutatingAdmissionPolicyBinding\nmetadata: {name: NAME}\nspec: {policyName: NAME}\n"
	file := write(t, "policies.yaml", strings.NewReplacer("NAME", "one", "GROUP", "kubevirt.io").Replace(policy)+
		strings.NewReplacer("NAME", "two", "GROUP", "'*'").Replace(policy)+strings.NewReplacer("NAME", "three", "GROUP", "apps").Replace(policy))
	vms := write(t, "vms.yaml", small+"---\n"+strings.Replace(small, "name: vm", "name: other", 1))
	want := "Note: not evaluated: MutatingAdmissionPolicies one, two, which also change VMs in a cluster: virtwright import converts them to presets\n"
	for _, command := range []string{"expand", "validate"} {
		if got := call(t, "", command, "-f", vms, "-f", file).fine(t); strings.Count(got.out+got.err, want) != 1 || strings.Contains(got.out+got.err, "three") {
			t.Errorf("%s: %s%s", command, got.out, got.err)
		}
	}
}

// mutatingPolicies compares the VMs that an API server stores under a policy with those that the
// imported preset expands. The server rejects a list in an apply configuration.
func (g *ground) mutatingPolicies(t *testing.T) {
	const policy = "apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingAdmissionPolicy\nmetadata: {name: mutating}\nspec:\n" +
		"  reinvocationPolicy: Never\n  matchConstraints:\n    objectSelector: {matchLabels: {app: mutated}}\n    namespaceSelector: {matchLabels: {tier: prod}}\n" +
		"    resourceRules: [{apiGroups: [kubevirt.io], apiVersions: [v1], operations: [CREATE], resources: [virtualmachines]}]\n" +
		"  matchConditions: [{name: unset, expression: \"!has(object.spec.template.spec.schedulerName)\"}]\n" +
		"  mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: 'Object{EXPRESSION}'}}]\n" +
		"---\napiVersion: admissionregistration.k8s.io/v1\nkind: MutatingAdmissionPolicyBinding\nmetadata: {name: mutating}\nspec: {policyName: mutating}\n"
	constants := strings.Replace(policy, "EXPRESSION", `metadata: Object.metadata{labels: {"team": "a"}}, spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{`+
		`schedulerName: "a", terminationGracePeriodSeconds: 30, domain: Object.spec.template.spec.domain{memory: Object.spec.template.spec.domain.memory{guest: "3Gi"}}}}}`, 1)
	g.kubectl(constants, "create", "-f", "-")
	imported := write(t, "presets.yaml", call(t, "", "import", "-n", "shop").fine(t).out)
	if text := read(t, imported); strings.Count(text, "kind: ") != 1 || text != call(t, constants, "import", "-f", "-").fine(t).out {
		t.Errorf("import of the cluster prints\n%s", text)
	}
	says(t, call(t, "", "expand", "vm/web", "-n", "shop").fine(t).err, "not evaluated: MutatingAdmissionPolicies mutating, ")
	named := strings.Replace(liveVM("m", "shop", "app: mutated"), "spec: {domain", "spec: {schedulerName: b, domain", 1)
	namespace := write(t, "namespace.yaml", strings.Split(liveShop, "---")[0])
	stored := func(vm string) map[string]any {
		return vmFields(t, g.kubectl(vm, "create", "--dry-run=server", "-o", "json", "-f", "-"))
	}
	for deadline := time.Now().Add(time.Minute); !strings.Contains(fmt.Sprint(stored(liveVM("m", "shop", "app: mutated"))), "3Gi"); {
		if time.Now().After(deadline) {
			t.Fatal("the policy has no effect")
		}
	}
	for name, vm := range map[string]string{
		"matching": liveVM("m", "shop", "app: mutated"), "other label": liveVM("m", "shop", "app: other"),
		"other namespace": liveVM("m", "default", "app: mutated"), "condition": named,
	} {
		got := vmFields(t, call(t, vm, "expand", "-f", "-", "-f", imported, "-f", namespace, "--mode", "addon", "-o", "json").fine(t).out)
		if diff := cmp.Diff(stored(vm), got); diff != "" {
			t.Errorf("%s: -stored +expanded:\n%s", name, diff)
		}
	}
	list := strings.Replace(policy, "EXPRESSION", `spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{networks: [Object.spec.template.spec.networks{name: "a"}]}}}`, 1)
	says(t, call(t, list, "import", "-f", "-").fine(t).err, `"spec.template.spec.networks": API servers reject apply configurations that change most lists of a VM`)
	g.kubectl(list, "apply", "-f", "-")
	for deadline, rejection := time.Now().Add(time.Minute), ""; !strings.Contains(rejection, "may not mutate atomic arrays, maps or structs: .spec.template.spec.networks"); {
		if time.Now().After(deadline) {
			t.Fatal("the API server accepts the list")
		}
		_, rejection, _ = g.Kubectl(t.Context(), liveVM("m", "shop", "app: mutated"), "create", "--dry-run=server", "-f", "-")
	}
	g.kubectl("", "delete", "mutatingadmissionpolicy/mutating", "mutatingadmissionpolicybinding/mutating")
}

// vmFields returns the labels and the spec of a VM as JSON.
func vmFields(t *testing.T, text string) map[string]any {
	t.Helper()
	var object map[string]any
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	meta, _ := object["metadata"].(map[string]any)
	return map[string]any{"labels": meta["labels"], "spec": object["spec"]}
}

// wholeVM returns a VM with the given labels, and the given fields in spec.template.spec.
func wholeVM(t *testing.T, text string) string {
	t.Helper()
	var given struct {
		Labels map[string]any `json:"labels"`
		Spec   map[string]any `json:"spec"`
	}
	if err := yaml.Unmarshal([]byte(text), &given); err != nil {
		t.Fatal(err)
	}
	if given.Spec == nil {
		given.Spec = map[string]any{}
	}
	domain, _ := given.Spec["domain"].(map[string]any)
	if domain == nil {
		domain = map[string]any{}
		given.Spec["domain"] = domain
	}
	domain["memory"] = map[string]any{"guest": "1Gi"}
	if domain["devices"] == nil {
		domain["devices"] = map[string]any{}
	}
	meta := map[string]any{"name": "vm", "namespace": "shop"}
	if given.Labels != nil {
		meta["labels"] = given.Labels
	}
	out, err := yaml.Marshal(map[string]any{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": meta,
		"spec": map[string]any{"runStrategy": "Halted", "template": map[string]any{"spec": given.Spec}}})
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestImportKyvernoFilters: a filter of match.all without kinds restricts a rule.
func TestImportKyvernoFilters(t *testing.T) {
	out := call(t, `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: two}
spec:
  rules:
  - name: prod
    match: {all: [{resources: {kinds: [VirtualMachine]}}, {resources: {namespaces: [prod]}}]}
    mutate: {patchStrategicMerge: {spec: {template: {spec: {evictionStrategy: LiveMigrate}}}}}
`, "import", "-f", "-").fine(t).out
	says(t, out, "kubernetes.io/metadata.name: prod", "evictionStrategy: LiveMigrate")
}
