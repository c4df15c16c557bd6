package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	memoryPolicy = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: memory}
spec:
  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConstraints:
    resourceRules:
    - {apiGroups: [kubevirt.io], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [virtualmachines]}
  variables:
  - {name: guest, expression: "quantity(string(object.spec.template.spec.domain.?memory.guest.orValue('0')))"}
  validations:
  - expression: variables.guest.compareTo(quantity(params.data.most)) <= 0
    messageExpression: "'the VM has more memory than ' + params.data.most"
`
	memoryBinding = `---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: everywhere}
spec:
  policyName: memory
  validationActions: [Deny]
  paramRef: {name: memory, namespace: default, parameterNotFoundAction: Deny}
`
	memoryParams = `---
apiVersion: v1
kind: ConfigMap
metadata: {name: memory, namespace: default}
data: {most: 2Gi}
`
	memoryRejection = "ValidatingAdmissionPolicy 'memory' with binding 'everywhere' denied request: the VM has more memory than 2Gi"
)

// Policies are evaluated on the expanded VM: here, a preset sets the memory.
func TestPolicies(t *testing.T) {
	rules := write(t, "rules.yaml", memoryPolicy+memoryBinding+memoryParams)
	preset := "---\napiVersion: virtwright.dev/v1alpha1\nkind: ClusterVirtualMachinePreset\nmetadata: {name: size}\n" +
		"spec: {match: {}, defaults: {spec: {template: {spec: {domain: {memory: {guest: 4Gi}}}}}}}\n"
	big := sparse + "spec: {template: {spec: {domain: {devices: {}}}}}\n" + preset
	for _, command := range []string{"expand", "render", "validate"} {
		got := call(t, big, command, "-f", "-", "-f", rules)
		if got.code != exitRejected {
			t.Errorf("%s: exit code %d, want %d: %s%s", command, got.code, exitRejected, got.out, got.err)
		}
		says(t, got.out+got.err, memoryRejection)
		call(t, strings.Replace(big, "4Gi", "2Gi", 1), command, "-f", "-", "-f", rules).fine(t)
	}
	// Who asks decides nothing here, so only the message is unknown.
	tells := write(t, "tells.yaml", strings.Replace(memoryPolicy, "params.data.most\"", "request.userInfo.username\"", 1)+memoryBinding+memoryParams)
	told := call(t, big, "validate", "-f", "-", "-f", tells)
	says(t, told.out, "ValidatingAdmissionPolicy 'memory' with binding 'everywhere' denied request: failed expression: variables.guest")
	says(t, told.err, "Note: ValidatingAdmissionPolicy memory has other messages in a cluster: spec.validations[0].messageExpression uses request.userInfo, and the user is unknown offline")
	// A rule of virtwright that also rejects the VM is reported together with the policy.
	wrong := strings.Replace(big, "devices: {}", "devices: {disks: [{name: a}]}", 1)
	says(t, call(t, wrong, "validate", "-f", "-", "-f", rules).out, memoryRejection, "(disk-volume-exists)")
	warns := write(t, "warns.yaml", memoryPolicy+strings.Replace(memoryBinding, "Deny]", "Warn, Audit]", 1)+memoryParams)
	says(t, call(t, big, "validate", "-f", "-", "-f", warns).fine(t).err,
		"Validation failed for ValidatingAdmissionPolicy 'memory' with binding 'everywhere': the VM has more memory than 2Gi")
	audits := write(t, "audits.yaml", memoryPolicy+strings.Replace(memoryBinding, "Deny]", "Audit]", 1)+memoryParams)
	says(t, call(t, big, "validate", "-f", "-", "-f", audits).fine(t).out, "4 objects: all fine, 1 warning\n")
	lacking := write(t, "lacking.yaml", memoryPolicy+memoryBinding)
	says(t, call(t, big, "validate", "-f", "-", "-f", lacking).out, "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction")
}

// An invalid policy has the same errors as in an API server.
func TestWrongPolicies(t *testing.T) {
	for name, c := range map[string]struct {
		text, old, new string
		code           int
		want           string
	}{
		"does not compile":      {memoryPolicy, "variables.guest.compareTo", "variables.gest.compareTo", exitRejected, `spec.validations[0].expression: Invalid value: "variables.gest.compareTo(quantity(params.data.most)) <= 0": compilation failed: ERROR: <input>:1:10: undefined field 'gest'`},
		"is no condition":       {memoryPolicy, " <= 0", "", exitRejected, "spec.validations[0].expression: Invalid value: \"variables.guest.compareTo(quantity(params.data.most))\": must evaluate to bool but got int"},
		"has an unknown field":  {memoryPolicy, "  variables:", "  variable:", exitRejected, `unknown field "spec.variable"`},
		"matches nothing":       {memoryPolicy, "resourceRules:", "excludeResourceRules:", exitRejected, "spec.matchConstraints.resourceRules: Required value"},
		"a binding without act": {memoryPolicy + memoryBinding, "[Deny]", "[]", exitRejected, "spec.validationActions: Required value: at least one validation action is required"},
		"warns and denies":      {memoryPolicy + memoryBinding, "[Deny]", "[Deny, Warn]", exitRejected, "must not contain both Deny and Warn"},
		"no binding":            {memoryPolicy, "", "", exitFine, "Note: ValidatingAdmissionPolicy memory has no binding, so it has no effect"},
		"no policy":             {memoryPolicy + memoryBinding, "policyName: memory", "policyName: memry", exitFine, "Note: ValidatingAdmissionPolicyBinding everywhere has no effect: ValidatingAdmissionPolicy memry does not exist"},
		"another operation":     {memoryPolicy + memoryBinding, "CREATE, UPDATE", "Create", exitRejected, `spec.matchConstraints.resourceRules[0].operations[0]: Unsupported value: "Create": supported values: "*", "CONNECT", "CREATE", "DELETE", "UPDATE"`},
		"almost VMs":            {memoryPolicy + memoryBinding, "[virtualmachines]", "[virtualmachine]", exitFine, "Note: ValidatingAdmissionPolicy memory matches no create or update of a VM: a rule for VMs has apiGroups: [kubevirt.io], apiVersions: [v1]"},
		"another version":       {memoryPolicy + memoryBinding, "[v1]", "[v1alpha1]", exitFine, "Note: ValidatingAdmissionPolicy memory matches no create or update of a VM"},
		"another group":         {memoryPolicy + memoryBinding, "[kubevirt.io]", "[kubevirt.com]", exitFine, "Note: ValidatingAdmissionPolicy memory matches no create or update of a VM"},
		"no parameter":          {memoryPolicy + memoryBinding + strings.Replace(memoryParams, "name: memory", "name: memry", 1), "", "", exitRejected, "Note: ValidatingAdmissionPolicyBinding everywhere has no parameter: ConfigMap default/memory does not exist; did you mean \"memry\"?"},
		"the user decides":      {memoryPolicy + memoryBinding, "  variables:", "  matchConditions:\n  - {name: a, expression: \"request.userInfo.username != 'a'\"}\n  variables:", exitFine, "Note: ValidatingAdmissionPolicy memory is not evaluated: spec.matchConditions[0].expression uses request.userInfo, and the user is unknown offline"},
		"another match policy":  {memoryPolicy, "matchConstraints:", "matchConstraints:\n    matchPolicy: Foo", exitRejected, `spec.matchConstraints.matchPolicy: Unsupported value: "Foo": supported values: "Equivalent", "Exact"`},
		"a wrong operator":      {memoryPolicy, "matchConstraints:", "matchConstraints:\n    objectSelector: {matchExpressions: [{key: a, operator: Inn}]}", exitRejected, "spec.matchConstraints.objectSelector.matchExpressions[0].operator: Invalid value: \"Inn\": not a valid selector operator"},
		"a wrong action":        {memoryPolicy + memoryBinding, "parameterNotFoundAction: Deny", "parameterNotFoundAction: deny", exitRejected, `spec.paramRef.parameterNotFoundAction: Unsupported value: "deny": supported values: "Allow", "Deny"`},
		"a wrong name":          {memoryPolicy, "  variables:", "  matchConditions: [{name: a b, expression: 'true'}, {name: c, expression: 'true'}, {name: c, expression: 'true'}]\n  variables:", exitRejected, "spec.matchConditions[2].name: Duplicate value: \"c\""},
		"a wrong variable":      {memoryPolicy, "  variables:", "  variables:\n  - {name: a-b, expression: 'true'}", exitRejected, "spec.variables[0].name: Invalid value: \"a-b\": must be a valid CEL identifier"},
		"a reserved word":       {memoryPolicy, "  variables:", "  variables:\n  - {name: namespace, expression: 'true'}", exitRejected, "spec.variables[0].name: Invalid value: \"namespace\": must be a valid CEL identifier"},
		"a wrong reason":        {memoryPolicy, "  - expression: variables", "  - reason: Unauthorized\n    expression: variables", exitRejected, "spec.validations[0].reason: Unsupported value: \"Unauthorized\": supported values: \"Forbidden\", \"Invalid\", \"RequestEntityTooLarge\""},
		"a wrong annotation":    {memoryPolicy, "  variables:", "  auditAnnotations: [{key: a b, valueExpression: \"'a'\"}]\n  variables:", exitRejected, "spec.auditAnnotations[0].key: Invalid value: \"a b\": name part must consist of"},
		"authorization decides": {memoryPolicy + memoryBinding, "variables.guest.compareTo(quantity(params.data.most)) <= 0", "authorizer.group('').resource('pods').check('get').allowed()", exitFine, "Note: ValidatingAdmissionPolicy memory is not evaluated: spec.validations[0].expression uses authorizer, and the user is unknown offline"},
	} {
		t.Run(name, func(t *testing.T) {
			got := call(t, small+"---\n"+strings.Replace(c.text, c.old, c.new, 1), "validate", "-f", "-")
			if got.code != c.code {
				t.Errorf("exit code %d, want %d", got.code, c.code)
			}
			says(t, got.out+got.err, c.want)
			if c.code == exitRejected && strings.Contains(got.err, "has no effect") {
				t.Errorf("a rejected policy is reported as missing: %s", got.err)
			}
		})
	}
}

// Policies and conditions of presets see a new VM without nulls and without server fields.
func TestPoliciesSeeWhatIsSent(t *testing.T) {
	rule := strings.Replace(memoryPolicy, "variables.guest.compareTo(quantity(params.data.most)) <= 0", "params.data.most != '' && !has(object.status) && !has(object.metadata.uid) && !has(object.spec.template.spec.volumes)", 1)
	condition := "---\napiVersion: virtwright.dev/v1alpha1\nkind: ClusterVirtualMachinePreset\nmetadata: {name: volumes}\n" +
		"spec: {match: {conditions: [{name: a, expression: has(object.spec.template.spec.volumes)}]}, defaults: {spec: {template: {spec: {hostname: wrong}}}}}\n"
	vm := strings.NewReplacer("{name: vm", "{uid: a, name: vm", "domain: ", "volumes: null, domain: ").Replace(small) + "status: {created: true}\n"
	for _, command := range []string{"expand", "explain"} {
		got := call(t, vm+"---\n"+rule+memoryBinding+memoryParams+condition, command, "-f", "-").fine(t)
		if strings.Contains(got.out, "wrong") || strings.Contains(got.out, "created") || strings.Contains(got.out, "null") {
			t.Errorf("%s prints\n%s", command, got.out)
		}
	}
	wrong := strings.Replace(memoryParams, "most: 2Gi", "most: 2", 1)
	says(t, call(t, vm+"---\n"+rule+memoryBinding+wrong, "validate", "-f", "-").out, `ConfigMap default/memory: data[most]: Invalid value: 2: must be a string: write "2"`)
}

// A policy for other resources needs no note.
func TestOtherPolicies(t *testing.T) {
	other := strings.NewReplacer("apiGroups: [kubevirt.io]", "apiGroups: [apps]", "[virtualmachines]", "[deployments]").Replace(memoryPolicy)
	got := call(t, small+"---\n"+other+memoryBinding, "validate", "-f", "-").fine(t)
	if strings.Contains(got.err, "olic") || got.out != "1 object: all fine, 1 warning\n" {
		t.Errorf("got %q and %q", got.out, got.err)
	}
}

// Rules match by version, scope, names and labels of the VM and its namespace. Parameters can have
// any kind.
func TestPolicyMatches(t *testing.T) {
	limit := strings.NewReplacer("paramKind: {apiVersion: v1, kind: ConfigMap}", "paramKind: {apiVersion: example.com/v1, kind: Limit}",
		"params.data.most", "params.spec.most").Replace(memoryPolicy)
	binding := strings.Replace(memoryBinding, "name: memory, namespace: default", "selector: {matchLabels: {for: vms}}", 1)
	params := "---\napiVersion: example.com/v1\nkind: Limit\nmetadata: {name: a, namespace: default, labels: {for: vms}}\nspec: {most: 2Gi}\n" +
		"---\napiVersion: example.com/v1\nkind: Limit\nmetadata: {name: b, namespace: default}\nspec: {most: 1Mi}\n"
	vm := strings.Replace(small, "1Gi", "4Gi", 1) + "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: default, labels: {tier: prod}}\n---\n"
	for name, c := range map[string]struct {
		old, new string
		rejected bool
	}{
		"any kind":                {"", "", true},
		"an equivalent version":   {"apiVersions: [v1]", "apiVersions: [v1alpha3]", true},
		"only the exact version":  {"matchConstraints:", "matchConstraints:\n    matchPolicy: Exact", true},
		"not the exact version":   {"matchConstraints:\n    resourceRules:\n    - {apiGroups: [kubevirt.io], apiVersions: [v1]", "matchConstraints:\n    matchPolicy: Exact\n    resourceRules:\n    - {apiGroups: [kubevirt.io], apiVersions: [v1alpha3]", false},
		"another operation":       {"operations: [CREATE, UPDATE]", "operations: [UPDATE]", false},
		"another resource":        {"resources: [virtualmachines]", "resources: [virtualmachineinstances]", false},
		"cluster scope":           {"resources: [virtualmachines]", "resources: [virtualmachines], scope: Cluster", false},
		"another name":            {"resources: [virtualmachines]", "resources: [virtualmachines], resourceNames: [other]", false},
		"the namespace":           {"matchConstraints:", "matchConstraints:\n    namespaceSelector: {matchLabels: {tier: prod}}", true},
		"another namespace":       {"matchConstraints:", "matchConstraints:\n    namespaceSelector: {matchLabels: {tier: test}}", false},
		"other labels":            {"matchConstraints:", "matchConstraints:\n    objectSelector: {matchLabels: {os: windows}}", false},
		"excluded":                {"matchConstraints:", "matchConstraints:\n    excludeResourceRules:\n    - {apiGroups: ['*'], apiVersions: ['*'], operations: ['*'], resources: ['*']}", false},
		"a condition that fails":  {"  variables:", "  matchConditions:\n  - {name: a, expression: \"object.metadata.name != 'vm'\"}\n  variables:", false},
		"an error that counts":    {"variables.guest.compareTo", "object.spec.absent == 1 && variables.guest.compareTo", true},
		"an error that is not":    {"  variables:\n", "  failurePolicy: Ignore\n  variables:\n  - {name: absent, expression: object.spec.absent}\n", true},
		"an error that is passed": {"  variables:\n  - {name: guest, expression: \"", "  failurePolicy: Ignore\n  variables:\n  - {name: guest, expression: \"object.spec.absent == 1 ? quantity('1') : ", false},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(limit, c.old, c.new, 1)
			if c.old != "" && text == limit {
				t.Fatalf("there is no %q", c.old)
			}
			got := call(t, vm+text+binding+params, "validate", "-f", "-")
			if rejected := got.code == exitRejected; rejected != c.rejected {
				t.Errorf("rejected: %t, want %t: %s%s", rejected, c.rejected, got.out, got.err)
			}
		})
	}
}

// A note is printed if a policy selects namespaces with unknown labels.
func TestPolicyOfUnknownNamespace(t *testing.T) {
	selects := strings.Replace(memoryPolicy, "matchConstraints:", "matchConstraints:\n    namespaceSelector: {matchLabels: {tier: prod}}", 1)
	for _, command := range []string{"validate", "expand"} {
		got := call(t, small+"---\n"+selects+memoryBinding+memoryParams, command, "-f", "-").fine(t)
		says(t, got.err, "Note: the labels of namespace default are unknown, but ValidatingAdmissionPolicy memory selects namespaces by label: add the Namespace to -f, or set --namespace-labels\n")
	}
}

// VMIs are validated by policies for VMIs.
func TestPolicyOfVMI(t *testing.T) {
	rules := strings.NewReplacer("virtualmachines]", "virtualmachineinstances]", "spec.template.spec.", "spec.").Replace(memoryPolicy) + memoryBinding + memoryParams
	vmi := "apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstance\nmetadata: {name: vmi}\nspec: {domain: {devices: {}, memory: {guest: 4Gi}}}\n---\n"
	says(t, call(t, vmi+rules, "validate", "-f", "-").out, memoryRejection)
	// A VM is stored although a policy denies its VMI at the start.
	vm := strings.Replace(small, "1Gi", "4Gi", 1) + "---\n" + rules
	says(t, call(t, vm, "validate", "-f", "-").fine(t).err, "the VM could not start: "+memoryRejection)
	if got := call(t, strings.Replace(vm, "spec: {template", "spec: {running: true, runStrategy: Always, template", 1), "validate", "-f", "-"); strings.Contains(got.err, "could not start") {
		t.Errorf("a rejected VM is not started: %s", got.err)
	}
	sized := sparse + "spec: {runStrategy: Always, instancetype: {name: big}, template: {spec: {domain: {devices: {}}}}}\n---\n" +
		strings.NewReplacer("NAME", "big", "1Gi", "4Gi").Replace(unusedInstancetype) + "---\n" + rules
	says(t, call(t, sized, "validate", "-f", "-", "--mode", "addon").fine(t).err, "the VM could not start: "+memoryRejection)
	file := write(t, "vm.yaml", strings.Replace(small, "1Gi", "4Gi", 1))
	for expect, want := range map[string]string{
		"vmi: {spec: {domain: {memory: {guest: 4Gi}}}}":                    "the VM could not start: " + memoryRejection,
		"rejected: [more memory than 2Gi]":                                 "all passed",
		"vm: {spec: {template: {spec: {domain: {memory: {guest: 4Gi}}}}}}": "all passed",
	} {
		suite := "apiVersion: virtwright.dev/v1alpha1\nkind: VirtwrightTest\nmetadata: {name: vmi}\nfiles: [rules.yaml]\ncases:\n- {name: a, vmFile: " + file + ", expect: {" + expect + "}}\n"
		dir := t.TempDir()
		for name, text := range map[string]string{"rules.yaml": rules, "suite.yaml": suite} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got := call(t, "", "test", "-f", filepath.Join(dir, "suite.yaml"))
		says(t, got.out+got.err, want)
	}
}

// The plan shows policy denials that new presets cause.
func TestPlanPolicies(t *testing.T) {
	preset := "apiVersion: virtwright.dev/v1alpha1\nkind: ClusterVirtualMachinePreset\nmetadata: {name: size}\n" +
		"spec: {match: {}, defaults: {spec: {template: {spec: {domain: {memory: {guest: 1Gi}}}}}}}\n---\n"
	vm := sparse + "spec: {template: {spec: {domain: {devices: {}}}}}\n---\n"
	rules := memoryPolicy + memoryBinding + memoryParams
	for name, c := range map[string]struct{ before, after, want string }{
		"a new value":  {preset + rules, vm + strings.Replace(preset, "1Gi", "4Gi", 1) + rules, memoryRejection},
		"a new policy": {strings.Replace(preset, "1Gi", "4Gi", 1), vm + strings.Replace(preset, "1Gi", "4Gi", 1) + rules, memoryRejection},
		"a new bound":  {strings.Replace(preset, "1Gi", "4Gi", 1) + strings.Replace(rules, "most: 2Gi", "most: 8Gi", 1), vm + strings.Replace(preset, "1Gi", "4Gi", 1) + rules, memoryRejection},
	} {
		t.Run(name, func(t *testing.T) {
			old := write(t, "old.yaml", c.before)
			got := call(t, c.after, "plan", "-f", "-", "--base-dir", old)
			says(t, got.out+got.err, "rejected", c.want)
		})
	}
}

// policies are read from a cluster, with only the parameters that bindings reference.
func (g *ground) policies(t *testing.T) {
	rules := memoryPolicy + memoryBinding + memoryParams
	g.kubectl(rules, "create", "-f", "-")
	vm := write(t, "vm.yaml", strings.Replace(liveVM("new", "shop", ""), "1Gi", "4Gi", 1))
	says(t, call(t, "", "validate", "-f", vm, "--live").out, memoryRejection, "1 object: 0 fine")
	call(t, "", "validate", "-f", write(t, "vm.yaml", liveVM("new", "shop", "")), "--live").fine(t)
	// A plan with the presets of the cluster changes nothing.
	call(t, "", "plan", "-f", write(t, "same.yaml", rules), "-n", "shop").fine(t)
	// A file replaces a parameter of the cluster, and a binding of a file references parameters of
	// the cluster.
	wider := write(t, "wider.yaml", strings.Replace(memoryParams, "2Gi", "8Gi", 1))
	call(t, "", "validate", "-f", vm, "-f", wider, "--live").fine(t)
	selects := strings.NewReplacer("name: memory, namespace: default", "selector: {}", "policyName: memory", "policyName: second").Replace(memoryBinding)
	second := write(t, "second.yaml", strings.Replace(memoryPolicy, "name: memory", "name: second", 1)+selects)
	g.kubectl("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bounds, namespace: shop}\ndata: {most: 3Gi}\n", "create", "-f", "-")
	says(t, call(t, "", "validate", "-f", vm, "-f", wider, "-f", second, "--live").out, "'second' with binding 'everywhere' denied request: ")
	// The plan shows changes of presets and of parameters that make the policy reject VMs.
	bigger := write(t, "bigger.yaml", strings.Replace(liveShop, "cpu: {cores: 7}", "memory: {guest: 4Gi}", 1))
	sparseVM := write(t, "sparse.yaml", strings.Replace(liveVM("sparse", "shop", ""), ", memory: {guest: 1Gi}", "", 1))
	says(t, call(t, "", "plan", "-f", bigger, "-f", sparseVM, "-n", "shop").out, memoryRejection)
	narrower := write(t, "narrower.yaml", strings.Replace(memoryParams, "2Gi", "1Mi", 1))
	got := call(t, "", "plan", "-f", narrower, "-n", "shop")
	says(t, got.out, "the VM has more memory than 1Mi")
	says(t, call(t, "", "plan", "-f", write(t, "limits.yaml", strings.Replace(memoryPolicy, "{apiVersion: v1, kind: ConfigMap}", "{apiVersion: example.com/v1, kind: Limit}", 1)+memoryBinding), "-n", "shop").err,
		"Note: ValidatingAdmissionPolicy memory has parameters of the kind Limit of example.com/v1, which the cluster does not serve")
	if quota := strings.NewReplacer("kind: ConfigMap", "kind: Secret", "name: memory", "name: third").Replace(memoryPolicy + selects); strings.Contains(call(t, "", "plan", "-f", write(t, "quota.yaml", quota), "-n", "shop").err, "ignored") {
		t.Error("parameters of a new policy are reported as ignored")
	}
	// A note is printed if the user may not read parameters.
	path, err := g.UserKubeconfig("planner")
	if err != nil {
		t.Fatal(err)
	}
	says(t, call(t, "", "plan", "-f", bigger, "-n", "shop", "--kubeconfig", path).err, "Note: parameters of ValidatingAdmissionPolicy memory are unknown: ", `cannot list resource "configmaps"`)
}

// TestExamplePolicies runs the test cases of the example policies.
func TestExamplePolicies(t *testing.T) {
	call(t, "", "test", "-f", "../../examples/policies").fine(t)
}
