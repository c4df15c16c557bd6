//go:build !js

// Package policies evaluates ValidatingAdmissionPolicies for VMs and VMIs with the API server's own
// dispatcher, so that results and messages are the same.
package policies

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured/unstructuredscheme"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/policy/generic"
	"k8s.io/apiserver/pkg/admission/plugin/policy/matching"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/warning"
	listersv1 "k8s.io/client-go/listers/core/v1"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/spelling"
	"github.com/virtwright/virtwright/webhooks/conversion"
)

// A Source has the objects that a Set is built from.
type Source struct {
	Policies []*Policy
	Bindings []*Binding
	// Parameters are objects of the parameter kinds.
	Parameters []*unstructured.Unstructured
	// Namespace of parameters without one.
	Namespace string
	// Namespaces returns a namespace by name.
	Namespaces func(name string) *corev1.Namespace
	// Others are the names of policies that do not match VMs. Rejected are the names of policies
	// that are invalid, or that an invalid binding references.
	Others, Rejected []string
}

// A Set evaluates the policies for VMs and VMIs. A nil Set has none. It is safe for concurrent use.
type Set struct {
	// hooks have one binding each, ordered by name of policy and binding.
	hooks      []validating.PolicyHook
	dispatcher generic.Dispatcher[validating.PolicyHook]
	interfaces admission.ObjectInterfaces
}

// Bound returns the names of the policies that have a binding.
func (s *Source) Bound() []string {
	var out []string
	for _, p := range s.Policies {
		if slices.ContainsFunc(s.Bindings, func(b *Binding) bool { return b.object.Spec.PolicyName == p.object.Name }) {
			out = append(out, p.object.Name)
		}
	}
	return out
}

// NewSet binds policies; notes name those without effect or that cannot be evaluated.
func NewSet(s *Source) (set *Set, notes []string) {
	out := (&Set{interfaces: interfaces()}).With(s.Namespaces)
	bound := map[*Binding]bool{}
	for _, p := range s.Policies {
		hook := validating.PolicyHook{Policy: p.object, Evaluator: p.evaluator}
		if kind := paramKind(p.object.Spec.ParamKind); !kind.Empty() {
			hook.ParamInformer, hook.ParamScope = s.parametersOf(kind)
		}
		found := false
		for _, b := range s.Bindings {
			if b.object.Spec.PolicyName != p.object.Name {
				continue
			}
			found, bound[b] = true, true
			notes = append(notes, s.absent(p, b)...)
			if p.user == "" {
				hook.Bindings = []*validating.PolicyBinding{b.object}
				out.hooks = append(out.hooks, hook)
			}
		}
		switch {
		case !found && p.object.ResourceVersion == "" && !slices.Contains(s.Rejected, p.object.Name):
			notes = append(notes, fmt.Sprintf("ValidatingAdmissionPolicy %s has no binding, so it has no effect", p.object.Name))
		case found && p.user != "":
			notes = append(notes, fmt.Sprintf("ValidatingAdmissionPolicy %s is not evaluated: %s, and the user is unknown offline", p.object.Name, p.user))
		case found && p.message != "":
			notes = append(notes, fmt.Sprintf("ValidatingAdmissionPolicy %s has other messages in a cluster: %s, and the user is unknown offline", p.object.Name, p.message))
		}
	}
	notes = append(notes, s.unbound(bound)...)
	slices.SortStableFunc(out.hooks, func(a, b validating.PolicyHook) int {
		return cmp.Or(cmp.Compare(a.Policy.Name, b.Policy.Name), cmp.Compare(a.Bindings[0].Name, b.Bindings[0].Name))
	})
	if len(out.hooks) == 0 {
		return nil, notes
	}
	return out, notes
}

// With returns a copy with other namespaces.
func (s *Set) With(get func(name string) *corev1.Namespace) *Set {
	if s == nil {
		return nil
	}
	out := *s
	out.dispatcher = validating.NewDispatcher(nil, generic.NewPolicyMatcher(matching.NewMatcher(namespaces{get: get}, nil)))
	return &out
}

func (s *Source) unbound(bound map[*Binding]bool) []string {
	var out []string
	for _, b := range s.Bindings {
		if !bound[b] && !b.stored && !slices.Contains(slices.Concat(s.Others, s.Rejected), b.object.Spec.PolicyName) {
			out = append(out, fmt.Sprintf("ValidatingAdmissionPolicyBinding %s has no effect: ValidatingAdmissionPolicy %s does not exist", b.object.Name, b.object.Spec.PolicyName))
		}
	}
	return out
}

// absent ignores stored bindings, because their parameters may be unreadable.
func (s *Source) absent(p *Policy, b *Binding) []string {
	kind, ref := p.object.Spec.ParamKind, b.object.Spec.ParamRef
	if b.stored || p.user != "" || kind == nil || ref == nil || ref.Name == "" || ref.ParameterNotFoundAction == nil || *ref.ParameterNotFoundAction != admissionregistrationv1.DenyAction {
		return nil
	}
	var names []string
	params, _ := s.parametersOf(paramKind(kind))
	for _, o := range params.objects {
		if ref.Namespace == "" || ref.Namespace == o.GetNamespace() {
			names = append(names, o.GetName())
		}
	}
	if slices.Contains(names, ref.Name) {
		return nil
	}
	text := fmt.Sprintf("ValidatingAdmissionPolicyBinding %s has no parameter: %s does not exist", b.object.Name, strings.TrimSpace(kind.Kind+" "+strings.TrimPrefix(ref.Namespace+"/"+ref.Name, "/")))
	return []string{text + spelling.DidYouMean(ref.Name, slices.Values(names))}
}

// Evaluate returns all denials; an API server stops at the first one.
func (s *Set) Evaluate(ctx context.Context, r Request) (denied, warnings []string, err error) {
	if s == nil {
		return nil, nil, nil
	}
	var heard recorder
	ctx = warning.WithWarningRecorder(ctx, &heard)
	for i := range s.hooks {
		err := s.dispatcher.Dispatch(ctx, r.attributes(), s.interfaces, s.hooks[i:i+1])
		if err == nil {
			continue
		}
		status, ok := errors.AsType[*apierrors.StatusError](err)
		if !ok || status.ErrStatus.Details == nil {
			return nil, nil, fmt.Errorf("cannot evaluate ValidatingAdmissionPolicy %s: %w", s.hooks[i].Policy.Name, err)
		}
		for _, cause := range status.ErrStatus.Details.Causes {
			denied = append(denied, cause.Message)
		}
	}
	return denied, heard, nil
}

// NamespaceSelectors returns the names of policies that select namespaces by label.
func (s *Set) NamespaceSelectors() []string {
	if s == nil {
		return nil
	}
	var out []string
	for _, h := range s.hooks {
		of := h.Policy.Spec.MatchConstraints
		selects := of != nil && !empty(of.NamespaceSelector)
		if of := h.Bindings[0].Spec.MatchResources; selects || of != nil && !empty(of.NamespaceSelector) {
			out = append(out, h.Policy.Name)
		}
	}
	return slices.Compact(out)
}

// JudgesVMIs reports whether a policy matches new VMIs.
func (s *Set) JudgesVMIs() bool {
	return s != nil && slices.ContainsFunc(s.hooks, func(h validating.PolicyHook) bool {
		of := h.Policy.Spec.MatchConstraints
		return of != nil && slices.ContainsFunc(of.ResourceRules, func(rule admissionregistrationv1.NamedRuleWithOperations) bool {
			return matchesRule(rule, admission.Create, servedKind{conversion.V1, presets.VirtualMachineInstance}, servedKind{conversion.V1Alpha3, presets.VirtualMachineInstance})
		})
	})
}

type recorder []string

// AddWarning adds a warning.
func (r *recorder) AddWarning(_, text string) { *r = append(*r, text) }

// namespaces replaces an API server's lister.
type namespaces struct {
	listersv1.NamespaceLister // only Get is called
	get                       func(name string) *corev1.Namespace
}

// Get returns a namespace. Every namespace exists.
func (n namespaces) Get(name string) (*corev1.Namespace, error) { return n.get(name), nil }

func empty(selector *metav1.LabelSelector) bool {
	return selector == nil || len(selector.MatchLabels)+len(selector.MatchExpressions) == 0
}

// A Request creates or updates a VM or VMI.
type Request struct {
	Kind presets.Kind
	// Version is the apiVersion in the input.
	Version         string
	Namespace, Name string
	// Object as it would be stored. Old is nil for a creation.
	Object, Old map[string]any
}

func (r Request) attributes() admission.Attributes {
	k := servedKind{r.Version, r.Kind}
	object, old := &unstructured.Unstructured{Object: r.Object}, runtime.Object(nil)
	operation, options := admission.Create, runtime.Object(&metav1.CreateOptions{
		TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "CreateOptions"}, FieldManager: "kubectl-create", FieldValidation: metav1.FieldValidationStrict,
	})
	if r.Old != nil {
		old, operation = &unstructured.Unstructured{Object: r.Old}, admission.Update
		options = &metav1.UpdateOptions{
			TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "UpdateOptions"}, FieldManager: "kubectl-client-side-apply", FieldValidation: metav1.FieldValidationStrict,
		}
	}
	return admission.NewAttributesRecord(object, old, k.gvk(), r.Namespace, r.Name, k.gvr(), "", operation, options, false, &user.DefaultInfo{})
}

type servedKind struct {
	version string
	kind    presets.Kind
}

// served are the versions in which a rule may name VMs and VMIs.
var served = []servedKind{
	{conversion.V1, presets.VirtualMachine}, {conversion.V1Alpha3, presets.VirtualMachine}, {conversion.V1Alpha2, presets.VirtualMachine},
	{conversion.V1, presets.VirtualMachineInstance}, {conversion.V1Alpha3, presets.VirtualMachineInstance},
}

func (k servedKind) gvk() schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(k.version, string(k.kind))
}

func (k servedKind) gvr() schema.GroupVersionResource {
	resource := "virtualmachines"
	if k.kind == presets.VirtualMachineInstance {
		resource = "virtualmachineinstances"
	}
	return k.gvk().GroupVersion().WithResource(resource)
}

func interfaces() admission.ObjectInterfaces {
	equivalent := runtime.NewEquivalentResourceRegistry()
	for _, k := range served {
		equivalent.RegisterKindFor(k.gvr(), "", k.gvk())
	}
	return &admission.RuntimeObjectInterfaces{
		ObjectCreater: unstructuredscheme.NewUnstructuredCreator(), ObjectConvertor: converter{}, EquivalentResourceMapper: equivalent,
	}
}

// converter converts between versions. Only Convert is called.
type converter struct{ runtime.ObjectConvertor }

// Convert converts in to the version of out.
func (converter) Convert(in, out, _ any) error {
	from, known := in.(*unstructured.Unstructured)
	to, ok := out.(*unstructured.Unstructured)
	if !known || !ok {
		return fmt.Errorf("cannot convert %T to %T", in, out)
	}
	var err error
	to.Object, err = conversion.Convert(from.Object, to.GetAPIVersion())
	return err
}
