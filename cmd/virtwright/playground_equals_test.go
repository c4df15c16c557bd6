package main

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/cmd/virtwright/internal/playground"
	"github.com/virtwright/virtwright/simulate/originreport"
	"github.com/virtwright/virtwright/test/cases"
)

// TestPlaygroundEqualsCommands compares the results of the compiled engine with those of expand,
// explain, validate and render: for the examples, for the manifests of VIRTWRIGHT_CORPUS, and for
// generated VMs and presets.
func TestPlaygroundEqualsCommands(t *testing.T) {
	c := openHarness(t, buildEngine(t))
	c.start("engine.wasm.gz", playground.Input{})
	evaluate := func(in playground.Input) playground.Output {
		out, _ := c.evaluate(in)
		return out
	}
	named := exampleInputs(t)
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for name := range named {
			if !yield(name) {
				return
			}
		}
	}) {
		for _, mode := range []string{modeStandalone, modeAddon} {
			t.Run(name+"/"+mode, func(t *testing.T) {
				in := named[name]
				in.Mode = mode
				equalsCommands(t, in, evaluate(in))
			})
		}
	}
	r := rand.New(rand.NewSource(1))
	accepted := 0
	count := cases.Of(400)
	for i := range count {
		in := generated(t, r, named)
		t.Run(fmt.Sprintf("generated %d", i), func(t *testing.T) {
			if equalsCommands(t, in, evaluate(in)) {
				accepted++
			}
			if t.Failed() {
				t.Logf("mode %s, VM:\n%s\npresets:\n%s", in.Mode, in.VM, in.Presets)
			}
		})
	}
	t.Logf("%d of %d generated VMs are accepted", accepted, count)
	if accepted < count/10 || accepted > count*9/10 {
		t.Error("the generator should create valid and invalid VMs")
	}
}

// exampleInputs combines each VM of the examples and of the corpus with sets of presets.
func exampleInputs(t *testing.T) map[string]playground.Input {
	t.Helper()
	joined := func(patterns ...string) string {
		var texts []string
		for _, pattern := range patterns {
			files, err := filepath.Glob(pattern)
			if err != nil || len(files) == 0 {
				t.Fatalf("no file %s: %v", pattern, err)
			}
			for _, file := range files {
				texts = append(texts, read(t, file))
			}
		}
		return strings.Join(texts, "\n---\n")
	}
	sets := map[string]string{
		"nothing":   "",
		"presets":   joined(examplePresets+"/*.yaml", "../../examples/profiles/*.yaml", exampleNamespaces),
		"catalogue": joined("../../examples/catalogue/*.yaml"),
	}
	var vms []string
	for _, pattern := range []string{exampleVMs, exampleRejected, "../../examples/import", os.Getenv("VIRTWRIGHT_CORPUS") + "/"} {
		files, err := filepath.Glob(pattern + "/*.yaml")
		if err != nil {
			t.Fatal(err)
		}
		vms = append(vms, files...)
	}
	out := map[string]playground.Input{}
	for _, file := range vms {
		for set, presets := range sets {
			out[filepath.Base(file)+" with "+set] = playground.Input{VM: read(t, file), Presets: presets}
		}
	}
	return out
}

// generated combines a VM of the examples with some presets, and changes fields of both.
func generated(t *testing.T, r *rand.Rand, from map[string]playground.Input) playground.Input {
	t.Helper()
	var out playground.Input
	names := make([]string, 0, len(from))
	for name := range from {
		names = append(names, name)
	}
	slices.Sort(names)
	base := from[names[r.Intn(len(names))]]
	change := func(text string, chance int) string {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(text), &object); err != nil || object == nil {
			return text
		}
		for r.Intn(100) < chance {
			scramble(r, object)
		}
		changed, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		return string(changed)
	}
	var vms, presets []string
	for document := range strings.SplitSeq(base.VM, "\n---\n") {
		vms = append(vms, change(document, 40))
	}
	for document := range strings.SplitSeq(base.Presets, "\n---\n") {
		if r.Intn(3) > 0 {
			presets = append(presets, change(document, 5))
		}
	}
	out.VM, out.Presets, out.Mode = strings.Join(vms, "---\n"), strings.Join(presets, "---\n"), modeStandalone
	if r.Intn(3) == 0 {
		out.Mode = modeAddon
	}
	return out
}

// scramble changes one random field: it removes it, gives it another value, or adds a neighbour.
func scramble(r *rand.Rand, in any) {
	switch in := in.(type) {
	case map[string]any:
		if len(in) == 0 {
			return
		}
		keys := make([]string, 0, len(in))
		for key := range in {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		key := keys[r.Intn(len(keys))]
		switch r.Intn(8) {
		case 0:
			delete(in, key)
		case 1:
			in[key+"x"] = in[key]
		case 2:
			in[key] = []any{"virtio", int64(4), true, "2Gi", "", map[string]any{}, nil}[r.Intn(7)]
		default:
			scramble(r, in[key])
		}
	case []any:
		if len(in) > 0 {
			scramble(r, in[r.Intn(len(in))])
		}
	}
}

// equalsCommands compares a result with those of the commands, and reports whether a cluster would
// accept all VMs.
func equalsCommands(t *testing.T, in playground.Input, got playground.Output) (accepted bool) {
	t.Helper()
	folder := t.TempDir()
	for name, text := range map[string]string{"presets.yaml": in.Presets, "vm.yaml": in.VM} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) outcome {
		out := call(t, "", append(args, "-f", folder, "--mode", in.Mode)...)
		names := strings.NewReplacer(folder+"/presets.yaml", "presets", folder+"/vm.yaml", "vm")
		return outcome{out.code, names.Replace(out.out), names.Replace(out.err)}
	}
	var report struct {
		Objects []struct {
			Kind               string
			Problems, Warnings []any
		}
	}
	checked := run("validate", "-o", "json")
	if checked.code == exitUsage {
		if len(got.VMs) > 0 && len(got.Problems) == 0 {
			t.Errorf("the commands cannot read the input: %s", checked.err)
		}
		return false
	}
	if err := json.Unmarshal([]byte(checked.out), &report); err != nil {
		t.Fatal(err)
	}
	var want, have []string
	for _, object := range report.Objects {
		for _, p := range object.Problems {
			p := p.(map[string]any)
			want = append(want, fmt.Sprintf("%s: %s", p["field"], p["message"]))
		}
	}
	for _, p := range got.Problems {
		if p.Severity == "error" {
			have = append(have, p.Field+": "+p.Message)
		}
	}
	rendered := run("render")
	for _, p := range want {
		if i := slices.Index(have, p); i >= 0 {
			have = slices.Delete(have, i, i+1)
		} else {
			t.Errorf("the engine lacks the problem %s", p)
		}
	}
	for _, p := range have { // of rendering, which validate does not do; render stops at invalid presets
		if rendered.code == exitFine || len(want) == 0 && !strings.Contains(rendered.err, p) {
			t.Errorf("only the engine has the problem %s", p)
		}
	}
	if len(got.VMs) == 1 && rendered.code == exitFine {
		var warnings []string
		for line := range strings.Lines(rendered.err) {
			if text, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "Warning: "); ok {
				warnings = append(warnings, text)
			}
		}
		if diff := cmp.Diff(rendered.out, got.VMs[0].Domain) + cmp.Diff(strings.Join(warnings, "\n"), strings.Join(got.VMs[0].Warnings, "\n")); diff != "" {
			t.Errorf("render: -command, +engine:\n%s", diff)
		}
	}
	expanded := run("expand", "-o", "json")
	if expanded.code == exitFine {
		equalsExpand(t, expanded.out, got.VMs)
	}
	explained := run("explain", "-o", "json")
	if explained.out != "" && len(want) == 0 {
		equalsExplain(t, explained.out, got.VMs)
	}
	return expanded.code == exitFine && len(got.VMs) > 0
}

// items returns the JSON of an object, or of the items of a list.
func items(t *testing.T, text string) []json.RawMessage {
	t.Helper()
	var list struct {
		Kind  string
		Items []json.RawMessage
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatal(err)
	}
	if list.Kind == "List" {
		return list.Items
	}
	return []json.RawMessage{json.RawMessage(text)}
}

func equalsExpand(t *testing.T, text string, vms []playground.VM) {
	t.Helper()
	want := items(t, text)
	if len(want) != len(vms) {
		t.Fatalf("%d VMs, not %d", len(vms), len(want))
	}
	for i, m := range vms {
		have, err := yaml.YAMLToJSON([]byte(m.Expanded))
		if err != nil {
			t.Fatal(err)
		}
		var a, b any
		if err := json.Unmarshal(want[i], &a); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(have, &b); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(a, b); diff != "" {
			t.Errorf("expand: -command, +engine:\n%s", diff)
		}
	}
}

func equalsExplain(t *testing.T, text string, vms []playground.VM) {
	t.Helper()
	want := items(t, text)
	if len(want) != len(vms) {
		t.Fatalf("%d VMs, not %d", len(vms), len(want))
	}
	for i, m := range vms {
		var x struct {
			Fields []struct {
				Path string
				originreport.Source
			}
			Presets []playground.Preset
		}
		if err := json.Unmarshal(want[i], &x); err != nil {
			t.Fatal(err)
		}
		var fields, lines []string
		for _, f := range x.Fields {
			fields = append(fields, strings.Join([]string{f.Path, f.From, f.String()}, " "))
		}
		for _, l := range m.Lines {
			typed := l.Path == "apiVersion" || l.Path == "kind" // explain lists them for VMs only
			if l.From != "" && !(typed && m.Kind == "VirtualMachineInstance") {
				lines = append(lines, strings.Join([]string{l.Path, l.From, l.By}, " "))
			}
		}
		slices.Sort(fields)
		slices.Sort(lines)
		if diff := cmp.Diff(slices.Compact(fields), slices.Compact(lines)); diff != "" {
			t.Errorf("explain: -command, +engine:\n%s", diff)
		}
		places := cmpopts.IgnoreFields(playground.Preset{}, "In", "Line")
		if diff := cmp.Diff(x.Presets, slices.Clip(m.Presets), places); diff != "" && len(x.Presets)+len(m.Presets) > 0 {
			t.Errorf("presets: -command, +engine:\n%s", diff)
		}
	}
}
