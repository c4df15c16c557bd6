package runstate

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

var strategies = []Strategy{
	"", "Sometimes", kubevirtv1.RunStrategyAlways, kubevirtv1.RunStrategyHalted, kubevirtv1.RunStrategyManual, kubevirtv1.RunStrategyOnce,
	kubevirtv1.RunStrategyRerunOnFailure, kubevirtv1.RunStrategyWaitAsReceiver,
}

func start(data map[string]string) Request {
	return Request{Action: kubevirtv1.StartRequest, Data: data}
}

func stop(uid types.UID) Request { return Request{Action: kubevirtv1.StopRequest, UID: &uid} }

var pause = map[string]string{"paused": "true"}

var queues = [][]Request{
	nil, {start(nil)}, {start(pause)}, {stop(ours)}, {stop(others)}, {{Action: kubevirtv1.StopRequest}}, {{Action: "Dance"}},
	{stop(ours), start(nil)}, {stop(others), start(pause)}, {start(nil), stop(ours)}, {stop(ours), stop(ours), start(nil)},
	{stop("vm")}, {stop("vm"), start(nil)},
}

var failures = []*Failure{
	nil, {ConsecutiveFailCount: 2, LastFailedVMIUID: others, RetryAfterTimestamp: &metav1.Time{Time: noon.Add(-time.Minute)}},
	{ConsecutiveFailCount: 2, LastFailedVMIUID: others, RetryAfterTimestamp: &metav1.Time{Time: noon.Add(time.Minute)}},
	{ConsecutiveFailCount: 7, LastFailedVMIUID: ours, RetryAfterTimestamp: &metav1.Time{Time: noon.Add(time.Minute)}}, {ConsecutiveFailCount: 1},
}

// situations are all that there can be.
func situations(yield func(Situation) bool) {
	instances := []*Instance{nil}
	for _, whose := range []Whose{Own, Orphan, Foreign} {
		for _, deleting := range []bool{false, true} {
			for _, phase := range []Phase{Starting, Running, Succeeded, Failed} {
				for _, ran := range []bool{false, true} {
					if ran || phase != Running {
						instances = append(instances, &Instance{UID: ours, Whose: whose, Deleting: deleting, Phase: phase, Ran: ran})
					}
				}
			}
		}
	}
	for _, strategy := range strategies {
		for _, before := range strategies {
			for _, deletion := range []Deletion{NotDeleted, WithInstance, LeavingInstance} {
				for _, requests := range queues {
					for _, failure := range failures {
						for _, volumes := range []Volumes{Filled, Filling, Stuck} {
							for _, instance := range instances {
								s := Situation{UID: "vm", Strategy: strategy, Before: before, Deletion: deletion, Requests: requests, Failure: failure, Volumes: volumes, Instance: instance, Now: noon}
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
	for s := range situations {
		tried++
		if problem := violated(s, Decide(s)); problem != "" {
			t.Fatalf("%s:\n%s\n%+v", problem, describe(s), Decide(s))
		}
	}
	if tried < 1_000_000 {
		t.Errorf("tried only %d situations", tried)
	}
}

// violated names an invariant that does not hold.
func violated(s Situation, d Decision) string {
	i, actions := s.Instance, 0
	for _, is := range []bool{d.Create, d.Adopt != "", d.Delete != "", d.Strategy != ""} {
		if is {
			actions++
		}
	}
	known := s.Strategy != "" && s.Strategy != "Sometimes"
	switch {
	case actions > 1:
		return "more than one thing at once"
	case d.Create && i != nil:
		return "a second instance"
	case s.Excluded && (d.Create || d.Strategy != ""):
		return "a start in an excluded namespace"
	case d.Create && s.Deletion != NotDeleted:
		return "an instance of a machine that goes"
	case d.Create && !known:
		return "an instance without a strategy"
	case d.Create && s.Volumes != Filled:
		return "an instance without its volumes"
	case d.Delete != "" && (i == nil || i.Whose != Own || i.UID != d.Delete):
		return "deletes what is not its own"
	case (d.Delete != "" || d.Adopt != "") && i.Deleting:
		return "writes to an instance that goes"
	case d.Adopt != "" && (i == nil || i.Whose != Orphan || s.Deletion != NotDeleted):
		return "adopts what is no orphan, or for a machine that goes"
	case s.Deletion == LeavingInstance && actions > 0:
		return "does something for a machine that leaves its instance"
	case s.Strategy == kubevirtv1.RunStrategyHalted && d.Create:
		return "starts a halted machine"
	case d.Strategy != "" && (s.Strategy != kubevirtv1.RunStrategyHalted || !asksPaused(s) || s.Before != "" && s.Before != kubevirtv1.RunStrategyHalted):
		return "halted does not win"
	case s.Strategy == kubevirtv1.RunStrategyHalted && i != nil && i.Whose == Own && !i.Deleting && s.Deletion != LeavingInstance && d.Delete == "":
		return "a halted machine keeps its instance"
	case d.After < 0 || d.After > 0 && d.Waits != WaitsForBackOff:
		return "looks again for no reason"
	case d.Delete != "" && !reflect.DeepEqual(d.Failure, s.Failure) && d.Failure != nil && !d.First:
		return "deletes the evidence before it is counted"
	case len(d.Requests) > len(s.Requests) && !d.First:
		return "deletes before the next start is recorded"
	}
	return again(s, d)
}

func asksPaused(s Situation) bool {
	return slices.ContainsFunc(s.Requests, paused)
}

// again decides once more, with what was recorded and nothing done: whoever is
// killed in between does the same thing.
func again(s Situation, d Decision) string {
	if d.Create {
		return "" // its request is popped with it
	}
	s.Requests, s.Failure = d.Requests, d.Failure
	if next := Decide(s); !reflect.DeepEqual(next, d) {
		return fmt.Sprintf("decides otherwise the second time: %+v", next)
	}
	return ""
}

// TestLeadsHome lets every situation run its course: what is deleted goes, what
// starts runs, time passes and volumes fill. It ends, and ends as it should.
func TestLeadsHome(t *testing.T) {
	for s := range situations {
		from := s
		if s.Instance != nil {
			s.Instance = new(*s.Instance)
		}
		for step := 0; ; step++ {
			if step > 20 {
				t.Fatalf("comes to no end:\n%s\nat\n%s", describe(from), describe(s))
			}
			if !advance(&s) {
				break
			}
		}
		if problem := home(from, s); problem != "" {
			t.Fatalf("%s:\n%s\nended as\n%s", problem, describe(from), describe(s))
		}
	}
}

// advance does what is decided, and then what the world does; false when
// nothing happens any more.
func advance(s *Situation) bool {
	d := Decide(*s)
	moved := d.Create || d.Adopt != "" || d.Delete != "" || d.Strategy != ""
	created := d.Create || s.own() != nil
	s.Before = s.before(d, created)
	s.Requests, s.Failure = d.Requests, d.Failure
	switch {
	case d.Create:
		s.Instance = &Instance{UID: "new", Whose: Own}
	case d.Adopt != "":
		s.Instance.Whose = Own
	case d.Delete != "":
		s.Instance.Deleting = true
	case d.Strategy != "":
		s.Strategy = d.Strategy
	}
	if moved {
		return true
	}
	switch i := s.Instance; {
	case i != nil && i.Deleting:
		s.Instance = nil
	case i != nil && i.Whose == Foreign:
		s.Instance = nil // somebody takes it away
	case i != nil && i.Phase == Starting && s.Deletion != LeavingInstance:
		i.Phase, i.Ran = Running, true
	case d.After > 0:
		s.Now = s.Now.Add(d.After)
	case d.Waits == WaitsForVolumes:
		s.Volumes = Filled
	default:
		return false
	}
	return true
}

// home says what is wrong with where a situation ended.
func home(from, s Situation) string {
	runs := s.own().active()
	switch {
	case s.Deletion == LeavingInstance:
		return ""
	case s.Deletion == WithInstance && runs:
		return "a machine went without its instance"
	case s.Deletion != NotDeleted:
		return ""
	case s.Excluded && s.Instance == nil:
		return "" // nothing starts, and requests stay
	case len(s.Requests) > 0 && s.Strategy != "" && s.Strategy != "Sometimes":
		return "a request is left"
	}
	switch s.Strategy {
	case kubevirtv1.RunStrategyAlways, kubevirtv1.RunStrategyWaitAsReceiver:
		if !runs && !(s.Strategy == kubevirtv1.RunStrategyWaitAsReceiver && s.own() != nil) {
			return "it does not run"
		}
	case kubevirtv1.RunStrategyHalted:
		if s.own() != nil {
			return "it is not halted"
		}
	case kubevirtv1.RunStrategyManual, kubevirtv1.RunStrategyRerunOnFailure:
		asked := len(from.Requests) > 0 && from.Requests[len(from.Requests)-1].Action == kubevirtv1.StartRequest
		if asked && from.Instance == nil && !runs {
			return "a start was lost"
		}
	}
	return ""
}

func describe(s Situation) string {
	return fmt.Sprintf("%+v, instance %+v, failure %+v", s, s.Instance, s.Failure)
}

func TestDelay(t *testing.T) {
	for count, bounds := range map[int][2]int{0: {10, 15}, 1: {10, 15}, 2: {40, 60}, 3: {90, 135}, 4: {160, 240}, 5: {250, 300}, 6: {300, 300}, 1 << 40: {300, 300}} {
		seen := map[time.Duration]bool{}
		for n := range 100 {
			got := delay(count, types.UID(fmt.Sprint(n)))
			if got < time.Duration(bounds[0])*time.Second || got > time.Duration(bounds[1])*time.Second {
				t.Errorf("%d: %v is not within %d s and %d s", count, got, bounds[0], bounds[1])
			}
			seen[got] = true
		}
		if bounds[0] != bounds[1] && len(seen) < 10 {
			t.Errorf("%d: starts are not spread: %d delays", count, len(seen))
		}
	}
}
