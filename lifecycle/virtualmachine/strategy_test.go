package virtualmachine

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// TestStrategies is a table of decisions for VMIs that end, disappear or are requested.
func TestStrategies(t *testing.T) {
	const (
		always = kubevirtv1.RunStrategyAlways
		halted = kubevirtv1.RunStrategyHalted
		manual = kubevirtv1.RunStrategyManual
		once   = kubevirtv1.RunStrategyOnce
		rerun  = kubevirtv1.RunStrategyRerunOnFailure
	)
	instance := func(phase phase, ran bool) *vmiObservation { return &vmiObservation{UID: ours, Phase: phase, Ran: ran} }
	counted := &startFailure{ConsecutiveFailCount: 1, LastFailedVMIUID: ours, RetryAfterTimestamp: &metav1.Time{Time: noon.Add(-time.Second)}}
	skewed := &startFailure{ConsecutiveFailCount: 1, RetryAfterTimestamp: &metav1.Time{Time: noon.Add(24 * time.Hour)}}
	for name, c := range map[string]struct {
		reason string
		s      observation
		want   decision
	}{
		"once, new":           {"", observation{Strategy: once}, decision{Create: true}},
		"once, switched to":   {"", observation{Strategy: once, LastStrategy: halted}, decision{Create: true}},
		"once, lost":          {"it had its only VMI", observation{Strategy: once, LastStrategy: once}, decision{}},
		"once, ended":         {"it stays for inspection", observation{Strategy: once, LastStrategy: once, VMI: instance(succeeded, true)}, decision{}},
		"once, crashed":       {"", observation{Strategy: once, LastStrategy: once, VMI: instance(failed, true)}, decision{}},
		"rerun, new":          {"", observation{Strategy: rerun}, decision{Create: true}},
		"rerun, switched to":  {"", observation{Strategy: rerun, LastStrategy: halted}, decision{Create: true}},
		"rerun, lost":         {"it was deleted, and did not fail", observation{Strategy: rerun, LastStrategy: rerun}, decision{}},
		"rerun, shut down":    {"not a failure", observation{Strategy: rerun, LastStrategy: rerun, VMI: instance(succeeded, true)}, decision{Delete: ours}},
		"rerun, crashed":      {"the next start is recorded first", observation{Strategy: rerun, LastStrategy: rerun, VMI: instance(failed, true)}, decision{Delete: ours, Requests: []request{start(nil)}}},
		"rerun, is stopped":   {"the stop wins over the failure", observation{Strategy: rerun, LastStrategy: rerun, VMI: instance(failed, true), Requests: []request{stop(ours)}}, decision{Delete: ours, Requests: []request{stop(ours)}}},
		"rerun, asked":        {"", observation{Strategy: rerun, LastStrategy: rerun, Requests: []request{start(nil)}}, decision{Create: true}},
		"manual, new":         {"", observation{Strategy: manual}, decision{}},
		"manual, asked":       {"the start serves the request", observation{Strategy: manual, Requests: []request{start(nil)}}, decision{Create: true}},
		"manual, asked pause": {"", observation{Strategy: manual, Requests: []request{start(pause)}}, decision{Create: true, Paused: true}},
		"manual, starts":      {"the request is served already", observation{Strategy: manual, VMI: instance(starting, false), Requests: []request{start(nil)}}, decision{}},
		"manual, ended":       {"", observation{Strategy: manual, VMI: instance(failed, true)}, decision{}},
		"manual, ended, asked": {"the old VMI is deleted first", observation{Strategy: manual, VMI: instance(failed, true), Requests: []request{start(nil)}},
			decision{Delete: ours, Requests: []request{start(nil)}}},
		"manual, stopped by VM UID": {"a stop that was requested before the VMI existed names the VM", observation{Strategy: manual, VMI: instance(running, true), Requests: []request{stop("vm")}},
			decision{Delete: ours, Requests: []request{stop("vm")}}},
		"manual, stopped in time": {"", observation{Strategy: manual, Requests: []request{stop("vm")}}, decision{}},
		"always, lost":            {"", observation{Strategy: always, LastStrategy: always}, decision{Create: true}},
		"always, crashed":         {"a VMI that ran is not counted", observation{Strategy: always, LastStrategy: always, VMI: instance(failed, true)}, decision{Delete: ours}},
		"always, ran after all":   {"the count is reset", observation{Strategy: always, LastStrategy: always, StartFailure: counted, VMI: instance(running, true)}, decision{}},
		"always, waits long":      {"another clock was wrong", observation{Strategy: always, LastStrategy: always, StartFailure: skewed}, decision{Create: true, StartFailure: skewed}},
		"halted, paused start":    {"the only start that is accepted", observation{Strategy: halted, LastStrategy: halted, Requests: []request{start(pause)}}, decision{Strategy: always, Requests: []request{start(pause)}}},
		"halted, start":           {"", observation{Strategy: halted, LastStrategy: halted, Requests: []request{start(nil)}}, decision{}},
	} {
		c.s.UID, c.s.Now = "vm", noon
		if diff := cmp.Diff(c.want, decide(c.s), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (%s): -want, +got:\n%s", name, c.reason, diff)
		}
	}
}
