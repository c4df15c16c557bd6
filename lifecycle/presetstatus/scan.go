package presetstatus

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/fleet"
	"github.com/virtwright/virtwright/lifecycle/leadership"
	"github.com/virtwright/virtwright/lifecycle/presetcache"
	"github.com/virtwright/virtwright/presets"
)

const (
	// Scans start this often, unless scans or the writes of their counts would take too large a
	// share of the time.
	minScanPeriod   = 40 * time.Second
	maxScanPeriod   = 30 * time.Minute
	scanShare       = 10                     // a scan takes at most a tenth of the time
	scanWrites      = 200 * time.Millisecond // for each preset: at most five writes of status each second
	scanRetry       = 5 * time.Second
	settlePeriod    = time.Second      // the time to wait for further changes after a change of presets
	analysisTimeout = 15 * time.Second // limits the analysis of presets, which takes long for large ones
)

// Counts are the results of a scan for one preset.
type Counts struct {
	Acting    *int64    // counts the VMs that a preset in mode Warn or Audit would change; nil in other modes
	Violating *int64    // counts the VMs that violate the preset's rules; nil if it has none
	Drifted   *int64    // counts the VMs that a reapply would change or reject because of the preset
	At        time.Time // when the VMs were read
}

// A Scanner analyses all presets together when they change. It also inspects all stored VMs, with
// the webhooks, when a preset or an exception changes, and periodically, because changed labels of
// namespaces and expired exceptions cause drift, too.
type Scanner struct {
	Presets *presetcache.Cache
	VMs     *VMReader
	Lock    *leadership.Lock // held by the leader, which scans; nil without leader election
	Clock   clock.PassiveClock
	// Ready returns an error until VMs can be reapplied; scans wait for it.
	Ready func() error

	// Subscribers receive each preset that has new counts or findings.
	presetcache.Subscribers[presets.PresetName]

	mu       sync.Mutex
	analyses map[presets.PresetName]analysis
	scans    map[presets.PresetName]scanResult
	drift    *driftTotals // nil before the first scan
}

// driftTotals counts the VMs that a reapply would change or reject.
type driftTotals struct{ changed, rejected int }

type analysis struct {
	generation int64
	findings   []fleet.Finding
	complete   bool
}

type scanResult struct {
	generation int64
	counts     Counts
}

// Counts returns the counts of a generation of a preset. It returns false before they are known.
func (s *Scanner) Counts(preset presets.PresetName, generation int64) (Counts, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, ok := s.scans[preset]
	return found.counts, ok && found.generation == generation
}

// Findings returns the findings about a generation of a preset. It returns false before they are
// known.
func (s *Scanner) Findings(preset presets.PresetName, generation int64) (findings []fleet.Finding, complete, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, ok := s.analyses[preset]
	return found.findings, found.complete, ok && found.generation == generation
}

// Start analyses and scans until the context ends.
func (s *Scanner) Start(ctx context.Context) error {
	log := ctrl.LoggerFrom(ctx).WithName("preset-scan")
	changes := make(chan struct{}, 1)
	s.Presets.Subscribe(func(presetcache.Key) {
		select {
		case changes <- struct{}{}:
		default: // a change is pending already
		}
	})
	for ctx.Err() == nil {
		wait, settle, snapshot := minScanPeriod, settlePeriod, s.Presets.Snapshot()
		switch {
		case snapshot == nil || !s.Lock.Leads():
		case s.Ready() != nil:
			wait = settlePeriod
		default:
			start := s.Clock.Now()
			err := s.scan(ctx, snapshot)
			took := s.Clock.Since(start)
			wait, settle = scanPeriod(took, snapshot.Len()), max(settlePeriod, took)
			if err != nil && ctx.Err() == nil {
				log.Error(err, "Cannot scan VMs; trying again")
				wait = max(scanRetry, took)
			}
			s.analyze(ctx, snapshot)
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		case <-changes:
			if snapshot != nil { // otherwise these are the first presets
				select {
				case <-ctx.Done():
				case <-time.After(settle):
				}
			}
		}
	}
	return nil
}

// scanPeriod returns the time between scans that take so long and count so many presets.
func scanPeriod(took time.Duration, presets int) time.Duration {
	return min(max(minScanPeriod, scanShare*took, time.Duration(presets)*scanWrites), maxScanPeriod)
}

func (s *Scanner) analyze(ctx context.Context, snapshot *presets.Snapshot) {
	all := slices.DeleteFunc(slices.Collect(snapshot.All()), (*presets.Compiled).Legacy)
	limited, cancel := context.WithTimeout(ctx, analysisTimeout)
	defer cancel()
	found, complete := fleet.Analyze(limited, all, fleet.Settings{})
	if ctx.Err() != nil {
		return
	}
	if !complete {
		ctrl.LoggerFrom(ctx).WithName("preset-scan").Info("There are too many presets, or too large ones, to look for all conflicts", "presets", len(all))
	}
	now := make(map[presets.PresetName]analysis, len(all))
	for _, c := range all {
		now[c.Name()] = analysis{generation: c.Generation, complete: complete}
	}
	for _, f := range found {
		for _, name := range []presets.PresetName{f.Preset, f.Other} {
			if of, ok := now[name]; ok && (name == f.Preset || f.Check == fleet.Conflicting) {
				of.findings = append(of.findings, f)
				now[name] = of
			}
		}
	}
	s.mu.Lock()
	before := s.analyses
	s.analyses = now
	s.mu.Unlock()
	s.notify(slices.DeleteFunc(all, func(c *presets.Compiled) bool { return before[c.Name()].equal(now[c.Name()]) }))
}

func (a analysis) equal(b analysis) bool {
	return a.generation == b.generation && a.complete == b.complete && slices.EqualFunc(a.findings, b.findings, func(a, b fleet.Finding) bool {
		return a.Check == b.Check && a.Message == b.Message
	})
}

func (s *Scanner) notify(changed []*presets.Compiled) {
	for _, c := range changed {
		s.Notify(c.Name())
	}
}

// scan inspects all VMs. Effects at launch are not visible in VMs.
func (s *Scanner) scan(ctx context.Context, snapshot *presets.Snapshot) error {
	start := s.Clock.Now()
	scanned := slices.DeleteFunc(slices.Collect(snapshot.All()), func(c *presets.Compiled) bool {
		return c.Mode == v1alpha1.ModeOff || c.ApplyAt != v1alpha1.ApplyAtDefinition
	})
	now := make(map[presets.PresetName]scanResult, len(scanned))
	for _, c := range scanned {
		now[c.Name()] = scanResult{c.Generation, newCounts(c, start)}
	}
	vms, drift := 0, driftTotals{}
	err := s.VMs.inspect(ctx, snapshot, func(vm inspectedVM) {
		vms++
		drift.add(vm.drift)
		for _, i := range vm.presets {
			counts := now[i.Preset.Name()].counts
			increment(counts.Acting, i.WouldAct)
			increment(counts.Violating, len(i.Violations) > 0)
		}
		for _, ref := range vm.drift.Presets() {
			increment(now[presets.ParseRef(vm.namespace, ref)].counts.Drifted, true)
		}
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	news := s.drift == nil || *s.drift != drift
	keepRecent(now, s.scans, start.Add(-scanPeriod(0, snapshot.Len())))
	s.scans, s.drift = now, &drift
	s.mu.Unlock()
	if news {
		ctrl.LoggerFrom(ctx).WithName("preset-scan").Info("Scanned VMs", "vms", vms, "presets", len(now), "drifted", drift.changed+drift.rejected, "seconds", s.Clock.Since(start).Seconds())
	}
	s.notify(slices.DeleteFunc(scanned, func(c *presets.Compiled) bool { return !now[c.Name()].counts.At.Equal(start) }))
	return nil
}

// keepRecent replaces results by equal ones of the last scan since a time, so that not each change
// of a preset rewrites the status of all.
func keepRecent(now, last map[presets.PresetName]scanResult, since time.Time) {
	for name, result := range now {
		if of, ok := last[name]; ok && of.counts.At.After(since) && of.generation == result.generation && of.counts.equal(result.counts) {
			now[name] = of
		}
	}
}

func (c Counts) equal(other Counts) bool {
	return ptr.Equal(c.Acting, other.Acting) && ptr.Equal(c.Violating, other.Violating) && ptr.Equal(c.Drifted, other.Drifted)
}

func newCounts(c *presets.Compiled, at time.Time) Counts {
	out := Counts{At: at}
	switch {
	case isDryRun(c.Mode):
		out.Acting = new(int64)
	case c.Mode == v1alpha1.ModeEnforce:
		out.Drifted = new(int64)
	}
	if c.HasRules() {
		out.Violating = new(int64)
	}
	return out
}

func (d *driftTotals) add(of fleet.Drift) {
	switch {
	case len(of.Problems) > 0:
		d.rejected++
	case len(of.Changes) > 0:
		d.changed++
	}
}

func increment(count *int64, condition bool) {
	if count != nil && condition {
		*count++
	}
}

// driftMetric has no value before the first scan, and on replicas that do not lead.
var driftMetric = prometheus.NewDesc("virtwright_drifted_virtual_machines",
	"VirtualMachines that a reapply of all presets would change or reject, by effect, as of the last scan.", []string{"effect"}, nil)

// Describe implements prometheus.Collector.
func (s *Scanner) Describe(out chan<- *prometheus.Desc) { out <- driftMetric }

// Collect implements prometheus.Collector.
func (s *Scanner) Collect(out chan<- prometheus.Metric) {
	s.mu.Lock()
	drift := s.drift
	s.mu.Unlock()
	if drift == nil || !s.Lock.Leads() {
		return
	}
	for effect, n := range map[string]int{"change": drift.changed, "reject": drift.rejected} {
		out <- prometheus.MustNewConstMetric(driftMetric, prometheus.GaugeValue, float64(n), effect)
	}
}
