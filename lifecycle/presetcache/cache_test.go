package presetcache

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/test/presettest"
)

const (
	cores   = "defaults: {spec: {template: {spec: {domain: {cpu: {cores: %d}}}}}}"
	invalid = "remove: [spec.nowhere]"
)

// preset returns a namespaced preset as informers deliver it.
func preset(name string, generation int64, spec string) client.Object {
	p := presettest.Namespaced("lab", name, spec)
	p.SetUID(types.UID("uid-" + name))
	p.SetGeneration(generation)
	return p
}

func key(name string) Key {
	return Key{v1alpha1.KindVirtualMachinePreset, types.NamespacedName{Namespace: "lab", Name: name}}
}

// deliver does as informers, until the next snapshot.
func deliver(t *testing.T, c *Cache, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		kind := v1alpha1.KindVirtualMachinePreset
		switch o.(type) {
		case *v1alpha1.ClusterVirtualMachinePreset:
			kind = v1alpha1.KindClusterVirtualMachinePreset
		case *kubevirtv1.VirtualMachineInstancePreset:
			kind = kindLegacy
		case *v1alpha1.PresetException:
			kind = v1alpha1.KindPresetException
		case *v1alpha1.PresetRollout:
			kind = v1alpha1.KindPresetRollout
		}
		Handler(kind, c.note).OnAdd(o, false)
	}
	c.refresh(t.Context(), c.Snapshot() == nil)
}

func lookup(t *testing.T, c *Cache, ref string) *presets.Compiled {
	t.Helper()
	found, ok := c.Snapshot().Lookup("lab", ref)
	if !ok {
		t.Fatalf("%s is not in the snapshot", ref)
	}
	return found
}

func TestNotReadyBeforeTheFirstSnapshot(t *testing.T) {
	c := &Cache{Clock: clock.RealClock{}}
	if c.Ready() == nil || c.Snapshot() != nil {
		t.Error("want not ready")
	}
	deliver(t, c)
	if err := c.Ready(); err != nil || c.Snapshot().Len() != 0 {
		t.Errorf("a cluster without presets is ready, too: %v", err)
	}
}

func TestOnlyWhatChangedIsCompiled(t *testing.T) {
	c := &Cache{Clock: clock.RealClock{}}
	deliver(t, c, preset("a", 1, fmt.Sprintf(cores, 1)), preset("b", 1, fmt.Sprintf(cores, 1)))
	a, b, snapshot := lookup(t, c, "a"), lookup(t, c, "b"), c.Snapshot()

	deliver(t, c, preset("a", 1, fmt.Sprintf(cores, 1)))
	if c.Snapshot() != snapshot {
		t.Error("a new status or label must not make a new snapshot")
	}
	deliver(t, c, preset("a", 2, fmt.Sprintf(cores, 2)))
	if lookup(t, c, "a") == a || lookup(t, c, "b") != b {
		t.Error("want a compiled again and b kept")
	}
	if _, ok := snapshot.Lookup("lab", "a"); !ok {
		t.Error("a request under way keeps its snapshot")
	}
	recreated := preset("b", 1, fmt.Sprintf(cores, 3))
	recreated.SetUID("other")
	deliver(t, c, recreated)
	if lookup(t, c, "b") == b {
		t.Error("want b compiled again: it is another object")
	}
}

func TestDeletion(t *testing.T) {
	c := &Cache{Clock: clock.RealClock{}}
	deliver(t, c, preset("a", 1, fmt.Sprintf(cores, 1)), preset("b", 1, fmt.Sprintf(cores, 1)))
	Handler(v1alpha1.KindVirtualMachinePreset, c.note).OnDelete(preset("a", 1, ""))
	Handler(v1alpha1.KindVirtualMachinePreset, c.note).OnDelete(toolscache.DeletedFinalStateUnknown{Key: "lab/b", Obj: preset("b", 1, "")})
	c.refresh(t.Context(), false)
	if got := c.Snapshot().Len(); got != 0 {
		t.Errorf("want no presets, got %d", got)
	}
	if _, known := c.Verdict(key("a")); known {
		t.Error("want no verdict on a deleted preset")
	}
}

func TestInvalidPresetHurtsNoOther(t *testing.T) {
	c := &Cache{Clock: clock.RealClock{}}
	deliver(t, c, preset("good", 1, fmt.Sprintf(cores, 1)), preset("bad", 7, invalid), preset("off", 1, "mode: 'Off'"))
	if got := c.Snapshot().Len(); got != 2 {
		t.Errorf("want 2 presets, got %d", got)
	}
	v, known := c.Verdict(key("bad"))
	if !known || v.Generation != 7 || len(v.Problems) != 1 {
		t.Errorf("want a verdict with a problem, got %+v", v)
	}
	got := map[string]float64{}
	for _, state := range []string{"ready", "invalid", "off"} {
		got[state] = c.count(presetsMetric, state)
	}
	if diff := cmp.Diff(map[string]float64{"ready": 1, "invalid": 1, "off": 1}, got); diff != "" {
		t.Errorf("metric (-want +got):\n%s", diff)
	}
	deliver(t, c, preset("bad", 8, ""))
	if v, _ := c.Verdict(key("bad")); len(v.Problems) > 0 || c.Snapshot().Len() != 3 {
		t.Errorf("want it in use once repaired, got %+v", v)
	}
}

// A VM that refers to a broken preset gets an error that says so.
func TestBrokenPresetsAreKnownByName(t *testing.T) {
	c := &Cache{Clock: clock.RealClock{}}
	cluster := presettest.Cluster("bad", invalid)
	deliver(t, c, preset("bad", 1, invalid), cluster)
	for _, ref := range []string{"bad", "cluster/bad"} {
		vm := presettest.JSON("{metadata: {name: a, annotations: {virtwright.dev/presets: " + ref + "}}}")
		_, err := (&presets.Engine{}).Resolve(t.Context(), c.Snapshot(), presets.Request{
			Kind: presets.VirtualMachine, Object: vm, Namespace: presets.Namespace{Name: "lab"},
		})
		if err == nil || !strings.Contains(err.Error(), "is invalid") {
			t.Errorf("%s: got %v", ref, err)
		}
	}
}

func TestLegacy(t *testing.T) {
	c := &Cache{Legacy: true, Clock: clock.RealClock{}}
	legacy := &kubevirtv1.VirtualMachineInstancePreset{
		ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "old", UID: "u", Generation: 1},
		Spec: kubevirtv1.VirtualMachineInstancePresetSpec{
			Selector: metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
			Domain:   &kubevirtv1.DomainSpec{CPU: &kubevirtv1.CPU{Cores: 4}},
		},
	}
	broken := legacy.DeepCopy()
	broken.Name, broken.Spec.Selector.MatchLabels = "broken", map[string]string{"a b": "c"}
	deliver(t, c, legacy, broken)
	if got := c.Snapshot().Len(); got != 1 {
		t.Errorf("want one preset, got %d", got)
	}
}

// Exceptions are part of the snapshot and end by the clock; an invalid one is missing.
func TestExceptions(t *testing.T) {
	until := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	fake := clocktesting.NewFakePassiveClock(until.Add(-time.Hour))
	registry := prometheus.NewRegistry()
	c := &Cache{Clock: fake}
	c.RegisterMetrics(registry)
	exception := func(name string, presets ...string) *v1alpha1.PresetException {
		return &v1alpha1.PresetException{
			ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: name, UID: types.UID(name), Generation: 1},
			Spec:       v1alpha1.PresetExceptionSpec{Presets: presets, Reason: "r", Until: &metav1.Time{Time: until}},
		}
	}
	acts := func() bool {
		t.Helper()
		result, err := (&presets.Engine{}).Resolve(t.Context(), c.Snapshot(), presets.Request{
			Kind: presets.VirtualMachine, Object: presettest.JSON("{metadata: {name: a}}"), Namespace: presets.Namespace{Name: "lab"},
		})
		if err != nil {
			t.Fatal(err)
		}
		return len(result.Matched) == 1
	}
	deliver(t, c, preset("a", 1, fmt.Sprintf(cores, 1)), exception("broken"))
	if _, known := c.Verdict(Key{v1alpha1.KindPresetException, types.NamespacedName{Namespace: "lab", Name: "broken"}}); !known || !acts() {
		t.Error("an invalid exception must keep no preset from acting")
	}
	deliver(t, c, exception("e", "a"))
	if acts() {
		t.Error("the exception must keep the preset from acting")
	}
	if got := c.count(presetsMetric, "ready"); got != 1 {
		t.Errorf("exceptions are no presets, got %v", got)
	}
	exported := `# HELP virtwright_preset_exceptions Valid PresetExceptions by state: active, or expired (until is past).
# TYPE virtwright_preset_exceptions gauge
virtwright_preset_exceptions{state="active"} 1
virtwright_preset_exceptions{state="expired"} 0
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(exported), "virtwright_preset_exceptions"); err != nil {
		t.Error(err)
	}
	if fake.SetTime(until); !acts() {
		t.Error("the exception has ended")
	}
	fake.SetTime(until.Add(-time.Hour))
	Handler(v1alpha1.KindPresetException, c.note).OnDelete(exception("e", "a"))
	if c.refresh(t.Context(), false); !acts() {
		t.Error("the exception is gone")
	}
}

// TestSharedPreset has two rollouts with one preset, as two creates at the same moment store them.
// The younger one still holds its other presets back.
func TestSharedPreset(t *testing.T) {
	revision := func(name string, generation int64) v1alpha1.Preset {
		p := presettest.Cluster(name, fmt.Sprintf(cores, generation))
		p.SetUID(types.UID("uid-" + name))
		p.SetGeneration(generation)
		return p
	}
	rollout := func(name string, second int64, target string, refs ...string) *v1alpha1.PresetRollout {
		r := &v1alpha1.PresetRollout{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Unix(second, 0)}}
		r.Spec.Presets, r.Spec.Waves, r.Status.Target = refs, []v1alpha1.RolloutWave{{Name: "all"}}, target
		for _, ref := range refs {
			uid := types.UID("uid-" + strings.TrimPrefix(ref, "cluster/"))
			r.Status.Presets = append(r.Status.Presets, v1alpha1.RolloutPreset{Name: ref, UID: uid, Stable: 1, Target: 2})
		}
		return r
	}
	c := &Cache{Clock: clock.RealClock{}, Revision: func(_ context.Context, uid types.UID, generation int64) (*presets.Compiled, error) {
		compiled, problems := presets.Compile(revision(strings.TrimPrefix(string(uid), "uid-"), generation))
		return compiled, problems.ToAggregate()
	}}
	older, younger := rollout("z", 1, "t", "cluster/shared"), rollout("a", 2, "t", "cluster/shared", "cluster/alone")
	deliver(t, c, revision("shared", 2), revision("alone", 2), older, younger)
	for name, ref := range map[string]string{"z": "cluster/shared", "a": "cluster/alone"} {
		if got := c.Snapshot().Rollout(name); got == nil || len(got.Stable) != 1 || got.Stable[ref] == nil {
			t.Errorf("rollout %s does not hold %s back: %+v", name, ref, got)
		}
	}
	if c.Taken(older) != nil || c.Taken(younger) == nil {
		t.Errorf("taken: %v, %v", c.Taken(older), c.Taken(younger))
	}
}

func TestSubscribersHearOfWhatIsInUse(t *testing.T) {
	c := &Cache{Clock: clock.RealClock{}}
	var heard []string
	c.Subscribe(func(k Key) {
		if v, ok := c.Verdict(k); ok && len(v.Problems) == 0 {
			lookup(t, c, k.Name)
		}
		heard = append(heard, k.Name)
	})
	deliver(t, c, preset("b", 1, ""), preset("a", 1, invalid))
	deliver(t, c, preset("b", 1, ""))
	if diff := cmp.Diff([]string{"a", "b"}, heard); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Neither order nor history of what informers deliver shows in the snapshot.
func TestHistoryLeavesNoTrace(t *testing.T) {
	straight, winding := &Cache{Clock: clock.RealClock{}}, &Cache{Clock: clock.RealClock{}}
	deliver(t, straight, preset("a", 3, fmt.Sprintf(cores, 3)), preset("b", 1, ""))
	deliver(t, winding, preset("c", 1, invalid), preset("b", 1, ""))
	deliver(t, winding, preset("a", 1, fmt.Sprintf(cores, 1)), preset("a", 2, fmt.Sprintf(cores, 2)))
	Handler(v1alpha1.KindVirtualMachinePreset, winding.note).OnDelete(preset("c", 1, ""))
	deliver(t, winding, preset("a", 3, fmt.Sprintf(cores, 3)))
	if straight.Snapshot().Hash() != winding.Snapshot().Hash() {
		t.Error("want equal hashes")
	}
}

func TestConcurrentUse(t *testing.T) {
	c := &Cache{Clock: clock.RealClock{}}
	var wg sync.WaitGroup
	done := make(chan struct{})
	wg.Go(func() {
		defer close(done)
		for i := range 200 {
			deliver(t, c, preset("a", int64(i+1), fmt.Sprintf(cores, i+1)), preset(fmt.Sprint("b", i), 1, ""))
		}
	})
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if c.Snapshot() == nil {
					continue
				}
				v, _ := c.Verdict(key("a"))
				if v.UID != "" && lookup(t, c, "a").Generation < v.Generation {
					t.Error("a verdict must not be ahead of the snapshot")
				}
			}
		})
	}
	wg.Wait()
}

func TestTenThousandPresets(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles 10,000 presets")
	}
	objects := make([]client.Object, 10_000)
	for i := range objects {
		objects[i] = preset(fmt.Sprint("p", i), 1, fmt.Sprintf(`
match: {labels: {matchLabels: {app: a%d}}, conditions: [{name: c, expression: "object.metadata.name != 'x%d'"}]}
defaults: {spec: {template: {spec: {domain: {cpu: {cores: 2}, memory: {guest: 1Gi}, devices: {rng: {}}}}}}}`, i, i))
	}
	c := &Cache{Clock: clock.RealClock{}}
	start := time.Now()
	deliver(t, c, objects...)
	loaded := time.Since(start)
	start = time.Now()
	deliver(t, c, preset("p7", 2, ""))
	t.Logf("loaded in %s; one change took %s", loaded, time.Since(start))
	if got := c.Snapshot().Len(); got != len(objects) {
		t.Errorf("want %d presets, got %d", len(objects), got)
	}
}
