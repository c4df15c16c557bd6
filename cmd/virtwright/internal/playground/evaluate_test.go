package playground

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const (
	vm     = "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: vm}\n"
	preset = "apiVersion: virtwright.dev/v1alpha1\nkind: VirtualMachinePreset\nmetadata: {name: cores}\n" +
		"spec:\n  defaults: {spec: {template: {spec: {domain: {cpu: {cores: 7}, memory: {guest: 1Gi}}}}}}\n"
	// bomb expands to 9^9 elements.
	bomb = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n" +
		"d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n" +
		"g: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f]\nh: &h [*g,*g,*g,*g,*g,*g,*g,*g,*g]\ni: [*h,*h,*h,*h,*h,*h,*h,*h,*h]\n"
)

// TestEvaluate checks the names of the expanded VMs with their cores, and the problems as
// "TEXT:LINE FIELD".
func TestEvaluate(t *testing.T) {
	named := func(name string) string { return strings.Replace(vm, "name: vm", "name: "+name, 1) }
	for name, c := range map[string]struct {
		reason   string
		in       Input
		vms      []string
		problems []string
		message  string
	}{
		"fine":                   {"a preset applies", Input{VM: vm, Presets: preset}, []string{"vm 7"}, nil, ""},
		"empty":                  {"an empty page is no problem", Input{}, nil, nil, ""},
		"a preset among the VMs": {"each text may have any object", Input{VM: vm + "---\n" + preset}, []string{"vm 7"}, nil, ""},
		"JSON":                   {"JSON is accepted", Input{VM: `{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": {"name": "vm"}}`, Presets: preset}, []string{"vm 7"}, nil, ""},
		"several":                {"each VM is evaluated", Input{VM: vm + "---\n" + named("b"), Presets: preset}, []string{"vm 7", "b 7"}, nil, ""},
		"an invalid preset": {
			"the other presets apply", Input{VM: vm, Presets: "# first\n---\n" + strings.Replace(preset, "cores: 7", "cores: x", 1) + "---\n" + strings.Replace(preset, "name: cores", "name: b", 1)},
			[]string{"vm 7"}, []string{"presets:7 spec.defaults.spec.template.spec.domain.cpu.cores"}, "",
		},
		"an unknown field of a preset": {
			"at its key", Input{Presets: strings.Replace(preset, "  defaults:", "  prio: 1\n  defaults:", 1)}, nil, []string{"presets:5 spec.prio"}, "unknown field",
		},
		"broken YAML": {
			"the other documents are evaluated", Input{VM: vm, Presets: "a:\n  b: c: d\n---\n" + preset}, []string{"vm 7"}, []string{"presets:2 "}, "mapping values are not allowed",
		},
		"broken JSON": {"at its line", Input{VM: "{\"a\": 1}\n{\n", Presets: preset}, nil, []string{"vm:1 ", "vm:2 "}, "cannot read the JSON"},
		"a key twice": {"at the second key", Input{VM: vm + "spec:\n  running: true\n  running: true\n", Presets: preset}, nil, []string{"vm:6 "}, "already set"},
		"an unknown field": {
			"at its key", Input{VM: vm + "spec:\n  template:\n    spec:\n      domain: {cpu: {Cores: 1}}\n", Presets: preset},
			[]string{"vm 7"}, []string{"vm:7 spec.template.spec.domain.cpu.Cores"}, "unknown field",
		},
		"a missing value in a block": {"at the deepest parent", Input{VM: vm + "spec:\n  template:\n    spec:\n      domain:\n        cpu: {cores: 1}\n"}, []string{"vm 1"}, []string{"vm:7 spec.template.spec.domain.memory.guest"}, ""},
		"no parent":                  {"at the kind", Input{VM: "# comment\n" + vm}, []string{"vm 1"}, []string{"vm:3 spec.template.spec.domain.memory.guest"}, ""},
		"a misspelt kind":            {"at the kind", Input{VM: strings.Replace(vm, "Machine", "Machin", 1)}, nil, []string{"vm:2 kind"}, "did you mean"},
		"a missing value":            {"at the deepest parent", Input{VM: vm + "spec:\n  template: {}\n"}, []string{"vm 1"}, []string{"vm:5 spec.template.spec.domain.memory.guest"}, ""},
		"an unknown kind of ours": {
			"it is named", Input{VM: strings.ReplaceAll(preset, "MachinePreset", "MachinPreset") + "---\n" + vm, Presets: preset}, []string{"vm 7"}, []string{"vm:2 kind"}, "did you mean",
		},
		"another kind": {"it is ignored with a note", Input{VM: "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\n" + vm, Presets: preset}, []string{"vm 7"}, nil, ""},
		"no object":    {"it is named", Input{VM: "---\n---\n- 1\n"}, nil, []string{"vm:3 "}, "not a Kubernetes object"},
		"items of a list": {
			"each has its line", Input{VM: "apiVersion: v1\nkind: List\nitems:\n- {}\n- {apiVersion: v1}\n", Presets: preset}, nil,
			[]string{"vm:4 ", "vm:5 "}, "apiVersion and kind are required",
		},
		"a name twice": {
			"the second is rejected", Input{VM: vm + "---\n" + vm, Presets: preset}, []string{"vm 7", "vm 7"}, []string{"vm:7 metadata.name"}, "also in vm, document 1",
		},
		"an unknown mode": {"nothing is evaluated", Input{VM: vm, Mode: "x"}, nil, []string{"vm:1 "}, "supported values"},
		"a long text":     {"nothing is evaluated", Input{VM: vm, Presets: strings.Repeat("#", maxText+1)}, nil, []string{"presets:1 "}, "Too long"},
		"a bomb":          {"aliases are not expanded", Input{VM: bomb, Presets: preset}, nil, []string{"vm:1 "}, "excessive aliasing"},
		"deep nesting":    {"parsers limit the depth", Input{VM: strings.Repeat("[", 500_000)}, nil, []string{"vm:1 "}, "depth"},
	} {
		t.Run(name, func(t *testing.T) {
			started := time.Now()
			out := new(Evaluator).Evaluate(t.Context(), c.in)
			if took := time.Since(started); took > 5*time.Second {
				t.Errorf("took %s", took)
			}
			var vms, problems, messages []string
			for _, m := range out.VMs {
				cores := strings.TrimLeft(m.Expanded[strings.Index(m.Expanded, "cores: ")+len("cores: "):], " ")
				vms = append(vms, m.Name+" "+cores[:1])
			}
			for _, p := range out.Problems {
				if p.Severity == "warning" {
					continue
				}
				problems = append(problems, fmt.Sprintf("%s:%d %s", p.In, p.Line, p.Field))
				messages = append(messages, p.Message)
			}
			if diff := cmp.Diff(c.vms, vms) + cmp.Diff(c.problems, problems); diff != "" || !strings.Contains(strings.Join(messages, "\n"), c.message) {
				t.Errorf("%s: -want, +got:\n%s%s", c.reason, diff, strings.Join(messages, "\n"))
			}
		})
	}
}

func TestEvaluateResults(t *testing.T) {
	out := new(Evaluator).Evaluate(t.Context(), Input{VM: vm, Presets: preset + "---\n" + strings.ReplaceAll(preset, "name: cores", "name: other") + "  match: {labels: {matchLabels: {a: b}}}\n"})
	if len(out.VMs) != 1 {
		t.Fatalf("got %+v", out)
	}
	m := out.VMs[0]
	if want := []Preset{{"cores", "default", "Enforce", true, "set 2 fields, lost 0, overruled 0", "presets", 3}}; m.Namespace != "default" || len(m.Presets) != 2 || !cmp.Equal(m.Presets[:1], want) || m.Presets[1].Matched {
		t.Errorf("presets of %s: %+v", m.Namespace, m.Presets)
	}
	var origins []string
	for _, l := range m.Lines {
		if strings.HasPrefix(l.Path, "spec.template.spec.domain.cpu.") {
			origins = append(origins, strings.TrimSpace(l.Text)+" "+l.From)
		}
	}
	if want := []string{"cores: 7 preset", "model: host-model platform", "sockets: 1 platform", "threads: 1 platform"}; !cmp.Equal(origins, want) {
		t.Errorf("origins: %q", origins)
	}
	if !strings.HasPrefix(m.Domain, "<domain") {
		t.Errorf("domain: %s", m.Domain)
	}
}

// TestEvaluateWarnings checks that warnings are at their lines, and also among the results of the
// VM.
func TestEvaluateWarnings(t *testing.T) {
	override := strings.NewReplacer("defaults:", "overrides:", "name: cores", "name: over").Replace(preset)
	out := new(Evaluator).Evaluate(t.Context(), Input{VM: vm + "spec:\n  template:\n    spec:\n      domain:\n        cpu: {cores: 2}\n", Presets: preset + "---\n" + override})
	if len(out.VMs) != 1 {
		t.Fatalf("got %+v", out)
	}
	const field = "spec.template.spec.domain.cpu.cores"
	overruled := slices.IndexFunc(out.Problems, func(p Problem) bool { return p.Field == field })
	if overruled < 0 || out.Problems[overruled].Line != 8 || out.Problems[overruled].Severity != "warning" {
		t.Errorf("problems: %+v", out.Problems)
	}
	if !slices.ContainsFunc(out.VMs[0].Warnings, func(text string) bool { return strings.Contains(text, field+" (was 2)") }) {
		t.Errorf("warnings: %q", out.VMs[0].Warnings)
	}
}

func TestEvaluateLocatesLabels(t *testing.T) {
	labelled := strings.Replace(vm, "{name: vm}", "\n  name: vm\n  labels:\n    vm-size: smal", 1)
	out := new(Evaluator).Evaluate(t.Context(), Input{VM: labelled, Presets: preset + "  match: {labels: {matchLabels: {vm-size: small}}}\n"})
	if !slices.ContainsFunc(out.Problems, func(p Problem) bool { return p.Line == 6 && p.Field == "metadata.labels.vm-size" }) {
		t.Errorf("problems: %+v", out.Problems)
	}
}

// TestEvaluateIgnored checks that an object which stands in place of a VM is a warning.
func TestEvaluateIgnored(t *testing.T) {
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"
	for text, want := range map[string]Output{
		pod: {VMs: []VM{}, Tests: []Test{}, Notes: []string{}, Problems: []Problem{{
			In: inVM, Line: 2, Column: 7, Severity: "warning", Field: "kind", Message: "ignored 1 of kind Pod (v1): paste a VirtualMachine or a VirtualMachineInstance",
		}}},
		preset: {VMs: []VM{}, Tests: []Test{}, Notes: []string{}, Problems: []Problem{}},
	} {
		if diff := cmp.Diff(want, new(Evaluator).Evaluate(t.Context(), Input{VM: text})); diff != "" {
			t.Errorf("-want, +got:\n%s", diff)
		}
	}
	if out := new(Evaluator).Evaluate(t.Context(), Input{VM: pod + "---\n" + vm, Presets: preset + "---\n" + pod}); len(out.Notes) != 2 || strings.Contains(fmt.Sprint(out.Problems), "ignored") {
		t.Errorf("beside a VM: %v, %v", out.Problems, out.Notes)
	}
}

// TestEvaluateAgain checks that kept presets give the same result as new ones, also after changes.
func TestEvaluateAgain(t *testing.T) {
	var kept Evaluator
	other := strings.Replace(preset, "cores: 7", "cores: 8", 1)
	for _, in := range []Input{
		{VM: vm, Presets: preset}, {VM: vm, Presets: preset}, {VM: vm, Presets: other}, {VM: vm, Presets: preset, Mode: addon}, {VM: vm, Presets: preset + "---\n" + preset},
		{VM: vm, Presets: strings.Replace(preset, "cores: 7", "cores: x", 1)}, {VM: vm}, {VM: vm, Presets: preset},
		{VM: vm, Presets: strings.Replace(preset, "name: cores", "name: cores, namespace: other", 1)}, {VM: vm, Presets: preset},
	} {
		if diff := cmp.Diff(new(Evaluator).Evaluate(t.Context(), in), kept.Evaluate(t.Context(), in)); diff != "" {
			t.Errorf("%s: -new, +kept:\n%s", in.Presets, diff)
		}
	}
}

// TestEvaluateModes checks that platform defaults are set only in mode standalone.
func TestEvaluateModes(t *testing.T) {
	for mode, want := range map[string]bool{"": true, standalone: true, addon: false} {
		out := new(Evaluator).Evaluate(t.Context(), Input{VM: vm + "spec: {runStrategy: Halted, template: {}}\n", Presets: preset, Mode: mode})
		if len(out.VMs) != 1 || strings.Contains(out.VMs[0].Expanded, "model: host-model") != want || out.VMs[0].Domain == "" {
			t.Errorf("mode %q: %+v", mode, out)
		}
	}
}

func TestEvaluateLimits(t *testing.T) {
	out := new(Evaluator).Evaluate(t.Context(), Input{VM: strings.Repeat(vm+"---\n", maxVMs+5), Presets: strings.Repeat("a: b\n---\n", maxShown+6) + preset})
	if len(out.VMs) != maxVMs || len(out.Problems) != maxShown+39 { // those of presets do not hide those of VMs
		t.Errorf("got %d VMs and %d problems", len(out.VMs), len(out.Problems))
	}
	if diff := cmp.Diff([]string{"only the first 20 of 25 VMs are read", "6 more problems are not shown"}, out.Notes); diff != "" {
		t.Errorf("notes: -want, +got:\n%s", diff)
	}
}

func TestPanicsAreProblems(t *testing.T) {
	e := &evaluation{}
	e.guarded(inVM, func() { panic("broken") })
	if len(e.Problems) != 1 || !strings.Contains(e.Problems[0].Message, "has a bug") || !strings.Contains(e.Problems[0].Message, "broken") {
		t.Errorf("got %+v", e.Problems)
	}
}

// TestSparse makes the chosen VM sparse, and no other.
func TestSparse(t *testing.T) {
	full := new(Evaluator).Evaluate(t.Context(), Input{VM: vm, Presets: preset}).VMs[0].Expanded
	sized := strings.NewReplacer("cores: 7", "cores: 8", "name: vm\n", "name: another\n").Replace(full)
	rejected := vm + "spec: {template: {spec: {domain: {cpu: {cores: -1}}}}}\n"
	for name, c := range map[string]struct {
		vm     string
		number int
		want   []string
	}{
		"the first VM":         {full + "---\n" + full, 1, []string{"0 fields", ""}},
		"the second VM":        {full + "---\n" + sized, 2, []string{"", "1 fields: cores: 8"}},
		"no VM":                {full, 0, []string{""}},
		"a VM that is gone":    {full, 2, []string{"0 fields"}},
		"a negative number":    {full, -1, []string{""}},
		"a VM that is invalid": {rejected, 1, []string{""}},
	} {
		var got []string
		for _, v := range new(Evaluator).Evaluate(t.Context(), Input{VM: c.vm, Presets: preset, Sparse: c.number}).VMs {
			if v.Sparse == "" {
				got = append(got, "")
				continue
			}
			text := fmt.Sprintf("%d fields", v.Stay)
			if _, cores, has := strings.Cut(v.Sparse, "cores"); has {
				text += ": cores" + strings.TrimSpace(cores)
			}
			got = append(got, text)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

const plain = "{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: a}, spec: {template: {spec: {domain: {memory: {guest: 1Gi}}}}}}"

// TestPresetLines finds presets by namespace and name, in YAML of any style.
func TestPresetLines(t *testing.T) {
	const all = `# kind: VirtualMachinePreset, name: web
apiVersion: virtwright.dev/v1alpha1
kind: VirtualMachinePreset
metadata: {name: web, namespace: other}
spec: {defaults: {spec: {runStrategy: Manual}}}
---
apiVersion: v1
kind: List
items:
- apiVersion: virtwright.dev/v1alpha1
  kind: "VirtualMachinePreset"
  spec: {defaults: {spec: {template: {spec: {domain: {devices: {disks: [{name: web, disk: {bus: sata}}]}}}}}}}
  metadata: {name: web}
- apiVersion: virtwright.dev/v1alpha1
  kind: ClusterVirtualMachinePreset
  metadata:
    name: web
  spec: {defaults: {spec: {runStrategy: Halted}}}
`
	out := new(Evaluator).Evaluate(t.Context(), Input{VM: plain, Presets: all})
	if len(out.VMs) != 1 {
		t.Fatalf("got %+v", out)
	}
	got := map[string]int{}
	for _, p := range out.VMs[0].Presets {
		got[p.In+" "+p.Namespace+"/"+p.Preset] = p.Line
	}
	if diff := cmp.Diff(map[string]int{"presets default/web": 13, "presets /cluster/web": 17}, got); diff != "" {
		t.Error(diff)
	}
}

// TestStoredVM: a VM that was copied from a cluster is a new one.
func TestStoredVM(t *testing.T) {
	const preset = "{apiVersion: virtwright.dev/v1alpha1, kind: ClusterVirtualMachinePreset, metadata: {name: a}, spec: {defaults: {spec: {template: {spec: {domain: {cpu: {cores: 3}}}}}}}}"
	stored := strings.Replace(plain, "metadata: {", "metadata: {uid: a, resourceVersion: '1', ", 1)
	out := new(Evaluator).Evaluate(t.Context(), Input{VM: stored, Presets: preset})
	if len(out.VMs) != 1 || slices.ContainsFunc(out.Problems, func(p Problem) bool { return p.Severity == "error" }) || !strings.Contains(out.VMs[0].Expanded, "cores: 3") || strings.Contains(out.VMs[0].Expanded, "resourceVersion") {
		t.Errorf("got %+v", out)
	}
}

// TestMoreVMs: the page does not say that VMs are accepted which it does not read.
func TestMoreVMs(t *testing.T) {
	var all []string
	for i := range maxVMs + 2 {
		all = append(all, strings.Replace(plain, "name: ", fmt.Sprintf("name: v%d", i), 1))
	}
	if out := new(Evaluator).Evaluate(t.Context(), Input{VM: strings.Join(all, "\n---\n")}); out.More != 2 || len(out.VMs) != maxVMs {
		t.Errorf("got %d VMs, %d more", len(out.VMs), out.More)
	}
}
