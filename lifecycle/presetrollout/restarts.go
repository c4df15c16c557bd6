package presetrollout

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/lifecycle/partialobject"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/tree"
)

const (
	// vmDeadline is the default of health.vmDeadline.
	vmDeadline = 20 * time.Minute
	// restartLag is the longest time until the cache has a restart.
	restartLag = 30 * time.Second
	// failedStarts in a row are those of a guest that does not start.
	failedStarts = 5
)

// onlyOne is the default of budgets.
var onlyOne = []v1alpha1.RolloutBudget{{MaxUnavailable: intstr.FromInt32(1)}}

// A fleet counts VMs that should run, and those of them that are not available, by namespace, and
// in the cluster as "".
type fleet struct {
	running, unavailable map[string]int64
	down                 []types.NamespacedName // the VMs that are not available
}

func (f *fleet) add(vm types.NamespacedName, available bool) {
	if f.running == nil {
		f.running, f.unavailable = map[string]int64{}, map[string]int64{}
	}
	for _, scope := range []string{"", vm.Namespace} {
		f.running[scope]++
		if !available {
			f.unavailable[scope]++
		}
	}
	if !available {
		f.down = append(f.down, vm)
	}
}

// examples names some of the VMs that are not available: those of the namespaces of candidates, if
// budgets are about namespaces only.
func (f *fleet) examples(budgets []v1alpha1.RolloutBudget, of []candidate) string {
	const most = 3
	inCluster := len(budgets) == 0 || slices.ContainsFunc(budgets, func(b v1alpha1.RolloutBudget) bool { return b.Per != v1alpha1.BudgetPerNamespace })
	var down []string
	for _, vm := range f.down {
		if inCluster || slices.ContainsFunc(of, func(c candidate) bool { return c.Namespace == vm.Namespace }) {
			down = append(down, vm.String())
		}
	}
	slices.Sort(down)
	return tree.List(down, most)
}

// A candidate is a VM that needs a restart.
type candidate struct {
	types.NamespacedName
	available bool
	isDown    bool   // for longer than the deadline
	failed    bool   // its last restart was rejected
	waitsFor  string // another rollout that is stopped and would restart it, too; empty for none
}

// pick returns the VMs that all budgets permit to restart now, and counts them as unavailable.
// Those that are unavailable come first, because they are counted already.
func (f *fleet) pick(budgets []v1alpha1.RolloutBudget, from []candidate) (out []types.NamespacedName) {
	if len(budgets) == 0 {
		budgets = onlyOne
	}
	for _, available := range []bool{false, true} {
		for _, c := range from {
			if c.available != available || slices.ContainsFunc(budgets, func(b v1alpha1.RolloutBudget) bool { return !f.permits(b, c) }) {
				continue
			}
			out = append(out, c.NamespacedName)
			if available {
				f.unavailable[""]++
				f.unavailable[c.Namespace]++
			}
		}
	}
	return out
}

// permitted removes the VMs that wait for a stopped rollout, and names it in the message of the
// step. VMs that are not ready stay: the other rollout may have failed because of that.
func permitted(of *step, from []candidate) []candidate {
	stopped := ""
	from = slices.DeleteFunc(from, func(c candidate) bool {
		waits := c.waitsFor != "" && c.available
		if waits {
			stopped = c.waitsFor
		}
		return waits
	})
	if of.restart && stopped != "" {
		of.message += "; VMs wait for PresetRollout " + stopped + ", too, which is paused or has failed"
	}
	return from
}

// choose returns the VMs to restart in a step, and whether a budget permits no restart at all. If
// no VM may be restarted now, it adds to the message of the step why.
func (f *fleet) choose(of *step, budgets []v1alpha1.RolloutBudget, from []candidate) (picked []types.NamespacedName, isFrozen bool) {
	isFrozen = freeze(of, budgets)
	from = permitted(of, from)
	if !of.restart { // a rejected restart is tried again, as a rejected update is
		from = slices.DeleteFunc(from, func(c candidate) bool { return !c.failed })
	}
	picked = f.pick(budgets, from)
	if of.restart && !isFrozen && len(picked) == 0 && len(from) > 0 {
		of.message += "; budgets permit none now, because VMs are not ready: " + f.examples(budgets, from)
	}
	return picked, isFrozen
}

// freeze adds to the message of a step that should restart VMs that a budget permits no restart at
// all. It reports whether that is so.
func freeze(of *step, budgets []v1alpha1.RolloutBudget) bool {
	is := of.restart && slices.ContainsFunc(budgets, func(b v1alpha1.RolloutBudget) bool {
		limit, err := intstr.GetScaledValueFromIntOrPercent(&b.MaxUnavailable, 100, true)
		return err != nil || limit == 0
	})
	if is {
		of.message += "; a budget permits no restart now"
	}
	return is
}

// permits reports whether a budget permits to restart a VM. VMs that have just become unavailable
// may come back on their own, all at once.
func (f *fleet) permits(b v1alpha1.RolloutBudget, c candidate) bool {
	scope := ""
	if b.Per == v1alpha1.BudgetPerNamespace {
		scope = c.Namespace
	}
	limit, err := intstr.GetScaledValueFromIntOrPercent(&b.MaxUnavailable, int(f.running[scope]), true)
	others := f.unavailable[scope]
	if !c.available {
		others--
	}
	return err == nil && limit > 0 && (c.isDown || others < int64(limit))
}

// shouldRun reports whether a VM is unavailable if it is not ready. One that is stopped for good,
// or that nothing starts again, is not, even if the instance of its last run is still there.
func shouldRun(vm *partialobject.VirtualMachine) bool {
	switch vm.RunStrategy() {
	case kubevirtv1.RunStrategyAlways:
		return true
	case kubevirtv1.RunStrategyManual, kubevirtv1.RunStrategyRerunOnFailure, kubevirtv1.RunStrategyOnce:
		return len(vm.Status.StateChangeRequests) > 0 || vm.Status.Created && vm.Status.PrintableStatus != kubevirtv1.VirtualMachineStatusStopped
	case kubevirtv1.RunStrategyHalted, kubevirtv1.RunStrategyWaitAsReceiver:
	}
	return false
}

// conditionOf returns a condition of a VM; empty if there is none.
func conditionOf(vm *partialobject.VirtualMachine, kind kubevirtv1.VirtualMachineConditionType) kubevirtv1.VirtualMachineCondition {
	c := partialobject.Find(vm.Status.Conditions, func(c *kubevirtv1.VirtualMachineCondition) bool { return c.Type == kind })
	if c == nil {
		return kubevirtv1.VirtualMachineCondition{}
	}
	return *c
}

func needsRestart(vm *partialobject.VirtualMachine) bool {
	return conditionOf(vm, kubevirtv1.VirtualMachineRestartRequired).Status == corev1.ConditionTrue
}

// isRestarting reports whether people or a controller have asked for another state of a VM. A
// restart that the cache does not have yet counts.
func (c *Controller) isRestarting(vm *partialobject.VirtualMachine) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	needs, key := needsRestart(vm), keyOf(vm)
	if vm.Status.Ready && !needs {
		delete(c.restarts, key)
	}
	return len(vm.Status.StateChangeRequests) > 0 || needs && c.Clock.Since(c.restarts[key]) < restartLag
}

// waited reports whether a VM waits for a restart that no update of the unfinished change has
// caused, and no abort of it.
func waited(of *presets.Rollout, status *v1alpha1.PresetRolloutStatus, vm *partialobject.VirtualMachine) bool {
	if !needsRestart(vm) {
		return false
	}
	stamp, isAborted := strings.CutSuffix(presets.StampOn(&vm.ObjectMeta, of.Name), presets.StampAborted)
	if stamp == "" || isLeftToOwner(vm, of.Name) {
		return true
	}
	isChanged, isRecorded := hasChange(status, vm)
	isNow := stamp == strings.TrimSuffix(of.Stamp(), presets.StampAborted)
	return !isAborted && !isChanged && (isRecorded || !isNow)
}

// An other is another unfinished rollout that restarts VMs, by its stamp.
type other struct {
	name, stamp string
	// isStopped says that it restarts none until a person has decided.
	isStopped bool
}

// others returns the other rollouts that restart VMs.
func (c *Controller) others(ctx context.Context, s *presets.Snapshot, of *presets.Rollout) (out []other, err error) {
	var all v1alpha1.PresetRolloutList
	if err := c.Client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil { // nothing changes them
		return nil, fmt.Errorf("cannot list PresetRollouts: %w", err)
	}
	for i := range all.Items {
		r := &all.Items[i]
		rollout, condition := s.Rollout(r.Name), meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionProgressing)
		if r.Name == of.Name || r.Spec.Restart != v1alpha1.RestartRolling || rollout == nil || condition == nil || condition.Reason == reasonAborted {
			continue
		}
		isStopped := condition.Reason == reasonFailed || isPaused(r)
		out = append(out, other{r.Name, rollout.Stamp(), isStopped})
	}
	return out, nil
}

// waitsForOther reports whether another rollout has updated a VM that needs a restart, and would
// restart it. It returns the name of one that is stopped.
func (v *vms) waitsForOther(vm *partialobject.VirtualMachine) (is bool, stopped string) {
	for _, o := range v.others {
		if !needsRestart(vm) || presets.StampOn(&vm.ObjectMeta, o.name) != o.stamp || isLeftToOwner(vm, o.name) {
			continue
		}
		if is = true; o.isStopped {
			stopped = o.name
		}
	}
	return is, stopped
}

// isLeftToOwner reports whether a VM waited for a restart before a rollout updated it.
func isLeftToOwner(vm *partialobject.VirtualMachine, rollout string) bool {
	stamp := presets.StampOn(&vm.ObjectMeta, rollout)
	return stamp != "" && presets.HasStamp(vm.Annotations[v1alpha1.AnnotationRolloutWaited], stamp)
}

// isRestartable reports whether a rollout restarts a VM if it needs that. A guest that is paused
// has a state that its owner wants to keep, also while it migrates.
func isRestartable(r *v1alpha1.PresetRollout, vm *partialobject.VirtualMachine) bool {
	return r.Spec.Restart == v1alpha1.RestartRolling && vm.RunStrategy() != kubevirtv1.RunStrategyOnce &&
		conditionOf(vm, kubevirtv1.VirtualMachinePaused).Status != corev1.ConditionTrue && !isLeftToOwner(vm, r.Name)
}

// addRunning counts a VM that was updated and should run. It waits for a restart, or to be ready,
// if the rollout restarts VMs.
func (c *Controller) addRunning(to *vms, r *v1alpha1.PresetRollout, vm *partialobject.VirtualMachine, failed failure) {
	needs, isJudged := needsRestart(vm), isJudged(vm)
	if !isRestartable(r, vm) {
		switch {
		case needs:
			to.updated++
			to.waiting++
		case isJudged:
			to.updated++
		}
		return
	}
	isRestarting := c.isRestarting(vm)
	hasFailed := failed.stamp == to.stamp && !failed.isPending
	if !hasFailed {
		failed.message = ""
	}
	down := c.down(&r.Spec, vm)
	if message := problem(vm, down, failed.message); message != "" {
		to.fail(keyOf(vm), message)
	} else {
		to.updated++
		if needs || isRestarting || !isJudged || !vm.Status.Ready {
			to.waiting++
			to.restarting++
		}
	}
	if needs && isJudged && !isRestarting && !c.Clock.Now().Before(failed.retry) {
		_, stopped := to.waitsForOther(vm)
		to.restarts = append(to.restarts, candidate{keyOf(vm), vm.Status.Ready, down != "", hasFailed, stopped})
	}
}

// isJudged reports whether it is known if a VM needs a restart. One without a VMI does not.
func isJudged(vm *partialobject.VirtualMachine) bool {
	return vm.Status.DesiredGeneration >= vm.Generation || !vm.Status.Created
}

// problem returns why a VM has failed: the answer to its restart, or why it is down, unless a
// restart may help; empty if it has not.
func problem(vm *partialobject.VirtualMachine, down, rejected string) string {
	if needsRestart(vm) && len(vm.Status.StateChangeRequests) == 0 {
		return rejected
	}
	return down
}

// down says that a guest does not start, or has not been ready for too long; empty otherwise.
func (c *Controller) down(of *v1alpha1.PresetRolloutSpec, vm *partialobject.VirtualMachine) string {
	if f := vm.Status.StartFailure; f != nil && f.ConsecutiveFailCount >= failedStarts {
		return fmt.Sprintf("the guest has failed to start %d times in a row", f.ConsecutiveFailCount)
	}
	deadline := vmDeadline
	if of.Health.VMDeadline != nil {
		deadline = of.Health.VMDeadline.Duration
	}
	c.mu.Lock()
	restarted := c.restarts[keyOf(vm)]
	c.mu.Unlock()
	ready, now := conditionOf(vm, kubevirtv1.VirtualMachineReady), c.Clock.Now()
	if ready.Status != corev1.ConditionFalse || now.Sub(ready.LastTransitionTime.Time) <= deadline || now.Sub(restarted) <= deadline {
		return ""
	}
	out := "the VM is not ready since " + ready.LastTransitionTime.UTC().Format(time.RFC3339)
	if failure := conditionOf(vm, kubevirtv1.VirtualMachineFailure); failure.Status == corev1.ConditionTrue {
		out += ": " + failure.Message
	}
	return out
}

// restart restarts a VM through the API that the cluster serves: KubeVirt's, or virtwright's own.
// An event of the VM tells its owner.
func (c *Controller) restart(ctx context.Context, r *v1alpha1.PresetRollout, key types.NamespacedName) error {
	vm := &partialobject.VirtualMachine{}
	if err := c.Client.Get(ctx, key, vm); err != nil || !needsRestart(vm) || !isRestartable(r, vm) || c.isRestarting(vm) {
		return err
	}
	c.setRestart(key, c.Clock.Now()) // the answer may be lost
	err := c.REST.Put().AbsPath("/apis/subresources.kubevirt.io/v1/namespaces", key.Namespace, "virtualmachines", key.Name, "restart").
		Body([]byte("{}")).Do(ctx).Error()
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Code < http.StatusInternalServerError {
		c.setRestart(key, time.Time{})
	}
	switch {
	case apierrors.IsNotFound(err) && status.Status().Details != nil && status.Status().Details.Name == "":
		return apierrors.NewServiceUnavailable("the cluster serves no restarts of VMs: subresources.kubevirt.io/v1 is missing")
	case apierrors.IsConflict(err): // such as a volume that migrates: it is tried again later
		return apierrors.NewServiceUnavailable(err.Error())
	case err != nil:
		return fmt.Errorf("cannot restart VM %s: %w", key, err)
	}
	by := partialobject.Reference(v1alpha1.GroupVersion.WithKind("PresetRollout"), r) // events of one rollout are counted as one
	c.Events.Eventf(partialobject.Reference(kubevirtv1.VirtualMachineGroupVersionKind, vm), by, corev1.EventTypeNormal, "RestartedByRollout", "Restart", "%s",
		partialobject.EventNote("PresetRollout "+r.Name+" restarts the VM, because a change of its presets needs that"))
	return nil
}

// setRestart remembers the time of a restart that the cache may not have yet; zero for none.
func (c *Controller) setRestart(of types.NamespacedName, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.restarts == nil {
		c.restarts = map[types.NamespacedName]time.Time{}
	}
	c.restarts[of] = at
}
