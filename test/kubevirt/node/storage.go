package node

import (
	"context"
	_ "embed"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Storage is the manifest of the StorageClass, and of the objects by which KubeVirt knows it.
//
//go:embed storage.yaml
var Storage string

// size is that of a volume that does not say its size, and of each snapshot.
const size = "10Gi"

// reconcileClaim binds a claim at once, and lets it go when it is deleted: the control plane has no
// controller for the protection of claims in use.
func (n *Nodes) reconcileClaim(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	claim := &corev1.PersistentVolumeClaim{}
	if err := n.client.Get(ctx, req.NamespacedName, claim); err != nil {
		return reconcile.Result{}, err
	}
	next := decideClaim(claim)
	if !equality.Semantic.DeepEqual(claim.ObjectMeta, next.ObjectMeta) || !equality.Semantic.DeepEqual(claim.Spec, next.Spec) {
		return reconcile.Result{}, n.client.Update(ctx, next) // the event of this write comes for the status
	}
	if !equality.Semantic.DeepEqual(claim.Status, next.Status) {
		return reconcile.Result{}, n.client.Status().Update(ctx, next)
	}
	return reconcile.Result{}, nil
}

func decideClaim(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	next := claim.DeepCopy()
	if claim.DeletionTimestamp != nil {
		next.Finalizers = slices.DeleteFunc(next.Finalizers, func(f string) bool { return f == "kubernetes.io/pvc-protection" })
		return next
	}
	if next.Spec.VolumeName == "" {
		next.Spec.VolumeName = "pv-" + string(claim.UID)
	}
	next.Status.Phase, next.Status.AccessModes = corev1.ClaimBound, claim.Spec.AccessModes
	next.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: *claim.Spec.Resources.Requests.Storage()}
	return next
}

// reconcileDataVolume does the work of CDI: a claim for each DataVolume, filled at once.
func (n *Nodes) reconcileDataVolume(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	volume := &cdiv1.DataVolume{}
	if err := n.client.Get(ctx, req.NamespacedName, volume); err != nil || volume.DeletionTimestamp != nil {
		return reconcile.Result{}, err
	}
	claim := &corev1.PersistentVolumeClaim{}
	if err := n.client.Get(ctx, req.NamespacedName, claim); apierrors.IsNotFound(err) {
		return reconcile.Result{}, n.client.Create(ctx, claimOf(volume)) // the claim's event comes for the status
	} else if err != nil {
		return reconcile.Result{}, err
	}
	if claim.Status.Phase != corev1.ClaimBound || volume.Status.Phase == cdiv1.Succeeded {
		return reconcile.Result{}, nil
	}
	volume.Status.Phase, volume.Status.Progress, volume.Status.ClaimName = cdiv1.Succeeded, "100.0%", claim.Name
	volume.Status.Conditions = []cdiv1.DataVolumeCondition{
		{Type: cdiv1.DataVolumeReady, Status: corev1.ConditionTrue},
		{Type: cdiv1.DataVolumeBound, Status: corev1.ConditionTrue},
		{Type: cdiv1.DataVolumeRunning, Status: corev1.ConditionFalse},
	}
	return reconcile.Result{}, n.client.Update(ctx, volume)
}

// claimOf is the claim that CDI makes for a DataVolume.
func claimOf(volume *cdiv1.DataVolume) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: volume.Namespace, Name: volume.Name,
			Annotations:     map[string]string{"cdi.kubevirt.io/storage.condition.running": "false"},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(volume, cdiv1.SchemeGroupVersion.WithKind("DataVolume"))},
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			VolumeMode:  new(corev1.PersistentVolumeBlock),
		},
	}
	if given := volume.Spec.PVC; given != nil {
		claim.Spec = *given.DeepCopy()
	}
	if given := volume.Spec.Storage; given != nil {
		claim.Spec.StorageClassName, claim.Spec.Resources = given.StorageClassName, given.Resources
	}
	if claim.Spec.Resources.Requests.Storage().IsZero() {
		claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	}
	return claim
}

// snapshot is an empty VolumeSnapshot.
func snapshot() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot"}}
}

// reconcileSnapshot makes a snapshot ready at once.
func (n *Nodes) reconcileSnapshot(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	s := snapshot()
	if err := n.client.Get(ctx, req.NamespacedName, s); err != nil || s.Object["status"] != nil || s.GetDeletionTimestamp() != nil {
		return reconcile.Result{}, err
	}
	created := s.GetCreationTimestamp()
	s.Object["status"] = map[string]any{
		"readyToUse": true, "restoreSize": size, "boundVolumeSnapshotContentName": "content-" + string(s.GetUID()),
		"creationTime": created.ToUnstructured(),
	}
	return reconcile.Result{}, n.client.Update(ctx, s, client.FieldOwner("simulated-node"))
}
