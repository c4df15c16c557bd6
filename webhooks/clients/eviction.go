package clients

import (
	"context"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtwright/virtwright/webhooks"
)

// Evictions handles evictions: it rejects that of a pod whose VMI has eviction strategy External,
// and sets status.evacuationNodeName of the VMI, as KubeVirt does. A controller of the user's reads
// it and stops the VM. While no webhook answers, a PodDisruptionBudget prevents the eviction.
type Evictions struct {
	// Client reads pods and VMIs from API servers, not from a cache.
	Client client.Client
}

// Handle answers one request.
func (e Evictions) Handle(ctx context.Context, req webhooks.Request) webhooks.Response {
	pod := &corev1.Pod{}
	key := types.NamespacedName{Namespace: req.Namespace, Name: req.Name}
	if err := e.Client.Get(ctx, key, pod); err != nil {
		return evictionError(err, "pod")
	}
	owner := metav1.GetControllerOf(pod)
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || pod.DeletionTimestamp != nil
	if ended || owner == nil || owner.Kind != kubevirtv1.VirtualMachineInstanceGroupVersionKind.Kind || pod.Spec.NodeName == "" {
		return allowEviction()
	}
	vmi := &unstructured.Unstructured{}
	vmi.SetGroupVersionKind(kubevirtv1.VirtualMachineInstanceGroupVersionKind)
	if err := e.Client.Get(ctx, types.NamespacedName{Namespace: req.Namespace, Name: owner.Name}, vmi); err != nil {
		return evictionError(err, "VMI")
	}
	strategy, _, _ := unstructured.NestedString(vmi.Object, "spec", "evictionStrategy")
	if strategy != string(kubevirtv1.EvictionStrategyExternal) || vmi.GetUID() != owner.UID {
		return allowEviction()
	}
	recorded, _, _ := unstructured.NestedString(vmi.Object, "status", "evacuationNodeName")
	if recorded != pod.Spec.NodeName && (req.DryRun == nil || !*req.DryRun) {
		patch := fmt.Sprintf(`{"metadata": {"uid": %q}, "status": {"evacuationNodeName": %q}}`, vmi.GetUID(), pod.Spec.NodeName)
		if err := e.Client.Patch(ctx, vmi, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
			return evictionError(err, "VMI")
		}
	}
	return webhooks.Response{AdmissionResponse: admissionv1.AdmissionResponse{Result: &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests,
		Message: fmt.Sprintf("Eviction triggered evacuation of VMI \"%s/%s\"", req.Namespace, owner.Name),
	}}}
}

func allowEviction() webhooks.Response {
	return webhooks.Response{AdmissionResponse: admissionv1.AdmissionResponse{Allowed: true}}
}

// evictionError allows the eviction of a pod or VMI that does not exist.
func evictionError(err error, what string) webhooks.Response {
	if apierrors.IsNotFound(err) {
		return allowEviction()
	}
	return webhooks.Response{AdmissionResponse: admissionv1.AdmissionResponse{Result: &metav1.Status{
		Code: http.StatusInternalServerError, Message: fmt.Sprintf("cannot read or write the %s of an eviction: %v", what, err),
	}}}
}
