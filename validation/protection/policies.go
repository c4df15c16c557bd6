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

const (
	// policySuffix ends the names of the policies.
	policySuffix     = ".protection.virtwright.dev"
	statusPolicyName = "status" + policySuffix
)

// resources holds the plural names of kinds.
var resources = map[presets.Kind]string{
	presets.VirtualMachine:         "virtualmachines",
	presets.VirtualMachineInstance: "virtualmachineinstances",
}

// PolicyNames returns the names of all policies and of their bindings.
func PolicyNames() []string {
	var names []string
	for _, kind := range both {
		names = append(names, resources[kind]+policySuffix)
	}
	return append(names, templatePolicyName, statusPolicyName, podPolicyName, execPolicyName)
}

// Policies returns the rules as policies, and bindings for all namespaces. Every field that an API
// server would default is set.
func (g Guard) Policies() ([]*admissionregistrationv1.ValidatingAdmissionPolicy, []*admissionregistrationv1.ValidatingAdmissionPolicyBinding) {
	var policies []*admissionregistrationv1.ValidatingAdmissionPolicy
	var bindings []*admissionregistrationv1.ValidatingAdmissionPolicyBinding
	for _, kind := range both {
		policies = append(policies, g.policy(kind))
	}
	policies = append(policies, g.templatePolicy())
	if g.Manager != "" && !g.Addon {
		policies = append(policies, g.statusPolicy(), g.podPolicy(), g.execPolicy())
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
	out.Spec.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "not-a-trusted-writer", Expression: "!(" + g.trustedCEL(kind) + ")"}}
	for _, rule := range rules {
		if !slices.Contains(rule.Kinds, kind) {
			continue
		}
		out.Spec.Validations = append(out.Spec.Validations, admissionregistrationv1.Validation{
			Expression: rule.cel(g), Message: rule.Reason,
			MessageExpression: fmt.Sprintf("%s + request.userInfo.username + %s", quote("user "), quote(" may not write this: "+rule.Reason+" ("+rule.ID+")")),
			Reason:            new(metav1.StatusReasonInvalid),
		})
	}
	return out
}

// statusPolicy lets only controllers write the status of VMs, which has requests for starts and
// stops. No webhook checks that.
func (g Guard) statusPolicy() *admissionregistrationv1.ValidatingAdmissionPolicy {
	out := newPolicy(statusPolicyName)
	out.Spec.MatchConstraints = constraints([]admissionregistrationv1.OperationType{admissionregistrationv1.Update}, resources[presets.VirtualMachine]+"/status")
	writers := g.trustedCEL(presets.VirtualMachineInstance) // controllers, too
	out.Spec.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "not-a-trusted-writer", Expression: "!(" + writers + ")"}}
	out.Spec.Validations = []admissionregistrationv1.Validation{{
		Expression: part{Path: []string{"status"}}.sameCEL(), Message: "only the controller of VMs writes their status: start and stop VMs by their spec, or by the subresources start, stop and restart",
		Reason: new(metav1.StatusReasonInvalid),
	}}
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
				// Protected fields are the same in all versions, so no conversion is necessary.
				Rule: admissionregistrationv1.Rule{
					APIGroups: []string{"kubevirt.io"}, APIVersions: []string{"*"}, Resources: resources,
					Scope: new(admissionregistrationv1.NamespacedScope),
				},
			},
		}},
	}
}

// AllowedBy returns CEL that is true for writes of a kind that break none of the rules with these
// IDs.
func (g Guard) AllowedBy(kind presets.Kind, ids ...string) string {
	return g.trustedCEL(kind) + " || " + g.all(func(r *rule) bool { return slices.Contains(ids, r.ID) })
}

// KindExpression returns CEL that is true for writes of a kind that break no rule.
func (g Guard) KindExpression(kind presets.Kind) string {
	return g.all(func(r *rule) bool { return slices.Contains(r.Kinds, kind) })
}

func (g Guard) all(keep func(*rule) bool) string {
	var kept []string
	for i := range rules {
		if keep(&rules[i]) {
			kept = append(kept, "("+rules[i].cel(g)+")")
		}
	}
	return strings.Join(kept, " && ")
}

// UpdateByTrusted returns CEL that is true for updates whose writer Trusts accepts.
func (g Guard) UpdateByTrusted(kind presets.Kind) string {
	return `request.operation == "UPDATE" && (` + g.trustedCEL(kind) + `)`
}

// trustedCEL is Trusts for the requesting user.
func (g Guard) trustedCEL(kind presets.Kind) string {
	if kind == presets.VirtualMachine {
		return userInCEL(g.Trusted)
	}
	return userInCEL(g.Trusted) + " || " + g.ByController()
}

// ByController returns CEL that is true for requests of the controllers of VMs.
func (g Guard) ByController() string { return userInCEL(g.Controllers) }

func userInCEL(users []string) string {
	return "request.userInfo.username in " + QuoteList(users)
}

// cel returns an expression that is true unless the rule is broken.
func (rule *rule) cel(g Guard) string {
	terms := []string{rule.Part.sameCEL()}
	if rule.BeforePod {
		terms = append(terms, deletionPart.valueCEL("oldObject")+" != null", phasePart.valueCEL("oldObject")+" in "+QuoteList(phasesWithPod))
	}
	if !rule.Create || rule.NotAddon && g.Addon {
		terms = append(terms, `request.operation == "CREATE"`)
	} else {
		terms = append(terms, `request.operation == "CREATE" && `+rule.Part.noneCEL())
	}
	if rule.NotControllers && len(g.Controllers) > 0 {
		terms = append(terms, g.ByController())
	}
	slices.Reverse(terms) // fast terms first
	return strings.Join(terms, " || ")
}

// noneCEL is true only for an object without the part. It is fast, because it does not check types.
// A wrong type may cause an error; then the next term decides.
func (p part) noneCEL() string {
	at := "object.?" + strings.Join(p.Path, ".?")
	switch {
	case p.Keys != nil:
		return fmt.Sprintf("!%s.exists(k, k in %s.orValue({}))", quote(p.Keys), at)
	case p.selects() && !p.isList():
		return fmt.Sprintf("%s.orValue({}).all(k, %s)", at, p.excludesCEL())
	}
	return "!" + at + ".hasValue()"
}

// sameCEL is true if the part is unchanged.
func (p part) sameCEL() string {
	now, old := p.valueCEL("object"), p.valueCEL("oldObject")
	if p.Keys != nil {
		return fmt.Sprintf("%s.all(k, %s[?k] == %s[?k])", quote(p.Keys), now, old)
	}
	if !p.selects() || p.isList() {
		return now + " == " + old
	}
	excludes := p.excludesCEL() // evaluated for changed keys only
	return fmt.Sprintf("[[%s, %s]].all(p, p[0].all(k, k in p[1] && p[0][k] == p[1][k] || %s) && p[1].all(k, k in p[0] || %s))", now, old, excludes, excludes)
}

// excludesCEL is true for a key k that the part does not select.
func (p part) excludesCEL() string {
	return fmt.Sprintf("!(%s) || k in %s", p.beginsCEL("k"), QuoteList(p.Except))
}

func (p part) beginsCEL(text string) string {
	if len(p.Prefixes) == 1 {
		return fmt.Sprintf("%s.startsWith(%s)", text, quote(p.Prefixes[0]))
	}
	return fmt.Sprintf("%s.exists(b, %s.startsWith(b))", QuoteList(p.Prefixes), text)
}

// valueCEL is the value at Path, with selected list elements only. An absent value is an empty map
// or list.
func (p part) valueCEL(object string) string {
	expression := object
	for _, name := range p.Path {
		expression = fmt.Sprintf("[%s].map(o, type(o) == map ? o[?%s].orValue(dyn(null)) : dyn(null))[0]", expression, quote(name))
	}
	switch {
	case p.isList():
		return fmt.Sprintf("[%s].map(l, type(l) == list ? dyn(l.filter(e, %s)) : dyn([]))[0]", expression, p.beginsCEL("e"))
	case p.selects():
		return fmt.Sprintf("[%s].map(m, type(m) == map ? m : dyn({}))[0]", expression)
	}
	return fmt.Sprintf("[%s].map(v, v == dyn({}) || v == dyn([]) ? dyn(null) : v)[0]", expression)
}

// quote returns a string or a list of strings in CEL, which accepts JSON literals.
func quote(v any) string {
	text, err := json.Marshal(v)
	if err != nil { // unreachable: strings can be encoded
		return `""`
	}
	return string(text)
}

// QuoteList returns a list of strings in CEL.
func QuoteList(items []string) string { return quote(append([]string{}, items...)) }
