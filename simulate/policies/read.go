//go:build !js

package policies

import (
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	apivalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
	apiservercel "k8s.io/apiserver/pkg/cel"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/presets/spelling"
)

// A Policy is a decoded ValidatingAdmissionPolicy.
type Policy struct {
	object    *admissionregistrationv1.ValidatingAdmissionPolicy
	evaluator validating.Validator
	// user is the reason why the policy cannot be evaluated without a user.
	user string
	// message is the reason why a message is unknown without a user.
	message string
}

// A Binding is a decoded ValidatingAdmissionPolicyBinding.
type Binding struct {
	object *admissionregistrationv1.ValidatingAdmissionPolicyBinding
	stored bool
}

// NewPolicy decodes a policy. It returns nil if the policy does not match VMs or VMIs. The list has
// the errors of an API server; a stored policy has none.
func NewPolicy(raw []byte, stored bool) (*Policy, field.ErrorList, error) {
	object := &admissionregistrationv1.ValidatingAdmissionPolicy{}
	if err := decode(raw, object, stored); err != nil {
		return nil, nil, err
	}
	defaultPolicy(&object.Spec)
	all := expressionsOf(&object.Spec)
	if !stored {
		if problems := slices.Concat(checkSpec(&object.Spec), checkEntries(object), all.check()); len(problems) > 0 {
			return nil, problems, nil
		}
	}
	if constraints := object.Spec.MatchConstraints; constraints != nil && len(constraints.ResourceRules) > 0 && !slices.ContainsFunc(constraints.ResourceRules, concernsVMs) {
		return nil, nil, nil
	}
	user, message, err := all.dropUser()
	return &Policy{object, all.compile(object), user, message}, nil, err
}

// NewBinding decodes a binding like NewPolicy.
func NewBinding(raw []byte, stored bool) (*Binding, field.ErrorList, error) {
	object := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
	if err := decode(raw, object, stored); err != nil {
		return nil, nil, err
	}
	defaultResources(object.Spec.MatchResources)
	if problems := checkBinding(&object.Spec); !stored && len(problems) > 0 {
		return nil, problems, nil
	}
	return &Binding{object, stored}, nil, nil
}

// ParamKind returns the kind of a policy's parameters; empty for none.
func ParamKind(raw []byte) schema.GroupVersionKind {
	object := &admissionregistrationv1.ValidatingAdmissionPolicy{}
	if decode(raw, object, true) != nil {
		return schema.GroupVersionKind{}
	}
	return paramKind(object.Spec.ParamKind)
}

func paramKind(of *admissionregistrationv1.ParamKind) schema.GroupVersionKind {
	if of == nil {
		return schema.GroupVersionKind{}
	}
	return schema.FromAPIVersionAndKind(of.APIVersion, of.Kind)
}

func decode(raw []byte, into any, stored bool) error {
	strict, err := kjson.UnmarshalStrict(raw, into)
	if err == nil && len(strict) > 0 && !stored {
		return runtime.NewStrictDecodingError(strict)
	}
	return err
}

func defaultPolicy(spec *admissionregistrationv1.ValidatingAdmissionPolicySpec) {
	if spec.FailurePolicy == nil {
		spec.FailurePolicy = new(admissionregistrationv1.Fail)
	}
	defaultResources(spec.MatchConstraints)
}

func defaultResources(r *admissionregistrationv1.MatchResources) {
	if r == nil {
		return
	}
	if r.MatchPolicy == nil {
		r.MatchPolicy = new(admissionregistrationv1.Equivalent)
	}
	if r.NamespaceSelector == nil {
		r.NamespaceSelector = &metav1.LabelSelector{}
	}
	if r.ObjectSelector == nil {
		r.ObjectSelector = &metav1.LabelSelector{}
	}
	for _, of := range [][]admissionregistrationv1.NamedRuleWithOperations{r.ResourceRules, r.ExcludeResourceRules} {
		for i := range of {
			if of[i].Scope == nil {
				of[i].Scope = new(admissionregistrationv1.AllScopes)
			}
		}
	}
}

// checkSpec returns the errors of an API server, except for expressions.
func checkSpec(spec *admissionregistrationv1.ValidatingAdmissionPolicySpec) field.ErrorList {
	var out field.ErrorList
	at := field.NewPath("spec")
	out = append(out, supported(at.Child("failurePolicy"), *spec.FailurePolicy, admissionregistrationv1.Fail, admissionregistrationv1.Ignore)...)
	if spec.ParamKind != nil && (spec.ParamKind.APIVersion == "" || spec.ParamKind.Kind == "") {
		out = append(out, field.Required(at.Child("paramKind"), "apiVersion and kind must be specified"))
	}
	if spec.MatchConstraints == nil {
		out = append(out, field.Required(at.Child("matchConstraints"), ""))
	} else if len(spec.MatchConstraints.ResourceRules) == 0 {
		out = append(out, field.Required(at.Child("matchConstraints", "resourceRules"), ""))
	}
	out = append(out, checkResources(spec.MatchConstraints, at.Child("matchConstraints"))...)
	if len(spec.Validations) == 0 && len(spec.AuditAnnotations) == 0 {
		const lacking = "validations or auditAnnotations must contain at least one item"
		out = append(out, field.Required(at.Child("validations"), lacking), field.Required(at.Child("auditAnnotations"), lacking))
	}
	return out
}

// checkEntries returns the errors of an API server about names, messages and reasons.
func checkEntries(p *admissionregistrationv1.ValidatingAdmissionPolicy) field.ErrorList {
	var out field.ErrorList
	at := field.NewPath("spec")
	for i, v := range p.Spec.Variables {
		escaped, _ := apiservercel.Escape(v.Name)
		if isReserved := escaped == "__"+v.Name+"__"; isReserved || len(apivalidation.IsCIdentifier(v.Name)) > 0 {
			out = append(out, field.Invalid(at.Child("variables").Index(i).Child("name"), v.Name, "must be a valid CEL identifier"))
		}
	}
	out = append(out, checkNames(at.Child("matchConditions"), "name", "", p.Spec.MatchConditions,
		func(c admissionregistrationv1.MatchCondition) string { return c.Name })...)
	out = append(out, checkNames(at.Child("auditAnnotations"), "key", p.Name+"/", p.Spec.AuditAnnotations,
		func(a admissionregistrationv1.AuditAnnotation) string { return a.Key })...)
	for i, v := range p.Spec.Validations {
		path := at.Child("validations").Index(i)
		switch text := strings.TrimSpace(v.Message); {
		case text == "" && v.Message != "":
			out = append(out, field.Invalid(path.Child("message"), v.Message, "must be non-empty if specified"))
		case strings.ContainsAny(text, "\r\n"):
			out = append(out, field.Invalid(path.Child("message"), v.Message, "must not contain line breaks"))
		}
		if v.Reason != nil {
			out = append(out, supported(path.Child("reason"), *v.Reason, metav1.StatusReasonForbidden, metav1.StatusReasonInvalid, metav1.StatusReasonRequestEntityTooLarge)...)
		}
	}
	return out
}

// checkNames reports names of entries that are no qualified names, and those that occur twice.
func checkNames[T any](at *field.Path, name, prefix string, of []T, nameOf func(T) string) field.ErrorList {
	var out field.ErrorList
	known := sets.Set[string]{}
	for i, entry := range of {
		is, path := nameOf(entry), at.Index(i).Child(name)
		if is == "" {
			out = append(out, field.Required(path, ""))
			continue
		}
		for _, reason := range apivalidation.IsQualifiedName(prefix + is) {
			out = append(out, field.Invalid(path, is, reason))
		}
		if known.Has(is) {
			out = append(out, field.Duplicate(path, is))
		}
		known.Insert(is)
	}
	return out
}

// checkResources returns the errors of an API server about defaulted resources; nil has none.
func checkResources(r *admissionregistrationv1.MatchResources, at *field.Path) field.ErrorList {
	if r == nil {
		return nil
	}
	return slices.Concat(
		supported(at.Child("matchPolicy"), *r.MatchPolicy, admissionregistrationv1.Equivalent, admissionregistrationv1.Exact),
		checkSelector(r.NamespaceSelector, at.Child("namespaceSelector")), checkSelector(r.ObjectSelector, at.Child("objectSelector")),
		checkOperations(r.ResourceRules, at.Child("resourceRules")), checkOperations(r.ExcludeResourceRules, at.Child("excludeResourceRules")))
}

func checkSelector(s *metav1.LabelSelector, at *field.Path) field.ErrorList {
	return metav1validation.ValidateLabelSelector(s, metav1validation.LabelSelectorValidationOptions{}, at)
}

func checkOperations(rules []admissionregistrationv1.NamedRuleWithOperations, at *field.Path) field.ErrorList {
	var out field.ErrorList
	for i, rule := range rules {
		for j, operation := range rule.Operations {
			out = append(out, supported(at.Index(i).Child("operations").Index(j), operation, admissionregistrationv1.OperationAll,
				admissionregistrationv1.Connect, admissionregistrationv1.Create, admissionregistrationv1.Delete, admissionregistrationv1.Update)...)
		}
	}
	return out
}

func supported[T ~string](at *field.Path, value T, allowed ...T) field.ErrorList {
	if slices.Contains(allowed, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(at, value, allowed)}
}

// MeansVMs reports whether a policy that matches no VM has a resource name that is almost right.
func MeansVMs(raw []byte) bool {
	object := &admissionregistrationv1.ValidatingAdmissionPolicy{}
	if decode(raw, object, true) != nil || object.Spec.MatchConstraints == nil {
		return false
	}
	known := slices.Values([]string{"virtualmachines", "virtualmachineinstances"})
	return slices.ContainsFunc(object.Spec.MatchConstraints.ResourceRules, func(rule admissionregistrationv1.NamedRuleWithOperations) bool {
		return slices.ContainsFunc(rule.Resources, func(name string) bool { return spelling.Nearest(name, known) != "" })
	})
}

func checkBinding(spec *admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec) field.ErrorList {
	var out field.ErrorList
	at := field.NewPath("spec")
	if spec.PolicyName == "" {
		out = append(out, field.Required(at.Child("policyName"), ""))
	}
	if ref := spec.ParamRef; ref != nil {
		switch {
		case ref.Name == "" && ref.Selector == nil:
			out = append(out, field.Required(at.Child("paramRef"), "one of name or selector must be specified"))
		case ref.Name != "" && ref.Selector != nil:
			out = append(out, field.Forbidden(at.Child("paramRef", "name"), "name and selector are mutually exclusive"))
		}
		out = append(out, checkSelector(ref.Selector, at.Child("paramRef", "selector"))...)
		path := at.Child("paramRef", "parameterNotFoundAction")
		if ref.ParameterNotFoundAction == nil {
			out = append(out, field.Required(path, ""))
		} else {
			out = append(out, supported(path, *ref.ParameterNotFoundAction, admissionregistrationv1.AllowAction, admissionregistrationv1.DenyAction)...)
		}
	}
	out = append(out, checkResources(spec.MatchResources, at.Child("matchResources"))...)
	actions, path := spec.ValidationActions, at.Child("validationActions")
	for i, action := range actions {
		out = append(out, supported(path.Index(i), action, admissionregistrationv1.Audit, admissionregistrationv1.Deny, admissionregistrationv1.Warn)...)
		if slices.Contains(actions[:i], action) {
			out = append(out, field.Duplicate(path.Index(i), action))
		}
	}
	if slices.Contains(actions, admissionregistrationv1.Deny) && slices.Contains(actions, admissionregistrationv1.Warn) {
		out = append(out, field.Invalid(path, actions, "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)"))
	}
	if len(actions) == 0 {
		out = append(out, field.Required(path, "at least one validation action is required"))
	}
	return out
}

func concernsVMs(rule admissionregistrationv1.NamedRuleWithOperations) bool {
	return matchesRule(rule, admission.Create, served...) || matchesRule(rule, admission.Update, served...)
}

func matchesRule(rule admissionregistrationv1.NamedRuleWithOperations, operation admission.Operation, kinds ...servedKind) bool {
	return slices.ContainsFunc(kinds, func(k servedKind) bool {
		attributes := admission.NewAttributesRecord(nil, nil, k.gvk(), metav1.NamespaceDefault, "", k.gvr(), "", operation, nil, false, nil)
		return (&rules.Matcher{Rule: rule.RuleWithOperations, Attr: attributes}).Matches()
	})
}

// PolicyName returns the policy of a binding.
func PolicyName(raw []byte) string {
	object := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
	if decode(raw, object, true) != nil {
		return ""
	}
	return object.Spec.PolicyName
}
