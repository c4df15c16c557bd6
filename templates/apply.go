package templates

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
	"github.com/virtwright/virtwright/presets"
)

const conflictDelay = 200 * time.Millisecond

func (c *Controller) apply(ctx context.Context, o *observation, d *decision) (reconcile.Result, error) {
	if d.expired {
		uid := client.Preconditions{UID: &o.request.UID}
		return reconcile.Result{}, client.IgnoreNotFound(c.Client.Delete(ctx, o.request, uid))
	}
	if err := c.writeStatus(ctx, o.request, d.status); err != nil || d.create == nil {
		return reconcile.Result{RequeueAfter: d.requeueAfter}, err
	}
	if err := c.Client.Create(ctx, d.create); err != nil {
		return c.reportFailure(ctx, o, d, err)
	}
	d.created.TemplateRef = reference(d.create)
	return reconcile.Result{RequeueAfter: lifetime(o.request)}, c.writeStatus(ctx, o.request, d.created)
}

// reportFailure writes to status why the API server did not create the template.
func (c *Controller) reportFailure(ctx context.Context, o *observation, d *decision, err error) (reconcile.Result, error) {
	result := waits(sspv1alpha1.ReasonWaiting, "cannot create the template: "+err.Error())
	switch {
	case apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err):
		return reconcile.Result{RequeueAfter: d.retryDelay}, nil // the next observation finds the object, or the missing API
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause), ctx.Err() != nil:
		return reconcile.Result{}, ctx.Err()
	case apierrors.IsRequestEntityTooLargeError(err):
		result.reason, result.terminal = sspv1alpha1.ReasonTemplateTooLarge, true
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		result.reason, result.terminal = sspv1alpha1.ReasonRejected, true
	}
	failure := c.writeStatus(ctx, o.request, withConditions(d.status, result, o))
	if failure != nil || result.terminal {
		return reconcile.Result{}, failure
	}
	return reconcile.Result{RequeueAfter: d.retryDelay}, nil
}

// writeStatus writes a status that differs, and then emits an event if Ready has another reason.
func (c *Controller) writeStatus(ctx context.Context, request *sspv1alpha1.VirtualMachineTemplateRequest, status sspv1alpha1.VirtualMachineTemplateRequestStatus) error {
	if apiequality.Semantic.DeepEqual(request.Status, status) {
		return nil
	}
	before := request.DeepCopy()
	request.Status = status
	err := c.Client.Status().Patch(ctx, request, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		request.Status = before.Status
		return fmt.Errorf("cannot write the status of request %s: %w", client.ObjectKeyFromObject(request), err)
	}
	if now, was := ready(&request.Status), ready(&before.Status); now != nil && (was == nil || was.Reason != now.Reason) {
		c.report(request, now)
	}
	return nil
}

const maxWarnings = 50

func finished(status *sspv1alpha1.VirtualMachineTemplateRequestStatus) bool {
	return meta.IsStatusConditionFalse(status.Conditions, sspv1alpha1.ConditionProgressing)
}

func ready(status *sspv1alpha1.VirtualMachineTemplateRequestStatus) *metav1.Condition {
	return meta.FindStatusCondition(status.Conditions, sspv1alpha1.ConditionReady)
}

// describe returns the status of a request with the facts of an outcome: the template and the
// condition Verified, which no other function writes.
func describe(o *observation, result *outcome) sspv1alpha1.VirtualMachineTemplateRequestStatus {
	status := *o.request.Status.DeepCopy()
	status.ObservedGeneration = o.request.Generation
	if result.ready {
		status.TemplateRef = reference(o.existing)
	}
	if g := result.generated; g != nil {
		status.SourceUID, status.TemplateHash = o.source.GetUID(), g.hash
		status.ParameterCount = int32(min(len(g.blueprint.Parameters), 1<<30)) //nolint:gosec // bounded
		status.WithheldParameters, status.Warnings = g.blueprint.Withheld(), g.blueprint.Warnings
		if more := len(status.Warnings) - maxWarnings; more > 0 {
			status.Warnings = append(slices.Clone(status.Warnings[:maxWarnings]), fmt.Sprintf("and %d more, which virtwright template generate prints", more))
		}
		setCondition(&status, o, metav1.Condition{
			Type: sspv1alpha1.ConditionVerified, Status: metav1.ConditionTrue, Reason: sspv1alpha1.ReasonRoundTrip,
			Message: "processing the template with its defaults and the withheld values gives the VirtualMachine",
		})
	}
	if result.verifyErr != nil {
		setCondition(&status, o, metav1.Condition{
			Type: sspv1alpha1.ConditionVerified, Status: metav1.ConditionFalse, Reason: sspv1alpha1.ReasonVerificationFailed, Message: result.verifyErr.Error(),
		})
	}
	return status
}

// withConditions returns a status with the conditions Ready and Progressing of an outcome. No other
// function writes them.
func withConditions(status sspv1alpha1.VirtualMachineTemplateRequestStatus, result outcome, o *observation) sspv1alpha1.VirtualMachineTemplateRequestStatus {
	status = *status.DeepCopy()
	ready, progressing := metav1.ConditionFalse, metav1.ConditionTrue
	if result.ready {
		ready = metav1.ConditionTrue
		if status.CompletionTime == nil {
			status.CompletionTime = &metav1.Time{Time: o.now}
		}
	}
	if result.terminal {
		progressing = metav1.ConditionFalse
	}
	setCondition(&status, o, metav1.Condition{Type: sspv1alpha1.ConditionReady, Status: ready, Reason: result.reason, Message: result.message})
	setCondition(&status, o, metav1.Condition{Type: sspv1alpha1.ConditionProgressing, Status: progressing, Reason: result.reason, Message: result.message})
	return status
}

// setCondition sets a condition, with as much of its message as a condition can hold.
func setCondition(status *sspv1alpha1.VirtualMachineTemplateRequestStatus, o *observation, condition metav1.Condition) {
	const most = 32 << 10 / 4 // characters of up to four bytes
	condition.Message = presets.Escape(condition.Message)
	if runes := []rune(condition.Message); len(runes) > most {
		condition.Message = string(runes[:most-1]) + "…"
	}
	condition.ObservedGeneration, condition.LastTransitionTime = o.request.Generation, metav1.Time{Time: o.now}
	meta.SetStatusCondition(&status.Conditions, condition)
}

func reference(template *unstructured.Unstructured) *sspv1alpha1.TemplateReference {
	return &sspv1alpha1.TemplateReference{
		APIVersion: template.GetAPIVersion(), Kind: template.GetKind(), Namespace: template.GetNamespace(), Name: template.GetName(), UID: template.GetUID(),
	}
}
