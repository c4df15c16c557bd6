package templates

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/lifecycle/leadership"
	"github.com/virtwright/virtwright/lifecycle/machine"
)

// When to ask again for what was refused: each time later.
const (
	insistFirst = time.Second
	insistLast  = 5 * time.Minute
)

// A Trigger makes a request for the annotation of a VM, in the name of who wrote
// the annotation. The request's name follows from the VM's UID and the value, so
// there is one for each; it belongs to the VM, and stays as long, so that what
// was asked once is not made again.
type Trigger struct {
	// Client reads from caches, and writes.
	Client client.Client
	// Live reads from API servers.
	Live client.Reader
	// Authority is asked whether who wrote an annotation may make requests.
	Authority Authority
	// Formats are the names of those in which templates may be made. The webhook chooses one of them.
	Formats []string
	// Excluded are the namespaces where no webhook records the author of an annotation, so
	// annotations there are ignored.
	Excluded []string
	// Events tells people.
	Events events.EventRecorder
	// Lock is held by the replica that acts; nil where there is one only.
	Lock *leadership.Lock

	refused sync.Map // how often, of VMs' names
}

// SetupWithManager runs the trigger in the leader.
func (t *Trigger) SetupWithManager(mgr ctrl.Manager) error {
	annotated := predicate.NewPredicateFuncs(func(vm client.Object) bool {
		return vm.GetAnnotations()[v1alpha1.AnnotationGenerateTemplate] != ""
	})
	err := ctrl.NewControllerManagedBy(mgr).Named("template-trigger").
		For(&machine.VirtualMachine{}, builder.WithPredicates(annotated, predicate.Or(predicate.AnnotationChangedPredicate{}, predicate.GenerationChangedPredicate{}))).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(t.Lock.While(t))
	if err != nil {
		return fmt.Errorf("cannot set up the annotation that asks for templates: %w", err)
	}
	return nil
}

// Reconcile looks at one VM.
func (t *Trigger) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	vm := &machine.VirtualMachine{}
	if err := t.Client.Get(ctx, req.NamespacedName, vm); err != nil || vm.DeletionTimestamp != nil {
		t.refused.Delete(req.NamespacedName)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	request, err := t.request(vm)
	if err != nil || request == nil {
		if err != nil {
			t.refuse(vm, err.Error())
		}
		return reconcile.Result{}, nil
	}
	problem, err := t.ask(ctx, vm, request)
	switch {
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("cannot ask for a template of VirtualMachine %s: %w", req.NamespacedName, err)
	case problem == "":
		t.refused.Delete(req.NamespacedName)
		return reconcile.Result{}, nil
	}
	t.refuse(vm, problem)
	return reconcile.Result{RequeueAfter: t.insist(req.NamespacedName)}, nil
}

// refuse tells why there is no request.
func (t *Trigger) refuse(vm *machine.VirtualMachine, why string) {
	t.Events.Eventf(vm, nil, corev1.EventTypeWarning, reasonNotRequested, actionRequest, "%s", machine.Note(why))
}

// insist is how long to wait before asking again for a VM.
func (t *Trigger) insist(vm types.NamespacedName) time.Duration {
	times := 0
	if before, ok := t.refused.Load(vm); ok {
		times = before.(int)
	}
	t.refused.Store(vm, times+1)
	return min(insistLast, insistFirst<<min(times, 10))
}

// ask makes the request, unless it was made before. It says why that is refused;
// rights and policies may be others soon.
func (t *Trigger) ask(ctx context.Context, vm *machine.VirtualMachine, request *sspv1alpha1.VirtualMachineTemplateRequest) (problem string, err error) {
	if there, err := t.done(ctx, vm, request); err != nil || there {
		return "", err
	}
	need := sspv1alpha1.AskNeed(request.Namespace)
	may, err := t.Authority.Allowed(ctx, request.Spec.Requester.UserInfo(), need.What)
	if err != nil {
		return "", err
	}
	if !may {
		return fmt.Sprintf("user %s, who wrote the annotation, may not %s", request.Spec.Requester.Username, need), nil
	}
	switch err := t.Client.Create(ctx, request); {
	case err == nil:
		t.Events.Eventf(vm, request, corev1.EventTypeNormal, reasonRequested, actionRequest, "Asked for template %s by request %s",
			vm.Annotations[v1alpha1.AnnotationGenerateTemplate], request.Name)
		return "", nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return "", nil
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsAlreadyExists(err):
		return err.Error(), nil
	default:
		return "", err
	}
}

// request is what to ask for; nil for a VM whose stamp is another's: it was
// copied, and who copied it did not ask.
func (t *Trigger) request(vm *machine.VirtualMachine) (*sspv1alpha1.VirtualMachineTemplateRequest, error) {
	value, text := vm.Annotations[v1alpha1.AnnotationGenerateTemplate], vm.Annotations[v1alpha1.AnnotationTemplateRequester]
	if value == "" {
		return nil, nil //nolint:nilnil // nobody asks
	}
	if slices.Contains(t.Excluded, vm.Namespace) {
		return nil, fmt.Errorf("%s asks for nothing in namespace %s: ask by a %s", v1alpha1.AnnotationGenerateTemplate, vm.Namespace, sspv1alpha1.KindVirtualMachineTemplateRequest)
	}
	if text == "" {
		return nil, nil //nolint:nilnil // nobody asks
	}
	stamp, err := sspv1alpha1.ParseStamp(text)
	if err != nil {
		return nil, err
	}
	if stamp.Value != value || stamp.VMUID != "" && stamp.VMUID != string(vm.UID) {
		return nil, nil //nolint:nilnil // who wrote this did not ask: it was copied, or written by a controller
	}
	trigger := triggerOf(vm.UID, value)
	out := &sspv1alpha1.VirtualMachineTemplateRequest{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: vm.Namespace, Name: requestName(vm.Name, trigger),
			Annotations:     map[string]string{v1alpha1.AnnotationTrigger: trigger},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: machines.GroupVersion().String(), Kind: machines.Kind, Name: vm.Name, UID: vm.UID}},
		},
		Spec: sspv1alpha1.VirtualMachineTemplateRequestSpec{
			Source:    sspv1alpha1.VirtualMachineTemplateRequestSource{VMName: vm.Name, VMNamespace: vm.Namespace, VMUID: string(vm.UID)},
			Requester: &stamp.Requester,
		},
	}
	out.Spec.TemplateName = value // the webhook chooses the format
	return out, nil
}

// triggerOf stands for one value of the annotation of one VM.
func triggerOf(vm types.UID, value string) string {
	sum := sha256.Sum256([]byte(string(vm) + "\x00" + value))
	return hex.EncodeToString(sum[:8])
}

// requestName is that of the request for a trigger.
func requestName(vm, trigger string) string {
	const most = 253 - 1 - 16
	return strings.TrimRight(vm[:min(len(vm), most)], "-.") + "-" + trigger
}

// done reports whether there is the request, or the template that was made for
// it: who deletes the request alone does not ask for another template. One that
// ended otherwise is told of, since nobody may see it.
func (t *Trigger) done(ctx context.Context, vm *machine.VirtualMachine, request *sspv1alpha1.VirtualMachineTemplateRequest) (bool, error) {
	there := &sspv1alpha1.VirtualMachineTemplateRequest{}
	switch err := t.Live.Get(ctx, client.ObjectKeyFromObject(request), there); {
	case err == nil && there.Annotations[v1alpha1.AnnotationTrigger] == request.Annotations[v1alpha1.AnnotationTrigger]:
		if condition := ready(&there.Status); finished(&there.Status) && condition != nil && condition.Status != metav1.ConditionTrue {
			t.refuse(vm, fmt.Sprintf("request %s has ended with %s: to ask again, delete it, or give the annotation another value", there.Name, condition.Reason))
		}
		return true, nil
	case err == nil:
		return false, nil // somebody else's of the name, which the API server will tell
	case !apierrors.IsNotFound(err):
		return false, err
	}
	return slices.ContainsFunc(t.Formats, func(name string) bool { return t.hasTemplate(ctx, request, name) }), nil
}

// hasTemplate reports whether there is a template of a format that was made for the same trigger as
// the request. One that cannot be read is not there: the request will tell.
func (t *Trigger) hasTemplate(ctx context.Context, request *sspv1alpha1.VirtualMachineTemplateRequest, format string) bool {
	form, _ := sspv1alpha1.FormatNamed(format)
	template := &unstructured.Unstructured{}
	template.SetGroupVersionKind(form.Kind)
	err := t.Live.Get(ctx, client.ObjectKey{Namespace: request.Namespace, Name: request.Spec.TemplateName}, template)
	return err == nil && template.GetAnnotations()[v1alpha1.AnnotationTrigger] == request.Annotations[v1alpha1.AnnotationTrigger]
}
