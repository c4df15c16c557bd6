package names

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/presets"
)

func vm(uid string) *Machine {
	return &Machine{Kind: presets.VirtualMachine, Namespace: "shop", Name: "web", UID: types.UID(uid)}
}

func instance(change ...func(*Machine)) *Machine {
	m := &Machine{Kind: presets.VirtualMachineInstance, Namespace: "shop", Name: "web", UID: "i1"}
	for _, c := range change {
		c(m)
	}
	return m
}

func controlledBy(kind, name, uid string) func(*Machine) {
	api := map[string]string{"VirtualMachine": "kubevirt.io/v1"}[kind]
	return func(m *Machine) {
		m.Controller = &metav1.OwnerReference{APIVersion: api, Kind: kind, Name: name, UID: types.UID(uid)}
	}
}

func proven(m *Machine)   { m.Proven = true }
func deleting(m *Machine) { m.Deleting = true }

func TestNames(t *testing.T) {
	for name, c := range map[string]struct {
		reason  string
		m       *Machine
		seen    Surroundings
		trusted bool
		want    string
	}{
		"alone":                 {"", vm("u1"), Surroundings{}, false, ""},
		"an instance alone":     {"", instance(), Surroundings{}, false, ""},
		"instance beside a VM":  {"a VM has the name", instance(), Surroundings{VM: vm("u1")}, false, "choose another name"},
		"by a stranger":         {"owner references prove nothing when anybody may write them", instance(controlledBy("VirtualMachine", "web", "u1")), Surroundings{VM: vm("u1")}, false, "choose another name"},
		"by the VM's own":       {"its controller makes it", instance(controlledBy("VirtualMachine", "web", "u1")), Surroundings{VM: vm("u1")}, true, ""},
		"by a late controller":  {"the VM was made anew meanwhile", instance(controlledBy("VirtualMachine", "web", "u0")), Surroundings{VM: vm("u1")}, true, "earlier VirtualMachine"},
		"by another controller": {"trusted, but not for this", instance(controlledBy("Pool", "web", "u1")), Surroundings{VM: vm("u1")}, true, "choose another name"},
		"VM over an instance":   {"it would adopt what is not its own", vm("u1"), Surroundings{Instance: instance()}, false, "no VirtualMachine ever had"},
		"VM over its orphan":    {"deleted with orphaning, and made again", vm("u1"), Surroundings{Instance: instance(proven)}, false, ""},
		"VM over a pool's":      {"another controller has it", vm("u1"), Surroundings{Instance: instance(proven, controlledBy("Pool", "p", "u7"))}, false, "belongs to Pool p"},
		"VM made anew":          {"the old instance is about to be collected", vm("u2"), Surroundings{Instance: instance(controlledBy("VirtualMachine", "web", "u1"))}, false, ""},
		"instance going":        {"in a moment the name is free", vm("u1"), Surroundings{Instance: instance(deleting)}, false, ""},
		"another VM's":          {"a VM of another name has it", vm("u1"), Surroundings{Instance: instance(controlledBy("VirtualMachine", "other", "u3"))}, false, "belongs to VirtualMachine other"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Check(c.m, nil, c.seen, c.trusted)
			if (c.want == "") != (len(got) == 0) || len(got) > 0 && (got[0].Field != "metadata.name" || !strings.Contains(got[0].Error(), c.want)) {
				t.Errorf("%s: got %v, want %q", c.reason, got, c.want)
			}
			if got := Check(c.m, c.m, c.seen, c.trusted); len(got) > 0 {
				t.Errorf("an update is refused for a name that it cannot change: %v", got)
			}
		})
	}
}

func TestDisks(t *testing.T) {
	m := vm("u1")
	m.DataVolumes = []string{"own", "shared"}
	seen := Surroundings{Disks: map[string][]Machine{"shared": {{Name: "db"}}}}
	got := Check(m, nil, seen, false)
	if len(got) != 1 || got[0].Field != "spec.dataVolumeTemplates[1].metadata.name" || !strings.Contains(got[0].Error(), "VirtualMachine db") {
		t.Errorf("got %v", got)
	}
	if got := Check(m, m, seen, false); len(got) > 0 {
		t.Errorf("what was there before is refused: %v", got)
	}
	seen.Disks["shared"][0].Deleting = true
	if got := Check(m, nil, seen, false); len(got) != 1 || !strings.Contains(got[0].Error(), "until it is gone") {
		t.Errorf("a VM that is going has its disk still: %v", got)
	}
}

func TestIdentifiers(t *testing.T) {
	var machine kubevirtv1.VirtualMachine
	err := yaml.Unmarshal([]byte(`
metadata: {name: web, namespace: shop}
spec: {template: {spec: {domain: {firmware: {uuid: 5D307CA9-B3EF-428C-8861-06E72D69F223, serial: s1},
  devices: {interfaces: [{name: a, macAddress: 02-AA-00-00-00-01}, {name: b}]}}}}}`), &machine)
	if err != nil {
		t.Fatal(err)
	}
	m := OfVirtualMachine(&machine)
	mac := Identifier{MAC, "02:aa:00:00:00:01", "spec.template.spec.domain.devices.interfaces[a].macAddress"}
	want := []Identifier{
		{FirmwareUUID, "5d307ca9-b3ef-428c-8861-06e72d69f223", "spec.template.spec.domain.firmware.uuid"},
		{FirmwareSerial, "s1", "spec.template.spec.domain.firmware.serial"}, mac,
	}
	if diff := cmp.Diff(want, m.Identifiers); diff != "" {
		t.Fatal(diff)
	}
	seen := Surroundings{Uses: map[Identifier]Use{mac: {Here: []string{"a", "b", "c", "d", "e"}, Elsewhere: 2}}}
	said := Warnings(&m, nil, seen)
	if len(said) != 1 || !strings.Contains(said[0], "used by a, b, c and 2 more and 2 machines in other namespaces too") {
		t.Errorf("got %q", said)
	}
	if again := Warnings(&m, &m, seen); len(again) > 0 {
		t.Errorf("an update that changes nothing is told %q", again)
	}
}

func TestConflicts(t *testing.T) {
	now := metav1.NewTime(time.Unix(1000, 0))
	m := vm("u1")
	m.Created, m.DataVolumes = now, []string{"d"}
	seen := Surroundings{
		Instance: instance(),
		Disks:    map[string][]Machine{"d": {{Name: "zoo", Created: now}, {Name: "ant", Created: now}, {Name: "new", Created: metav1.NewTime(now.Add(time.Minute))}}},
	}
	got := strings.Join(Conflicts(m, seen), "\n")
	if !strings.Contains(got, "VirtualMachineInstance web") || !strings.Contains(got, "VirtualMachine ant") || strings.Contains(got, "zoo") || strings.Contains(got, "new") {
		t.Errorf("got %s", got)
	}
	for _, fine := range []*Machine{nil, instance(proven), instance(deleting), instance(controlledBy("VirtualMachine", "web", "u1"))} {
		if got := Conflicts(m, Surroundings{Instance: fine}); len(got) > 0 {
			t.Errorf("%+v: got %q", fine, got)
		}
	}
}
