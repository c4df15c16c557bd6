package presetstatus

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestScanPeriod(t *testing.T) {
	for _, row := range []struct {
		reason  string
		took    time.Duration
		presets int
		want    time.Duration
	}{
		{"300 VMs are counted every minute", 2 * time.Second, 30, 40 * time.Second},
		{"a scan takes at most a tenth of the time", 24 * time.Second, 30, 4 * time.Minute},
		{"status is written at most five times each second", time.Second, 1000, 200 * time.Second},
		{"counts are never too old", 10 * time.Minute, 10, 30 * time.Minute},
	} {
		if got := scanPeriod(row.took, row.presets); got != row.want {
			t.Errorf("%s: %s, want %s", row.reason, got, row.want)
		}
	}
}

// TestDriftMetric has no value before VMs are counted.
func TestDriftMetric(t *testing.T) {
	s := &Scanner{}
	registry := prometheus.NewRegistry()
	registry.MustRegister(s)
	if n, err := testutil.GatherAndCount(registry); n != 0 || err != nil {
		t.Errorf("%d values before a scan, %v", n, err)
	}
	s.drift = &driftTotals{changed: 3, rejected: 1}
	if n, err := testutil.GatherAndCount(registry); n != 2 || err != nil {
		t.Errorf("%d values, %v", n, err)
	}
}
