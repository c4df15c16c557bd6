package presetcache

import (
	"fmt"
	"testing"

	"k8s.io/utils/clock"
)

// Replicas that lag have other generations, also if a preset has an earlier content again or was
// created again.
func TestGenerations(t *testing.T) {
	leader, late := &Cache{Clock: clock.RealClock{}}, &Cache{Clock: clock.RealClock{}}
	if leader.Generations() != "" {
		t.Error("nothing is compiled yet")
	}
	for g, n := range []int{2, 4, 2} {
		deliver(t, leader, preset("a", int64(g+1), fmt.Sprintf(cores, n)))
	}
	for g, n := range []int{2, 4, 2} {
		if leader.Generations() == late.Generations() {
			t.Errorf("before generation %d the late one should differ", g+1)
		}
		deliver(t, late, preset("a", int64(g+1), fmt.Sprintf(cores, n)))
	}
	if leader.Generations() != late.Generations() {
		t.Error("it should have caught up")
	}
	replaced := preset("a", 3, fmt.Sprintf(cores, 2))
	replaced.SetUID("another")
	deliver(t, leader, replaced)
	if leader.Generations() == late.Generations() {
		t.Error("a preset that was deleted and created again is another preset")
	}
}
