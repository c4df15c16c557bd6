package fleet_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/google/go-cmp/cmp"

	"github.com/virtwright/virtwright/fleet"
	"github.com/virtwright/virtwright/presets"
)

// origins are fields of a VM by path.
func origins(t *testing.T, fields map[string]any) []presets.Origin {
	t.Helper()
	var out []presets.Origin
	for text, value := range fields {
		path, err := presets.ParsePath(text)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, presets.Origin{Path: path, Value: value})
	}
	return out
}

// TestChanges tests the effects on a running VM. KubeVirt adds sockets and memory to a running VMI,
// but does not remove them.
func TestChanges(t *testing.T) {
	const (
		sockets = "spec.template.spec.domain.cpu.sockets"
		memory  = "spec.template.spec.domain.memory.guest"
		request = "spec.template.spec.domain.resources.requests.memory"
		limit   = "spec.template.spec.domain.resources.limits.memory"
		cores   = "spec.template.spec.domain.cpu.cores"
		sev     = "spec.template.spec.domain.launchSecurity.sev"
		arch    = "spec.template.spec.architecture"
		nic     = "spec.template.spec.domain.devices.interfaces[more]."
		net     = "spec.template.spec.networks[more]."
		volume  = "spec.template.spec.volumes[data]."
	)
	type fields map[string]any
	for name, test := range map[string]struct {
		before, after fields
		want          []fleet.Effect
	}{
		"more sockets":               {fields{sockets: int64(1)}, fields{sockets: int64(2)}, []fleet.Effect{fleet.EffectMigration}},
		"the first sockets":          {fields{}, fields{sockets: int64(2)}, []fleet.Effect{fleet.EffectMigration}},
		"fewer sockets":              {fields{sockets: int64(2)}, fields{sockets: int64(1)}, []fleet.Effect{fleet.EffectRestart}},
		"no sockets":                 {fields{sockets: int64(2)}, fields{}, []fleet.Effect{fleet.EffectRestart}},
		"too many sockets":           {fields{sockets: int64(2), sockets[:len(sockets)-7] + "maxSockets": int64(4)}, fields{sockets: int64(8), sockets[:len(sockets)-7] + "maxSockets": int64(4)}, []fleet.Effect{fleet.EffectRestart}},
		"more sockets of ARM":        {fields{sockets: int64(1), arch: "arm64"}, fields{sockets: int64(2), arch: "arm64"}, []fleet.Effect{fleet.EffectRestart}},
		"more memory":                {fields{memory: "1Gi"}, fields{memory: "2048Mi"}, []fleet.Effect{fleet.EffectMigration}},
		"less memory":                {fields{memory: "1Gi"}, fields{memory: "512Mi"}, []fleet.Effect{fleet.EffectRestart}},
		"too much memory":            {fields{memory: "1Gi", memory[:len(memory)-5] + "maxGuest": "4Gi"}, fields{memory: "5Gi", memory[:len(memory)-5] + "maxGuest": "4Gi"}, []fleet.Effect{fleet.EffectRestart}},
		"more than the default":      {fields{memory: "1Gi"}, fields{memory: "8Gi"}, []fleet.Effect{fleet.EffectRestart}},
		"up to the default":          {fields{memory: "1Gi"}, fields{memory: "4Gi"}, []fleet.Effect{fleet.EffectMigration}},
		"a small guest":              {fields{memory: "512Mi"}, fields{memory: "1Gi"}, []fleet.Effect{fleet.EffectRestart}},
		"a part of a block":          {fields{memory: "1Gi"}, fields{memory: "1025Mi"}, []fleet.Effect{fleet.EffectRestart}},
		"more than the request":      {fields{request: "1Gi"}, fields{request: "1Gi", memory: "2Gi"}, []fleet.Effect{fleet.EffectMigration}},
		"an encrypted guest":         {fields{memory: "1Gi", sev: map[string]any{}}, fields{memory: "2Gi", sev: map[string]any{}}, []fleet.Effect{fleet.EffectRestart}},
		"memory of ARM":              {fields{memory: "1Gi", arch: "arm64"}, fields{memory: "2Gi", arch: "arm64"}, []fleet.Effect{fleet.EffectRestart}},
		"more than the limit":        {fields{limit: "1Gi"}, fields{limit: "1Gi", memory: "2Gi"}, []fleet.Effect{fleet.EffectMigration}},
		"more vCPUs than 512":        {fields{sockets: int64(40), cores: int64(4)}, fields{sockets: int64(150), cores: int64(4)}, []fleet.Effect{fleet.EffectRestart}},
		"many sockets":               {fields{sockets: int64(1)}, fields{sockets: int64(8)}, []fleet.Effect{fleet.EffectRestart}},
		"another spelling":           {fields{memory: "4Gi"}, fields{memory: "4096Mi"}, nil},
		"an added network":           {fields{}, fields{nic + "name": "more", nic + "bridge": map[string]any{}, net + "name": "more", net + "multus.networkName": "a"}, []fleet.Effect{fleet.EffectMigration, fleet.EffectMigration, fleet.EffectMigration, fleet.EffectMigration}},
		"an added pod network":       {fields{}, fields{net + "name": "more", net + "pod": map[string]any{}}, []fleet.Effect{fleet.EffectRestart, fleet.EffectRestart}},
		"a removed network":          {fields{net + "name": "more", net + "multus.networkName": "a"}, fields{}, []fleet.Effect{fleet.EffectRestart, fleet.EffectRestart}},
		"another network":            {fields{net + "name": "more", net + "multus.networkName": "a"}, fields{net + "name": "more", net + "multus.networkName": "b"}, []fleet.Effect{fleet.EffectMigration}},
		"a plugged volume":           {fields{}, fields{volume + "name": "data", volume + "dataVolume.hotpluggable": true}, []fleet.Effect{fleet.EffectNone, fleet.EffectNone}},
		"an unplugged volume":        {fields{volume + "name": "data", volume + "dataVolume.hotpluggable": true}, fields{}, []fleet.Effect{fleet.EffectNone, fleet.EffectNone}},
		"a volume no longer plugged": {fields{volume + "name": "data", volume + "dataVolume.hotpluggable": true}, fields{volume + "name": "data"}, []fleet.Effect{fleet.EffectRestart}},
		"a selector":                 {fields{"spec.template.spec.nodeSelector.zone": "a"}, fields{"spec.template.spec.nodeSelector.zone": "b"}, []fleet.Effect{fleet.EffectMigration}},
	} {
		var got []fleet.Effect
		for _, c := range fleet.Changes(origins(t, test.before), origins(t, test.after), fleet.LiveUpdates) {
			got = append(got, c.Effect)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: want -, got +\n%s", name, diff)
		}
	}
}

// TestCompareRejections compares reasons without hints, which depend on presets.
func TestCompareRejections(t *testing.T) {
	problems := func(errs ...*field.Error) []presets.Problem { return presets.ProblemsOf(errs) }
	at := func(name string) *field.Path { return field.NewPath("spec", name) }
	before := fleet.Outcome{Problems: problems(
		field.Required(at("a"), "a is missing; preset cluster/x gives a to VMs with size=s; this VM has size=m").WithOrigin("rule/a"),
		field.Invalid(at("b"), "x", `unknown; did you mean "y"?`).WithOrigin("rule/b"),
		field.Invalid(at("c"), "x", "must be small (set by preset cluster/x)").WithOrigin("rule/c"),
		field.Forbidden(at("e"), "preset cluster/x computes this field: no such key").WithOrigin("presets/cluster/x"),
	)}
	after := fleet.Outcome{Problems: problems(
		field.Required(at("a"), "a is missing").WithOrigin("rule/a"),
		field.Invalid(at("b"), "x", `unknown; did you mean "z"?`).WithOrigin("rule/b"),
		field.Invalid(at("c"), "x", "must be small (set by preset cluster/y)").WithOrigin("rule/c"),
		field.Forbidden(at("e"), "preset cluster/x computes this field: no such key").WithOrigin("presets/cluster/x"),
	)}
	if d := fleet.Compare(before, after, fleet.NoUpdates); !d.Empty() {
		t.Errorf("want no new reason, got %q", d.Problems)
	}
	for _, other := range []*field.Error{
		field.Required(at("d"), ""),
		field.Invalid(at("b"), "z", `unknown; did you mean "y"?`).WithOrigin("rule/b"),
		field.Invalid(at("b"), "x", "must be short").WithOrigin("rule/short"),
		field.Forbidden(at("a"), "must not be set"),
		field.Forbidden(at("e"), "preset cluster/x computes this field: division by zero").WithOrigin("presets/cluster/x"),
	} {
		after := fleet.Outcome{Problems: append(slices.Clip(after.Problems), problems(other)...)}
		if diff := cmp.Diff([]string{other.Error()}, fleet.Compare(before, after, fleet.NoUpdates).Problems); diff != "" {
			t.Errorf("want -, got +\n%s", diff)
		}
	}
}

// TestPlanHidesSecrets groups VMs by the text that is printed for a secret.
func TestPlanHidesSecrets(t *testing.T) {
	const path = "spec.template.spec.volumes[init].cloudInitNoCloud.userData"
	empty := presets.NewSnapshot(nil, nil)
	plan := fleet.NewPlan(t.Context(), empty, empty)
	for vm, value := range map[string]string{"a/1": "secret-1", "a/2": "secret-1", "a/3": "secret-2"} {
		plan.Add(vm, false, fleet.Compare(fleet.Outcome{Fields: origins(t, map[string]any{path: "secret-0"})}, fleet.Outcome{Fields: origins(t, map[string]any{path: value})}, fleet.NoUpdates))
	}
	plan.Finish()
	text, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	if len(plan.Groups) != 1 || strings.Contains(string(text), "secret-") || !strings.Contains(string(text), `"before":"(hidden)","after":"(hidden)"`) {
		t.Errorf("got %s", text)
	}
}

// TestPlanIncomplete compares no conflicts if the analysis of one side is incomplete.
func TestPlanIncomplete(t *testing.T) {
	set := func(n int) *presets.Snapshot {
		var text []string
		for i := range n {
			text = append(text, fmt.Sprintf("kind: ClusterVirtualMachinePreset\nmetadata: {name: p%d}\nspec: {defaults: {spec: {template: {spec: {domain: {cpu: {cores: %d}}}}}}}\n", i, i+1))
		}
		all, _, _ := compiled(t, strings.Join(text, "---\n"))
		return presets.NewSnapshot(all, nil)
	}
	plan := fleet.NewPlan(t.Context(), set(2), set(1200))
	if !plan.Incomplete || len(plan.Conflicts)+len(plan.Solved) > 0 {
		t.Errorf("incomplete: %v, %d conflicts", plan.Incomplete, len(plan.Conflicts))
	}
	if plan = fleet.NewPlan(t.Context(), set(1), set(2)); plan.Incomplete || len(plan.Conflicts) != 1 {
		t.Errorf("incomplete: %v, %d conflicts", plan.Incomplete, len(plan.Conflicts))
	}
}
