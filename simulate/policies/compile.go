//go:build !js

package policies

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	celgo "github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	kjson "sigs.k8s.io/json"
)

var (
	// environments are slow to build.
	environments = sync.OnceValue(func() *environment.EnvSet {
		return environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	})
	withoutVariables = sync.OnceValue(func() cel.Compiler { return cel.NewCompiler(environments()) })
)

type expression struct {
	path    *field.Path
	text    cel.ExpressionAccessor
	options cel.OptionalVariableDeclarations
}

// expressions of a policy by purpose. The lists have the lengths of those in the policy; text is
// nil for a missing message expression.
type expressions struct {
	variables, conditions, validations, messages, annotations []expression
}

// expressionsOf returns the expressions with the variables that an API server declares for each.
func expressionsOf(spec *admissionregistrationv1.ValidatingAdmissionPolicySpec) expressions {
	var out expressions
	at := field.NewPath("spec")
	withUser := cel.OptionalVariableDeclarations{HasParams: spec.ParamKind != nil, HasAuthorizer: true}
	for i, v := range spec.Variables {
		out.variables = append(out.variables, expression{at.Child("variables").Index(i).Child("expression"), &validating.Variable{Name: v.Name, Expression: v.Expression}, withUser})
	}
	for i := range spec.MatchConditions {
		out.conditions = append(out.conditions, expression{at.Child("matchConditions").Index(i).Child("expression"), (*matchconditions.MatchCondition)(&spec.MatchConditions[i]), withUser})
	}
	for i, v := range spec.Validations {
		path := at.Child("validations").Index(i)
		out.validations = append(out.validations, expression{path.Child("expression"),
			&validating.ValidationCondition{Expression: v.Expression, Message: v.Message, Reason: v.Reason}, withUser})
		message := expression{path: path.Child("messageExpression"), options: cel.OptionalVariableDeclarations{HasParams: spec.ParamKind != nil}}
		if v.MessageExpression != "" {
			message.text = &validating.MessageExpressionCondition{MessageExpression: v.MessageExpression}
		}
		out.messages = append(out.messages, message)
	}
	for i, a := range spec.AuditAnnotations {
		out.annotations = append(out.annotations, expression{at.Child("auditAnnotations").Index(i).Child("valueExpression"),
			&validating.AuditAnnotationCondition{Key: a.Key, ValueExpression: a.ValueExpression}, withUser})
	}
	return out
}

// compile leaves expressions that do not compile to each evaluation, like an API server.
func (x *expressions) compile(p *admissionregistrationv1.ValidatingAdmissionPolicy) validating.Validator {
	compiler, err := cel.NewCompositedCompiler(environments())
	if err != nil {
		return validating.NewValidator(nil, nil, nil, nil, p.Spec.FailurePolicy, err)
	}
	for _, v := range x.variables {
		if named, ok := v.text.(cel.NamedExpressionAccessor); ok {
			compiler.CompileAndStoreVariable(named, v.options, environment.StoredExpressions)
		}
	}
	condition := func(of []expression) cel.ConditionEvaluator {
		var texts []cel.ExpressionAccessor
		var options cel.OptionalVariableDeclarations
		for _, e := range of {
			texts, options = append(texts, e.text), e.options
		}
		return compiler.CompileCondition(texts, options, environment.StoredExpressions)
	}
	var matcher matchconditions.Matcher
	if len(x.conditions) > 0 {
		matcher = matchconditions.NewMatcher(condition(x.conditions), p.Spec.FailurePolicy, "policy", "validate", p.Name)
	}
	return validating.NewValidator(condition(x.validations), matcher, condition(x.annotations), condition(x.messages), p.Spec.FailurePolicy, nil)
}

func (x *expressions) check() field.ErrorList {
	var out field.ErrorList
	report := func(e expression, err *apiservercel.Error) {
		switch {
		case err == nil:
		case err.Type == apiservercel.ErrorTypeInvalid:
			out = append(out, field.Invalid(e.path, e.text.GetExpression(), err.Detail))
		default:
			out = append(out, field.InternalError(e.path, errors.New(err.Detail)))
		}
	}
	all := func(compiler cel.Compiler, of []expression) {
		for _, e := range of {
			if e.text != nil {
				report(e, compiler.CompileCELExpression(e.text, e.options, environment.NewExpressions).Error)
			}
		}
	}
	all(withoutVariables(), x.conditions)
	compiler := withoutVariables()
	if len(x.variables) > 0 {
		composed, err := cel.NewCompositedCompiler(environments())
		if err != nil {
			return append(out, field.InternalError(field.NewPath("spec", "variables"), err))
		}
		for _, v := range x.variables {
			if named, ok := v.text.(cel.NamedExpressionAccessor); ok {
				report(v, composed.CompileAndStoreVariable(named, v.options, environment.NewExpressions).Error)
			}
		}
		compiler = composed
	}
	for i := range x.validations {
		all(compiler, x.validations[i:i+1])
		all(compiler, x.messages[i:i+1])
	}
	all(compiler, x.annotations)
	return out
}

// dropUser names the first expression that depends on the requesting user; empty for none. It drops
// messages and annotations that do, which do not decide, and names the first of these messages.
func (x *expressions) dropUser() (decides, tells string, err error) {
	env, err := environments().Env(environment.StoredExpressions)
	if err != nil {
		return "", "", err
	}
	for _, e := range slices.Concat(x.conditions, x.variables, x.validations) {
		if decides = userOf(env, e); decides != "" {
			return decides, "", nil
		}
	}
	for i := range x.messages {
		if uses := userOf(env, x.messages[i]); uses != "" {
			tells, x.messages[i].text = cmp.Or(tells, uses), nil
		}
	}
	x.annotations = slices.DeleteFunc(x.annotations, func(e expression) bool { return userOf(env, e) != "" })
	return "", tells, nil
}

// userOf says where an expression depends on the requesting user; empty if it does not.
func userOf(env *celgo.Env, e expression) string {
	if e.text == nil {
		return ""
	}
	parsed, issues := env.Parse(e.text.GetExpression())
	if issues.Err() != nil {
		return "" // reported by check
	}
	root := celast.NavigateAST(parsed.NativeRep())
	for _, node := range append(celast.MatchDescendants(root, celast.KindMatcher(celast.IdentKind)), root) {
		if needs := userIn(node); needs != "" {
			return fmt.Sprintf("%s uses %s", e.path, needs)
		}
	}
	return ""
}

// An expression that passes request as a whole may use the user.
func userIn(node celast.NavigableExpr) string {
	if node.Kind() != celast.IdentKind {
		return ""
	}
	name := node.AsIdent()
	if name == cel.AuthorizerVarName {
		return name
	}
	if name != cel.RequestVarName {
		return ""
	}
	const user = "userInfo"
	parent, ok := node.Parent()
	if !ok {
		return cel.RequestVarName + "." + user
	}
	switch parent.Kind() {
	case celast.SelectKind:
		if parent.AsSelect().FieldName() != user {
			return ""
		}
	case celast.CallKind:
		call := parent.AsCall()
		if args := call.Args(); call.FunctionName() == operators.OptSelect && args[0].ID() == node.ID() && args[1].AsLiteral().Value() != user {
			return ""
		}
	}
	return cel.RequestVarName + "." + user
}

// parameters replaces an API server's informer for one kind.
type parameters struct {
	cache.SharedIndexInformer // only HasSynced is called
	objects                   []*unstructured.Unstructured
}

// HasSynced returns true.
func (parameters) HasSynced() bool { return true }

// Informer returns the parameters.
func (p parameters) Informer() cache.SharedIndexInformer { return p }

// Lister returns the parameters.
func (p parameters) Lister() cache.GenericLister { return p }

// ByNamespace returns the parameters of one namespace.
func (p parameters) ByNamespace(namespace string) cache.GenericNamespaceLister {
	var out parameters
	for _, o := range p.objects {
		if o.GetNamespace() == namespace {
			out.objects = append(out.objects, o)
		}
	}
	return out
}

// List returns the parameters with these labels, ordered by name.
func (p parameters) List(selector labels.Selector) ([]runtime.Object, error) {
	var out []runtime.Object
	for _, o := range p.objects {
		if selector.Matches(labels.Set(o.GetLabels())) {
			out = append(out, o)
		}
	}
	return out, nil
}

// Get returns the parameter of this name.
func (p parameters) Get(name string) (runtime.Object, error) {
	for _, o := range p.objects {
		if o.GetName() == name {
			return o, nil
		}
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{}, name)
}

// Offline, a custom kind is namespaced if an object or a binding names a namespace.
func (s *Source) parametersOf(kind schema.GroupVersionKind) (parameters, meta.RESTScope) {
	var out parameters
	namespaced := kind.Group == "" && !slices.Contains([]string{"Namespace", "Node", "PersistentVolume"}, kind.Kind)
	for _, o := range s.Parameters {
		if o.GroupVersionKind().GroupKind() == kind.GroupKind() {
			out.objects = append(out.objects, o)
			namespaced = namespaced || o.GetNamespace() != ""
		}
	}
	for _, p := range s.Policies {
		for _, b := range s.Bindings {
			names := b.object.Spec.PolicyName == p.object.Name && b.object.Spec.ParamRef != nil && b.object.Spec.ParamRef.Namespace != ""
			namespaced = namespaced || names && paramKind(p.object.Spec.ParamKind) == kind
		}
	}
	slices.SortStableFunc(out.objects, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	if !namespaced {
		return out, meta.RESTScopeRoot
	}
	for i, o := range out.objects {
		if o.GetNamespace() == "" {
			out.objects[i] = o.DeepCopy()
			out.objects[i].SetNamespace(s.Namespace)
		}
	}
	return out, meta.RESTScopeNamespace
}

// Parameter decodes a parameter. Built-in kinds are normalized like in an API server: quantities
// are strings, and the stringData of a Secret becomes data.
func Parameter(raw []byte) (*unstructured.Unstructured, error) {
	out := &unstructured.Unstructured{}
	if err := out.UnmarshalJSON(raw); err != nil {
		return nil, err
	}
	typed, err := scheme.Scheme.New(out.GroupVersionKind())
	if err != nil {
		return out, nil //nolint:nilerr // a kind of another group
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, typed); err != nil {
		return nil, cmp.Or(nonString(out), err)
	}
	if secret, ok := typed.(*corev1.Secret); ok {
		for key, value := range secret.StringData {
			if secret.Data == nil {
				secret.Data = map[string][]byte{}
			}
			secret.Data[key] = []byte(value)
		}
		secret.StringData = nil
	}
	out.Object, err = runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	return out, err
}

func nonString(o *unstructured.Unstructured) error {
	data, _ := o.Object["data"].(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if _, ok := data[key].(string); !ok && o.GetKind() == "ConfigMap" {
			return field.Invalid(field.NewPath("data").Key(key), data[key], fmt.Sprintf("must be a string: write %q", fmt.Sprint(data[key])))
		}
	}
	return nil
}

// A Reference is what a binding references as parameters: objects by name or by label.
type Reference struct {
	Policy string
	Kind   schema.GroupVersionKind
	// Namespace is empty for the namespace of each VM, and for cluster-scoped kinds.
	Namespace, Name, Selector string
}

// References returns the parameters that bindings (JSON) of policies for VMs reference.
func References(policies, bindings [][]byte) []Reference {
	kinds := map[string][]schema.GroupVersionKind{} // several if a file replaces a stored policy
	for _, raw := range policies {
		p := &admissionregistrationv1.ValidatingAdmissionPolicy{}
		if decode(raw, p, true) != nil || p.Spec.MatchConstraints == nil {
			continue // reported when it is read
		}
		if defaultPolicy(&p.Spec); slices.ContainsFunc(p.Spec.MatchConstraints.ResourceRules, concernsVMs) {
			if kind := paramKind(p.Spec.ParamKind); !kind.Empty() && !slices.Contains(kinds[p.Name], kind) {
				kinds[p.Name] = append(kinds[p.Name], kind)
			}
		}
	}
	var out []Reference
	for _, raw := range bindings {
		b := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
		if decode(raw, b, true) != nil || b.Spec.ParamRef == nil {
			continue
		}
		for _, kind := range kinds[b.Spec.PolicyName] {
			ref := Reference{Policy: b.Spec.PolicyName, Kind: kind, Namespace: b.Spec.ParamRef.Namespace, Name: b.Spec.ParamRef.Name}
			if b.Spec.ParamRef.Selector != nil {
				ref.Selector = metav1.FormatLabelSelector(b.Spec.ParamRef.Selector)
			}
			if ref.Selector == "<none>" { // selects all
				ref.Selector = ""
			}
			if !slices.Contains(out, ref) {
				out = append(out, ref)
			}
		}
	}
	return out
}
