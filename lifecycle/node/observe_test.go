package node

import (
	"math"
	"testing"
	"time"

	kubevirtv1 "kubevirt.io/api/core/v1"
)

func TestGrace(t *testing.T) {
	if got := grace(&kubevirtv1.VirtualMachineInstance{}); got != defaultGrace {
		t.Errorf("not said: got %s", got)
	}
	for given, want := range map[int64]time.Duration{
		0: 0, 1: time.Second, 3600: time.Hour, -1: 0, math.MinInt64: 0,
		math.MaxInt64: endless, math.MaxInt64 / int64(time.Second): endless, math.MaxInt64/int64(time.Second) + 1: endless,
	} {
		vmi := &kubevirtv1.VirtualMachineInstance{}
		vmi.Spec.TerminationGracePeriodSeconds = &given
		if got := grace(vmi); got != want {
			t.Errorf("%d s: got %s, want %s", given, got, want)
		}
	}
	// What is left of it is a time that holds.
	if left := time.Unix(0, 0).Add(endless).Sub(time.Unix(0, 0).Add(-endless)); left <= 0 {
		t.Errorf("left: %s", left)
	}
}
