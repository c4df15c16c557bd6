package presets

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/vmschema"
)

// rolledOut is a rollout of cluster/name from host name a to b, which has reached a step.
func rolledOut(t *testing.T, wave, step string, aborted bool) *Snapshot {
	t.Helper()
	stable, current := hostPreset("a", 1), hostPreset("b", 2)
	r, err := NewRollout(&v1alpha1.PresetRollout{
		ObjectMeta: metav1.ObjectMeta{Name: "r"},
		Spec: v1alpha1.PresetRolloutSpec{Waves: []v1alpha1.RolloutWave{
			{Name: "canary", VMs: &metav1.LabelSelector{MatchLabels: map[string]string{"canary": "true"}}},
			{Name: "lab", Namespaces: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "lab"}}, Steps: []string{"30%", "100%"}},
			{Name: "rest"},
		}},
		Status: v1alpha1.PresetRolloutStatus{Target: "t", Wave: wave, Step: step, Aborted: aborted},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Stable = map[string]*Compiled{"cluster/name": stable}
	return NewSnapshot([]*Compiled{current}, nil).WithRollouts([]*Rollout{r})
}

func hostPreset(host string, generation int64) *Compiled {
	c := compileSpec("", "name", map[string]any{"defaults": map[string]any{"spec": map[string]any{"template": map[string]any{
		"spec": map[string]any{"hostname": host},
	}}}})
	c.Generation = generation
	return c
}

// TestRolloutReaches creates VMs while a rollout is at each step. Of 1,000 VMs, a step reaches
// about its share.
func TestRolloutReaches(t *testing.T) {
	hosts := func(s *Snapshot, labels string, namespace Namespace, n int) map[string]bool {
		reached := map[string]bool{}
		for i := range n {
			name := fmt.Sprintf("vm-%d", i)
			out, err := (&Engine{}).Resolve(t.Context(), s, Request{Kind: VirtualMachine, Namespace: namespace, Object: []byte(
				`{"metadata":{"name":"` + name + `","labels":{` + labels + `}},"spec":{"template":{}}}`)})
			if err != nil {
				t.Fatal(err)
			}
			if host := vmschema.Value(out.Object(), vmschema.Template.Field("spec").Field("hostname")); host == "b" {
				reached[name] = true
			} else if host != "a" {
				t.Fatalf("host name %v", host)
			}
		}
		return reached
	}
	lab, shop := Namespace{Name: "lab", Labels: map[string]string{"tier": "lab"}}, Namespace{Name: "shop"}
	for _, test := range []struct {
		wave, step        string
		canary, lab, rest int // of 1000, about
	}{
		{"", "", 0, 0, 0}, {"canary", "100%", 1000, 0, 0}, {"lab", "30%", 1000, 300, 0}, {"lab", "100%", 1000, 1000, 0}, {"rest", "100%", 1000, 1000, 1000},
	} {
		s := rolledOut(t, test.wave, test.step, false)
		for name, got := range map[string][2]int{
			"canary": {len(hosts(s, `"canary":"true"`, shop, 1000)), test.canary},
			"lab":    {len(hosts(s, "", lab, 1000)), test.lab}, "rest": {len(hosts(s, "", shop, 1000)), test.rest},
		} {
			if got[0] < got[1]-60 || got[0] > got[1]+60 || got[1]%1000 == 0 && got[0] != got[1] {
				t.Errorf("wave %s up to %s reaches %d VMs of %s, want about %d", test.wave, test.step, got[0], name, got[1])
			}
		}
	}
	for _, held := range []*Snapshot{rolledOut(t, "rest", "100%", true)} {
		if got := hosts(held, "", shop, 10); len(got) > 0 {
			t.Errorf("an aborted rollout reaches %v", got)
		}
	}
	if got := hosts(rolledOut(t, "rest", "100%", false), "", Namespace{Name: "shop", Annotations: map[string]string{v1alpha1.AnnotationRollout: "Hold"}}, 10); len(got) > 0 {
		t.Errorf("a namespace that is held is reached: %v", got)
	}
}

// TestStamps writes the stamp of a rollout.
func TestStamps(t *testing.T) {
	const stamp, vm = "only:cluster/name rollout/r/t", `{"metadata":{"name":"a","annotations":{%s}},"spec":{"template":{}}}`
	stored := []byte(fmt.Sprintf(vm, ""))
	for name, test := range map[string]struct {
		wave, value string
		trusted     bool
		rejected    bool
	}{
		"a VM that was reached":                      {wave: "rest", value: stamp},
		"one that the manager updates":               {wave: "rest", value: stamp, trusted: true},
		"one that was not":                           {value: stamp, rejected: true},
		"one that was not, for the manager":          {value: stamp, trusted: true, rejected: true},
		"another target":                             {wave: "rest", value: stamp + "2", rejected: true},
		"the abort of a rollout that is not aborted": {wave: "rest", value: stamp + StampAborted, rejected: true},
		"another value":                              {wave: "rest", value: "only:cluster/name", rejected: true},
	} {
		object := []byte(fmt.Sprintf(vm, `"virtwright.dev/rolled-out":"`+test.value+`"`))
		req := Request{Kind: VirtualMachine, Namespace: Namespace{Name: "ns"}, Object: object, OldObject: stored, Trusted: test.trusted}
		_, err := (&Engine{}).Resolve(t.Context(), rolledOut(t, test.wave, "100%", false), req)
		if got := err != nil && strings.Contains(err.Error(), "no PresetRollout has brought this change"); got != test.rejected || err != nil && !got {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestStampsOfSeveral keeps the stamps of other rollouts that go on.
func TestStampsOfSeveral(t *testing.T) {
	snapshot := rolledOut(t, "rest", "100%", false)
	other := *snapshot.Rollout("r")
	other.Name, other.Stable = "other", map[string]*Compiled{"cluster/other": nil}
	both := snapshot.WithRollouts([]*Rollout{snapshot.Rollout("r"), &other})
	const mine, gone, before, vm = "only:cluster/name rollout/r/t", "only:cluster/gone rollout/gone/x", "only:cluster/other rollout/other/old", `{"metadata":{"name":"a","annotations":{"virtwright.dev/rolled-out":%q}},"spec":{"template":{}}}`
	for stored, want := range map[string]string{
		"":                                      mine,
		gone:                                    mine,
		before:                                  mine + "; " + before,
		gone + "; " + before:                    mine + "; " + before,
		before + "; " + mine + "0":              mine + "; " + before,
		"only:cluster/name rollout/r/t/aborted": mine,
	} {
		req := Request{Kind: VirtualMachine, Namespace: Namespace{Name: "ns"}, OldObject: fmt.Appendf(nil, vm, stored), Object: fmt.Appendf(nil, vm, mine), Trusted: true}
		out, err := (&Engine{}).Resolve(t.Context(), both, req)
		if err != nil {
			t.Fatalf("%q: %v", stored, err)
		}
		patched := apply(t, req.Object, out.Patch)
		if got := annotations(patched)[v1alpha1.AnnotationRolledOut]; got != want {
			t.Errorf("%q: got %q, want %q", stored, got, want)
		}
	}
}

// TestHeldPresetIsNearMiss names the rollout that keeps a missing value from a VM.
func TestHeldPresetIsNearMiss(t *testing.T) {
	for wave, want := range map[string]string{"canary": "preset cluster/name gives hostname to VMs that PresetRollout r has reached", "rest": ""} {
		s := rolledOut(t, wave, "100%", false)
		s.Rollout("r").Stable["cluster/name"] = nil // the preset is new
		got := (&Engine{}).NearMisses(t.Context(), s, Request{
			Kind: VirtualMachine, Namespace: Namespace{Name: "ns"}, Object: []byte(`{"metadata":{"name":"a"},"spec":{"template":{}}}`),
		}, "spec.template.spec.hostname")
		if text := strings.Join(got[0], "; "); text != want {
			t.Errorf("wave %s: got %q, want %q", wave, text, want)
		}
	}
}

// TestReapplyTakesBack: after a reapply, a VM to which a rollout gives the stable revision has no
// stamp of it any more.
func TestReapplyTakesBack(t *testing.T) {
	const mine, other = "only:cluster/name rollout/r/t", "only:cluster/other rollout/other/t"
	for name, test := range map[string]struct {
		wave, annotation, reapply string
		want                      any
	}{
		"a VM that was reached keeps it":       {"rest", "", "1", mine + "; " + other},
		"one that was not":                     {"canary", "", "1", other},
		"one that is held":                     {"rest", `,"virtwright.dev/rollout":"Hold"`, "1", other},
		"the preset alone":                     {"canary", "", "only:cluster/name 1", other},
		"the only stamp of a VM":               {"canary", "", "1", nil},
		"the only stamp, and the preset named": {"canary", "", "only:cluster/name 1", nil},
	} {
		before := mine + "; " + other
		if test.want == nil {
			before = mine
		}
		vm := func(more string) []byte {
			return fmt.Appendf(nil, `{"metadata":{"name":"a","annotations":{"virtwright.dev/rolled-out":%q%s%s}},"spec":{"template":{}}}`, before, test.annotation, more)
		}
		req := Request{Kind: VirtualMachine, Namespace: Namespace{Name: "ns"}, OldObject: vm(""), Object: vm(fmt.Sprintf(`,"virtwright.dev/reapply":%q`, test.reapply))}
		out, err := (&Engine{}).Resolve(t.Context(), rolledOut(t, test.wave, "100%", false), req)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := annotations(apply(t, req.Object, out.Patch))[v1alpha1.AnnotationRolledOut]; got != test.want {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}

// TestRolloutIs compares a rollout with its status, and with one whose wave was removed.
func TestRolloutIs(t *testing.T) {
	r := rolledOut(t, "gone", "100%", false).Rollout("r")
	for wave, want := range map[string]bool{"gone": true, "": true, "canary": false} {
		if got := r.Is(&v1alpha1.PresetRolloutStatus{Target: "t", Wave: wave, Step: "100%"}); got != want {
			t.Errorf("wave %q: %t", wave, got)
		}
	}
}

// TestTaken gives a preset to the oldest rollout that has it.
func TestTaken(t *testing.T) {
	rollout := func(name string, second int64, refs ...string) *v1alpha1.PresetRollout {
		out := &v1alpha1.PresetRollout{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.PresetRolloutSpec{Presets: refs}}
		if second > 0 {
			out.CreationTimestamp = metav1.Unix(second, 0)
		}
		return out
	}
	old, twin, middle, created := rollout("z", 1, "a"), rollout("zz", 1, "a"), rollout("m", 2, "b", "a"), rollout("a", 0, "c", "a")
	all := []*v1alpha1.PresetRollout{middle, twin, old, created, rollout("other", 1, "d")}
	for r, by := range map[*v1alpha1.PresetRollout]string{old: "", twin: "z", middle: "z", created: "z", all[4]: ""} {
		err := Taken(slices.Values(all), r)
		if by == "" && err != nil || by != "" && (err == nil || !strings.Contains(err.Detail, "PresetRollout "+by+" has preset a")) {
			t.Errorf("%s: %v, want it taken by %q", r.Name, err, by)
		}
	}
}

// TestSelectingLabels: presets select a stored VM by what its author wrote, also if presets have
// set other labels. A rollout finds it by these.
func TestSelectingLabels(t *testing.T) {
	labelled := map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "forced", "team": "web"}}}
	const written = `{"metadata":{"name":"v","labels":{"app":"mine"}},"spec":{"template":{"metadata":{"labels":{"os":"linux"}}}}}`
	for name, spec := range map[string]map[string]any{
		"no preset sets labels": {},
		"overridden":            {"overrides": labelled},
		"defaults":              {"defaults": labelled},
		"removed":               {"remove": []any{"metadata.labels.app", "spec.template.metadata.labels.os"}},
	} {
		t.Run(name, func(t *testing.T) {
			made, err := (&Engine{}).Resolve(t.Context(), NewSnapshot([]*Compiled{compileSpec("", "labels", spec)}, nil), Request{Kind: VirtualMachine, Object: []byte(written)})
			if err != nil {
				t.Fatal(err)
			}
			text := func(p provenance.Path) map[string]string {
				return matchLabels(vmschema.Value(made.Object(), p))
			}
			got := SelectingLabels(text(provenance.Of("metadata", "labels")), text(vmschema.TemplateLabels), made.Record)
			if want := map[string]string{"app": "mine", "os": "linux"}; !maps.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
	s := rolledOut(t, "", "", false)
	s.rollouts[0].Stable["cluster/name"].labels, _ = labels.Parse("app=mine")
	s.all[0].labels = s.rollouts[0].Stable["cluster/name"].labels
	for app, want := range map[string]bool{"mine": true, "forced": false} {
		if got := s.Concerns(s.rollouts[0])(Namespace{}, &metav1.ObjectMeta{}, map[string]string{"app": app}); got != want {
			t.Errorf("app=%s: %v", app, got)
		}
	}
}
