package presetstatus

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/lifecycle/presetcache"
)

// TestEventsAreRare: the same event about a preset is written once an hour, and only when a
// condition begins to hold.
func TestEventsAreRare(t *testing.T) {
	now := noon.Time
	recorder := events.NewFakeRecorder(10)
	c := &Controller{Events: recorder, Now: func() time.Time { return now }}
	with := func(message string) v1alpha1.Preset {
		status := inUse(v1alpha1.PresetStatus{})
		if message != "" {
			status = inUse(v1alpha1.PresetStatus{}, metav1.Condition{Type: "Conflicting", Status: "True", Message: message})
		}
		return &v1alpha1.VirtualMachinePreset{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Status: status}
	}
	for _, step := range []struct {
		reason        string
		after         time.Duration
		before, later string
		want          []string
	}{
		{"it begins to hold", 0, "", "a", []string{"Warning Conflicting a"}},
		{"it goes on", time.Minute, "a", "a", nil},
		{"it stops and begins", time.Minute, "", "a", nil},
		{"it holds for another reason", 0, "a", "b", []string{"Warning Conflicting b"}},
		{"the first reason is back", 0, "b", "a", nil},
		{"an hour later", time.Hour, "", "a", []string{"Warning Conflicting a"}},
		{"it ends", 0, "a", "", nil},
	} {
		now = now.Add(step.after)
		c.tell(presetcache.Key{Kind: "k"}, with(step.before), with(step.later))
		var got []string
		for len(recorder.Events) > 0 {
			got = append(got, <-recorder.Events)
		}
		if !slices.Equal(got, step.want) {
			t.Errorf("%s: want %q, got %q", step.reason, step.want, got)
		}
	}
	if len(c.told) != 1 || len(c.told[presetcache.Key{Kind: "k"}]) != 1 {
		t.Errorf("old events are remembered: %v", c.told)
	}
}
