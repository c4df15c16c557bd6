// Package presetscan finds out what takes whole VMs, or all presets at once: on which VMs presets
// in mode Warn or Audit would act, which stored VMs have what a preset forbids, and which presets
// conflict, are shadowed or match nothing.
//
// The loop: when presets have changed, analyse them; when a preset that takes whole VMs has
// changed, and every ten minutes, inspect all VMs with the webhooks' engine, one at a time.
package presetscan

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/fleet"
	"github.com/virtwright/virtwright/lifecycle/leadership"
	"github.com/virtwright/virtwright/lifecycle/presetcache"
	"github.com/virtwright/virtwright/presets"
)

const (
	// period is the time between two scans while presets stay as they are.
	period = 10 * time.Minute
	// retry is the time after which a scan that did not succeed is repeated.
	retry = 30 * time.Second
	// settle is how long further changes of presets are waited for, after one.
	settle = time.Second
	// analysis is how long presets may be analysed: large ones take long.
	analysis = 15 * time.Second
	// allVMs is more than a cluster has.
	allVMs = 1 << 40
)

// Counts are those of a scan for one preset.
type Counts struct {
	// Acting counts the VMs on which a preset in mode Warn or Audit would act; nil in other modes.
	Acting *int64
	// Violating counts the VMs that have what the preset forbids; nil if it forbids nothing.
	Violating *int64
	// At is when the VMs were read.
	At time.Time
}

// A Scanner runs in the leader.
type Scanner struct {
	Presets *presetcache.Cache
	VMs     *Reader
	// Lock is held by the replica that acts; nil where there is one only.
	Lock *leadership.Lock

	mu       sync.Mutex
	analysed map[presets.PresetName]analysed
	scanned  map[presets.PresetName]scanned
	changed  []func(presets.PresetName)
}

// analysed are the findings about a generation of a preset.
type analysed struct {
	generation int64
	findings   []fleet.Finding
	// complete says that there are no others.
	complete bool
}

// scanned are the counts of a generation of a preset.
type scanned struct {
	generation int64
	counts     Counts
}

// Subscribe calls f with each preset whose counts or findings are new. f must not block.
func (s *Scanner) Subscribe(f func(presets.PresetName)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed = append(s.changed, f)
}

// Counts are those of a generation of a preset, once VMs were scanned for it.
func (s *Scanner) Counts(preset presets.PresetName, generation int64) (Counts, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, ok := s.scanned[preset]
	return found.counts, ok && found.generation == generation
}

// Findings are those about a generation of a preset, once presets were analysed with it. If they
// are not complete, there may be others.
func (s *Scanner) Findings(preset presets.PresetName, generation int64) (findings []fleet.Finding, complete, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, ok := s.analysed[preset]
	return found.findings, found.complete, ok && found.generation == generation
}

// Start analyses and scans until the context ends.
func (s *Scanner) Start(ctx context.Context) error {
	log := ctrl.LoggerFrom(ctx).WithName("preset-scan")
	changes := make(chan struct{}, 1)
	s.Presets.Subscribe(func(presetcache.Key) {
		select {
		case changes <- struct{}{}:
		default: // noted already
		}
	})
	for ctx.Err() == nil {
		wait, snapshot := period, s.Presets.Snapshot()
		if snapshot != nil && s.Lock.Leads() {
			if err := s.scan(ctx, snapshot); err != nil && ctx.Err() == nil {
				log.Error(err, "Cannot scan VMs; trying again")
				wait = retry
			}
			s.analyse(ctx, snapshot)
		}
		select {
		case <-ctx.Done():
		case <-changes:
			if snapshot != nil { // else these are the first presets
				sleep(ctx, settle)
			}
		case <-time.After(wait):
		}
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// analyse finds what is wrong with the presets together.
func (s *Scanner) analyse(ctx context.Context, snapshot *presets.Snapshot) {
	all := slices.DeleteFunc(slices.Collect(snapshot.All()), (*presets.Compiled).Legacy)
	now := make(map[presets.PresetName]analysed, len(all))
	short, cancel := context.WithTimeout(ctx, analysis)
	defer cancel()
	found, complete := fleet.Analyze(short, all)
	if !complete && ctx.Err() == nil {
		ctrl.LoggerFrom(ctx).WithName("preset-scan").Info("There are too many presets, or too large ones, to look for all conflicts", "presets", len(all))
	}
	for _, c := range all {
		now[c.Name()] = analysed{generation: c.Generation, complete: complete}
	}
	for _, f := range found {
		for _, name := range []presets.PresetName{f.Preset, f.Other} {
			if of, ok := now[name]; ok && (name == f.Preset || f.Check == fleet.Conflicting) {
				of.findings = append(of.findings, f)
				now[name] = of
			}
		}
	}
	if ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	before := s.analysed
	s.analysed = now
	s.mu.Unlock()
	s.tell(all, func(name presets.PresetName) bool {
		return slices.EqualFunc(before[name].findings, now[name].findings, func(a, b fleet.Finding) bool { return a.Check == b.Check && a.Message == b.Message }) &&
			before[name].generation == now[name].generation && before[name].complete == now[name].complete
	})
}

// tell tells subscribers of presets, but for those that are as before.
func (s *Scanner) tell(all []*presets.Compiled, same func(presets.PresetName) bool) {
	s.mu.Lock()
	changed := s.changed
	s.mu.Unlock()
	for _, c := range all {
		if name := c.Name(); !same(name) {
			for _, f := range changed {
				f(name)
			}
		}
	}
}

// takesVMs reports whether a preset has something that only whole VMs show. VMs do not show what
// a preset does at launch.
func takesVMs(c *presets.Compiled) bool {
	return c.ApplyAt == v1alpha1.ApplyAtDefinition && (tries(c) || c.Forbids() && c.Mode == v1alpha1.ModeEnforce)
}

func tries(c *presets.Compiled) bool {
	return c.Mode == v1alpha1.ModeWarn || c.Mode == v1alpha1.ModeAudit
}

// scan inspects all VMs for the presets that take whole ones, if one of them is new or the last
// scan is a while ago.
func (s *Scanner) scan(ctx context.Context, snapshot *presets.Snapshot) error {
	start, due := time.Now(), false
	concerned := slices.DeleteFunc(slices.Collect(snapshot.All()), func(c *presets.Compiled) bool { return !takesVMs(c) })
	now := make(map[presets.PresetName]scanned, len(concerned))
	for _, c := range concerned {
		before, known := s.Counts(c.Name(), c.Generation)
		due = due || !known || start.Sub(before.At) >= period
		counts := Counts{At: start}
		if tries(c) {
			counts.Acting = new(int64)
		}
		if c.Forbids() {
			counts.Violating = new(int64)
		}
		now[c.Name()] = scanned{c.Generation, counts}
	}
	if !due {
		return nil
	}
	vms := 0
	_, err := s.VMs.inspect(ctx, snapshot, "", allVMs, func(_ types.NamespacedName, found []presets.Inspection) {
		vms++
		for _, i := range found {
			counts := now[i.Preset.Name()].counts
			add(counts.Acting, i.Acts)
			add(counts.Violating, i.Breaks)
		}
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.scanned = now
	s.mu.Unlock()
	ctrl.LoggerFrom(ctx).WithName("preset-scan").Info("Scanned VMs", "vms", vms, "presets", len(now), "seconds", time.Since(start).Seconds())
	s.tell(concerned, func(presets.PresetName) bool { return false })
	return nil
}

func add(to *int64, holds bool) {
	if to != nil && holds {
		*to++
	}
}
