// Package validationtest contains fixtures of every rule: objects that the rule rejects, and
// similar objects that it admits.
package validationtest

import (
	"context"
	"embed"
	"encoding/json"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/validation"
)

//go:embed rules/*.yaml
var files embed.FS

// A Verdict is the expected result of a fixture.
type Verdict string

// Verdicts.
const (
	Good   Verdict = "good"   // admitted without a warning of this rule
	Bad    Verdict = "bad"    // rejected by this rule and no other
	Warned Verdict = "warned" // admitted, with a warning of this rule
)

// A Fixture is one object, with the expected result of its rule.
type Fixture struct {
	// Rule is the ID of the rule.
	Rule string `json:"-"`
	// Name is unique among the fixtures of a rule.
	Name string `json:"name"`
	// Verdict is the expected result.
	Verdict Verdict `json:"verdict"`
	// Fields are the paths of the problems, in order.
	Fields []string `json:"fields,omitempty"`
	// Says is a part of the message.
	Says string `json:"says,omitempty"`
	// Gates overrides feature gates.
	Gates map[validation.Gate]bool `json:"gates,omitempty"`
	// Config is the other configuration; the zero value has KubeVirt's defaults.
	Config validation.Config `json:"config,omitzero"`
	// Old is the stored object of an update.
	Old map[string]any `json:"old,omitempty"`
	// Object is a VM or a VMI. It may lack apiVersion, metadata and fields with platform defaults.
	// Without memory and instancetype, its memory is 64Mi. A VM without run strategy is halted.
	Object map[string]any `json:"object"`
	// Bare disables these defaults.
	Bare bool `json:"bare,omitempty"`
}

// Fixtures returns all fixtures by the ID of their rule.
func Fixtures(t testing.TB) map[string][]Fixture {
	t.Helper()
	entries, err := files.ReadDir("rules")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]Fixture{}
	for _, entry := range entries {
		content, err := files.ReadFile("rules/" + entry.Name())
		if err != nil {
			t.Fatal(err)
		}
		var fixtures []Fixture
		if err := yaml.UnmarshalStrict(content, &fixtures); err != nil {
			t.Fatalf("%s: %v", entry.Name(), err)
		}
		id := strings.TrimSuffix(entry.Name(), ".yaml")
		for i := range fixtures {
			fixtures[i].Rule = id
			fixtures[i].Config.Gates = fixtures[i].Gates
		}
		out[id] = fixtures
	}
	return out
}

// Manifest returns the object with these defaults, as JSON.
func (f *Fixture) Manifest(t testing.TB) []byte { return f.manifest(t, f.Object) }

func (f *Fixture) manifest(t testing.TB, object map[string]any) []byte {
	t.Helper()
	object["apiVersion"] = "kubevirt.io/v1"
	meta := child(object, "metadata")
	if meta["name"] == nil {
		meta["name"] = "web"
	}
	if meta["namespace"] == nil {
		meta["namespace"] = "shop"
	}
	if !f.Bare {
		giveMemory(object)
		giveRunState(object)
	}
	raw, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// giveMemory sets the default memory.
func giveMemory(object map[string]any) {
	spec := child(object, "spec")
	if object["kind"] == string(presets.VirtualMachine) {
		if spec["instancetype"] != nil {
			return
		}
		spec = child(child(spec, "template"), "spec")
	}
	domain := child(spec, "domain")
	resources, _ := domain["resources"].(map[string]any)
	if domain["memory"] == nil && resources["requests"] == nil && resources["limits"] == nil {
		domain["memory"] = map[string]any{"guest": "64Mi"}
	}
}

// giveRunState sets the run strategy, as platform defaults do in standalone mode.
func giveRunState(object map[string]any) {
	if spec := child(object, "spec"); object["kind"] == string(presets.VirtualMachine) && spec["running"] == nil && spec["runStrategy"] == nil {
		spec["runStrategy"] = "Halted"
	}
}

func child(of map[string]any, name string) map[string]any {
	found, ok := of[name].(map[string]any)
	if !ok {
		found = map[string]any{}
		of[name] = found
	}
	return found
}

// ExpandedVM returns the object, expanded and decoded, with its Old.
func (f *Fixture) ExpandedVM(t testing.TB) *validation.ExpandedVM {
	t.Helper()
	m := f.expandedVM(t, f.Object)
	if f.Old != nil {
		m.Old = f.expandedVM(t, f.Old)
	}
	return m
}

func (f *Fixture) expandedVM(t testing.TB, object map[string]any) *validation.ExpandedVM {
	t.Helper()
	kind, _ := object["kind"].(string)
	raw := f.manifest(t, object)
	if !f.Bare {
		raw = f.expanded(t, presets.Kind(kind), raw)
	}
	decode := validation.NewVirtualMachineInstance
	if kind == string(presets.VirtualMachine) {
		decode = validation.NewVirtualMachine
	}
	m, err := decode(raw)
	if err != nil {
		t.Fatalf("%s/%s: %v", f.Rule, f.Name, err)
	}
	return m
}

// expanded returns raw with platform defaults.
func (f *Fixture) expanded(t testing.TB, kind presets.Kind, raw []byte) []byte {
	t.Helper()
	engine := &presets.Engine{Platform: &presets.Platform{Architecture: f.Config.Architecture}}
	if f.Config.Addon {
		engine.Platform = nil
	}
	result, err := engine.Resolve(context.Background(), presets.NewSnapshot(nil, nil), presets.Request{Kind: kind, Object: raw})
	if err != nil {
		t.Fatalf("%s/%s: %v", f.Rule, f.Name, err)
	}
	out, err := json.Marshal(result.Object())
	if err != nil {
		t.Fatal(err)
	}
	return out
}
