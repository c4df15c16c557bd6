package clients

import (
	"context"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/virtwright/virtwright/webhooks"
)

// Evictions records, before the pod of a VMI with eviction strategy External is evicted, the node
// that the VMI must leave in status.evacuationNodeName, as KubeVirt does. A controller of the
// user's reads it and stops the VM. A PodDisruptionBudget prevents the eviction itself, so the
// answer reveals nothing about the pod: it always allows.
type Evictions struct {
	// Client reads pods, nodes and VMIs from API servers, not from a cache.
	Client client.Client
	// Authenticated is true if only API servers are answered. Otherwise anybody can send a review,
	// so evictions count only if the node is cordoned, or has a taint that the pod does not
	// tolerate.
	Authenticated bool
}

// Handle answers one request.
func (e Evictions) Handle(ctx context.Context, req webhooks.Request) webhooks.Response {
	if req.DryRun == nil || !*req.DryRun {
		if err := e.record(ctx, types.NamespacedName{Namespace: req.Namespace, Name: req.Name}); client.IgnoreNotFound(err) != nil {
			log.FromContext(ctx).Error(err, "Cannot record an eviction", "namespace", req.Namespace, "pod", req.Name)
		}
	}
	return webhooks.Response{AdmissionResponse: admissionv1.AdmissionResponse{Allowed: true}}
}

func (e Evictions) record(ctx context.Context, key types.NamespacedName) error {
	pod := &corev1.Pod{}
	if err := e.Client.Get(ctx, key, pod); err != nil {
		return err
	}
	owner := metav1.GetControllerOf(pod)
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || pod.DeletionTimestamp != nil
	if ended || owner == nil || owner.Kind != kubevirtv1.VirtualMachineInstanceGroupVersionKind.Kind || pod.Spec.NodeName == "" {
		return nil
	}
	vmi := &unstructured.Unstructured{}
	vmi.SetGroupVersionKind(kubevirtv1.VirtualMachineInstanceGroupVersionKind)
	if err := e.Client.Get(ctx, types.NamespacedName{Namespace: key.Namespace, Name: owner.Name}, vmi); err != nil {
		return err
	}
	strategy, _, _ := unstructured.NestedString(vmi.Object, "spec", "evictionStrategy")
	recorded, _, _ := unstructured.NestedString(vmi.Object, "status", "evacuationNodeName")
	if strategy != string(kubevirtv1.EvictionStrategyExternal) || vmi.GetUID() != owner.UID || recorded == pod.Spec.NodeName {
		return nil
	}
	if leaves, err := e.mustLeave(ctx, pod); err != nil || !leaves {
		return err
	}
	patch := fmt.Sprintf(`{"metadata": {"uid": %q}, "status": {"evacuationNodeName": %q}}`, vmi.GetUID(), pod.Spec.NodeName)
	return e.Client.Patch(ctx, vmi, client.RawPatch(types.MergePatchType, []byte(patch)))
}

// mustLeave reports whether a pod must leave its node.
func (e Evictions) mustLeave(ctx context.Context, pod *corev1.Pod) (bool, error) {
	if e.Authenticated {
		return true, nil
	}
	node := &corev1.Node{}
	err := e.Client.Get(ctx, types.NamespacedName{Name: pod.Spec.NodeName}, node)
	tainted := slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
		return taint.Effect != corev1.TaintEffectPreferNoSchedule && !slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
			return t.ToleratesTaint(klog.FromContext(ctx), &taint, false)
		})
	})
	return node.Spec.Unschedulable || tainted, err
}
