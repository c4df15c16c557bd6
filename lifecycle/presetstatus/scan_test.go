package presetstatus

import (
	"reflect"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/virtwright/virtwright/presets"
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

func TestKeepRecent(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(seconds, generation, drifted int64) scanResult {
		return scanResult{generation, Counts{At: start.Add(time.Duration(seconds) * time.Second), Drifted: &drifted}}
	}
	for reason, row := range map[string]struct{ last, now, want scanResult }{
		"equal counts keep their time":          {at(-30, 1, 4), at(0, 1, 4), at(-30, 1, 4)},
		"other counts are new":                  {at(-30, 1, 3), at(0, 1, 4), at(0, 1, 4)},
		"counts of another generation are new":  {at(-30, 1, 4), at(0, 2, 4), at(0, 2, 4)},
		"counts have a new time in each period": {at(-40, 1, 4), at(0, 1, 4), at(0, 1, 4)},
	} {
		name := presets.PresetName{Ref: "cluster/p"}
		now := map[presets.PresetName]scanResult{name: row.now}
		keepRecent(now, map[presets.PresetName]scanResult{name: row.last}, start.Add(-minScanPeriod))
		if !reflect.DeepEqual(now[name], row.want) {
			t.Errorf("%s: %v, want %v", reason, now[name], row.want)
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
