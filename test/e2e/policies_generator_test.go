package e2e

import (
	"fmt"
	"math/rand"
	"strings"
)

// A policyGenerator makes policies at random. Each acts on the VMs whose label case is its number.
type policyGenerator struct {
	*rand.Rand
	*policyStory
}

func (g *policyGenerator) one(of ...string) string { return of[g.Intn(len(of))] }

// policyRules are entries of validations that need no parameters. They use the variables of
// policyVariables.
var policyRules = []string{
	`{expression: "object.spec.template.spec.domain.memory.guest == '1Gi'", message: must have 1Gi}`,
	`{expression: "quantity(string(object.spec.template.spec.domain.memory.guest)).isLessThan(quantity('4Gi'))", messageExpression: "'the VM has ' + string(object.spec.template.spec.domain.memory.guest)", message: unused}`,
	`{expression: "object.metadata.?labels.?size.orValue('none') != 'big'"}`,
	`{expression: "object.metadata.?labels.?size.orValue('none') != 'big'", reason: Forbidden, message: is big}`,
	`{expression: object.spec.absent == 1, message: unused}`,
	`{expression: "variables.cores <= 2", messageExpression: variables.text}`,
	`{expression: "variables.cores <= 1", messageExpression: "string(object.spec.absent) + 'x'", message: the expression of the message fails}`,
	`{expression: "variables.cores <= 1", messageExpression: "'two\\nlines'", message: the expression of the message has two lines}`,
	`{expression: "variables.cores <= 1", messageExpression: "'  '"}`,
	`{expression: "request.operation == 'CREATE' && request.kind.version == 'v1' && request.resource.resource == 'virtualmachines' && request.namespace == object.metadata.namespace && request.name == object.metadata.name", message: is not the request}`,
	`{expression: "request.requestKind.version == 'v1'", messageExpression: "'sent as ' + request.requestKind.version"}`,
	`{expression: "object.apiVersion == 'kubevirt.io/v1'", messageExpression: "'is a ' + object.apiVersion"}`,
	`{expression: "namespaceObject.metadata.labels['tier'] == 'test'", messageExpression: "'tier ' + namespaceObject.metadata.labels['tier']"}`,
	`{expression: "namespaceObject.metadata.name == object.metadata.namespace", message: is elsewhere}`,
	`{expression: "oldObject == null", message: is an update}`,
	`{expression: "object.spec.template.spec.?volumes.orValue([]).all(v, !has(v.containerDisk) || v.containerDisk.image.endsWith(':1'))", messageExpression: "object.spec.template.spec.volumes.map(v, v.name).join(', ') + ' has another tag'"}`,
	`{expression: "variables.many.all(a, variables.many.all(b, variables.many.all(c, variables.many.all(d, a + b + c + d >= 0))))", message: unused}`,
	`{expression: "has(object.status) || has(object.spec.running)", messageExpression: "'runs ' + object.spec.runStrategy"}`,
	`{expression: "object.spec.template.spec.domain.?cpu.cores.orValue(0) / (variables.cores - variables.cores) == 1"}`,
	`{expression: "request.options.fieldManager == 'kubectl-create' && request.options.fieldValidation == 'Strict'", message: is of another client}`,
}

const policyVariables = `
  - {name: cores, expression: "object.spec.template.spec.domain.?cpu.cores.orValue(1)"}
  - {name: text, expression: "'cores: ' + string(variables.cores)"}
  - {name: many, expression: "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,38,39,40]"}`

// policy is the policy of a number, with its bindings.
func (g *policyGenerator) policy(i int) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	params := g.one("", "", "ConfigMap", "ConfigMap", "VirtualMachinePreset")
	line("apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: p%d}\nspec:", i)
	line("  failurePolicy: %s", g.one("Fail", "Fail", "Ignore"))
	rules := policyRules
	if params != "" {
		kind, most := "{apiVersion: v1, kind: ConfigMap}", "params.data.most"
		if params != "ConfigMap" {
			kind, most = "{apiVersion: virtwright.dev/v1alpha1, kind: VirtualMachinePreset}", "params.spec.defaults.spec.template.spec.domain.memory.guest"
		}
		line("  paramKind: %s", kind)
		rule := strings.ReplaceAll(`{expression: "quantity(string(object.spec.template.spec.domain.memory.guest)).compareTo(quantity(MOST)) <= 0", messageExpression: "'more than ' + MOST + ' of ' + params.metadata.name"}`, "MOST", most)
		rules = append([]string{rule, rule, rule, rule, `{expression: "params != null", message: has no parameter}`,
			`{expression: "params.kind == '` + params + `'", messageExpression: "'the parameter is a ' + params.kind"}`}, rules...)
	}
	g.constraints(line, i)
	switch g.Intn(8) {
	case 0:
		line("  matchConditions: [{name: a, expression: \"!object.metadata.name.endsWith('big')\"}]")
	case 1:
		line("  matchConditions: [{name: a, expression: object.spec.absent == 1}]")
	case 2:
		line("  matchConditions: [{name: a, expression: 'true'}, {name: b, expression: \"request.kind.version == 'v1'\"}]")
	}
	line("  variables:%s", policyVariables)
	line("  validations:")
	for range 1 + g.Intn(2) {
		line("  - %s", rules[g.Intn(len(rules))])
	}
	if g.Intn(6) == 0 {
		line("  auditAnnotations: [{key: cores, valueExpression: \"%s\"}]", g.one("variables.text", "string(object.spec.absent)"))
	}
	for k := range 1 + g.Intn(5)/4 {
		g.binding(line, i, k, params != "")
	}
	return b.String()
}

func (g *policyGenerator) constraints(line func(string, ...any), i int) {
	line("  matchConstraints:")
	if g.Intn(5) == 0 {
		line("    matchPolicy: Exact")
	}
	if g.Intn(5) == 0 {
		line("    namespaceSelector: {matchLabels: {tier: %s}}", g.one("prod", "prod", "test"))
	}
	if g.Intn(5) == 0 {
		line("    objectSelector: {matchExpressions: [{key: size, operator: %s}]}", g.one("Exists", "DoesNotExist"))
	}
	if g.Intn(6) == 0 {
		line("    excludeResourceRules: [{apiGroups: [kubevirt.io], apiVersions: [v1], operations: ['*'], resources: [virtualmachines], resourceNames: [v%d-small]}]", i)
	}
	line("    resourceRules: [{apiGroups: [%s], apiVersions: [%s], operations: [%s], resources: [%s], scope: '%s'}]",
		g.one("kubevirt.io", "kubevirt.io", "'*'"), g.one("v1", "v1", "v1", "v1alpha3", "'*'"), g.one("CREATE", "CREATE, UPDATE", "'*'"),
		g.one("virtualmachines", "virtualmachines, virtualmachineinstances", "'*'", "'*/*'"), g.one("*", "*", "*", "Namespaced"))
}

func (g *policyGenerator) binding(line func(string, ...any), i, k int, params bool) {
	line("\n---\napiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {name: p%d-%d}\nspec:", i, k)
	line("  policyName: p%d", i)
	line("  validationActions: [%s]", g.one("Deny", "Deny", "Deny", "Deny, Audit", "Warn", "Warn, Audit", "Audit"))
	line("  matchResources:\n    objectSelector: {matchLabels: {case: '%d'}}", i)
	switch g.Intn(8) {
	case 0:
		line("    resourceRules: [{apiGroups: [kubevirt.io], apiVersions: [v1], operations: [CREATE], resources: [virtualmachines], resourceNames: [v%d-big, v%d-old]}]", i, i)
	case 1:
		line("    namespaceSelector: {matchExpressions: [{key: tier, operator: NotIn, values: [test]}]}")
	}
	if !params {
		return
	}
	line("  paramRef:\n    parameterNotFoundAction: %s", g.one("Allow", "Deny"))
	line("    %s", g.one("name: bounds", "name: absent", "selector: {matchLabels: {for: vms}}", "selector: {matchLabels: {for: none}}",
		"name: bounds\n    namespace: "+g.ns, "name: bounds\n    namespace: default"))
}
