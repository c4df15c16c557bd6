package templates

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/lifecycle/partialobject"
)

// Delays of the exponential backoff after a rejection.
const (
	minRejectionDelay = time.Second
	maxRejectionDelay = 5 * time.Minute
)

// A Trigger creates a request for the annotation of a VM, with the author of the annotation as
// requester. There is one request for each UID of a VM and value of the annotation: its name
// follows from both. The VM owns the request, which therefore also marks the value as done.
type Trigger struct {
	Client    client.Client // reads from caches, and writes
	Live      client.Reader // reads from API servers
	Authority authority     // reviews whether the author of an annotation may create requests
	// Formats are the names of the enabled formats. The webhook chooses one of them.
	Formats []string
	// Excluded are the namespaces where no webhook records the author of an annotation, so
	// annotations there are ignored.
	Excluded []string
	Events   events.EventRecorder
	// WhileLeading wraps the reconciler so that only the leader reconciles.
	WhileLeading func(reconcile.Reconciler) reconcile.Reconciler

	rejections workqueue.TypedRateLimiter[types.NamespacedName] // by VM
}

// SetupWithManager adds the trigger to a manager.
func (t *Trigger) SetupWithManager(mgr ctrl.Manager) error {
	t.rejections = workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](minRejectionDelay, maxRejectionDelay)
	annotated := predicate.NewPredicateFuncs(func(vm client.Object) bool {
		return vm.GetAnnotations()[v1alpha1.AnnotationGenerateTemplate] != ""
	})
	err := ctrl.NewControllerManagedBy(mgr).Named("template-trigger").
		For(&partialobject.VirtualMachine{}, builder.WithPredicates(annotated, predicate.Or(predicate.AnnotationChangedPredicate{}, predicate.GenerationChangedPredicate{}))).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(t.WhileLeading(t))
	if err != nil {
		return fmt.Errorf("cannot set up the controller of the annotation %s: %w", v1alpha1.AnnotationGenerateTemplate, err)
	}
	return nil
}

// Reconcile creates the request of one VM.
func (t *Trigger) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	vm := &partialobject.VirtualMachine{}
	if err := t.Client.Get(ctx, req.NamespacedName, vm); err != nil || vm.DeletionTimestamp != nil {
		t.rejections.Forget(req.NamespacedName)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	request, err := t.request(vm)
	if err != nil || request == nil {
		if err != nil {
			t.reject(vm, err.Error())
		}
		return reconcile.Result{}, nil
	}
	problem, err := t.create(ctx, vm, request)
	switch {
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("cannot request a template of VirtualMachine %s: %w", req.NamespacedName, err)
	case problem == "":
		t.rejections.Forget(req.NamespacedName)
		return reconcile.Result{}, nil
	}
	t.reject(vm, problem)
	return reconcile.Result{RequeueAfter: t.rejections.When(req.NamespacedName)}, nil
}

// reject emits an event that says why there is no request, or no template.
func (t *Trigger) reject(vm *partialobject.VirtualMachine, why string) {
	t.Events.Eventf(vm, nil, corev1.EventTypeWarning, reasonNotRequested, actionRequest, "%s", partialobject.EventNote(why))
}

// create creates the request unless that was done before. The problem is a rejection, which
// permissions and policies may lift later.
func (t *Trigger) create(ctx context.Context, vm *partialobject.VirtualMachine, request *sspv1alpha1.VirtualMachineTemplateRequest) (problem string, err error) {
	if done, err := t.done(ctx, vm, request); err != nil || done {
		return "", err
	}
	permission := sspv1alpha1.CreateRequestPermission(request.Namespace)
	allowed, err := t.Authority.Allowed(ctx, request.Spec.Requester.UserInfo(), permission.Attributes)
	if err != nil {
		return "", err
	}
	if !allowed {
		return fmt.Sprintf("user %s, who wrote the annotation, may not %s", request.Spec.Requester.Username, permission), nil
	}
	switch err := t.Client.Create(ctx, request); {
	case err == nil:
		t.Events.Eventf(vm, request, corev1.EventTypeNormal, reasonRequested, actionRequest, "%s",
			partialobject.EventNote("Created request "+request.Name+" for template "+vm.Annotations[v1alpha1.AnnotationGenerateTemplate]))
		return "", nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return "", nil
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsAlreadyExists(err):
		return err.Error(), nil
	default:
		return "", err
	}
}

// request returns the request for the annotation of a VM; nil if no user asked for one. The stamp
// of a copied annotation is for another VM or another value.
func (t *Trigger) request(vm *partialobject.VirtualMachine) (*sspv1alpha1.VirtualMachineTemplateRequest, error) {
	value, text := vm.Annotations[v1alpha1.AnnotationGenerateTemplate], vm.Annotations[v1alpha1.AnnotationTemplateRequester]
	switch {
	case value != "" && slices.Contains(t.Excluded, vm.Namespace):
		return nil, fmt.Errorf("%s has no effect in namespace %s: create a %s", v1alpha1.AnnotationGenerateTemplate, vm.Namespace, sspv1alpha1.KindVirtualMachineTemplateRequest)
	case value == "" || text == "":
		return nil, nil //nolint:nilnil // nil is the answer
	}
	stamp, err := sspv1alpha1.ParseRequesterRecord(text)
	if err != nil {
		return nil, err
	}
	if stamp.Value != value || stamp.VMUID != "" && stamp.VMUID != string(vm.UID) {
		return nil, nil //nolint:nilnil // nil is the answer
	}
	trigger := triggerOf(vm.UID, value)
	out := &sspv1alpha1.VirtualMachineTemplateRequest{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: vm.Namespace, Name: requestName(vm.Name, trigger),
			Annotations:     map[string]string{v1alpha1.AnnotationTriggerHash: trigger},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: vmKind.GroupVersion().String(), Kind: vmKind.Kind, Name: vm.Name, UID: vm.UID}},
		},
		Spec: sspv1alpha1.VirtualMachineTemplateRequestSpec{
			Source:    sspv1alpha1.VirtualMachineTemplateRequestSource{VMName: vm.Name, VMNamespace: vm.Namespace, VMUID: string(vm.UID)},
			Requester: &stamp.Requester,
		},
	}
	out.Spec.TemplateName = value // the webhook chooses the format
	return out, nil
}

// triggerOf returns an identifier of one value of the annotation of one VM.
func triggerOf(vm types.UID, value string) string {
	sum := sha256.Sum256([]byte(string(vm) + "\x00" + value))
	return hex.EncodeToString(sum[:8])
}

func requestName(vm, trigger string) string {
	const most = 253 - 1 - 16
	return strings.TrimRight(vm[:min(len(vm), most)], "-.") + "-" + trigger
}

// done reports whether the request exists, or the template that was made for it: deleting the
// request alone does not ask for another template. A request that failed is reported on the VM.
func (t *Trigger) done(ctx context.Context, vm *partialobject.VirtualMachine, request *sspv1alpha1.VirtualMachineTemplateRequest) (bool, error) {
	existing := &sspv1alpha1.VirtualMachineTemplateRequest{}
	err := t.Live.Get(ctx, client.ObjectKeyFromObject(request), existing)
	switch {
	case apierrors.IsNotFound(err):
		return slices.ContainsFunc(t.Formats, func(name string) bool { return t.hasTemplate(ctx, request, name) }), nil
	case err != nil || !sameTrigger(existing, request):
		return false, err // creating a request of this name fails with AlreadyExists
	}
	if condition := ready(&existing.Status); finished(&existing.Status) && condition != nil && condition.Status != metav1.ConditionTrue {
		t.reject(vm, fmt.Sprintf("request %s has ended with %s: to request the template again, delete the request, or give the annotation another value", existing.Name, condition.Reason))
	}
	return true, nil
}

// hasTemplate reports whether a template of a format was made for the trigger of a request. A
// template that cannot be read counts as missing: the controller then reports the error.
func (t *Trigger) hasTemplate(ctx context.Context, request *sspv1alpha1.VirtualMachineTemplateRequest, format string) bool {
	f, _ := sspv1alpha1.FormatNamed(format)
	return slices.ContainsFunc(f.InEachVersion(), func(f sspv1alpha1.Format) bool {
		template := &unstructured.Unstructured{}
		template.SetGroupVersionKind(f.Kind)
		err := t.Live.Get(ctx, client.ObjectKey{Namespace: request.Namespace, Name: request.Spec.TemplateName}, template)
		return err == nil && sameTrigger(template, request)
	})
}

func sameTrigger(a, b client.Object) bool {
	return a.GetAnnotations()[v1alpha1.AnnotationTriggerHash] == b.GetAnnotations()[v1alpha1.AnnotationTriggerHash]
}
