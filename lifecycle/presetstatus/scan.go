package presetstatus

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/fleet"
	"github.com/virtwright/virtwright/lifecycle/leadership"
	"github.com/virtwright/virtwright/lifecycle/presetcache"
	"github.com/virtwright/virtwright/presets"
)

const (
	scanPeriod      = 10 * time.Minute
	scanRetry       = 30 * time.Second
	settlePeriod    = time.Second      // the time to wait for further changes after a change of presets
	analysisTimeout = 15 * time.Second // limits the analysis of presets, which takes long for large ones
)

// Counts are the results of a scan for one preset.
type Counts struct {
	Acting    *int64    // counts the VMs that a preset in mode Warn or Audit would change; nil in other modes
	Violating *int64    // counts the VMs that violate the preset's rules; nil if it has none
	At        time.Time // when the VMs were read
}

// A Scanner analyses all presets together when they change. It also inspects all stored VMs, with
// the engine of the webhooks, when a preset that needs it changes and every ten minutes.
type Scanner struct {
	Presets *presetcache.Cache
	VMs     *VMReader
	Lock    *leadership.Lock // held by the leader, which scans; nil without leader election
	Clock   clock.PassiveClock

	// Subscribers receive each preset that has new counts or findings.
	presetcache.Subscribers[presets.PresetName]

	mu       sync.Mutex
	analyses map[presets.PresetName]analysis
	scans    map[presets.PresetName]scanResult
}

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
		wait, snapshot := scanPeriod, s.Presets.Snapshot()
		if snapshot != nil && s.Lock.Leads() {
			if err := s.scan(ctx, snapshot); err != nil && ctx.Err() == nil {
				log.Error(err, "Cannot scan VMs; trying again")
				wait = scanRetry
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
				case <-time.After(settlePeriod):
				}
			}
		}
	}
	return nil
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

// needsScan reports whether the counts of a preset require whole VMs. Effects at launch are not
// visible in VMs.
func needsScan(c *presets.Compiled) bool {
	return c.ApplyAt == v1alpha1.ApplyAtDefinition && (isDryRun(c.Mode) || c.HasRules() && c.Mode == v1alpha1.ModeEnforce)
}

// scan inspects all VMs if a preset needs it and is new, or if the last scan is old.
func (s *Scanner) scan(ctx context.Context, snapshot *presets.Snapshot) error {
	start, due := s.Clock.Now(), false
	scanned := slices.DeleteFunc(slices.Collect(snapshot.All()), func(c *presets.Compiled) bool { return !needsScan(c) })
	now := make(map[presets.PresetName]scanResult, len(scanned))
	for _, c := range scanned {
		before, known := s.Counts(c.Name(), c.Generation)
		due = due || !known || start.Sub(before.At) >= scanPeriod
		counts := Counts{At: start}
		if isDryRun(c.Mode) {
			counts.Acting = new(int64)
		}
		if c.HasRules() {
			counts.Violating = new(int64)
		}
		now[c.Name()] = scanResult{c.Generation, counts}
	}
	if !due {
		return nil
	}
	vms := 0
	err := s.VMs.inspect(ctx, snapshot, func(found []presets.Inspection) {
		vms++
		for _, i := range found {
			counts := now[i.Preset.Name()].counts
			increment(counts.Acting, i.WouldAct)
			increment(counts.Violating, i.Violates)
		}
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.scans = now
	s.mu.Unlock()
	ctrl.LoggerFrom(ctx).WithName("preset-scan").Info("Scanned VMs", "vms", vms, "presets", len(now), "seconds", s.Clock.Since(start).Seconds())
	s.notify(scanned)
	return nil
}

func increment(count *int64, condition bool) {
	if count != nil && condition {
		*count++
	}
}
