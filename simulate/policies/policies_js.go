// Package policies evaluates no policies in a browser: API servers' evaluator alone is larger than
// the rest of the engine.
package policies

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/presets"
)

// The types have the fields that other packages use.
type (
	Policy    struct{}
	Binding   struct{}
	Set       struct{}
	Reference struct{}
	Source    struct {
		Policies         []*Policy
		Bindings         []*Binding
		Parameters       []*unstructured.Unstructured
		Namespace        string
		Namespaces       func(name string) *corev1.Namespace
		Others, Rejected []string
	}
	Request struct {
		Kind                     presets.Kind
		Version, Namespace, Name string
		Object, Old              map[string]any
	}
)

// NewSet returns no set, and a note.
func NewSet(*Source) (*Set, []string) {
	return nil, []string{"ValidatingAdmissionPolicies are not evaluated in a browser; use virtwright validate"}
}

// Bound returns no names.
func (*Source) Bound() []string { return nil }

// Evaluate denies nothing.
func (*Set) Evaluate(context.Context, Request) (denied, warnings []string, err error) {
	return nil, nil, nil
}

// With returns the set.
func (s *Set) With(func(string) *corev1.Namespace) *Set { return s }

// NamespaceSelectors returns no selectors.
func (*Set) NamespaceSelectors() []string { return nil }

// JudgesVMIs returns false.
func (*Set) JudgesVMIs() bool { return false }

// NewPolicy reads nothing.
func NewPolicy([]byte, bool) (*Policy, field.ErrorList, error) { return &Policy{}, nil, nil }

// NewBinding reads nothing.
func NewBinding([]byte, bool) (*Binding, field.ErrorList, error) { return &Binding{}, nil, nil }

// MeansVMs returns false.
func MeansVMs([]byte) bool { return false }

// PolicyName returns no name.
func PolicyName([]byte) string { return "" }

// ParamKind returns no kind.
func ParamKind([]byte) schema.GroupVersionKind { return schema.GroupVersionKind{} }

// Parameter reads nothing.
func Parameter([]byte) (*unstructured.Unstructured, error) { return &unstructured.Unstructured{}, nil }

// References returns no parameters.
func References(_, _ [][]byte) []Reference { return nil }
