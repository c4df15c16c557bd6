package protection

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtwright/virtwright/presets"
)

// policySuffix ends the names of the policies.
const policySuffix = ".protection.virtwright.dev"

// resources are the plural names of kinds.
var resources = map[presets.Kind]string{
	presets.VirtualMachine:         "virtualmachines",
	presets.VirtualMachineInstance: "virtualmachineinstances",
}

// PolicyNames are the names of all policies and of their bindings.
func PolicyNames() []string {
	var names []string
	for _, kind := range both {
		names = append(names, resources[kind]+policySuffix)
	}
	return append(names, TemplatePolicyName, NodePolicyName)
}

// Policies are the rules as the API server evaluates them, and what binds them
// to all namespaces. Every field that an API server would default is set.
func (g Guard) Policies() ([]*admissionregistrationv1.ValidatingAdmissionPolicy, []*admissionregistrationv1.ValidatingAdmissionPolicyBinding) {
	var policies []*admissionregistrationv1.ValidatingAdmissionPolicy
	var bindings []*admissionregistrationv1.ValidatingAdmissionPolicyBinding
	for _, kind := range both {
		policies = append(policies, g.policy(kind))
	}
	policies = append(policies, g.templatePolicy())
	if g.NodeAgent != "" {
		policies = append(policies, g.nodePolicy())
	}
	for _, policy := range policies {
		binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
		binding.SetGroupVersionKind(admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicyBinding"))
		binding.Name = policy.Name
		binding.Spec.PolicyName = policy.Name
		binding.Spec.ValidationActions = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}
		bindings = append(bindings, binding)
	}
	return policies, bindings
}

func (g Guard) policy(kind presets.Kind) *admissionregistrationv1.ValidatingAdmissionPolicy {
	out := newPolicy(resources[kind] + policySuffix)
	out.Spec.MatchConstraints = constraints(
		[]admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update}, resources[kind])
	out.Spec.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "not-a-trusted-writer", Expression: "!(" + g.trustedCEL() + ")"}}
	for _, rule := range rules {
		if !slices.Contains(rule.Kinds, kind) {
			continue
		}
		out.Spec.Validations = append(out.Spec.Validations, admissionregistrationv1.Validation{
			Expression: rule.cel(g), Message: rule.Says,
			MessageExpression: fmt.Sprintf("%s + request.userInfo.username + %s", quote("user "), quote(" may not write this: "+rule.Says+" ("+rule.ID+")")),
			Reason:            new(metav1.StatusReasonInvalid),
		})
	}
	return out
}

func newPolicy(name string) *admissionregistrationv1.ValidatingAdmissionPolicy {
	out := &admissionregistrationv1.ValidatingAdmissionPolicy{}
	out.SetGroupVersionKind(admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicy"))
	out.Name = name
	out.Spec.FailurePolicy = new(admissionregistrationv1.Fail)
	return out
}

func constraints(operations []admissionregistrationv1.OperationType, resources ...string) *admissionregistrationv1.MatchResources {
	return &admissionregistrationv1.MatchResources{
		NamespaceSelector: &metav1.LabelSelector{}, ObjectSelector: &metav1.LabelSelector{},
		MatchPolicy: new(admissionregistrationv1.Equivalent),
		ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
			RuleWithOperations: admissionregistrationv1.RuleWithOperations{
				Operations: operations,
				// In whatever version an object is written: what is guarded is the
				// same in all, and no conversion has to answer.
				Rule: admissionregistrationv1.Rule{
					APIGroups: []string{"kubevirt.io"}, APIVersions: []string{"*"}, Resources: resources,
					Scope: new(admissionregistrationv1.NamespacedScope),
				},
			},
		}},
	}
}

// Unguarded is CEL that holds for requests that break none of the rules with
// these IDs.
func (g Guard) Unguarded(ids ...string) string {
	return g.trustedCEL() + " || " + g.all(func(r *Rule) bool { return slices.Contains(ids, r.ID) })
}

// Expression is CEL that holds for writes of a kind that break no rule.
func (g Guard) Expression(kind presets.Kind) string {
	return g.all(func(r *Rule) bool { return slices.Contains(r.Kinds, kind) })
}

func (g Guard) all(keep func(*Rule) bool) string {
	var kept []string
	for i := range rules {
		if keep(&rules[i]) {
			kept = append(kept, "("+rules[i].cel(g)+")")
		}
	}
	return strings.Join(kept, " && ")
}

func (g Guard) trustedCEL() string {
	return "request.userInfo.username in " + quote(nonNil(g.Trusted))
}

func nonNil(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// cel is an expression that holds unless the rule is broken.
func (rule *Rule) cel(g Guard) string {
	terms := []string{rule.Part.sameCEL()}
	for _, p := range rule.Unless {
		terms = append(terms, "!("+p.sameCEL()+")")
	}
	if !rule.Create || rule.NotAddon && g.Addon {
		terms = append(terms, `request.operation == "CREATE"`)
	} else {
		terms = append(terms, `request.operation == "CREATE" && `+rule.Part.noneCEL())
	}
	slices.Reverse(terms) // what is quick first
	return strings.Join(terms, " || ")
}

// noneCEL holds only for an object without the part. It is quick, because it does not look at
// types: where one is odd it may be an error, and then the term after it holds.
func (p Part) noneCEL() string {
	at := "object.?" + strings.Join(p.Path, ".?")
	switch {
	case p.Keys != nil:
		return fmt.Sprintf("!%s.exists(k, k in %s.orValue({}))", quote(p.Keys), at)
	case p.selects() && !p.isList():
		return fmt.Sprintf("%s.orValue({}).all(k, !k.startsWith(%s) || k in %s)", at, quote(p.Prefix), quote(nonNil(p.Except)))
	}
	return "!" + at + ".hasValue()"
}

// sameCEL holds when the part is as it was.
func (p Part) sameCEL() string {
	now, old := p.valueCEL("object"), p.valueCEL("oldObject")
	if p.Keys != nil {
		return fmt.Sprintf("%s.all(k, %s[?k] == %s[?k])", quote(p.Keys), now, old)
	}
	if p.Prefix == "" || p.isList() {
		return now + " == " + old
	}
	means := fmt.Sprintf("!k.startsWith(%s) || k in %s || ", quote(p.Prefix), quote(nonNil(p.Except)))
	return fmt.Sprintf("[[%s, %s]].all(p, p[0].all(k, %s k in p[1] && p[0][k] == p[1][k]) && p[1].all(k, %s k in p[0]))", now, old, means, means)
}

// valueCEL is what lies at Path of an object, without what is not meant of a
// list; nothing at all is an empty map or list.
func (p Part) valueCEL(object string) string {
	expression := object
	for _, name := range p.Path {
		expression = fmt.Sprintf("[%s].map(o, type(o) == map ? o[?%s].orValue(dyn(null)) : dyn(null))[0]", expression, quote(name))
	}
	switch {
	case p.isList():
		return fmt.Sprintf("[%s].map(l, type(l) == list ? dyn(l.filter(e, e.startsWith(%s))) : dyn([]))[0]", expression, quote(p.Prefix))
	case p.selects():
		return fmt.Sprintf("[%s].map(m, type(m) == map ? m : dyn({}))[0]", expression)
	}
	return fmt.Sprintf("[%s].map(v, v == dyn({}) || v == dyn([]) ? dyn(null) : v)[0]", expression)
}

// quote is a string or a list of strings in CEL, whose literals are JSON's and more.
func quote(v any) string {
	text, err := json.Marshal(v)
	if err != nil { // unreachable: strings can be encoded
		return `""`
	}
	return string(text)
}
