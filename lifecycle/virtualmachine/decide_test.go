package virtualmachine

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

const (
	ours   types.UID = "ours"
	others types.UID = "others"
)

var strategies = []runStrategy{
	"", "Sometimes", kubevirtv1.RunStrategyAlways, kubevirtv1.RunStrategyHalted, kubevirtv1.RunStrategyManual, kubevirtv1.RunStrategyOnce,
	kubevirtv1.RunStrategyRerunOnFailure, kubevirtv1.RunStrategyWaitAsReceiver,
}

func start(data map[string]string) request {
	return request{Action: kubevirtv1.StartRequest, Data: data}
}

func stop(uid types.UID) request { return request{Action: kubevirtv1.StopRequest, UID: &uid} }

var pause = map[string]string{"paused": "true"}

var queues = [][]request{
	nil, {start(nil)}, {start(pause)}, {stop(ours)}, {stop(others)}, {{Action: kubevirtv1.StopRequest}}, {{Action: "Dance"}},
	{stop(ours), start(nil)}, {stop(others), start(pause)}, {start(nil), stop(ours)}, {stop(ours), stop(ours), start(nil)},
	{stop("vm")}, {stop("vm"), start(nil)},
}

var failures = []*startFailure{
	nil, {ConsecutiveFailCount: 2, LastFailedVMIUID: others, RetryAfterTimestamp: &metav1.Time{Time: noon.Add(-time.Minute)}},
	{ConsecutiveFailCount: 2, LastFailedVMIUID: others, RetryAfterTimestamp: &metav1.Time{Time: noon.Add(time.Minute)}},
	{ConsecutiveFailCount: 7, LastFailedVMIUID: ours, RetryAfterTimestamp: &metav1.Time{Time: noon.Add(time.Minute)}}, {ConsecutiveFailCount: 1},
}

// observations yields all combinations of facts.
func observations(yield func(observation) bool) {
	instances := []*vmiObservation{nil}
	for _, ownership := range []ownership{owned, orphan, foreign} {
		for _, deleting := range []bool{false, true} {
			for _, phase := range []phase{starting, running, succeeded, failed} {
				for _, ran := range []bool{false, true} {
					if ran || phase != running {
						instances = append(instances, &vmiObservation{UID: ours, Ownership: ownership, Deleting: deleting, Phase: phase, Ran: ran})
					}
				}
			}
		}
	}
	for _, strategy := range strategies {
		for _, before := range strategies {
			for _, deletion := range []deletion{notDeleted, withVMI, orphaningVMI} {
				for _, requests := range queues {
					for _, failure := range failures {
						for _, volumes := range []volumesState{volumesReady, volumesPending, volumesFailed} {
							for _, instance := range instances {
								s := observation{UID: "vm", Strategy: strategy, LastStrategy: before, Deletion: deletion, Requests: requests, StartFailure: failure, Volumes: volumes, VMI: instance, Now: noon}
								if !yield(s) {
									return
								}
								if s.Excluded = true; !yield(s) {
									return
								}
							}
						}
					}
				}
			}
		}
	}
}

func TestInvariants(t *testing.T) {
	tried := 0
	for s := range observations {
		tried++
		if problem := violated(s, decide(s)); problem != "" {
			t.Fatalf("%s:\n%s\n%+v", problem, describe(s), decide(s))
		}
	}
	if tried < 1_000_000 {
		t.Errorf("tried only %d observations", tried)
	}
}

// violated names an invariant that does not hold.
func violated(s observation, d decision) string {
	i, actions := s.VMI, 0
	for _, is := range []bool{d.Create, d.Adopt != "", d.Delete != "", d.Strategy != ""} {
		if is {
			actions++
		}
	}
	known := s.Strategy != "" && s.Strategy != "Sometimes" && s.Strategy != kubevirtv1.RunStrategyWaitAsReceiver
	switch {
	case actions > 1:
		return "more than one action"
	case d.Create && i != nil:
		return "creates a second VMI"
	case s.Excluded && (d.Create || d.Strategy != ""):
		return "starts in an excluded namespace"
	case d.Create && s.Deletion != notDeleted:
		return "creates a VMI for a VM that is being deleted"
	case d.Create && !known:
		return "creates a VMI without a valid run strategy"
	case d.Create && s.Volumes != volumesReady:
		return "creates a VMI before its volumes are ready"
	case d.Delete != "" && (i == nil || i.Ownership != owned || i.UID != d.Delete):
		return "deletes a VMI that it does not own"
	case (d.Delete != "" || d.Adopt != "") && i.Deleting:
		return "writes to a VMI that is being deleted"
	case d.Adopt != "" && (i == nil || i.Ownership != orphan || s.Deletion != notDeleted):
		return "adopts a VMI that is no orphan, or for a VM that is being deleted"
	case s.Deletion == orphaningVMI && actions > 0:
		return "acts for a VM that is deleted without its VMI"
	case s.Strategy == kubevirtv1.RunStrategyHalted && d.Create:
		return "starts a halted VM"
	case d.Strategy != "" && (s.Strategy != kubevirtv1.RunStrategyHalted || !asksPaused(s) || s.LastStrategy != "" && s.LastStrategy != kubevirtv1.RunStrategyHalted):
		return "an old request overrides Halted"
	case s.Strategy == kubevirtv1.RunStrategyHalted && i != nil && i.Ownership == owned && !i.Deleting && s.Deletion != orphaningVMI && d.Delete == "":
		return "a halted VM keeps its VMI"
	case d.RequeueAfter < 0 || d.RequeueAfter > 0 && d.Blocked != blockedByBackOff:
		return "requeues without a reason"
	}
	return again(s, d)
}

func asksPaused(s observation) bool {
	return slices.ContainsFunc(s.Requests, startsPaused)
}

// again decides once more after status was written and the controller was killed before it acted.
// The decision must be the same.
func again(s observation, d decision) string {
	if d.Create {
		return "" // the same write removes its request
	}
	if d.Delete != "" { // status is written first
		s.LastStrategy = lastStrategy(s, d, true)
	}
	s.Requests, s.StartFailure = d.Requests, d.StartFailure
	if next := decide(s); !reflect.DeepEqual(next, d) {
		return fmt.Sprintf("decides differently the second time: %+v", next)
	}
	return ""
}

// TestConverges simulates the cluster from every observation: deletions complete, starting VMIs
// run, time passes and volumes become ready. Each simulation must end in the state that the spec
// asks for.
func TestConverges(t *testing.T) {
	for s := range observations {
		from := s
		if s.VMI != nil {
			s.VMI = new(*s.VMI)
		}
		for step := 0; ; step++ {
			if step > 20 {
				t.Fatalf("does not end:\n%s\nat\n%s", describe(from), describe(s))
			}
			if !advance(&s) {
				break
			}
		}
		if problem := endProblem(from, s); problem != "" {
			t.Fatalf("%s:\n%s\nended as\n%s", problem, describe(from), describe(s))
		}
	}
}

// advance simulates one decision, or else one event of the cluster. It returns false at the end.
func advance(s *observation) bool {
	d := decide(*s)
	moved := d.Create || d.Adopt != "" || d.Delete != "" || d.Strategy != ""
	created := d.Create || s.own() != nil
	s.LastStrategy = lastStrategy(*s, d, created)
	s.Requests, s.StartFailure = d.Requests, d.StartFailure
	switch {
	case d.Create:
		s.VMI = &vmiObservation{UID: "new", Ownership: owned}
	case d.Adopt != "":
		s.VMI.Ownership = owned
	case d.Delete != "":
		s.VMI.Deleting = true
	case d.Strategy != "":
		s.Strategy = d.Strategy
	}
	if moved {
		return true
	}
	switch i := s.VMI; {
	case i != nil && i.Deleting:
		s.VMI = nil
	case i != nil && i.Ownership == foreign:
		s.VMI = nil // deleted by its owner
	case i != nil && i.Phase == starting && s.Deletion != orphaningVMI:
		i.Phase, i.Ran = running, true
	case d.RequeueAfter > 0:
		s.Now = s.Now.Add(d.RequeueAfter)
	case d.Blocked == blockedByVolumes:
		s.Volumes = volumesReady
	default:
		return false
	}
	return true
}

// endProblem returns the problem at the end of a simulation.
func endProblem(from, s observation) string {
	runs := s.own().active()
	switch {
	case s.Deletion == orphaningVMI:
		return ""
	case s.Deletion == withVMI && runs:
		return "the VM was deleted without its VMI"
	case s.Deletion != notDeleted:
		return ""
	case s.Excluded && s.VMI == nil:
		return "" // nothing starts, and requests stay pending
	case len(s.Requests) > 0 && strategyProblem(s.Strategy) == nil:
		return "a request is not served"
	}
	switch s.Strategy {
	case kubevirtv1.RunStrategyAlways:
		if !runs {
			return "the VM does not run"
		}
	case kubevirtv1.RunStrategyHalted:
		if s.own() != nil {
			return "the VM is not halted"
		}
	case kubevirtv1.RunStrategyManual, kubevirtv1.RunStrategyRerunOnFailure:
		asked := len(from.Requests) > 0 && from.Requests[len(from.Requests)-1].Action == kubevirtv1.StartRequest
		if asked && from.VMI == nil && !runs {
			return "a start was lost"
		}
		if stopAsked(from) && runs {
			return "a stop was undone"
		}
	}
	return ""
}

// stopAsked reports whether the last request is to stop the VMI that runs.
func stopAsked(s observation) bool {
	last := len(s.Requests) - 1
	return last >= 0 && s.Requests[last].Action == kubevirtv1.StopRequest && s.own().active() && concernsVMI(s, s.Requests[last])
}

func describe(s observation) string {
	return fmt.Sprintf("%+v, VMI %+v, start failure %+v", s, s.VMI, s.StartFailure)
}

func TestBackOff(t *testing.T) {
	for count, bounds := range map[int][2]int{0: {10, 15}, 1: {10, 15}, 2: {40, 60}, 3: {90, 135}, 4: {160, 240}, 5: {250, 300}, 6: {300, 300}, 1 << 40: {300, 300}} {
		seen := map[time.Duration]bool{}
		for n := range 100 {
			got := backOff(count, types.UID(fmt.Sprint(n)))
			if got < time.Duration(bounds[0])*time.Second || got > time.Duration(bounds[1])*time.Second {
				t.Errorf("%d: %v is not within %d s and %d s", count, got, bounds[0], bounds[1])
			}
			seen[got] = true
		}
		if bounds[0] != bounds[1] && len(seen) < 10 {
			t.Errorf("%d: starts are not spread: %d pauses", count, len(seen))
		}
	}
}
