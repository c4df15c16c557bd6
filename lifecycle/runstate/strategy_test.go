package runstate

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// TestStrategies is the table of what each strategy makes of an instance that
// ends, is lost, or is asked for.
func TestStrategies(t *testing.T) {
	const (
		always = kubevirtv1.RunStrategyAlways
		halted = kubevirtv1.RunStrategyHalted
		manual = kubevirtv1.RunStrategyManual
		once   = kubevirtv1.RunStrategyOnce
		rerun  = kubevirtv1.RunStrategyRerunOnFailure
	)
	instance := func(phase Phase, ran bool) *Instance { return &Instance{UID: ours, Phase: phase, Ran: ran} }
	counted := &Failure{ConsecutiveFailCount: 1, LastFailedVMIUID: ours, RetryAfterTimestamp: &metav1.Time{Time: noon.Add(-time.Second)}}
	skewed := &Failure{ConsecutiveFailCount: 1, RetryAfterTimestamp: &metav1.Time{Time: noon.Add(24 * time.Hour)}}
	for name, c := range map[string]struct {
		reason string
		s      Situation
		want   Decision
	}{
		"once, new":           {"", Situation{Strategy: once}, Decision{Create: true}},
		"once, switched to":   {"", Situation{Strategy: once, Before: halted}, Decision{Create: true}},
		"once, lost":          {"it has had its one", Situation{Strategy: once, Before: once}, Decision{}},
		"once, ended":         {"it stays to be looked at", Situation{Strategy: once, Before: once, Instance: instance(Succeeded, true)}, Decision{}},
		"once, crashed":       {"", Situation{Strategy: once, Before: once, Instance: instance(Failed, true)}, Decision{}},
		"rerun, new":          {"", Situation{Strategy: rerun}, Decision{Create: true}},
		"rerun, switched to":  {"", Situation{Strategy: rerun, Before: halted}, Decision{Create: true}},
		"rerun, lost":         {"somebody deleted it, nothing failed", Situation{Strategy: rerun, Before: rerun}, Decision{}},
		"rerun, shut down":    {"not a failure", Situation{Strategy: rerun, Before: rerun, Instance: instance(Succeeded, true)}, Decision{Delete: ours, First: true}},
		"rerun, crashed":      {"the wish for the next is recorded first", Situation{Strategy: rerun, Before: rerun, Instance: instance(Failed, true)}, Decision{Delete: ours, First: true, Requests: []Request{start(nil)}}},
		"rerun, is stopped":   {"the stop wins over the failure", Situation{Strategy: rerun, Before: rerun, Instance: instance(Failed, true), Requests: []Request{stop(ours)}}, Decision{Delete: ours, First: true, Requests: []Request{stop(ours)}}},
		"rerun, asked":        {"", Situation{Strategy: rerun, Before: rerun, Requests: []Request{start(nil)}}, Decision{Create: true}},
		"manual, new":         {"", Situation{Strategy: manual}, Decision{}},
		"manual, asked":       {"the request goes with the start", Situation{Strategy: manual, Requests: []Request{start(nil)}}, Decision{Create: true}},
		"manual, asked pause": {"", Situation{Strategy: manual, Requests: []Request{start(pause)}}, Decision{Create: true, Paused: true}},
		"manual, starts":      {"what is about to run is not started again", Situation{Strategy: manual, Instance: instance(Starting, false), Requests: []Request{start(nil)}}, Decision{}},
		"manual, ended":       {"", Situation{Strategy: manual, Instance: instance(Failed, true)}, Decision{}},
		"manual, ended, asked": {"the old one goes first", Situation{Strategy: manual, Instance: instance(Failed, true), Requests: []Request{start(nil)}},
			Decision{Delete: ours, First: true, Requests: []Request{start(nil)}}},
		"manual, stopped by whatever name": {"whoever stopped a start did not know the instance", Situation{Strategy: manual, Instance: instance(Running, true), Requests: []Request{stop("vm")}},
			Decision{Delete: ours, Requests: []Request{stop("vm")}}},
		"manual, stopped in time": {"", Situation{Strategy: manual, Requests: []Request{stop("vm")}}, Decision{}},
		"always, lost":            {"", Situation{Strategy: always, Before: always}, Decision{Create: true}},
		"always, crashed":         {"what ran is not counted", Situation{Strategy: always, Before: always, Instance: instance(Failed, true)}, Decision{Delete: ours, First: true}},
		"always, ran after all":   {"and what was counted is forgotten", Situation{Strategy: always, Before: always, Failure: counted, Instance: instance(Running, true)}, Decision{}},
		"always, waits long":      {"a clock was wrong", Situation{Strategy: always, Before: always, Failure: skewed}, Decision{Create: true, Failure: skewed}},
		"halted, paused start":    {"the only one that is asked of it", Situation{Strategy: halted, Before: halted, Requests: []Request{start(pause)}}, Decision{Strategy: always, Requests: []Request{start(pause)}}},
		"halted, start":           {"", Situation{Strategy: halted, Before: halted, Requests: []Request{start(nil)}}, Decision{}},
	} {
		c.s.UID, c.s.Now = "vm", noon
		if diff := cmp.Diff(c.want, Decide(c.s), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (%s): -want, +got:\n%s", name, c.reason, diff)
		}
	}
}
