package fleet

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/utils/ptr"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/presets"
)

// mutatingSpec has the fields of MutatingAdmissionPolicies and of Kyverno's MutatingPolicies that
// presets can express.
type mutatingSpec struct {
	admissionregistrationv1.MutatingAdmissionPolicySpec

	Evaluation struct {
		Admission struct {
			Enabled *bool `json:"enabled"`
		} `json:"admission"`
		Mode string `json:"mode"`
	} `json:"evaluation"`
	Autogen json.RawMessage `json:"autogen"`
	Webhook json.RawMessage `json:"webhookConfiguration"`
}

// importAdmissionPolicy imports a MutatingAdmissionPolicy once for each binding.
func importAdmissionPolicy(p Policy, all []Policy) ([]*mutation, error) {
	var out []*mutation
	for _, other := range all {
		var b admissionregistrationv1.MutatingAdmissionPolicyBinding
		if other.Kind.Kind != kindMutatingBinding {
			continue
		}
		if err := kjson.UnmarshalCaseSensitivePreserveInts(other.JSON, &b); err != nil {
			return nil, fmt.Errorf("%s: %w", other, err)
		}
		if b.Spec.PolicyName != p.Name {
			continue
		}
		made, err := importMutating(p, &b.Spec)
		if err != nil {
			return nil, err
		}
		for _, m := range made {
			m.rule = ""
			if m.name = importedName(p.Name); other.Name != p.Name {
				m.name = importedName(p.Name, other.Name)
			}
		}
		out = append(out, made...)
	}
	if len(out) > 0 {
		return out, nil
	}
	made, err := importMutating(p, nil)
	for _, m := range made {
		m.restricted("spec", nil, "no MutatingAdmissionPolicyBinding of the input binds it, so it has no effect")
	}
	return made, err
}

func importMutatingPolicy(p Policy, _ []Policy) ([]*mutation, error) { return importMutating(p, nil) }

func importMutating(p Policy, binding *admissionregistrationv1.MutatingAdmissionPolicyBindingSpec) ([]*mutation, error) {
	var policy struct {
		Spec json.RawMessage `json:"spec"`
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(p.JSON, &policy); err != nil || policy.Spec == nil {
		return nil, err
	}
	var out []*mutation
	for kind, resource := range map[presets.Kind]string{presets.VirtualMachine: "virtualmachines", presets.VirtualMachineInstance: "virtualmachineinstances"} {
		m, spec := newMutation(kind, importedName(p.Name)), mutatingSpec{}
		if err := m.decodeRule(policy.Spec, "spec.", &spec); err != nil {
			return nil, err
		}
		if !m.selectResources("spec.matchConstraints.", spec.MatchConstraints, resource) {
			continue
		}
		if binding != nil && !m.bind(binding, resource) {
			continue
		}
		m.mutatingSpec(&spec)
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b *mutation) int { return len(a.kind) - len(b.kind) })
	return out, nil
}

// bind adds the restrictions of a binding. It reports false if the binding excludes the resource.
func (m *mutation) bind(b *admissionregistrationv1.MutatingAdmissionPolicyBindingSpec, resource string) bool {
	if b.MatchResources == nil {
		return true
	}
	match := *b.MatchResources
	if len(match.ResourceRules) == 0 {
		match.ResourceRules = []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: everyRule}}
	}
	return m.selectResources("binding: spec.matchResources.", &match, resource)
}

var everyRule = admissionregistrationv1.RuleWithOperations{
	Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll},
	Rule:       admissionregistrationv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*"}},
}

// selectResources adds the selectors. It reports false if no rule concerns the resource.
func (m *mutation) selectResources(at string, r *admissionregistrationv1.MatchResources, resource string) bool {
	if r == nil {
		return false
	}
	concerns := func(rule admissionregistrationv1.NamedRuleWithOperations) bool {
		return slices.ContainsFunc(rule.APIGroups, isName(kubevirtGroup)) && slices.ContainsFunc(rule.Resources, isName(resource)) &&
			ptr.Deref(rule.Scope, "") != admissionregistrationv1.ClusterScope
	}
	rules := slices.DeleteFunc(slices.Clone(r.ResourceRules), func(rule admissionregistrationv1.NamedRuleWithOperations) bool { return !concerns(rule) })
	if len(rules) == 0 {
		return false
	}
	creates := func(rule admissionregistrationv1.NamedRuleWithOperations) bool {
		return len(rule.ResourceNames) == 0 && slices.ContainsFunc(rule.Operations, func(o admissionregistrationv1.OperationType) bool {
			return o == admissionregistrationv1.Create || o == admissionregistrationv1.OperationAll
		})
	}
	if !slices.ContainsFunc(rules, creates) {
		m.restricted(at+"resourceRules", nil, onlyUpdates)
	}
	if slices.ContainsFunc(r.ExcludeResourceRules, concerns) {
		m.restricted(at+"excludeResourceRules", nil, inexpressible)
	}
	both(&m.labels, r.ObjectSelector)
	both(&m.namespaces, r.NamespaceSelector)
	return true
}

func isName(name string) func(string) bool {
	return func(n string) bool { return n == "*" || n == name || n == "*/*" }
}

func (m *mutation) mutatingSpec(s *mutatingSpec) {
	if s.ParamKind != nil {
		m.restricted("spec.paramKind", s.ParamKind.Kind, "presets have no parameters")
	}
	if enabled := s.Evaluation.Admission.Enabled; enabled != nil && !*enabled {
		m.restricted("spec.evaluation.admission.enabled", false, "the policy does not change objects at admission")
	}
	if len(s.MatchConditions) > 0 && m.kind == presets.VirtualMachineInstance {
		m.restricted("spec.matchConditions", nil, "conditions of presets read the VM, not the VMI")
	}
	for _, c := range s.MatchConditions {
		m.condition(c.Name, c.Expression)
	}
	for i, mutation := range s.Mutations {
		at := fmt.Sprintf("spec.mutations[%d]", i)
		if mutation.ApplyConfiguration == nil {
			m.lacks(at, nil, "presets have no JSON patches: set the field with overrides")
			continue
		}
		m.applyConfiguration(at+".applyConfiguration.expression", mutation.ApplyConfiguration.Expression)
	}
}

// applyConfiguration sets the constants of an expression. Source: Kubernetes 1.37, documentation of
// MutatingAdmissionPolicy.
func (m *mutation) applyConfiguration(at, expression string) {
	env, err := cel.NewEnv(cel.OptionalTypes())
	if err != nil {
		m.lacks(at, nil, err.Error())
		return
	}
	parsed, issues := env.Parse(expression)
	if issues.Err() != nil {
		m.lacks(at, nil, "invalid CEL: "+issues.Err().Error())
		return
	}
	root := parsed.NativeRep().Expr()
	if root.Kind() != ast.StructKind || root.AsStruct().TypeName() != "Object" {
		m.lacks(at, nil, "the expression must be Object{…} with constants")
		return
	}
	m.apply(at, root, nil)
}

// apply sets the fields of an object of an apply configuration.
func (m *mutation) apply(at string, e ast.Expr, path []string) {
	switch {
	case e.Kind() == ast.LiteralKind && e.AsLiteral().Type() == types.NullType:
		m.lacks(at, pathText(path), "presets cannot set null: to remove the field, list it in spec.remove")
		return
	case e.Kind() == ast.LiteralKind:
		set(m.overrides, path, e.AsLiteral().Value())
		return
	case e.Kind() == ast.ListKind:
		m.lacks(at, pathText(path), "API servers reject apply configurations that change most lists of a VM: use an override of the preset")
		return
	}
	fields, constant := fieldsOf(e)
	if !constant {
		m.lacks(at, pathText(path), "the value is not a constant: use a computed value ($cel)")
		return
	}
	if len(fields) == 0 && len(path) > 0 {
		set(m.overrides, path, map[string]any{})
	}
	for _, f := range fields {
		m.apply(at, f.value, append(slices.Clip(path), f.name))
	}
}

type celField struct {
	name  string
	value ast.Expr
}

// fieldsOf returns the fields of an object or a map with constant keys.
func fieldsOf(e ast.Expr) (fields []celField, constant bool) {
	switch e.Kind() {
	case ast.StructKind:
		for _, f := range e.AsStruct().Fields() {
			field := f.AsStructField()
			if field.IsOptional() {
				return nil, false
			}
			fields = append(fields, celField{field.Name(), field.Value()})
		}
		return fields, true
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			key := entry.AsMapEntry().Key()
			name, isText := "", false
			if key.Kind() == ast.LiteralKind {
				name, isText = key.AsLiteral().Value().(string)
			}
			if !isText || entry.AsMapEntry().IsOptional() {
				return nil, false
			}
			fields = append(fields, celField{name, entry.AsMapEntry().Value()})
		}
		return fields, true
	}
	return nil, false
}
