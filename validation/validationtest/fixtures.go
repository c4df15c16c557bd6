// Package validationtest has the fixtures of every rule: machines that the rule
// refuses, and machines near them that it does not.
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

// A Verdict is what a rule says of a fixture.
type Verdict string

// Verdicts.
const (
	Good   Verdict = "good"   // nothing
	Bad    Verdict = "bad"    // refused, by this rule and no other
	Warned Verdict = "warned" // admitted, with a warning of this rule
)

// A Fixture is one machine and what its rule says of it.
type Fixture struct {
	// Rule is the ID of the rule.
	Rule string `json:"-"`
	// Name tells the fixtures of one rule apart.
	Name string `json:"name"`
	// Verdict is what the rule says.
	Verdict Verdict `json:"verdict"`
	// Fields are the paths of the problems, in order.
	Fields []string `json:"fields,omitempty"`
	// Says is a part of the message.
	Says string `json:"says,omitempty"`
	// Gates are switched for this fixture.
	Gates map[validation.Gate]bool `json:"gates,omitempty"`
	// Config is the rest of the setup; the zero value is KubeVirt's defaults.
	Config validation.Config `json:"config,omitzero"`
	// Old is what is stored, for an update.
	Old map[string]any `json:"old,omitempty"`
	// Object is a VirtualMachine, or a VirtualMachineInstance. It may leave out
	// apiVersion, metadata and what platform defaults fill in; memory is 64Mi
	// where it says nothing of memory or an instancetype, and a VirtualMachine
	// that says nothing of running is halted.
	Object map[string]any `json:"object"`
	// Bare says that none of this is filled in.
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

// Manifest is the object with what every manifest has, as JSON.
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

// giveMemory sets what almost every machine must have.
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

// giveRunState sets what platform defaults set in standalone mode.
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

// Machine is the fixture expanded and decoded, with its Old.
func (f *Fixture) Machine(t testing.TB) *validation.Machine {
	t.Helper()
	m := f.machine(t, f.Object)
	if f.Old != nil {
		m.Old = f.machine(t, f.Old)
	}
	return m
}

func (f *Fixture) machine(t testing.TB, object map[string]any) *validation.Machine {
	t.Helper()
	kind, _ := object["kind"].(string)
	raw := f.manifest(t, object)
	if !f.Bare {
		raw = f.expanded(t, presets.Kind(kind), raw)
	}
	decode := validation.NewInstance
	if kind == string(presets.VirtualMachine) {
		decode = validation.NewVirtualMachine
	}
	m, err := decode(raw)
	if err != nil {
		t.Fatalf("%s/%s: %v", f.Rule, f.Name, err)
	}
	return m
}

// expanded is raw with platform defaults.
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
