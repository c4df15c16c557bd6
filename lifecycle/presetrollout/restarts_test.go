package presetrollout

import (
	"fmt"
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
)

// TestBudgets picks as many VMs as all budgets permit, and no more.
func TestBudgets(t *testing.T) {
	number, percent, none := v1alpha1.RolloutBudget{MaxUnavailable: intstr.FromInt32(2)}, v1alpha1.RolloutBudget{MaxUnavailable: intstr.FromString("10%")}, v1alpha1.RolloutBudget{}
	each := v1alpha1.RolloutBudget{MaxUnavailable: intstr.FromInt32(1), Per: v1alpha1.BudgetPerNamespace}
	for name, test := range map[string]struct {
		budgets []v1alpha1.RolloutBudget
		down    int // VMs of the first namespace that are not available
		want    int // of 12 VMs in 3 namespaces
	}{
		"one by default":            {nil, 0, 1},
		"none, as one is down":      {nil, 1, 1}, // only the one that is down
		"a number":                  {[]v1alpha1.RolloutBudget{number}, 0, 2},
		"a number, less those down": {[]v1alpha1.RolloutBudget{number}, 1, 2},
		"a percentage, rounded up":  {[]v1alpha1.RolloutBudget{percent}, 0, 2},
		"in each namespace":         {[]v1alpha1.RolloutBudget{each}, 0, 3},
		"one namespace has one":     {[]v1alpha1.RolloutBudget{each}, 1, 3},
		"all of them":               {[]v1alpha1.RolloutBudget{each, number}, 0, 2},
		"nothing":                   {[]v1alpha1.RolloutBudget{number, none}, 3, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var f fleet
			var all []candidate
			for i := range 12 {
				key := types.NamespacedName{Namespace: fmt.Sprint("ns", i/4), Name: fmt.Sprint(i)}
				f.add(key.Namespace, i >= test.down)
				all = append(all, candidate{key, i >= test.down, false})
			}
			if got := f.pick(test.budgets, all); len(got) != test.want {
				t.Errorf("%v", got)
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
	r := &v1alpha1.PresetRollout{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: v1alpha1.PresetRolloutSpec{Restart: v1alpha1.RestartRolling}}
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
			reached.fleet.add(vm.Namespace, vm.Status.Ready && !c.isRestarting(vm))
			c.add(&reached, r, presets.Namespace{Name: "shop"}, vm)
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
		c.add(&out, &v1alpha1.PresetRollout{Spec: v1alpha1.PresetRolloutSpec{Restart: restart}}, presets.Namespace{Name: "shop"}, changed)
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
	waiting := func(vm *partialobject.VirtualMachine) {
		vm.Status.Conditions = append(vm.Status.Conditions, kubevirtv1.VirtualMachineCondition{Type: kubevirtv1.VirtualMachineRestartRequired, Status: corev1.ConditionTrue})
	}
	if got := count(v1alpha1.RestartRolling, waiting); got.failed != 0 || len(got.restarts) != 1 {
		t.Errorf("before its restart, which may help: %+v", got)
	}
	c.restarts = map[types.NamespacedName]time.Time{keyOf(vm): now.Now()}
	if got := count(v1alpha1.RestartRolling, same); got.failed != 0 || got.waiting != 1 {
		t.Errorf("just restarted: %+v", got)
	}
	c.restarts = nil
	paused := func(vm *partialobject.VirtualMachine) {
		waiting(vm)
		vm.Status.PrintableStatus = kubevirtv1.VirtualMachineStatusPaused
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
		"while it bakes":       {v1alpha1.RestartRolling, world{baked: 1}, counts{selected: 4, updated: 4, restarting: 2}, false, step{reason: reasonBaking}},
		"after an abort":       {v1alpha1.RestartRolling, world{aborted: true}, counts{selected: 4, updated: 4, restarting: 2}, false, step{reason: reasonAborting, update: true, restart: true}},
		"by the owners":        {v1alpha1.RestartWhenStopped, world{}, counts{selected: 4, updated: 4, restarting: 2}, false, step{reason: reasonBaking}},
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

// TestOwnersRestart leaves a VM to its owner that waited for a restart before it was updated, also
// when the preset changes again.
func TestOwnersRestart(t *testing.T) {
	rollout := func(target string) *presets.Rollout {
		r := &v1alpha1.PresetRollout{ObjectMeta: metav1.ObjectMeta{Name: "r"}}
		r.Status.Target = target
		out, err := presets.NewRollout(r)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	first, second := rollout("one"), rollout("two")
	vm := guestState{needs: true}.vm("web", "")
	mark := func(stamp, waited string) {
		vm.Annotations = map[string]string{v1alpha1.AnnotationRolledOut: stamp, v1alpha1.AnnotationRolloutWaited: waited}
	}
	for _, test := range []struct {
		stamp, waited string
		want          bool
	}{
		{"", "", true}, {first.Stamp(), "", false}, {first.Stamp(), first.Stamp(), true}, {second.Stamp(), first.Stamp(), false},
	} {
		if mark(test.stamp, test.waited); waited(second, vm) != test.want {
			t.Errorf("%+v", test)
		}
	}
	rolling := &v1alpha1.PresetRolloutSpec{Restart: v1alpha1.RestartRolling}
	for marked, want := range map[string]int{"": 1, second.Stamp(): 0} {
		out := vms{stamp: second.Stamp()}
		mark(second.Stamp(), marked)
		vm.Status.DesiredGeneration = vm.Generation
		if (&Controller{Clock: clock.NewFakeClock(start)}).addRunning(&out, rolling, vm, failure{}); out.waiting != 1 || len(out.restarts) != want {
			t.Errorf("marked %q: %+v", marked, out)
		}
	}
}
