package presetstatus

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/lifecycle/presetusage"
	"github.com/virtwright/virtwright/presets"
)

func TestDecideException(t *testing.T) {
	end := time.Date(2030, 1, 31, 0, 0, 0, 0, time.UTC)
	const day = 24 * time.Hour
	use := func(names ...string) *presetusage.ExceptionUse {
		return &presetusage.ExceptionUse{VMs: names, LastUsed: end.Add(-20*day + time.Second)}
	}
	e := &v1alpha1.PresetException{Spec: v1alpha1.PresetExceptionSpec{Presets: []string{"a"}, Reason: "r", Until: &metav1.Time{Time: end}}}
	e.Generation = 3
	for _, step := range []struct {
		reason string
		do     func()
		now    time.Time
		use    *presetusage.ExceptionUse
		want   string // condition, matched, names, lastUsed
		wake   time.Duration
		event  string
	}{
		{"before VMs are counted", nil, end.Add(-10 * day), nil, "True InForce - [] -", 3 * day, ""},
		{"counted", nil, end.Add(-10 * day), use("a", "b"), "True InForce 2 [a b] Jan 11 00:00", 3 * day, ""},
		{"again", nil, end.Add(-10 * day), use("a", "b"), "unchanged", 3 * day, ""},
		{"a week before", nil, end.Add(-7 * day), use("a", "b"), "True EndsSoon 2 [a b] Jan 11 00:00", 7 * day, "EndsSoon exception ends at 2030-01-31T00:00:00Z; 2 VMs use it"},
		{"the end", nil, end, use("a"), "False Expired 1 [a] Jan 11 00:00", 0, "Expired exception ended at 2030-01-31T00:00:00Z; 1 VM keeps what it has until its spec is updated"},
		{"no VM uses it", nil, end, &presetusage.ExceptionUse{}, "False Expired 0 [] Jan 11 00:00", 0, ""},
		{"prolonged", func() { e.Spec.Until.Time = end.Add(30 * day) }, end, use("a"), "True InForce 1 [a] Jan 11 00:00", 23 * day, ""},
		{"without an end", func() { e.Spec.Until = nil }, end, use("a"), "unchanged", 0, ""},
		{"invalid", func() { e.Spec.Reason = "" }, end, use("a"), "False Invalid 1 [a] Jan 11 00:00", 0, ""},
	} {
		if step.do != nil {
			step.do()
		}
		d := decideException(e, step.use, step.now)
		got := "unchanged"
		if d.changed {
			c := meta.FindStatusCondition(e.Status.Conditions, v1alpha1.ConditionActive)
			matched, last := "-", "-"
			if e.Status.Matched != nil {
				matched = fmt.Sprint(*e.Status.Matched)
			}
			if e.Status.LastUsed != nil {
				last = e.Status.LastUsed.Format("Jan 02 15:04")
			}
			got = fmt.Sprint(c.Status, " ", c.Reason, " ", matched, " ", e.Status.VMs, " ", last)
		}
		event := ""
		if d.reason != "" {
			event = d.reason + " " + d.note
		}
		if diff := cmp.Diff([]any{step.want, step.wake, step.event}, []any{got, d.requeueAfter, event}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.reason, diff)
		}
	}
	if e.Status.ObservedGeneration != 3 || presets.ExceptionWarningPeriod != 7*day {
		t.Errorf("got %+v", e.Status)
	}
}

func TestNamesAreBounded(t *testing.T) {
	var many presetusage.ExceptionUse
	for i := range 60 {
		many.VMs = append(many.VMs, fmt.Sprintf("vm-%02d", i))
	}
	e := &v1alpha1.PresetException{}
	decideException(e, &many, time.Now())
	if *e.Status.Matched != 60 || len(e.Status.VMs) != 50 || e.Status.VMs[49] != "vm-49" {
		t.Errorf("got %+v", e.Status)
	}
}
