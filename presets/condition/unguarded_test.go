package condition

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
)

func TestUnguarded(t *testing.T) {
	for text, want := range map[string]string{
		"true":                                  "",
		"object.metadata.labels['tier'] == 'x'": "object.metadata.labels object.metadata.labels.tier",
		"object.metadata.labels.tier == 'x'":    "object.metadata.labels object.metadata.labels.tier",
		"has(object.metadata.labels) && object.metadata.labels.tier == 'x'":                                        "object.metadata.labels.tier",
		"has(object.metadata.labels) && has(object.metadata.labels.tier) && object.metadata.labels.tier == 'x'":    "",
		"has(object.metadata.labels) && 'tier' in object.metadata.labels && object.metadata.labels['tier'] == 'x'": "",
		"object.metadata.?labels.?tier.orValue('') == 'x'":                                                         "",
		"object.metadata.?labels[?'a/b'].orValue('') == 'x'":                                                       "",
		"object.metadata.?labels['a/b'].orValue('') == 'x'":                                                        "",
		"object.metadata.?labels.?tier.value() == 'x'":                                                             "object.metadata.labels object.metadata.labels.tier",
		"object.metadata.?labels.?tier.hasValue() && object.metadata.labels.tier == 'x'":                           "",
		"!has(object.spec.running) || object.spec.running":                                                         "",
		"has(object.spec.running) ? object.spec.running : false":                                                   "",
		"has(object.spec.running) ? false : object.spec.running":                                                   "object.spec.running",
		"object.spec.running":                                                     "object.spec.running",
		"!object.spec.running":                                                    "object.spec.running",
		"object.spec.running || true":                                             "",
		"object.metadata.namespace == 'lab'":                                      "",
		"object.metadata.name == 'lab'":                                           "object.metadata.name",
		"namespaceObject.metadata.annotations['net'] == 'x'":                      "namespaceObject.metadata.annotations.net",
		"namespaceObject.metadata.labels['kubernetes.io/metadata.name'] == 'lab'": "",
		"has(object.spec.template.spec.domain.devices.tpm)":                       "",
		"has(object.spec.template.spec.domain.cpu.cores)":                         "object.spec.template.spec.domain.cpu",
		"has(object.spec.template.spec.volumes) && object.spec.template.spec.volumes.exists(v, has(v.hostDisk))":            "",
		"object.spec.template.spec.volumes.exists(v, has(v.hostDisk))":                                                      "object.spec.template.spec.volumes",
		"has(object.spec.template.spec.volumes) && object.spec.template.spec.volumes.exists(v, v.name == 'root')":           "",
		"has(object.spec.template.spec.volumes) && object.spec.template.spec.volumes.all(v, v.containerDisk.image != 'x')":  "object.spec.template.spec.volumes[].containerDisk",
		"has(object.spec.template.spec.volumes) && object.spec.template.spec.volumes.filter(v, has(v.hostDisk)).size() > 1": "",
		"object.spec.template.spec.domain.devices.?disks.orValue([]).all(d, !has(d.bootOrder) || d.bootOrder == 1)":         "",
		"object.metadata.?labels.?tier.optMap(t, t == 'x').orValue(false)":                                                  "",
		"[object.spec.running].size() == 1":                        "object.spec.running",
		"{'a': object.spec.running}.size() == 1":                   "object.spec.running",
		"object.metadata.labels[object.metadata.namespace] == 'x'": "object.metadata.labels object.metadata.labels[KEY]",
		// selections through functions and macros
		"object.metadata.?labels.orValue({})['tier'] == 'x'":                                                                      "object.metadata.labels object.metadata.labels.tier",
		"object.metadata.?labels.optMap(l, l['tier'] == 'x').orValue(false)":                                                      "object.metadata.labels.tier",
		"(has(object.metadata.labels) ? object.metadata.labels : {})['tier'] == 'x'":                                              "object.metadata.labels object.metadata.labels.tier",
		"has(object.metadata.labels) && dyn(object.metadata.labels)['tier'] == 'x'":                                               "object.metadata.labels.tier",
		"[object].all(o, o.metadata.labels.tier == 'x')":                                                                          "object.metadata.labels object.metadata.labels.tier",
		"object.spec.template.spec.domain.devices.?disks.orValue([]).all(d, d.disk.bus == 'virtio')":                              "object.spec.template.spec.domain.devices.disks[].disk object.spec.template.spec.domain.devices.disks[].disk.bus",
		"object.spec.template.spec.domain.devices.?disks.orValue([]).filter(d, has(d.cdrom)).all(d, d.cdrom.bus == 'sata')":       "object.spec.template.spec.domain.devices.disks[].cdrom.bus",
		"object.spec.template.spec.?volumes.orValue([]).exists(v, v.hostDisk.path == 'x')":                                        "object.spec.template.spec.volumes[].hostDisk",
		"has(object.metadata.labels) && ['tier', 'owner'].all(k, object.metadata.labels[k] != '')":                                "object.metadata.labels[KEY]",
		"has(object.metadata.labels) && ['tier', 'owner'].all(k, k in object.metadata.labels && object.metadata.labels[k] != '')": "",
		// other forms of guards
		"object.metadata.?labels.?tier.hasValue() == true && object.metadata.labels.tier == 'x'":                                                      "",
		"object.metadata.?labels.?tier != optional.none() && object.metadata.labels.tier == 'x'":                                                      "",
		"('tier' in object.metadata.?labels.orValue({})) != false && object.metadata.labels.tier == 'x'":                                              "",
		"'tier' in object.metadata.?labels.orValue({}) && object.metadata.labels.tier == 'x'":                                                         "",
		"has(object.metadata.?labels.tier) && object.metadata.labels.tier == 'x'":                                                                     "",
		"has(object.metadata.name) ? object.metadata.name == 'a' : object.metadata.generateName == 'b'":                                               "",
		"has(object.spec.template.spec.volumes) && object.spec.template.spec.volumes.exists(v, has(v.containerDisk) && v.containerDisk.image == 'x')": "",
		"int(object.metadata.?annotations.?cores.orValue('1')) > 2":                                                                                   "",
		// conversions of the fallback
		"int(object.metadata.?annotations.?cores.orValue('')) > 2":                                                             "object.metadata.annotations object.metadata.annotations.cores",
		"quantity(object.metadata.?labels.?memory.orValue('ten')).isGreaterThan(quantity('1Gi'))":                              "object.metadata.labels object.metadata.labels.memory",
		"object.metadata.?labels.?memory.hasValue() && quantity(object.metadata.labels.memory).isGreaterThan(quantity('1Gi'))": "",
	} {
		var got []string
		for _, selection := range unguardedIn(text) {
			got = append(got, celPath(selection))
		}
		if env, err := policyEnv(); err != nil {
			t.Fatal(err)
		} else if _, issues := env.Compile(text); issues.Err() != nil {
			t.Errorf("%s: %v", text, issues.Err())
		}
		if g := strings.Join(got, " "); g != want {
			t.Errorf("%s: unguarded %q, want %q", text, g, want)
		}
	}
}

func TestGuardAdvice(t *testing.T) {
	for text, want := range map[string]string{
		"object.metadata.labels['tier'] == 'x'":                        "object.metadata.labels.tier; write object.metadata.?labels.?tier.orValue('') instead",
		"object.metadata.labels['example.com/tier'] == 'x'":            "object.metadata.labels['example.com/tier']; write object.metadata.?labels[?'example.com/tier'].orValue('') instead",
		"int(object.metadata.labels['cores']) > 2":                     "object.metadata.labels.cores; write object.metadata.?labels.?cores.orValue('1') instead",
		"int(object.metadata.?labels.?cores.orValue('')) > 2":          "object.metadata.labels.cores; write object.metadata.?labels.?cores.orValue('1') instead",
		"duration(object.metadata.labels['timeout']) > duration('1s')": "object.metadata.labels.timeout; write object.metadata.?labels.?timeout.orValue('1s') instead",
		"object.metadata.labels['in'] == 'x'":                          "object.metadata.labels['in']; write object.metadata.?labels[?'in'].orValue('') instead",
		"object.spec.running || has(object.spec.template.spec.domain.cpu.cores)": "object.spec.running or object.spec.template.spec.domain.cpu; " +
			"write object.spec.?running.orValue(false) and object.spec.template.spec.domain.?cpu.orValue({}) instead",
		"object.spec.template.spec.domain.cpu.cores > 2":                                             "object.spec.template.spec.domain.cpu.cores; write object.spec.template.spec.domain.?cpu.?cores.orValue(0) instead",
		"object.spec.template.spec.volumes.exists(v, has(v.hostDisk))":                               "object.spec.template.spec.volumes; write object.spec.template.spec.?volumes.orValue([]) instead",
		"object.spec.template.spec.domain.devices.?disks.orValue([]).all(d, d.disk.bus == 'virtio')": "object.spec.template.spec.domain.devices.disks[].disk.bus; write x.?disk.?bus.orValue('') instead",
		"namespaceObject.metadata.annotations['net'] == 'x'":                                         "namespaceObject.metadata.annotations.net; write namespaceObject.metadata.annotations.?net.orValue('') instead",
	} {
		a, selections := analyzed(text)
		if got := a.advice(selections); got != "fails for VMs without "+want {
			t.Errorf("%s: got\n%s\nwant\n%s", text, got, "fails for VMs without "+want)
		}
		for _, s := range selections {
			if form := a.optionalForm(s); strings.HasPrefix(form, "object.") || strings.HasPrefix(form, "namespaceObject.") {
				if len(unguardedIn(form)) > 0 {
					t.Errorf("%s: the advice %s does not compile, or may fail too", text, form)
				}
			}
		}
	}
}

func unguardedIn(text string) []string {
	_, selections := analyzed(text)
	return selections
}

func analyzed(text string) (*analysis, []string) {
	a := &analysis{steps: AllSteps}
	checked, err := checkedSyntax(text)
	if err != nil {
		return a, []string{"does not compile"}
	}
	return a, a.unguarded(checked)
}

func checkedSyntax(text string) (ast.Expr, error) {
	parsed, err := new(Compiler).parse(text)
	if err != nil {
		return nil, err
	}
	checked, err := parsed.check()
	if err != nil {
		return nil, err
	}
	return checked.NativeRep().Expr(), nil
}

// TestUnguardedIsComplete evaluates random expressions on random objects: one that fails for a
// missing key was reported.
func TestUnguardedIsComplete(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	selection := func() string {
		return pick("object.metadata.labels.a", "object.metadata.labels['b']", "object.spec.running", "object.metadata.annotations['x/y']",
			"object.spec.template.spec.volumes", "namespaceObject.metadata.annotations.a", "object.metadata.labels", "object.spec.template.spec.architecture")
	}
	var expression func(depth int) string
	atom := func() string {
		s := selection()
		cut := strings.LastIndexAny(s, ".[")
		switch r.IntN(6) {
		case 0:
			return s + " == 'a'"
		case 1:
			return "'" + strings.Trim(s[cut:], ".[']") + "' in " + s[:cut]
		case 2:
			if s[cut] == '.' {
				return "has(" + s + ")"
			}
			return "has(object.metadata.labels)"
		case 3:
			return "object.metadata.?labels.?" + pick("a", "b") + ".orValue('') == 'a'"
		case 4:
			return "object.spec.template.spec.volumes.exists(v, " + pick("has(v.hostDisk)", "v.hostDisk.path == 'a'", "v.name == 'a'", "has(v.hostDisk) && v.hostDisk.path == 'a'") + ")"
		}
		return pick("true", "false")
	}
	expression = func(depth int) string {
		if depth == 0 {
			return atom()
		}
		a, b := expression(depth-1), expression(depth-1)
		switch r.IntN(5) {
		case 0:
			return "(" + a + " && " + b + ")"
		case 1:
			return "(" + a + " || " + b + ")"
		case 2:
			return "!(" + a + ")"
		case 3:
			return "(" + a + " ? " + b + " : " + expression(depth-1) + ")"
		}
		return "(has(object.metadata.labels) && has(object.metadata.labels.a) && object.metadata.labels.a == 'a')"
	}
	maybe := func(in map[string]any, key string, value any) {
		if r.IntN(2) == 0 {
			in[key] = value
		}
	}
	failed, guarded := 0, 0
	for range 1_000 {
		text := expression(1 + r.IntN(3))
		compiled, err := new(Compiler).Compile(text, "must be true or false", cel.BoolType)
		if err != nil {
			continue
		}
		labels, meta, spec, annotations, template := map[string]any{}, map[string]any{"namespace": "lab"}, map[string]any{}, map[string]any{}, map[string]any{}
		maybe(labels, "a", pick("a", "b"))
		maybe(labels, "b", pick("a", "b"))
		maybe(meta, "labels", labels)
		maybe(annotations, "a", "a")
		maybe(meta, "annotations", map[string]any{"x/y": "a"})
		maybe(spec, "running", true)
		maybe(template, "architecture", "amd64")
		maybe(template, "volumes", []any{map[string]any{"name": "a"}, map[string]any{"name": "b", "hostDisk": map[string]any{"path": pick("a", "b")}}})
		spec["template"] = map[string]any{"spec": template}
		namespace := map[string]any{"metadata": map[string]any{"name": "lab", "labels": map[string]any{}, "annotations": annotations}}
		e := Evaluation{
			Context: t.Context(), Budget: MaxCost, Object: map[string]any{"metadata": meta, "spec": spec},
			Namespace: func() map[string]any { return namespace },
		}
		found := unguardedIn(text)
		if len(found) == 0 {
			guarded++
		}
		if _, err := e.Value(compiled); err != nil && strings.Contains(err.Error(), "no such key") {
			if failed++; len(found) == 0 {
				t.Fatalf("%s: %v, and nothing was reported", text, err)
			}
		}
	}
	if failed < 50 || guarded < 50 {
		t.Errorf("only %d failed and %d were guarded", failed, guarded)
	}
}

// TestUnguardedIsBounded checks that nested macros end the analysis, and not the webhook.
func TestUnguardedIsBounded(t *testing.T) {
	text := "object.spec.running"
	for name := range strings.SplitSeq("abcdefghijklmnopqrst", "") {
		text = "[1].all(" + name + ", " + text + ")"
	}
	a := analysis{steps: AllSteps}
	checked, err := checkedSyntax(text)
	if err != nil {
		t.Fatal(err)
	}
	a.unguarded(checked)
	if a.steps > 0 {
		t.Errorf("the expression took %d steps: it does not reach the bound", AllSteps-a.steps)
	}
}
