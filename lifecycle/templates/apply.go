package templates

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
)

// again is when to look again at what has just changed under our hands.
const again = 200 * time.Millisecond

// apply does what was decided.
func (c *Controller) apply(ctx context.Context, request *sspv1alpha1.VirtualMachineTemplateRequest, p plan) (reconcile.Result, error) {
	if p.remove {
		uid := client.Preconditions{UID: &request.UID}
		return reconcile.Result{}, client.IgnoreNotFound(c.Client.Delete(ctx, request, uid))
	}
	if err := c.write(ctx, request, p.status); err != nil || p.create == nil {
		return reconcile.Result{RequeueAfter: p.after}, err
	}
	err := c.Client.Create(ctx, p.create)
	if err == nil {
		p.done.TemplateRef = refer(p.create)
		return reconcile.Result{RequeueAfter: lifetime(request)}, c.write(ctx, request, p.done)
	}
	return c.notCreated(ctx, request, p, err)
}

// lifetime is how long a request has to live once its template is there; 0 for ever.
func lifetime(request *sspv1alpha1.VirtualMachineTemplateRequest) time.Duration {
	if ttl := request.Spec.TTLSecondsAfterFinished; ttl != nil {
		return max(again, time.Duration(*ttl)*time.Second)
	}
	return 0
}

// notCreated is for a template that API servers did not take.
func (c *Controller) notCreated(ctx context.Context, request *sspv1alpha1.VirtualMachineTemplateRequest, p plan, err error) (reconcile.Result, error) {
	o := outcome{reason: sspv1alpha1.ReasonWaiting, message: "cannot make the template: " + err.Error()}
	switch {
	case apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err):
		return reconcile.Result{RequeueAfter: p.patience}, nil // which is seen then: what has the name, or that the API is gone
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause), ctx.Err() != nil:
		return reconcile.Result{}, ctx.Err()
	case apierrors.IsRequestEntityTooLargeError(err):
		o.reason, o.terminal = sspv1alpha1.ReasonTemplateTooLarge, true
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		o.reason, o.terminal = sspv1alpha1.ReasonRejected, true
	}
	set(&p.status, &o, &sight{request: request, now: c.now()})
	told := c.write(ctx, request, p.status)
	if told != nil || o.terminal {
		return reconcile.Result{}, told
	}
	return reconcile.Result{RequeueAfter: p.patience}, nil
}

// write writes status if it is another, and then tells people what is new in it.
func (c *Controller) write(ctx context.Context, request *sspv1alpha1.VirtualMachineTemplateRequest, status sspv1alpha1.VirtualMachineTemplateRequestStatus) error {
	if apiequality.Semantic.DeepEqual(request.Status, status) {
		return nil
	}
	before := request.DeepCopy()
	request.Status = status
	err := c.Client.Status().Patch(ctx, request, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		request.Status = before.Status
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return errors.Join(errMoved, err)
		}
		return fmt.Errorf("cannot write the status of request %s: %w", keyOf(request), err)
	}
	if now, was := ready(&request.Status), ready(&before.Status); now != nil && (was == nil || was.Reason != now.Reason) {
		c.tell(request, now)
	}
	return nil
}

// errMoved says that the request is not as it was when it was decided about.
var errMoved = errors.New("the request has changed meanwhile")

func ready(status *sspv1alpha1.VirtualMachineTemplateRequestStatus) *metav1.Condition {
	return meta.FindStatusCondition(status.Conditions, sspv1alpha1.ConditionReady)
}
