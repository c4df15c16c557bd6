package presetstatus

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/lifecycle/presetcache"
)

// TestEventsAreRare checks that an event about a preset is recorded once an hour, when a condition
// becomes true.
func TestEventsAreRare(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(noon.Time)
	recorder := events.NewFakeRecorder(10)
	c := &Controller{Events: recorder, Clock: clock}
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
		{"the condition becomes true", 0, "", "a", []string{"Warning Conflicting a"}},
		{"it stays true", time.Minute, "a", "a", nil},
		{"it becomes true again", time.Minute, "", "a", nil},
		{"it has another message", 0, "a", "b", []string{"Warning Conflicting b"}},
		{"the first message is back", 0, "b", "a", nil},
		{"an hour later", time.Hour, "", "a", []string{"Warning Conflicting a"}},
		{"it is removed", 0, "a", "", nil},
	} {
		clock.SetTime(clock.Now().Add(step.after))
		c.recordEvents(presetcache.Key{Kind: "k"}, with(step.before), with(step.later))
		var got []string
		for len(recorder.Events) > 0 {
			got = append(got, <-recorder.Events)
		}
		if !slices.Equal(got, step.want) {
			t.Errorf("%s: want %q, got %q", step.reason, step.want, got)
		}
	}
	if len(c.state) != 1 || len(c.state[presetcache.Key{Kind: "k"}].events) != 1 {
		t.Errorf("old events are remembered: %v", c.state)
	}
}
