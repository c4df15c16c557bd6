package webhooks

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
)

// reapplyUser is the user of simulated requests. No cluster trusts it.
const reapplyUser = "anybody"

// Reapply answers a request that reapplies all presets to a stored VM, without the API server. It
// returns the VM as it would be stored, or the problems with which the webhooks or the schema would
// reject it. It returns an error if the webhooks cannot answer now. It does not consider other
// webhooks, ValidatingAdmissionPolicies, and the permission to use named presets.
func (s *Server) Reapply(ctx context.Context, stored *unstructured.Unstructured) (after *unstructured.Unstructured, problems []presets.Problem, err error) {
	request, err := reapplyRequest(stored)
	if err != nil {
		return nil, nil, err
	}
	mutated := handleSafely(ctx, s.Mutator(presets.VirtualMachine), request)
	if !mutated.Allowed {
		return rejected(mutated)
	}
	raw, err := mutated.Apply(request.Object.Raw)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot apply the patch: %w", err)
	}
	after = &unstructured.Unstructured{}
	if err := after.UnmarshalJSON(raw); err != nil {
		return nil, nil, fmt.Errorf("cannot read the patched VM: %w", err)
	}
	shape := presets.CheckSchema(presets.VirtualMachine, after.Object)
	if len(shape.Mistyped) > 0 {
		return nil, presets.ProblemsOf(shape.Mistyped), nil
	}
	if shape.Default() {
		if raw, err = after.MarshalJSON(); err != nil {
			return nil, nil, err
		}
	}
	validator := s.Validator(presets.VirtualMachine)
	validator.Unbounded, validator.Authorizer = true, nil
	request.Object.Raw = raw
	if validated := handleSafely(ctx, validator, request); !validated.Allowed {
		return rejected(validated)
	}
	return after, nil, nil
}

func reapplyRequest(stored *unstructured.Unstructured) (Request, error) {
	raw, err := stored.MarshalJSON()
	if err != nil {
		return Request{}, err
	}
	sent := stored.DeepCopy()
	annotations := sent.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[v1alpha1.AnnotationReapply] = "+" + annotations[v1alpha1.AnnotationReapply] // names no presets
	sent.SetAnnotations(annotations)
	changed, err := sent.MarshalJSON()
	kind := metav1.GroupVersionKind(kubevirtv1.VirtualMachineGroupVersionKind)
	return Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: admissionv1.Update, Kind: kind, RequestKind: &kind, Name: stored.GetName(), Namespace: stored.GetNamespace(),
		Object: runtime.RawExtension{Raw: changed}, OldObject: runtime.RawExtension{Raw: raw},
		UserInfo: authenticationv1.UserInfo{Username: reapplyUser},
	}}, err
}

func rejected(r Response) (*unstructured.Unstructured, []presets.Problem, error) {
	if r.Result.Code == http.StatusServiceUnavailable {
		return nil, nil, errors.New(r.Result.Message)
	}
	return nil, r.Problems, nil
}
