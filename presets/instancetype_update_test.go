package presets_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/test/presettest"
)

// TestUpdateInstancetype: an update that adds, changes or removes an instancetype gives the VM that
// a create would give.
func TestUpdateInstancetype(t *testing.T) {
	find := known(map[string]string{
		"VirtualMachineClusterInstancetype u1":  "{cpu: {guest: 2}, memory: {guest: 2Gi}}",
		"VirtualMachineClusterInstancetype gpu": "{cpu: {guest: 2}, memory: {guest: 2Gi}, nodeSelector: {pool: gpu}, annotations: {team: theirs}}",
	})
	sizes := cluster("sizes", "defaults: {spec: {template: {metadata: {annotations: {team: ours}}, spec: {nodeSelector: {pool: plain}, domain: {memory: {guest: 1Gi}, devices: {rng: {}}}}}}}")
	byDefault := cluster("typed", "defaults: {spec: {instancetype: {name: u1}}}")
	const (
		guest    = at + "memory.guest"
		selector = "spec.template.spec.nodeSelector"
		team     = "spec.template.metadata.annotations.team"
		name     = "spec.instancetype.name"
	)
	named := func(name string) string { return vm("spec: {instancetype: {name: " + name + "}}") }
	for title, c := range map[string]struct {
		typed     bool // a preset names an instancetype by default
		old, sent string
		want      map[string]string
	}{
		"Added":   {old: vm("spec: {}"), sent: named("u1"), want: map[string]string{guest: "", selector: `{"pool":"plain"}`, team: `"ours"`}},
		"Another": {old: named("u1"), sent: named("gpu"), want: map[string]string{guest: "", selector: "", team: ""}},
		"Back":    {old: named("gpu"), sent: named("u1"), want: map[string]string{guest: "", selector: `{"pool":"plain"}`, team: `"ours"`}},
		"Removed": {old: named("gpu"), sent: vm("spec: {template: {spec: {hostname: a}}}"), want: map[string]string{guest: `"1Gi"`, selector: `{"pool":"plain"}`, team: `"ours"`}},
		"MemoryWritten": {typed: true, old: vm("spec: {}"), sent: domain("{memory: {guest: 4Gi}}"),
			want: map[string]string{name: "", guest: `"4Gi"`}},
		"MemoryRemoved": {typed: true, old: domain("{memory: {guest: 4Gi}}"), sent: vm("spec: {}"),
			want: map[string]string{name: `"u1"`, guest: ""}},
	} {
		t.Run(title, func(t *testing.T) {
			in := list(sizes)
			if c.typed {
				in = append(in, byDefault)
			}
			snapshot := presettest.Snapshot(t, in...)
			resolve := func(object, old []byte) []byte {
				out, err := (&presets.Engine{}).Resolve(t.Context(), snapshot, presets.Request{
					Kind: presets.VirtualMachine, Object: object, OldObject: old, Namespace: presets.Namespace{Name: "lab"}, Instancetypes: find,
				})
				if err != nil {
					t.Fatal(err)
				}
				raw, err := json.Marshal(out.Object())
				if err != nil {
					t.Fatal(err)
				}
				return raw
			}
			var got map[string]any
			if err := json.Unmarshal(resolve(presettest.JSON(c.sent), resolve(presettest.JSON(c.old), nil)), &got); err != nil {
				t.Fatal(err)
			}
			for path, want := range c.want {
				is := ""
				if v := presettest.At(got, path); v != nil {
					raw, _ := json.Marshal(v)
					is = string(raw)
				}
				if is != want {
					t.Errorf("%s is %q, want %q", path, is, want)
				}
			}
		})
	}
}

// TestUpdateRemovesNothing: a removal that acts for the first time in an update, on a field of an
// object that is not there, leaves no null behind.
func TestUpdateRemovesNothing(t *testing.T) {
	snapshot := presettest.Snapshot(t, cluster("a", "match: {labels: {matchLabels: {bare: 'yes'}}}\nremove: [spec.template.spec.domain.cpu.model]"))
	out, err := (&presets.Engine{}).Resolve(t.Context(), snapshot, presets.Request{
		Kind: presets.VirtualMachine, Namespace: presets.Namespace{Name: "lab"},
		OldObject: presettest.JSON(domain("{devices: {}}")),
		Object:    presettest.JSON(strings.Replace(domain("{devices: {}}"), "app: shop", "bare: 'yes'", 1)),
	})
	if err != nil {
		t.Fatal(err)
	}
	fields, _ := presettest.At(out.Object(), "spec.template.spec.domain").(map[string]any)
	if _, found := fields["cpu"]; found {
		t.Errorf("domain is %v, want nothing of cpu", fields)
	}
}
