package presetrollout

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/lifecycle/partialobject"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
)

// TestBudgets picks as many VMs as all budgets permit, and no more.
func TestBudgets(t *testing.T) {
	number, percent, none := v1alpha1.RolloutBudget{MaxUnavailable: intstr.FromInt32(2)}, v1alpha1.RolloutBudget{MaxUnavailable: intstr.FromString("10%")}, v1alpha1.RolloutBudget{}
	each := v1alpha1.RolloutBudget{MaxUnavailable: intstr.FromInt32(1), Per: v1alpha1.BudgetPerNamespace}
	for name, test := range map[string]struct {
		budgets []v1alpha1.RolloutBudget
		down    int // VMs of the first namespace that are not available
		isLong  bool
		want    int // of 12 VMs in 3 namespaces
	}{
		"one by default":            {nil, 0, false, 1},
		"none, as one is down":      {nil, 1, false, 1}, // only the one that is down
		"a number":                  {[]v1alpha1.RolloutBudget{number}, 0, false, 2},
		"a number, less those down": {[]v1alpha1.RolloutBudget{number}, 1, false, 2},
		"a percentage, rounded up":  {[]v1alpha1.RolloutBudget{percent}, 0, false, 2},
		"in each namespace":         {[]v1alpha1.RolloutBudget{each}, 0, false, 3},
		"one namespace has one":     {[]v1alpha1.RolloutBudget{each}, 1, false, 3},
		"all of them":               {[]v1alpha1.RolloutBudget{each, number}, 0, false, 2},
		"many, which may come back": {[]v1alpha1.RolloutBudget{number}, 4, false, 0},
		"many, for a long time":     {[]v1alpha1.RolloutBudget{number}, 4, true, 4},
		"nothing":                   {[]v1alpha1.RolloutBudget{number, none}, 3, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var f fleet
			var all []candidate
			for i := range 12 {
				key := types.NamespacedName{Namespace: fmt.Sprint("ns", i/4), Name: fmt.Sprint(i)}
				f.add(key, i >= test.down)
				all = append(all, candidate{key, i >= test.down, i < test.down && test.isLong, false, ""})
			}
			next := step{restart: true}
			if got, _ := f.choose(&next, test.budgets, all); len(got) != test.want || (next.message == "") != (test.want > 0) {
				t.Errorf("%v, %s", got, next.message)
			}
			if name == "many, which may come back" && next.message != "; budgets permit none now, because VMs are not ready: ns0/0, ns0/1, ns0/2 and 1 more" {
				t.Error(next.message)
			}
		})
	}
}

// A guest is a running VM: as it is, and as the cache has it.
type guest struct{ actual, cached guestState }

type guestState struct{ changed, judged, needs, asked, ready bool }

func (g guestState) vm(name string, stamp string) *partialobject.VirtualMachine {
	out := &partialobject.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Generation: 2, Annotations: map[string]string{}}}
	out.Spec.RunStrategy, out.Status.Ready, out.Status.DesiredGeneration = ptr.To(kubevirtv1.RunStrategyAlways), g.ready, 1
	if g.changed {
		out.Annotations[v1alpha1.AnnotationRolledOut] = stamp
	}
	if g.judged {
		out.Status.DesiredGeneration = 2
	}
	if g.needs {
		out.Status.Conditions = []kubevirtv1.VirtualMachineCondition{{Type: kubevirtv1.VirtualMachineRestartRequired, Status: corev1.ConditionTrue}}
	}
	if g.asked {
		out.Status.StateChangeRequests = []kubevirtv1.VirtualMachineStateChangeRequest{{Action: kubevirtv1.StopRequest}}
	}
	return out
}

// next yields what can happen to a VM on its own.
func (g guestState) next(yield func(guestState)) {
	for _, happens := range []struct {
		can bool
		do  func(*guestState)
	}{
		{!g.changed, func(g *guestState) { g.changed, g.judged = true, false }},
		{g.changed && !g.judged && !g.asked, func(g *guestState) { g.judged, g.needs = true, true }},
		{g.asked, func(g *guestState) { g.asked, g.needs, g.judged, g.ready = false, false, true, false }},
		{!g.ready && !g.asked, func(g *guestState) { g.ready = true }},
	} {
		if happens.can {
			after := g
			happens.do(&after)
			yield(after)
		}
	}
}

type restartWorld struct {
	guests   [3]guest
	recently [3]bool // what the controller remembers
}

// TestEveryOrderOfRestarts explores restarts with a cache that is late: the controller never has
// two of three VMs down at once, and restarts none twice.
func TestEveryOrderOfRestarts(t *testing.T) {
	now := clock.NewFakeClock(start)
	r := &v1alpha1.PresetRollout{Spec: v1alpha1.PresetRolloutSpec{Restart: v1alpha1.RestartRolling}}
	first := restartWorld{}
	for i := range first.guests {
		running := guestState{judged: true, ready: true}
		first.guests[i] = guest{running, running}
	}
	seen, todo, done := map[restartWorld]bool{first: true}, []restartWorld{first}, 0
	visit := func(w restartWorld) {
		if !seen[w] {
			seen[w] = true
			todo = append(todo, w)
		}
	}
	for ; len(todo) > 0; todo = todo[1:] {
		w := todo[0]
		c := &Controller{Clock: now, restarts: map[types.NamespacedName]time.Time{}}
		reached := vms{stamp: "s"}
		for i, recently := range w.recently {
			if recently {
				c.restarts[types.NamespacedName{Namespace: "shop", Name: fmt.Sprint(i)}] = start
			}
		}
		for i, g := range w.guests {
			vm := g.cached.vm(fmt.Sprint(i), "s")
			reached.fleet.add(keyOf(vm), vm.Status.Ready && !c.isRestarting(vm))
			c.add(&reached, r, presets.Namespace{Name: "shop"}, vm, false)
		}
		for i := range w.recently {
			_, w.recently[i] = c.restarts[types.NamespacedName{Namespace: "shop", Name: fmt.Sprint(i)}]
		}
		if reached.updated == 3 && reached.waiting == 0 {
			done++
			for i, g := range w.guests {
				if g.cached.needs || !g.cached.ready {
					t.Fatalf("VM %d does not wait: %+v", i, w)
				}
			}
		}
		for _, key := range reached.fleet.pick(nil, reached.restarts) {
			after, down := w, 0
			var at int
			_, _ = fmt.Sscan(key.Name, &at)
			for i, g := range w.guests {
				if i != at && (!g.actual.ready || g.actual.asked) {
					down++
				}
			}
			if down > 0 || !w.guests[at].actual.needs || w.guests[at].actual.asked {
				t.Fatalf("VM %d is restarted: %+v", at, w)
			}
			after.guests[at].actual.asked, after.recently[at] = true, true
			visit(after)
		}
		for i := range w.guests {
			w.guests[i].actual.next(func(g guestState) {
				after := w
				after.guests[i].actual = g
				visit(after)
			})
			late := w
			late.guests[i].cached = w.guests[i].actual
			visit(late)
		}
	}
	if done == 0 || len(seen) < 1000 {
		t.Errorf("%d worlds, %d of them done", len(seen), done)
	}
	t.Logf("%d worlds, %d of them done", len(seen), done)
}

// TestVMsThatAreNotReady fails after the deadline, unless the rollout does not restart VMs.
func TestVMsThatAreNotReady(t *testing.T) {
	now := clock.NewFakeClock(start)
	c := &Controller{Clock: now}
	vm := guestState{changed: true, judged: true}.vm("web", "s")
	vm.Status.Conditions = []kubevirtv1.VirtualMachineCondition{
		{Type: kubevirtv1.VirtualMachineReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.Time{Time: start}},
	}
	count := func(restart v1alpha1.RolloutRestart, edit func(*partialobject.VirtualMachine)) vms {
		out, changed := vms{stamp: "s"}, vm.DeepCopyObject().(*partialobject.VirtualMachine)
		edit(changed)
		c.add(&out, &v1alpha1.PresetRollout{Spec: v1alpha1.PresetRolloutSpec{Restart: restart}}, presets.Namespace{Name: "shop"}, changed, false)
		return out
	}
	same := func(*partialobject.VirtualMachine) {}
	if got := count(v1alpha1.RestartRolling, same); got.waiting != 1 || got.failed != 0 {
		t.Errorf("at once: %+v", got)
	}
	now.Step(vmDeadline + time.Second)
	if got := count(v1alpha1.RestartRolling, same); got.failed != 1 || got.failures[0].Message != "the VM is not ready since 2026-01-01T00:00:00Z" {
		t.Errorf("later: %+v", got)
	}
	hasNoVMI := func(vm *partialobject.VirtualMachine) {
		vm.Status.Conditions = append(vm.Status.Conditions, kubevirtv1.VirtualMachineCondition{Type: kubevirtv1.VirtualMachineFailure, Status: corev1.ConditionTrue, Message: "forbidden"})
	}
	if got := count(v1alpha1.RestartRolling, hasNoVMI); got.failed != 1 || got.failures[0].Message != "the VM is not ready since 2026-01-01T00:00:00Z: forbidden" {
		t.Errorf("its VMI is rejected: %+v", got)
	}
	waiting := func(vm *partialobject.VirtualMachine) {
		vm.Status.Conditions = append(vm.Status.Conditions, kubevirtv1.VirtualMachineCondition{Type: kubevirtv1.VirtualMachineRestartRequired, Status: corev1.ConditionTrue})
	}
	if got := count(v1alpha1.RestartRolling, waiting); got.failed != 0 || len(got.restarts) != 1 || !got.restarts[0].isDown {
		t.Errorf("before its restart, which may help: %+v", got)
	}
	stopping := func(vm *partialobject.VirtualMachine) {
		waiting(vm)
		vm.Status.StateChangeRequests = []kubevirtv1.VirtualMachineStateChangeRequest{{Action: kubevirtv1.StopRequest}}
	}
	if got := count(v1alpha1.RestartRolling, stopping); got.failed != 1 || len(got.restarts) != 0 {
		t.Errorf("a restart that does not end: %+v", got)
	}
	c.restarts = map[types.NamespacedName]time.Time{keyOf(vm): now.Now()}
	if got := count(v1alpha1.RestartRolling, same); got.failed != 0 || got.waiting != 1 {
		t.Errorf("just restarted: %+v", got)
	}
	crashing := func(vm *partialobject.VirtualMachine) {
		vm.Status.StartFailure = &kubevirtv1.VirtualMachineStartFailure{ConsecutiveFailCount: failedStarts}
	}
	if got := count(v1alpha1.RestartRolling, crashing); got.failed != 1 || got.failures[0].Message != "the guest has failed to start 5 times in a row" {
		t.Errorf("a crash loop: %+v", got)
	}
	c.restarts = nil
	var created vms
	fresh := vm.DeepCopyObject().(*partialobject.VirtualMachine)
	delete(fresh.Annotations, v1alpha1.AnnotationRolledOut)
	c.add(&created, &v1alpha1.PresetRollout{Spec: v1alpha1.PresetRolloutSpec{Restart: v1alpha1.RestartRolling}}, presets.Namespace{}, fresh, true)
	if created.failed != 1 || created.updated != 0 {
		t.Errorf("created with the change: %+v", created)
	}
	paused := func(vm *partialobject.VirtualMachine) {
		waiting(vm)
		vm.Status.Conditions = append(vm.Status.Conditions, kubevirtv1.VirtualMachineCondition{Type: kubevirtv1.VirtualMachinePaused, Status: corev1.ConditionTrue})
	}
	if got := count(v1alpha1.RestartRolling, paused); got.waiting != 1 || len(got.restarts) != 0 {
		t.Errorf("paused: %+v", got)
	}
	rejected := failure{stamp: "s", message: "no"}
	c.failures = map[string]map[types.NamespacedName]failure{"": {keyOf(vm): rejected}}
	if got := count(v1alpha1.RestartRolling, waiting); got.failed != 1 || len(got.restarts) != 1 || !got.restarts[0].failed {
		t.Errorf("a rejected restart: %+v", got)
	}
	c.failures = nil
	for created, want := range map[bool]int64{true: 0, false: 1} { // without a VMI it needs none
		unjudged := func(vm *partialobject.VirtualMachine) {
			vm.Generation, vm.Status.DesiredGeneration, vm.Status.Created = 5, 4, created
		}
		if got := count(v1alpha1.RestartWhenStopped, unjudged); got.updated != want || got.waiting != 0 {
			t.Errorf("not known yet whether it needs a restart, created %t: %+v", created, got)
		}
	}
	held := func(vm *partialobject.VirtualMachine) {
		vm.Annotations[v1alpha1.AnnotationRollout] = v1alpha1.RolloutHold
	}
	halted := func(vm *partialobject.VirtualMachine) { vm.Spec.RunStrategy = ptr.To(kubevirtv1.RunStrategyHalted) }
	for name, got := range map[string]vms{
		"without restarts": count(v1alpha1.RestartWhenStopped, same), "held": count(v1alpha1.RestartRolling, held), "halted": count(v1alpha1.RestartRolling, halted),
	} {
		if got.updated != 1 || got.waiting+got.failed != 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestRestartsEndAStep restarts VMs before a step bakes, but not while it must not disturb them.
func TestRestartsEndAStep(t *testing.T) {
	spec := exploredSpec.DeepCopy()
	for name, test := range map[string]struct {
		restart v1alpha1.RolloutRestart
		world   world
		of      counts
		paused  bool
		want    step
	}{
		"rolling":              {v1alpha1.RestartRolling, world{}, counts{selected: 4, updated: 4, restarting: 2}, false, step{reason: reasonUpdating, update: true, restart: true}},
		"beside updates":       {v1alpha1.RestartRolling, world{}, counts{selected: 4, updated: 3, restarting: 2}, false, step{reason: reasonUpdating, update: true, restart: true}},
		"after a failure":      {v1alpha1.RestartRolling, world{}, counts{selected: 4, updated: 3, restarting: 2, failed: 1}, false, step{reason: reasonFailed, update: true}},
		"updates and failures": {v1alpha1.RestartRolling, world{}, counts{selected: 4, updated: 2, restarting: 2, failed: 1}, false, step{reason: reasonUpdating, update: true}},
		"paused":               {v1alpha1.RestartRolling, world{}, counts{selected: 4, updated: 4, restarting: 2}, true, step{reason: reasonPaused}},
		"while it bakes":       {v1alpha1.RestartRolling, world{baked: 1}, counts{selected: 4, updated: 4, restarting: 2}, false, step{reason: reasonBaking, update: true}},
		"after it has baked":   {v1alpha1.RestartRolling, world{baked: 2}, counts{selected: 4, updated: 4, restarting: 2}, false, step{reason: reasonUpdating, update: true, restart: true}},
		"after an abort":       {v1alpha1.RestartRolling, world{aborted: true}, counts{selected: 4, updated: 4, restarting: 2}, false, step{reason: reasonAborting, update: true, restart: true}},
		"by the owners":        {v1alpha1.RestartWhenStopped, world{}, counts{selected: 4, updated: 4, restarting: 2}, false, step{reason: reasonBaking, update: true}},
	} {
		t.Run(name, func(t *testing.T) {
			spec.Restart, test.world.stable, test.world.target, test.world.wave, test.world.step = test.restart, 1, 2, "production", all
			_, got := advance(spec, test.world.status(), test.of, orders{paused: test.paused}, start)
			got.message, got.wait = "", 0
			if got != test.want {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestBakesAgain: a step bakes from the beginning after a failure. Fleets where VMs are created and
// edited all the time bake all the same.
func TestBakesAgain(t *testing.T) {
	spec := exploredSpec.DeepCopy()
	spec.Restart = v1alpha1.RestartRolling
	for name, test := range map[string]struct {
		of   counts
		want bool
	}{
		"failed":    {counts{selected: 4, updated: 3, failed: 1}, true},
		"updates":   {counts{selected: 4, updated: 3}, false},
		"not ready": {counts{selected: 4, updated: 4, restarting: 1}, false},
	} {
		w := world{stable: 1, target: 2, wave: "production", step: all, baked: 1}
		if out, _ := advance(spec, w.status(), test.of, orders{}, start); (out.BakesSince == nil) != test.want {
			t.Errorf("%s: bakes since %v", name, out.BakesSince)
		}
	}
}

// TestOwnersRestart leaves a VM to its owner that waited for a restart before it was updated. A
// restart that the unfinished change has caused, or its abort, is the rollout's.
func TestOwnersRestart(t *testing.T) {
	r := &v1alpha1.PresetRollout{ObjectMeta: metav1.ObjectMeta{Name: "r"}}
	r.Status.Target, r.Status.Presets = "two", []v1alpha1.RolloutPreset{{Name: "cluster/size", Stable: 1, Target: 3}}
	rollout, err := presets.NewRollout(r)
	if err != nil {
		t.Fatal(err)
	}
	now := rollout.Stamp()
	earlier, other := strings.TrimSuffix(now, "two")+"one", strings.Replace(now, "rollout/r/", "rollout/s/", 1)
	for name, test := range map[string]struct {
		stamp, waited string
		generation    int64 // of the record; 0 for none
		want          bool
	}{
		"never updated":                  {"", "", 1, true},
		"by the change before this one":  {earlier, "", 2, false},
		"marked by it":                   {earlier, earlier, 2, true},
		"after a change that has ended":  {earlier, "", 1, true},
		"marked by one that has ended":   {now, earlier, 2, false},
		"of an abort that did not end":   {earlier + presets.StampAborted, "", 1, false},
		"marked by an abort":             {earlier + presets.StampAborted, earlier + presets.StampAborted, 1, true},
		"no record of an earlier change": {earlier, "", 0, true},
		"updated, but without a record":  {now, "", 0, false},
		"updated by a different rollout": {other, "", 2, true},
		"updated by both":                {now + "; " + other, "", 3, false},
		"updated by both, and marked":    {now + "; " + other, now + "; " + other, 3, true},
	} {
		t.Run(name, func(t *testing.T) {
			vm := guestState{needs: true}.vm("web", "")
			vm.Annotations = map[string]string{v1alpha1.AnnotationRolledOut: test.stamp, v1alpha1.AnnotationRolloutWaited: test.waited}
			if test.generation > 0 {
				record := provenance.New()
				record.Sources = []provenance.Source{{Preset: "cluster/size", Generation: test.generation, Role: provenance.Default, Hash: "0"}}
				text, err := record.Encode()
				if err != nil {
					t.Fatal(err)
				}
				vm.Annotations[v1alpha1.AnnotationProvenance] = text
			}
			if _, err := partialobject.Trim(vm); err != nil {
				t.Fatal(err)
			}
			if got := waited(rollout, &r.Status, vm); got != test.want {
				t.Errorf("%v", got)
			}
		})
	}
	r.Spec.Restart = v1alpha1.RestartRolling
	for marked, want := range map[string]int{earlier: 1, now: 0, other: 1, now + "; " + other: 0} {
		out, vm := vms{stamp: now}, guestState{needs: true, judged: true}.vm("web", "")
		vm.Annotations = map[string]string{v1alpha1.AnnotationRolledOut: now + "; " + other, v1alpha1.AnnotationRolloutWaited: marked}
		if (&Controller{Clock: clock.NewFakeClock(start)}).addRunning(&out, r, vm, failure{}); out.waiting != 1 || len(out.restarts) != want {
			t.Errorf("marked %q: %+v", marked, out)
		}
	}
}

// TestWaitsForOther: a VM that another rollout has updated waits for the restart of any of them. It
// is not restarted while the other one is stopped, unless it is not ready.
func TestWaitsForOther(t *testing.T) {
	const stamp = "only:cluster/cpu rollout/b/t"
	r := &v1alpha1.PresetRollout{Spec: v1alpha1.PresetRolloutSpec{Restart: v1alpha1.RestartRolling}}
	for name, test := range map[string]struct {
		stamp, waited          string
		needs, ready, stopped  bool
		waits, isStopped, does bool
	}{
		"updated by it":                {stamp, "", true, true, false, true, false, true},
		"which is stopped":             {stamp, "", true, true, true, true, true, false},
		"and it is not ready":          {stamp, "", true, false, true, true, true, true},
		"left to its owner":            {stamp, stamp, true, true, true, false, false, true},
		"by an earlier change of it":   {stamp + "0", "", true, true, true, false, false, true},
		"it needs no restart any more": {stamp, "", false, true, true, false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			vm := guestState{needs: test.needs, judged: true}.vm("web", "")
			vm.Status.Ready = test.ready
			vm.Annotations = map[string]string{v1alpha1.AnnotationRolledOut: test.stamp, v1alpha1.AnnotationRolloutWaited: test.waited}
			out := vms{others: []other{{"b", stamp, test.stopped}}}
			if is, stopped := out.waitsForOther(vm); is != test.waits || (stopped == "b") != test.isStopped {
				t.Errorf("%v, stopped %q", is, stopped)
			}
			(&Controller{Clock: clock.NewFakeClock(start)}).addRunning(&out, r, vm, failure{})
			if does := len(permitted(&step{restart: true}, out.restarts)) > 0; does != test.does {
				t.Errorf("restarts: %v", out.restarts)
			}
		})
	}
}

// TestVMsThatShouldRun counts a VM as unavailable only if something starts it.
func TestVMsThatShouldRun(t *testing.T) {
	const stopped, starting = kubevirtv1.VirtualMachineStatusStopped, kubevirtv1.VirtualMachineStatusStarting
	for name, test := range map[string]struct {
		strategy kubevirtv1.VirtualMachineRunStrategy
		created  bool
		status   kubevirtv1.VirtualMachinePrintableStatus
		asked    bool
		want     bool
	}{
		"always":                      {kubevirtv1.RunStrategyAlways, false, stopped, false, true},
		"halted":                      {kubevirtv1.RunStrategyHalted, true, starting, false, false},
		"never started":               {kubevirtv1.RunStrategyManual, false, stopped, false, false},
		"started by hand":             {kubevirtv1.RunStrategyManual, true, starting, false, true},
		"the guest has powered off":   {kubevirtv1.RunStrategyManual, true, stopped, false, false},
		"it is started again by hand": {kubevirtv1.RunStrategyManual, true, stopped, true, true},
		"once, and done":              {kubevirtv1.RunStrategyOnce, true, stopped, false, false},
		"succeeded":                   {kubevirtv1.RunStrategyRerunOnFailure, true, stopped, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			vm := guestState{asked: test.asked}.vm("web", "")
			vm.Spec.RunStrategy, vm.Status.Created, vm.Status.PrintableStatus = &test.strategy, test.created, test.status
			if got := shouldRun(vm); got != test.want {
				t.Errorf("%v", got)
			}
		})
	}
}
