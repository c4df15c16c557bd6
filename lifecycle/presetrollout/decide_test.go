package presetrollout

import (
	"fmt"
	"os"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

const (
	preset   = "cluster/a"
	machines = 4
)

// allCases explores more changes of the preset and of VMs, which takes minutes.
var allCases = os.Getenv("VIRTWRIGHT_LAW_CASES") == "full"

// lastChange is the last generation of the preset.
func lastChange() int64 {
	if allCases {
		return 4
	}
	return 3
}

// exploredSpec has a wave with two steps, a wave that bakes and needs an approval, and the rest.
var exploredSpec = v1alpha1.PresetRolloutSpec{Presets: []string{preset}, Waves: []v1alpha1.RolloutWave{
	{Name: "canary", Steps: []string{"50%", "100%"}},
	{Name: "production", Approval: v1alpha1.ApprovalRequired, Bake: &metav1.Duration{Duration: time.Hour}},
	{Name: "rest"},
}}

// places are the waves and percentiles of VMs.
var places = [machines]struct {
	wave       string
	percentile int
}{{"canary", 10}, {"canary", 90}, {"production", 0}, {"rest", 50}}

type machine struct {
	exists, rejects, failed, held bool
	has                           int64  // the generation of the preset
	stamp                         string // of its last update
}

// A world is everything that decisions depend on, and what they changed.
type world struct {
	current, stable, target int64
	hash, wave, step        string
	aborted                 bool
	baked                   int // 0: not yet, 1: bakes, 2: baked
	paused                  bool
	approved, abort         string
	vms                     [machines]machine
}

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func (w *world) status() *v1alpha1.PresetRolloutStatus {
	out := &v1alpha1.PresetRolloutStatus{Target: w.hash, Aborted: w.aborted, Wave: w.wave, Step: w.step}
	if w.target != 0 {
		out.Presets = []v1alpha1.RolloutPreset{{Name: preset, UID: "y", Stable: w.stable, Target: w.target}}
	}
	if w.baked > 0 {
		out.BakesSince = &metav1.Time{Time: start.Add(-time.Duration(w.baked-1) * time.Hour)}
	}
	return out
}

func (w *world) store(s *v1alpha1.PresetRolloutStatus) {
	w.hash, w.aborted, w.wave, w.step = s.Target, s.Aborted, s.Wave, s.Step
	w.stable, w.target = s.Presets[0].Stable, s.Presets[0].Target
	if s.BakesSince == nil {
		w.baked = 0
	} else if w.baked == 0 {
		w.baked = 1
	}
}

func (w *world) stamp() string {
	if w.aborted {
		return w.hash + "/aborted"
	}
	return w.hash
}

func indexOf(wave string) int {
	for i, w := range exploredSpec.Waves {
		if w.Name == wave {
			return i
		}
	}
	return -1
}

// reached is written apart from the product's.
func (w *world) reached(i int) bool {
	if !w.vms[i].exists {
		return false
	}
	if w.aborted { // VMs that have the change
		return w.vms[i].has > w.stable
	}
	at := indexOf(places[i].wave)
	return at < indexOf(w.wave) || at == indexOf(w.wave) && places[i].percentile < percentOf(w.step)
}

func (w *world) counts() (out counts, due []int) {
	for i, vm := range w.vms {
		switch {
		case !vm.exists || vm.stamp != w.hash && vm.stamp != w.stamp() && !w.reached(i):
			continue
		case vm.stamp == w.stamp():
			out.updated++
		case vm.held:
			out.held++
		case vm.failed:
			out.failed++
			due = append(due, i)
		default:
			due = append(due, i)
		}
		out.selected++
	}
	return out, due
}

// decision is what the controller does in a world: it either writes a status, or updates VMs.
func (w *world) decision() (*v1alpha1.PresetRolloutStatus, step, []int) {
	before := w.status()
	after := retarget(&exploredSpec, before, observed{
		uid: "x", presets: map[string]version{preset: {"y", w.current}}, aborted: w.abort,
	})
	if fmt.Sprint(after) != fmt.Sprint(before) {
		return after, step{}, nil
	}
	of, due := w.counts()
	status, next := advance(&exploredSpec, before, of, orders{paused: w.paused, approved: w.approved}, start)
	return status, next, due
}

// next yields the worlds that can follow: the controller may stop after each write, and anything
// may change between two.
func (w world) next(t *testing.T, yield func(world)) {
	status, step, due := w.decision()
	written := w
	written.store(status)
	if w.target == w.current && !w.aborted && !status.Aborted && written.stable == w.stable && indexOf(written.wave) > indexOf(w.wave)+1 {
		t.Fatalf("a wave is skipped: %+v, then %+v", w, written)
	}
	yield(written)
	if step.update {
		for _, i := range due {
			updated := w
			if !w.reached(i) || w.paused {
				t.Fatalf("VM %d is updated: %+v", i, w)
			}
			vm := &updated.vms[i]
			if vm.rejects {
				vm.failed = true
			} else {
				vm.failed, vm.stamp, vm.has = false, w.stamp(), w.target
				if w.aborted {
					vm.has = w.stable
				}
			}
			yield(updated)
		}
	}
	w.disturb(yield)
}

func (w world) disturb(yield func(world)) {
	if w.baked == 1 {
		later := w
		later.baked = 2
		yield(later)
	}
	if w.current < lastChange() {
		changed := w
		changed.current++
		yield(changed)
	}
	for _, change := range []func(*world){
		func(w *world) { w.paused = !w.paused },
		func(w *world) { w.approved = w.hash + "/production" },
		func(w *world) { w.abort = w.hash },
	} {
		changed := w
		change(&changed)
		yield(changed)
	}
	for i, vm := range w.vms {
		if created := w; !vm.exists && w.target != 0 {
			created.vms[i].exists, created.vms[i].has = true, w.stable
			if !w.aborted && created.reached(i) {
				created.vms[i].has = w.target
			}
			yield(created)
		}
		for _, change := range []func(*machine){
			func(vm *machine) { vm.rejects = !vm.rejects },
			func(vm *machine) { vm.held = allCases && !vm.held },
		} {
			if allCases || i%2 == 0 { // two of them suffice
				changed := w
				change(&changed.vms[i])
				yield(changed)
			}
		}
	}
}

// settles checks that a rollout ends if nothing disturbs it, and how.
func (w world) settles(t *testing.T) {
	first := w
	for range 60 {
		before := w
		status, step, due := w.decision()
		w.store(status)
		if step.update {
			for _, i := range due {
				vm := &w.vms[i]
				vm.failed = vm.rejects
				if !vm.rejects {
					vm.stamp, vm.has = before.stamp(), before.target
					if before.aborted {
						vm.has = before.stable
					}
				}
			}
		}
		if w.baked == 1 {
			w.baked = 2
		}
		if w == before {
			w.checkEnd(t, first, step.reason)
			return
		}
	}
	t.Fatalf("it does not end: %+v, then %+v", first, w)
}

func (w world) checkEnd(t *testing.T, first world, reason string) {
	of, _ := w.counts()
	ok := false
	switch reason {
	case reasonComplete:
		ok = w.stable == w.current && w.wave == ""
	case reasonPaused:
		ok = w.paused
	case reasonApproval:
		ok = w.wave == "canary" && of.pending() == 0
	case reasonFailed, reasonAborting:
		ok = of.failed > 0
	case reasonAborted:
		ok = w.aborted && of.pending()+of.failed == 0
		for _, vm := range w.vms {
			ok = ok && (!vm.exists || vm.held || vm.has <= w.stable)
		}
	}
	if !ok {
		t.Fatalf("it ends with %s: %+v, then %+v", reason, first, w)
	}
}

// TestRecreatedPreset rolls a preset out as a new one if its UID changes.
func TestRecreatedPreset(t *testing.T) {
	before := &v1alpha1.PresetRolloutStatus{
		Target: "t", Wave: "rest", Step: all, Aborted: true, Presets: []v1alpha1.RolloutPreset{{Name: preset, UID: "old", Stable: 1, Target: 2}},
	}
	seen := func(uid types.UID, generation int64) *v1alpha1.PresetRolloutStatus {
		return retarget(&exploredSpec, before, observed{uid: "x", presets: map[string]version{preset: {uid, generation}}})
	}
	first, second := seen("new", 2), seen("newer", 2)
	if got := first.Presets[0]; got.Stable != 0 || got.Target != 2 || first.Aborted || first.Wave != "" {
		t.Errorf("status %+v", first)
	}
	if first.Target == second.Target {
		t.Error("approvals of one preset are valid for another")
	}
	if got := seen("old", 1).Presets[0].Target; got != 2 {
		t.Errorf("an old cache takes the target back to %d", got)
	}

	before.Presets[0].UID = "" // as an earlier version wrote it
	if got := seen("old", 2); got.Presets[0].Stable != 1 || got.Presets[0].UID != "old" {
		t.Errorf("a status without UIDs: %+v", got)
	}
	if got := seen("", 0).Presets[0]; got.Target != 0 || got.Stable != 0 {
		t.Errorf("a preset that was deleted: %+v", got)
	}
}

// TestNothingBakesDuringAPause begins the bake of a step again after a pause.
func TestNothingBakesDuringAPause(t *testing.T) {
	w := world{current: 2, stable: 1, target: 2, wave: "production", step: all, baked: 1}
	status, step := advance(&exploredSpec, w.status(), counts{}, orders{paused: true}, start)
	if status.BakesSince != nil || step.reason != reasonPaused {
		t.Errorf("%s, bakes since %v", step.reason, status.BakesSince)
	}
	later := start.Add(2 * time.Hour)
	if status, step = advance(&exploredSpec, status, counts{}, orders{}, later); step.reason != reasonBaking || !status.BakesSince.Equal(&metav1.Time{Time: later}) {
		t.Errorf("%s, bakes since %v", step.reason, status.BakesSince)
	}
}

// TestClockOfAnotherLeader: a bake that began in the future, by the clock of an earlier leader,
// begins now.
func TestClockOfAnotherLeader(t *testing.T) {
	w := world{current: 2, stable: 1, target: 2, wave: "production", step: all, baked: 1}
	before := w.status()
	before.BakesSince = &metav1.Time{Time: start.Add(time.Hour)}
	status, step := advance(&exploredSpec, before, counts{}, orders{}, start)
	if step.reason != reasonBaking || !status.BakesSince.Equal(&metav1.Time{Time: start}) {
		t.Errorf("%s, bakes since %v", step.reason, status.BakesSince)
	}
}

// TestEveryOrderOfEvents explores what the controller may meet: stops after each write, rejected
// updates, changes, pauses, approvals and aborts at any time.
func TestEveryOrderOfEvents(t *testing.T) {
	limit := 150_000
	if allCases {
		limit = 2_000_000
	}
	first := world{current: 1}
	for i := range first.vms {
		first.vms[i] = machine{exists: i != 2, held: i == 1, has: 1}
	}
	seen, todo := map[world]bool{first: true}, []world{first}
	for ; len(todo) > 0 && len(seen) < limit; todo = todo[1:] {
		todo[0].settles(t)
		todo[0].next(t, func(w world) {
			if !seen[w] {
				seen[w] = true
				todo = append(todo, w)
			}
		})
	}
	if len(seen) < 10_000 {
		t.Errorf("only %d worlds", len(seen))
	}
	t.Logf("%d worlds, %d of them not explored", len(seen), len(todo))
}
