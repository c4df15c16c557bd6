package presetrollout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/lifecycle/partialobject"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/tree"
)

const (
	batchSize       = 500              // the most VMs that are updated before they are counted again
	writers         = 2                // more would only make others wait for the API server
	firstRetry      = 10 * time.Second // after the first failure; each pause is twice as long
	lastRetry       = 10 * time.Minute
	maxServerErrors = 3   // that are not counted as failures; after a minute, the VM has failed
	maxListed       = 20  // failures in the status
	maxMessage      = 512 // bytes of the message of a failure
)

// A failure is a VM whose update was rejected, or has failed.
type failure struct {
	isPending      bool // the server has failed, which it may not do next time
	stamp, message string
	tries          int
	retry          time.Time
	generation     int64 // of the VM that was rejected; another one is tried at once
}

// vms are the VMs that a rollout has reached.
type vms struct {
	counts
	stamp    string
	due      []types.NamespacedName        // not updated yet, or to be tried again
	waited   map[types.NamespacedName]mark // of those of them that wait for a restart already
	restarts []candidate
	others   []other
	fleet    fleet
	failures []v1alpha1.RolloutFailure
}

// A mark is a value of virtwright.dev/rollout-waited, for one version of a VM.
type mark struct{ value, version string }

// fail counts a VM that has failed.
func (v *vms) fail(key types.NamespacedName, message string) {
	v.failed++
	if len(v.failures) < maxListed {
		v.failures = append(v.failures, v1alpha1.RolloutFailure{Namespace: key.Namespace, Name: key.Name, Message: tree.Truncate(message, maxMessage-len("…"))})
	}
}

func keyOf(vm *partialobject.VirtualMachine) types.NamespacedName {
	return types.NamespacedName{Namespace: vm.Namespace, Name: vm.Name}
}

// report writes counts and failures into a status.
func (v *vms) report(s *v1alpha1.PresetRolloutStatus) {
	s.Selected, s.Updated, s.Waiting, s.Held, s.Failed, s.Failures = &v.selected, &v.updated, &v.waiting, &v.held, &v.failed, v.failures
}

// count finds the VMs that the rollout has reached and may change.
func (c *Controller) count(ctx context.Context, s *presets.Snapshot, of *presets.Rollout, r *v1alpha1.PresetRollout) (vms, error) {
	out := vms{stamp: of.Stamp(), waited: map[types.NamespacedName]mark{}}
	var all partialobject.VirtualMachineList
	if err := c.Client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil { // nothing changes them
		return out, fmt.Errorf("cannot list VMs: %w", err)
	}
	var err error
	if out.others, err = c.others(ctx, s, of); err != nil {
		return out, err
	}
	namespaces, isConcerned := map[string]presets.Namespace{}, concerns(s, of)
	for i := range all.Items {
		vm := &all.Items[i]
		in, known := namespaces[vm.Namespace]
		if !known {
			if in, err = c.Namespaces.Get(ctx, vm.Namespace); client.IgnoreNotFound(err) != nil {
				return out, fmt.Errorf("cannot read namespace %s: %w", vm.Namespace, err)
			}
			namespaces[vm.Namespace] = in
		}
		if vm.DeletionTimestamp != nil || slices.Contains(c.Excluded, vm.Namespace) {
			continue
		}
		if r.Spec.Restart == v1alpha1.RestartRolling && shouldRun(vm) {
			out.fleet.add(keyOf(vm), vm.Status.Ready && !c.isRestarting(vm))
		}
		if isReached(of, r, in, vm) && isConcerned(in, vm) {
			c.add(&out, r, in, vm, isNew(s, &r.Status, vm))
			if isOthers, _ := out.waitsForOther(vm); waited(of, &r.Status, vm) && !isOthers {
				waited := presets.AddStamp(vm.Annotations[v1alpha1.AnnotationRolloutWaited], out.stamp, func(stamp string) bool {
					return presets.HasStamp(vm.Annotations[v1alpha1.AnnotationRolledOut], stamp)
				})
				out.waited[keyOf(vm)] = mark{waited, vm.ResourceVersion}
			}
		}
	}
	return out, nil
}

// isReached reports whether a VM belongs to the steps that were reached, or was updated although it
// no longer does. After an abort, only VMs that may have the change, or an earlier one that is not
// stable either, are reached: a record says so, or there is none.
func isReached(of *presets.Rollout, r *v1alpha1.PresetRollout, in presets.Namespace, vm *partialobject.VirtualMachine) bool {
	status := &r.Status
	stamp := presets.StampOn(&vm.ObjectMeta, of.Name)
	if stamp == of.Stamp() || stamp == strings.TrimSuffix(of.Stamp(), presets.StampAborted) {
		return true
	}
	isInStep := of.Reached(in, &vm.ObjectMeta)
	if !status.Aborted {
		return isInStep
	}
	isChanged, isRecorded := hasChange(status, vm)
	if isChanged || !isRecorded && isInStep || stamp == "" || strings.HasSuffix(stamp, presets.StampAborted) {
		return isChanged || !isRecorded && isInStep
	}
	// Records and older stamps may be those of a deleted preset.
	return (!isRecorded || hasNewPreset(status)) && isUnfinished(r.UID, status.Presets, stamp[strings.LastIndex(stamp, "/")+1:])
}

// isUnfinished reports whether a target is, or may be, that of an earlier change that did not
// become stable.
func isUnfinished(rollout types.UID, all []v1alpha1.RolloutPreset, target string) bool {
	left := maxUnfinished
	earlier := slices.Clone(all)
	var visit func(i int) bool
	visit = func(i int) bool {
		if i == len(all) {
			left--
			return targetOf(rollout, earlier) == target
		}
		for n := all[i].Target; n >= max(all[i].Stable, min(all[i].Target, 1)) && left > 0; n-- {
			if earlier[i].Target = n; visit(i + 1) {
				return true
			}
		}
		return false
	}
	return visit(0) || left <= 0
}

// maxUnfinished is how many earlier changes are compared, the latest first.
const maxUnfinished = 1000

func hasNewPreset(status *v1alpha1.PresetRolloutStatus) bool {
	return slices.ContainsFunc(status.Presets, func(p v1alpha1.RolloutPreset) bool { return p.Stable == 0 && p.Target > 0 })
}

// hasChange reports whether a VM has the unfinished change, or an earlier one that is not stable
// either, and whether its record can say that. It cannot of a preset that is new: the record may
// name a deleted one with the same name.
func hasChange(status *v1alpha1.PresetRolloutStatus, vm *partialobject.VirtualMachine) (is, isRecorded bool) {
	for _, p := range status.Presets {
		use := useOf(vm, p.Name)
		if p.Stable == p.Target || p.Stable == 0 || use == nil {
			continue
		}
		if use.IsBetween(p.Stable, p.Target) {
			return true, true
		}
		isRecorded = true
	}
	return false, isRecorded
}

// concerns returns a function that reports whether a rollout may change a VM: one that has values
// of a preset, or that a revision selects.
func concerns(s *presets.Snapshot, of *presets.Rollout) func(in presets.Namespace, vm *partialobject.VirtualMachine) bool {
	selects := s.Concerns(of)
	return func(in presets.Namespace, vm *partialobject.VirtualMachine) bool {
		has := func(use partialobject.PresetUse) bool { _, is := of.Stable[use.Ref()]; return is }
		return slices.ContainsFunc(vm.Presets, has) || selects(in, &vm.ObjectMeta, vm.SelectingLabels())
	}
}

// isNew reports whether a VM was created with the change. Its spec has not been written since then:
// an update of its author may bring a part of the change. That cannot be said of a preset that was
// created again, because it may have the same content.
func isNew(s *presets.Snapshot, status *v1alpha1.PresetRolloutStatus, vm *partialobject.VirtualMachine) bool {
	if vm.Generation != 1 || status.Aborted || needsRestart(vm) {
		return false
	}
	for _, p := range status.Presets {
		if p.Stable == p.Target {
			continue
		}
		now, exists := s.Lookup("", p.Name)
		if use := useOf(vm, p.Name); p.Stable == 0 || !exists || use == nil || !use.Is(now.Hash(), p.Target) {
			return false
		}
	}
	return true
}

// useOf returns what the record of a VM says of a preset; nil if that is nothing.
func useOf(vm *partialobject.VirtualMachine, ref string) *partialobject.PresetUse {
	return partialobject.Find(vm.Presets, func(use *partialobject.PresetUse) bool { return use.Ref() == ref })
}

// add counts a VM that the rollout has reached.
func (c *Controller) add(to *vms, r *v1alpha1.PresetRollout, in presets.Namespace, vm *partialobject.VirtualMachine, isNew bool) {
	to.selected++
	key, failed := keyOf(vm), c.failureOf(r.Name, vm)
	isUpdated, isLeftOut := presets.StampOn(&vm.ObjectMeta, r.Name) == to.stamp, presets.IsLeftOut(in, &vm.ObjectMeta)
	switch {
	case isUpdated && !isLeftOut && shouldRun(vm):
		c.addRunning(to, r, vm, failed)
	case isUpdated:
		to.updated++
	case isLeftOut:
		to.held++
	case isNew: // to wait for it would never end where VMs are created all the time
		if down := c.down(&r.Spec, vm); down != "" && shouldRun(vm) && isRestartable(r, vm) {
			to.fail(key, down)
		} else {
			to.updated++
		}
	case r.Spec.Restart == v1alpha1.RestartRolling && shouldRun(vm) && !isJudged(vm) && failed.stamp != to.stamp:
		// It may wait for a restart already, which must be known before it is updated.
	default:
		c.addDue(to, &r.Status, vm, failed)
	}
}

// addDue counts a VM that is to be updated. It has failed if its last update was rejected. A new
// leader does not know that until it has tried, so what the status says counts.
func (c *Controller) addDue(to *vms, status *v1alpha1.PresetRolloutStatus, vm *partialobject.VirtualMachine, failed failure) {
	key, message := keyOf(vm), ""
	isKnown := failed.stamp == to.stamp
	listed := partialobject.Find(status.Failures, func(f *v1alpha1.RolloutFailure) bool { return f.Namespace == key.Namespace && f.Name == key.Name })
	switch {
	case isKnown && !failed.isPending:
		message = failed.message
	case !isKnown && listed != nil:
		message = listed.Message
	}
	if message != "" {
		to.fail(key, message)
	}
	if !isKnown || !c.Clock.Now().Before(failed.retry) || failed.generation != vm.Generation {
		to.due = append(to.due, key)
	}
}

// failureOf returns the last failure of a VM, with the generation that the VM had then; an empty
// one if there is none.
func (c *Controller) failureOf(rollout string, vm *partialobject.VirtualMachine) failure {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := keyOf(vm)
	out, has := c.failures[rollout][key]
	if has && out.generation == 0 {
		out.generation = vm.Generation
		c.failures[rollout][key] = out
	}
	return out
}

// update updates a batch of VMs.
func (c *Controller) update(ctx context.Context, r *v1alpha1.PresetRollout, reached vms) error {
	return c.each(ctx, r, reached.stamp, reached.due, func(ctx context.Context, key types.NamespacedName) error {
		annotations := map[string]any{v1alpha1.AnnotationRolledOut: reached.stamp}
		meta := map[string]any{"annotations": annotations}
		if waited, does := reached.waited[key]; does { // the mark of another rollout must not get lost
			annotations[v1alpha1.AnnotationRolloutWaited], meta["resourceVersion"] = waited.value, waited.version
		}
		return c.patch(ctx, key, meta)
	})
}

// possible returns the step, or a failed one if it updates VMs and the mutating webhook does not
// get updates: these would bring the stamp of a change without the change. So the API server must
// reject an unknown stamp.
func (c *Controller) possible(ctx context.Context, next step, reached vms) step {
	unknown := map[string]any{"annotations": map[string]any{v1alpha1.AnnotationRolledOut: reached.stamp + "/unknown"}}
	if !next.update || len(reached.due) == 0 || c.patch(ctx, reached.due[0], unknown, client.DryRunAll) != nil {
		return next
	}
	return step{reason: reasonFailed, message: "the API server does not send updates of VMs to this version of virtwright: see its mutating webhooks"}
}

func (c *Controller) patch(ctx context.Context, vm types.NamespacedName, metadata map[string]any, how ...client.PatchOption) error {
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return fmt.Errorf("cannot write a patch: %w", err)
	}
	out := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: vm.Namespace, Name: vm.Name}}
	out.SetGroupVersionKind(kubevirtv1.VirtualMachineGroupVersionKind)
	return c.Client.Patch(ctx, out, client.RawPatch(types.MergePatchType, patch), how...)
}

// each does something to a batch of VMs. It stops when the rollout changes.
func (c *Controller) each(ctx context.Context, r *v1alpha1.PresetRollout, stamp string, batch []types.NamespacedName, do func(context.Context, types.NamespacedName) error) error {
	workers, ctx := errgroup.WithContext(ctx)
	workers.SetLimit(writers)
	for _, key := range batch[:min(batchSize, len(batch))] {
		workers.Go(func() error {
			var now v1alpha1.PresetRollout
			if err := c.Client.Get(ctx, client.ObjectKeyFromObject(r), &now); err != nil || now.Status.Target != r.Status.Target ||
				now.Annotations[v1alpha1.AnnotationRolloutPaused] == "true" || now.Annotations[v1alpha1.AnnotationRolloutAborted] != r.Annotations[v1alpha1.AnnotationRolloutAborted] {
				return client.IgnoreNotFound(err)
			}
			return c.note(r.Name, stamp, key, do(ctx, key))
		})
	}
	return workers.Wait()
}

// note remembers that the update of a VM was rejected, or failed in the server. It returns errors
// that are not about the VM.
func (c *Controller) note(rollout, stamp string, vm types.NamespacedName, err error) error {
	var status apierrors.APIStatus
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil // it is counted again
	case err == nil:
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.failures[rollout], vm)
		return nil
	case !errors.As(err, &status), apierrors.IsTooManyRequests(err), apierrors.IsUnauthorized(err):
		return fmt.Errorf("cannot update VM %s: %w", vm, err)
	case isUnknownStamp(status.Status()):
		return nil // a replica does not know the status yet
	}
	c.remember(rollout, stamp, vm, status.Status())
	return nil
}

func (c *Controller) remember(rollout, stamp string, vm types.NamespacedName, answer metav1.Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failures == nil {
		c.failures = map[string]map[types.NamespacedName]failure{}
	}
	if c.failures[rollout] == nil {
		c.failures[rollout] = map[types.NamespacedName]failure{}
	}
	tries := 0
	if last := c.failures[rollout][vm]; last.stamp == stamp {
		tries = last.tries + 1
	}
	pause := min(lastRetry, firstRetry<<min(tries, 10))
	c.failures[rollout][vm] = failure{
		isPending: answer.Code >= http.StatusInternalServerError && tries < maxServerErrors, stamp: stamp,
		message: answer.Message, tries: tries, retry: c.Clock.Now().Add(pause),
	}
}

// isUnknownStamp reports whether a webhook does not know the rollout in this state.
func isUnknownStamp(s metav1.Status) bool {
	return s.Details != nil && slices.ContainsFunc(s.Details.Causes, func(c metav1.StatusCause) bool {
		return c.Type == metav1.CauseTypeFieldValueNotFound && c.Field == field.NewPath("metadata", "annotations").Key(v1alpha1.AnnotationRolledOut).String()
	})
}

// forget drops the failures of a rollout that was deleted.
func (c *Controller) forget(rollout string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.failures, rollout)
}
