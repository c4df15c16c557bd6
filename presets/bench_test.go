package presets_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/condition"
	"github.com/virtwright/virtwright/test/presettest"
)

// BenchmarkResolve measures one create, from the object's JSON to the patch. The control is one
// json.Unmarshal of the same object into a map.
func BenchmarkResolve(b *testing.B) {
	vm := presettest.RealisticVM()
	engine := presets.Engine{}
	request := presets.Request{
		Kind: presets.VirtualMachine, Object: vm,
		Namespace: presets.Namespace{Name: "default", Labels: map[string]string{"kubernetes.io/metadata.name": "default"}},
	}
	b.Run("control=json.Unmarshal", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var out map[string]any
			if err := json.Unmarshal(vm, &out); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, extra := range []presettest.Crowd{{}, {Labels: 3334}, {Namespaces: 3333}, {Labels: 3334, Namespaces: 3333}, {Unindexed: 3333}} {
		b.Run(fmt.Sprintf("beside=%s", extra), func(b *testing.B) {
			snapshot := presettest.Snapshot(b, append(presettest.RealisticPresets(), extra.Presets()...)...)
			b.ReportAllocs()
			for b.Loop() {
				out, err := engine.Resolve(context.Background(), snapshot, request)
				if err != nil || len(out.Patch) == 0 {
					b.Fatal(err, out)
				}
			}
		})
	}
}

// BenchmarkCompile compiles and analyses a preset at the limits of expressions, and one beyond
// them. The control has more expressions than each of our examples.
func BenchmarkCompile(b *testing.B) {
	conditions := func(n, reads int) string {
		term := "object.metadata.?labels.?tier.orValue('') != 'x'"
		condition := strings.TrimSuffix(strings.Repeat(term+" && ", reads), " && ")
		out := "defaults: {spec: {runStrategy: Halted}}\nmatch:\n  conditions:\n"
		for i := range n {
			out += fmt.Sprintf("  - {name: c%d, expression: %q}\n", i, condition)
		}
		return out
	}
	for name, preset := range map[string]v1alpha1.Preset{
		"control":       presettest.Cluster("control", conditions(4, 3)),
		"at-the-limit":  presettest.Cluster("limit", conditions(6, 28)),
		"beyond-limits": presettest.Cluster("beyond", conditions(32, 2_000)),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if compiled, problems := presets.Compile(preset); len(problems) == 0 {
					compiled.Expressions().Unguarded(condition.AllSteps)
				}
			}
		})
	}
}

// BenchmarkSparsify makes a full VM sparse. The control is one create of it.
func BenchmarkSparsify(b *testing.B) {
	engine := presets.Engine{Platform: &presets.Platform{}}
	snapshot := presettest.Snapshot(b, presettest.RealisticPresets()...)
	request := presets.Request{Kind: presets.VirtualMachine, Object: presettest.RealisticVM(), Namespace: presets.Namespace{Name: "default"}}
	b.Run("control=create", func(b *testing.B) {
		for b.Loop() {
			if _, err := engine.Resolve(context.Background(), snapshot, request); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("sparsify", func(b *testing.B) {
		for b.Loop() {
			out, _, err := engine.Sparsify(context.Background(), snapshot, request)
			if err != nil || len(out.Kept) == 0 {
				b.Fatal(out, err)
			}
			b.ReportMetric(float64(len(out.Kept)), "kept")
		}
	})
}

// BenchmarkUpdate measures an update that adds a label beside a create of the same VM.
func BenchmarkUpdate(b *testing.B) {
	engine := presets.Engine{}
	snapshot := presettest.Snapshot(b, presettest.RealisticPresets()...)
	create := presets.Request{Kind: presets.VirtualMachine, Object: presettest.RealisticVM(), Namespace: presets.Namespace{Name: "default"}}
	created, err := engine.Resolve(context.Background(), snapshot, create)
	if err != nil {
		b.Fatal(err)
	}
	update := create
	if update.OldObject, err = json.Marshal(created.Object()); err != nil {
		b.Fatal(err)
	}
	var sent map[string]any
	if err := json.Unmarshal(update.OldObject, &sent); err != nil {
		b.Fatal(err)
	}
	presettest.At(sent, "metadata.labels").(map[string]any)["tier"] = "test"
	if update.Object, err = json.Marshal(sent); err != nil {
		b.Fatal(err)
	}
	whole := create // the same VM, all of whose fields its author wrote
	delete(presettest.At(sent, "metadata.annotations").(map[string]any), v1alpha1.AnnotationProvenance)
	if whole.Object, err = json.Marshal(sent); err != nil {
		b.Fatal(err)
	}
	for name, req := range map[string]presets.Request{"control=create": create, "control=create-whole": whole, "update": update} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := engine.Resolve(context.Background(), snapshot, req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRollout measures one create of a decoded object beside 1,000 presets, while a rollout
// changes one of them. The control is the same create without the rollout.
func BenchmarkRollout(b *testing.B) {
	all := append(presettest.RealisticPresets(), presettest.Crowd{Labels: 500, Namespaces: 500}.Presets()...)
	snapshot := presettest.Snapshot(b, all...)
	first := slices.Collect(snapshot.All())[0]
	rollout, problem := presets.NewRollout(&v1alpha1.PresetRollout{
		ObjectMeta: metav1.ObjectMeta{Name: "r"},
		Spec:       v1alpha1.PresetRolloutSpec{Presets: []string{first.Ref}, Waves: []v1alpha1.RolloutWave{{Name: "all", Steps: []string{"1%", "100%"}}}},
		Status:     v1alpha1.PresetRolloutStatus{Target: "t", Wave: "all", Step: "1%"},
	})
	if problem != nil {
		b.Fatal(problem)
	}
	rollout.Stable = map[string]*presets.Compiled{first.Ref: first}
	engine := presets.Engine{}
	request := presets.Request{Kind: presets.VirtualMachine, Object: presettest.RealisticVM(), Namespace: presets.Namespace{Name: "default"}}
	var decoded map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(request.Object, &decoded); err != nil {
		b.Fatal(err)
	}
	for _, of := range []struct {
		name     string
		snapshot *presets.Snapshot
	}{{"control=none", snapshot}, {"rollout", snapshot.WithRollouts([]*presets.Rollout{rollout})}} {
		b.Run(of.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				request.Decoded = runtime.DeepCopyJSON(decoded)
				if _, err := engine.Resolve(context.Background(), of.snapshot, request); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
