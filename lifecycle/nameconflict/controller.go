// Package nameconflict finds VMs and VMIs with colliding names, DataVolumes or identifiers: for
// admission (index.go), and afterwards, because concurrent creates can both be admitted.
//
// Each reconciliation of a VM looks for conflicts in the index and confirms them with the API
// server. It reports them in an event and, without KubeVirt, in the condition NameConflict, which
// it removes once there is no conflict. It does not resolve conflicts.
package nameconflict

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	kubevirtv1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/virtwright/virtwright/lifecycle/leadership"
	"github.com/virtwright/virtwright/lifecycle/partialobject"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/validation/names"
)

const (
	workers           = 4
	conflictCondition = "NameConflict" // the type of the condition on a VM, and the reason of events
	reporter          = "virtwright.dev/names"
)

// A Controller reports name conflicts. It is the only writer of the condition NameConflict.
type Controller struct {
	Client     client.Client
	Live       client.Reader // reads from the API server
	Index      *Index
	Lock       *leadership.Lock // held by the leader; nil without leader election
	Conditions bool             // whether virtwright writes the status of VMs: there is no KubeVirt
	Clock      clock.PassiveClock

	mu        sync.Mutex
	conflicts map[types.NamespacedName]bool
}

// RegisterMetrics registers the number of conflicts. A replica that does not lead reports none,
// because it would not know when they are resolved.
func (c *Controller) RegisterMetrics(registry prometheus.Registerer) {
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "virtwright_name_conflicts",
		Help: "VirtualMachines with a name or a DataVolume that another VM or VMI uses, too.",
	}, func() float64 {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.Lock.Leads() {
			return 0
		}
		return float64(len(c.conflicts))
	}))
}

// SetupWithManager adds the controller to a manager.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).Named("name-conflict").
		For(&partialobject.VirtualMachine{}).
		Watches(&partialobject.VirtualMachine{}, handler.EnqueueRequestsFromMapFunc(c.sharingVolumes)).
		Watches(&partialobject.VirtualMachineInstance{}, &handler.EnqueueRequestForObject{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(c.Lock.While(c))
	if err != nil {
		return fmt.Errorf("cannot set up the controller of name conflicts: %w", err)
	}
	return nil
}

func (c *Controller) sharingVolumes(ctx context.Context, object client.Object) []reconcile.Request {
	vm, ok := object.(*partialobject.VirtualMachine)
	if !ok || len(vm.Spec.DataVolumeTemplates) == 0 {
		return nil
	}
	m := vm.Names()
	m.Identifiers = nil
	seen, err := c.Index.Around(ctx, &m)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Cannot find the VMs that share a DataVolume", "namespace", vm.Namespace, "name", vm.Name)
	}
	var requests []reconcile.Request
	for _, others := range seen.DataVolumes {
		for _, other := range others {
			requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: other.Namespace, Name: other.Name}})
		}
	}
	return requests
}

// Reconcile reports the conflicts of one VM.
func (c *Controller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var cached partialobject.VirtualMachine
	if err := c.Client.Get(ctx, req.NamespacedName, &cached); err != nil {
		c.count(req.NamespacedName, nil)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	seen, conflicts, err := c.find(ctx, &cached)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("cannot find name conflicts of VirtualMachine %s: %w", req.NamespacedName, err)
	}
	c.count(req.NamespacedName, conflicts)
	if len(conflicts) == 0 && !slices.ContainsFunc(cached.Status.Conditions, isConflict) {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, c.report(ctx, req.NamespacedName, seen, strings.Join(conflicts, "\n"))
}

func (c *Controller) count(vm types.NamespacedName, conflicts []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conflicts == nil {
		c.conflicts = map[types.NamespacedName]bool{}
	}
	if c.conflicts[vm] = true; len(conflicts) == 0 {
		delete(c.conflicts, vm)
	}
}

// find returns the conflicts of a VM, confirmed by the API server.
func (c *Controller) find(ctx context.Context, vm *partialobject.VirtualMachine) (names.Related, []string, error) {
	m := vm.Names()
	m.Identifiers = nil
	if m.Deleting {
		return names.Related{}, nil, nil
	}
	seen, err := c.Index.Around(ctx, &m)
	if err != nil || len(names.Conflicts(&m, seen)) == 0 {
		return seen, nil, err
	}
	if seen, err = c.Index.Confirm(ctx, &m, seen); err != nil {
		return seen, nil, err
	}
	return seen, names.Conflicts(&m, seen), nil
}

// report writes the condition, if it changes, and then events.
func (c *Controller) report(ctx context.Context, key types.NamespacedName, seen names.Related, message string) error {
	var vm partialobject.VirtualMachine
	if err := c.Live.Get(ctx, key, &vm); err != nil {
		return client.IgnoreNotFound(err)
	}
	if c.Conditions {
		changed, err := c.setCondition(ctx, &vm, message)
		if err != nil || !changed {
			return err
		}
	}
	if message == "" {
		return nil
	}
	reference := partialobject.Reference(kubevirtv1.VirtualMachineGroupVersionKind, &vm)
	events := []*eventsv1.Event{c.newEvent(reference, nil, message)}
	if i := seen.VMI; i != nil && !i.BelongsTo(&names.Identity{Namespace: key.Namespace, Name: key.Name, UID: vm.UID}) {
		vmi := &metav1.ObjectMeta{Namespace: i.Namespace, Name: i.Name, UID: i.UID}
		events = append(events, c.newEvent(partialobject.Reference(kubevirtv1.VirtualMachineInstanceGroupVersionKind, vmi), reference, fmt.Sprintf(
			"VirtualMachine %s has the name of this VMI, which does not belong to it, and cannot start until the VMI is deleted", vm.Name)))
	}
	for _, event := range events {
		if err := c.Client.Create(ctx, event); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("cannot write an event: %w", err)
		}
	}
	return nil
}

func isConflict(c kubevirtv1.VirtualMachineCondition) bool { return c.Type == conflictCondition }

// setCondition sets the condition, or removes it if the message is empty. It returns whether the
// condition changed.
func (c *Controller) setCondition(ctx context.Context, vm *partialobject.VirtualMachine, message string) (bool, error) {
	before, message := vm.DeepCopyObject().(client.Object), presets.Escape(message)
	i := slices.IndexFunc(vm.Status.Conditions, isConflict)
	if i < 0 && message == "" || i >= 0 && vm.Status.Conditions[i].Message == message {
		return false, nil
	}
	vm.Status.Conditions = slices.DeleteFunc(vm.Status.Conditions, isConflict)
	if message != "" {
		vm.Status.Conditions = append(vm.Status.Conditions, kubevirtv1.VirtualMachineCondition{
			Type: conflictCondition, Status: corev1.ConditionTrue, Reason: conflictCondition, Message: message,
			LastTransitionTime: metav1.NewTime(c.Clock.Now()),
		})
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := client.IgnoreNotFound(c.Client.Status().Patch(ctx, vm, patch)); err != nil {
		return false, fmt.Errorf("cannot write the condition %s: %w", conflictCondition, err)
	}
	return true, nil
}

// newEvent returns an event with a name that is derived from its content, so that it is written
// once. Event recorders would drop some of many.
func (c *Controller) newEvent(regarding, related *corev1.ObjectReference, note string) *eventsv1.Event {
	note = partialobject.EventNote(note)
	sum := fnv.New64a()
	_, _ = fmt.Fprint(sum, regarding.Kind, regarding.UID, note) // never fails
	const maxName = 253 - len(".0123456789abcdef")
	name := regarding.Name[:min(len(regarding.Name), maxName)]
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: regarding.Namespace, Name: fmt.Sprintf("%s.%016x", name, sum.Sum64())},
		EventTime:  metav1.NewMicroTime(c.Clock.Now()), Type: corev1.EventTypeWarning, Reason: conflictCondition, Action: "Compare",
		ReportingController: reporter, ReportingInstance: reporter,
		Regarding: *regarding, Related: related, Note: note,
	}
}
