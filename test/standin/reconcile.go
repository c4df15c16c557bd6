package standin

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// stage is where a pod is, and since when.
type stage struct {
	uid      types.UID
	phase    corev1.PodPhase
	node     string
	deleting bool
	began    time.Time
}

// Reconcile takes one pod one step further.
func (r *Runtime) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var pod corev1.Pod
	if err := r.client.Get(ctx, req.NamespacedName, &pod); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(req.NamespacedName)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	p := r.options.decide(r.observe(ctx, &pod))
	err := r.apply(ctx, &pod, p)
	switch {
	case apierrors.IsNotFound(err):
		return reconcile.Result{}, nil
	case apierrors.IsConflict(err): // the cache lags; the newer version will arrive
		return reconcile.Result{RequeueAfter: 10 * time.Millisecond}, nil
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("cannot write the pod: %w", err)
	}
	return reconcile.Result{RequeueAfter: p.after}, nil
}

func (r *Runtime) apply(ctx context.Context, pod *corev1.Pod, p plan) error {
	log := ctrl.LoggerFrom(ctx)
	switch {
	case p.bind:
		log.Info("Binds", "node", r.options.Node)
		binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: r.options.Node}}
		binding.Namespace, binding.Name, binding.UID = pod.Namespace, pod.Name, pod.UID
		if r.options.NoGuest != "" { // the API server copies it to the pod
			binding.Annotations = map[string]string{v1alpha1.AnnotationNoGuest: r.options.NoGuest}
		}
		return r.client.SubResource("binding").Create(ctx, pod, binding)
	case p.status != nil:
		log.Info("Writes", "phase", p.status.Phase)
		out := pod.DeepCopy()
		out.Status = *p.status
		return r.client.Status().Patch(ctx, out, client.MergeFromWithOptions(pod, client.MergeFromWithOptimisticLock{}))
	case p.remove:
		log.Info("Removes")
		return r.client.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
	}
	return nil
}

// observe gathers what a decision depends on.
func (r *Runtime) observe(ctx context.Context, pod *corev1.Pod) observation {
	s := observation{pod: pod, now: time.Now()}
	key := client.ObjectKeyFromObject(pod)
	r.mu.Lock()
	defer r.mu.Unlock()
	told, known := r.told[key]
	if s.behaviour = told; !known {
		var err error
		if s.behaviour, err = annotated(pod); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "A guest behaves as others do")
		}
	}
	now := stage{uid: pod.UID, phase: pod.Status.Phase, node: pod.Spec.NodeName, deleting: pod.DeletionTimestamp != nil}
	before := r.since[key]
	if now.began = before.began; now != before {
		now.began = began(pod, s.now)
		r.since[key] = now
	}
	s.since = now.began
	return s
}

func (r *Runtime) forget(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.since, key)
}

// began is when a pod got where it is: now if that may be, since the API has full seconds only.
func began(pod *corev1.Pod, now time.Time) time.Time {
	at := pod.CreationTimestamp.Time
	for i := range pod.Status.ContainerStatuses {
		if running := pod.Status.ContainerStatuses[i].State.Running; running != nil {
			at = running.StartedAt.Time
		}
	}
	if pod.DeletionTimestamp != nil && pod.DeletionGracePeriodSeconds != nil {
		at = pod.DeletionTimestamp.Add(-time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second)
	}
	if now.Sub(at) < time.Second {
		return now
	}
	return at
}
