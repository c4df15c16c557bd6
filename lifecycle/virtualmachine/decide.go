package virtualmachine

import (
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// A decision holds the next actions for a VM. At most one of Create, Adopt, Delete and Strategy is
// set.
type decision struct {
	CreateVolumes []string // the names of DataVolumes to create, before anything else
	Create        bool
	Paused        bool
	Adopt         types.UID   // the UID of the orphan VMI that the VM becomes the owner of
	Delete        types.UID   // the UID of the VMI to delete, after status was written
	Strategy      runStrategy // replaces the run strategy in the spec
	Requests      []request   // written to status, like StartFailure
	StartFailure  *startFailure
	RequeueAfter  time.Duration // the time until the next reconciliation; zero waits for an event
	Blocked       string        // the reason why a wanted start does not happen yet
}

// changesObjects reports whether the decision changes more than status and volumes.
func (d decision) changesObjects() bool {
	return d.Create || d.Adopt != "" || d.Delete != "" || d.Strategy != ""
}

// Reasons why a start is blocked.
const (
	blockedByBackOff   = "BackOff"
	blockedByVolumes   = "Volumes"
	blockedByOtherVMI  = "OtherVMI"
	blockedByNamespace = "ExcludedNamespace" // also the reason of the condition Ready
)

// decide returns the next actions for a VM. It is a pure function.
//
//   - A VM that is being deleted deletes its VMI, unless the deletion orphans it.
//   - A VM adopts an orphan VMI before anything else is decided.
//   - A VM without a VMI creates one if its run strategy or a request demands it, unless a
//     back-off, its volumes, another VMI or an excluded namespace blocks the start.
//   - A VM deletes its VMI if it is Halted, if a stop is requested, or to replace an ended VMI.
//
// Each action may be repeated without harm, so a controller that is killed after any write
// continues correctly.
func decide(o observation) decision {
	switch {
	case o.Deletion != notDeleted:
		if o.Deletion == withVMI && o.own() != nil && !o.VMI.Deleting {
			return deleteVMI(o)
		}
		return keep(o)
	case o.VMI != nil && o.VMI.Ownership == orphan && !o.VMI.Deleting:
		d := keep(o)
		d.Adopt = o.VMI.UID
		return d
	}
	o.Requests = pendingRequests(o)
	o.StartFailure = countStartFailures(o)
	switch vmi := o.own(); {
	case vmi == nil:
		return decideStart(o)
	case vmi.Deleting:
		return keep(o)
	}
	return decideStop(o)
}

// keep leaves the VMI as it is: it creates missing volumes, and stores the requests and failures of
// o.
func keep(o observation) decision {
	return decision{CreateVolumes: o.MissingVolumes, Requests: o.Requests, StartFailure: o.StartFailure}
}

func deleteVMI(o observation) decision {
	d := keep(o)
	d.Delete = o.VMI.UID
	return d
}

// decideStart decides about a VM without a VMI.
func decideStart(o observation) decision {
	d := keep(o)
	if !wantsVMI(o) {
		return d
	}
	remaining := backOffRemaining(o)
	switch {
	case o.Excluded:
		d.Blocked = blockedByNamespace
	case o.VMI != nil:
		d.Blocked = blockedByOtherVMI
	case o.Strategy == kubevirtv1.RunStrategyHalted: // a paused start is requested
		d.Strategy = kubevirtv1.RunStrategyAlways
	case remaining > 0 && restartsVMI(o.Strategy):
		d.Blocked, d.RequeueAfter = blockedByBackOff, remaining
	case o.Volumes != volumesReady:
		d.Blocked = blockedByVolumes
	default:
		d.Create = true
		if firstAction(o) == kubevirtv1.StartRequest {
			d.Paused, d.Requests = startsPaused(o.Requests[0]), o.Requests[1:]
		}
	}
	return d
}

// decideStop decides about a VM with a VMI that is not being deleted.
func decideStop(o observation) decision {
	vmi, start := o.own(), firstAction(o) == kubevirtv1.StartRequest
	startAgain := vmi.Phase.final() && start && !restartsVMI(o.Strategy) && strategyProblem(o.Strategy) == nil
	switch {
	case o.Strategy == kubevirtv1.RunStrategyHalted, stopRequested(o), startAgain:
		return deleteVMI(o)
	case vmi.Phase.final() && restartsVMI(o.Strategy):
		d := deleteVMI(o)
		if o.Strategy == kubevirtv1.RunStrategyRerunOnFailure && vmi.Phase == failed && !start {
			d.Requests = append(d.Requests, request{Action: kubevirtv1.StartRequest})
		}
		return d
	}
	return keep(o)
}

// wantsVMI reports whether a VM without a VMI should have one.
func wantsVMI(o observation) bool {
	o.Requests = pendingRequests(o)
	requested := firstAction(o) == kubevirtv1.StartRequest
	switch o.Strategy {
	case kubevirtv1.RunStrategyAlways:
		return true
	case kubevirtv1.RunStrategyRerunOnFailure, kubevirtv1.RunStrategyOnce:
		return requested || o.LastStrategy != o.Strategy
	case kubevirtv1.RunStrategyManual, kubevirtv1.RunStrategyHalted: // Halted: only for a paused start
		return requested
	}
	return false
}

// restartsVMI reports whether a run strategy replaces VMIs that have ended.
func restartsVMI(strategy runStrategy) bool {
	return strategy == kubevirtv1.RunStrategyAlways || strategy == kubevirtv1.RunStrategyRerunOnFailure
}

// pendingRequests returns the requests that still have to be served. A VM that is Halted keeps only
// requests for a paused start that were made since: no other start is accepted for such a VM.
func pendingRequests(o observation) []request {
	pending := slices.Clone(o.Requests)
	if o.Strategy == kubevirtv1.RunStrategyHalted {
		wasHalted := o.LastStrategy == "" || o.LastStrategy == kubevirtv1.RunStrategyHalted
		pending = slices.DeleteFunc(pending, func(r request) bool {
			return r.Action == kubevirtv1.StartRequest && !(wasHalted && startsPaused(r))
		})
	}
	for len(pending) > 0 && isServed(o, pending[0]) {
		pending = pending[1:]
	}
	return pending
}

// isServed reports whether nothing remains to be done for a request.
func isServed(o observation, r request) bool {
	switch r.Action {
	case kubevirtv1.StopRequest:
		return !concernsVMI(o, r)
	case kubevirtv1.StartRequest:
		return o.own().active()
	}
	return true
}

// concernsVMI reports whether a request names the VMI, or the VM to mean any VMI of it.
func concernsVMI(o observation, r request) bool {
	vmi := o.own()
	return vmi != nil && r.UID != nil && (*r.UID == vmi.UID || *r.UID == o.UID)
}

func stopRequested(o observation) bool {
	return firstAction(o) == kubevirtv1.StopRequest && concernsVMI(o, o.Requests[0])
}

func firstAction(o observation) kubevirtv1.StateChangeRequestAction {
	if len(o.Requests) == 0 {
		return ""
	}
	return o.Requests[0].Action
}

func startsPaused(r request) bool {
	return r.Action == kubevirtv1.StartRequest && r.Data[kubevirtv1.StartRequestDataPausedKey] == kubevirtv1.StartRequestDataPausedTrue
}

// The n-th consecutive start that fails is followed by a pause of n² times backOffUnit, and up to
// half as much again to spread starts, but at most maxBackOff.
const (
	backOffUnit = 10 * time.Second
	maxBackOff  = 300 * time.Second
)

// countStartFailures counts each VMI that failed before it ran once.
func countStartFailures(o observation) *startFailure {
	vmi, last := o.own(), o.StartFailure
	switch {
	case !restartsVMI(o.Strategy) && o.Strategy != kubevirtv1.RunStrategyOnce, vmi != nil && vmi.Ran:
		return nil
	case vmi == nil || vmi.Deleting || !vmi.Phase.final() || last != nil && last.LastFailedVMIUID == vmi.UID:
		return last
	}
	count := 1
	if last != nil {
		count += last.ConsecutiveFailCount
	}
	retryAt := metav1.NewTime(o.Now.Add(backOff(count, vmi.UID)).Truncate(time.Second))
	return &startFailure{ConsecutiveFailCount: count, LastFailedVMIUID: vmi.UID, RetryAfterTimestamp: &retryAt}
}

// backOff returns the pause before the next start. The spread is derived from the UID, so that
// repeated decisions agree.
func backOff(count int, uid types.UID) time.Duration {
	if count >= 6 {
		return maxBackOff
	}
	pause := backOffUnit * time.Duration(max(count, 1)*max(count, 1))
	spread := fnv.New32a()
	_, _ = spread.Write([]byte(string(uid) + strconv.Itoa(count))) // never fails
	return min(pause+pause/2*time.Duration(spread.Sum32()%1000)/1000, maxBackOff)
}

// backOffRemaining returns how long starts are still blocked. It ignores a time too far in the
// future to be ours: another clock was wrong.
func backOffRemaining(o observation) time.Duration {
	if o.StartFailure == nil || o.StartFailure.RetryAfterTimestamp == nil {
		return 0
	}
	remaining := o.StartFailure.RetryAfterTimestamp.Sub(o.Now)
	if remaining > 2*maxBackOff {
		return 0
	}
	return max(remaining, 0)
}
