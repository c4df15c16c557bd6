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

func vm(uid string) *Identity {
	return &Identity{Kind: presets.VirtualMachine, Namespace: "shop", Name: "web", UID: types.UID(uid)}
}

func instance(change ...func(*Identity)) *Identity {
	m := &Identity{Kind: presets.VirtualMachineInstance, Namespace: "shop", Name: "web", UID: "i1"}
	for _, c := range change {
		c(m)
	}
	return m
}

func controlledBy(kind, name, uid string) func(*Identity) {
	api := map[string]string{"VirtualMachine": "kubevirt.io/v1"}[kind]
	return func(m *Identity) {
		m.Controller = &metav1.OwnerReference{APIVersion: api, Kind: kind, Name: name, UID: types.UID(uid)}
	}
}

func createdByController(m *Identity) { m.CreatedByController = true }
func deleting(m *Identity)            { m.Deleting = true }

func TestNames(t *testing.T) {
	for name, c := range map[string]struct {
		reason  string
		m       *Identity
		seen    Related
		trusted bool
		want    string
	}{
		"no other objects":                 {"", vm("u1"), Related{}, false, ""},
		"a VMI without a VM":               {"", instance(), Related{}, false, ""},
		"VMI with the name of a VM":        {"a VM has the name", instance(), Related{VM: vm("u1")}, false, "choose another name"},
		"by an untrusted writer":           {"untrusted owner references prove nothing", instance(controlledBy("VirtualMachine", "web", "u1")), Related{VM: vm("u1")}, false, "choose another name"},
		"by the controller of the VM":      {"its controller creates it", instance(controlledBy("VirtualMachine", "web", "u1")), Related{VM: vm("u1")}, true, ""},
		"by a late controller":             {"the VM was recreated", instance(controlledBy("VirtualMachine", "web", "u0")), Related{VM: vm("u1")}, true, "not the VirtualMachine of this name"},
		"by another controller":            {"trusted, but the owner is not a VM", instance(controlledBy("Pool", "web", "u1")), Related{VM: vm("u1")}, true, "choose another name"},
		"VM with the name of a VMI":        {"the VM would adopt a foreign VMI", vm("u1"), Related{VMI: instance()}, false, "does not belong to this"},
		"VM with the name of its orphan":   {"deleted with orphaning and recreated", vm("u1"), Related{VMI: instance(createdByController)}, false, ""},
		"VM with the name of a pool's VMI": {"another controller has it", vm("u1"), Related{VMI: instance(createdByController, controlledBy("Pool", "p", "u7"))}, false, "does not belong to this"},
		"VM recreated":                     {"garbage collection will delete the old VMI", vm("u2"), Related{VMI: instance(controlledBy("VirtualMachine", "web", "u1"))}, false, ""},
		"VMI being deleted":                {"the name will be free", vm("u1"), Related{VMI: instance(deleting)}, false, ""},
		"another VM's":                     {"a VM of another name has it", vm("u1"), Related{VMI: instance(controlledBy("VirtualMachine", "other", "u3"))}, false, "does not belong to this"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Check(c.m, nil, c.seen, c.trusted)
			if (c.want == "") != (len(got) == 0) || len(got) > 0 && (got[0].Field != "metadata.name" || !strings.Contains(got[0].Error(), c.want)) {
				t.Errorf("%s: got %v, want %q", c.reason, got, c.want)
			}
			if got := Check(c.m, c.m, c.seen, c.trusted); len(got) > 0 {
				t.Errorf("an update is rejected for a name that it cannot change: %v", got)
			}
		})
	}
}

func TestDisks(t *testing.T) {
	m := vm("u1")
	m.DataVolumes = []string{"own", "shared"}
	seen := Related{DataVolumes: map[string][]Identity{"shared": {{Name: "db"}}}}
	got := Check(m, nil, seen, false)
	if len(got) != 1 || got[0].Field != "spec.dataVolumeTemplates[1].metadata.name" || !strings.Contains(got[0].Error(), "VirtualMachine db") {
		t.Errorf("got %v", got)
	}
	if got := Check(m, m, seen, false); len(got) > 0 {
		t.Errorf("a stored conflict is rejected: %v", got)
	}
	if got := Check(m, nil, seen.Anonymous(), false); len(got) != 1 || strings.Contains(got[0].Error(), "db") || !strings.Contains(got[0].Error(), "another VirtualMachine has") {
		t.Errorf("an admission response says %v", got)
	}
	seen.DataVolumes["shared"][0].Deleting = true
	if got := Check(m, nil, seen, false); len(got) != 1 || !strings.Contains(got[0].Error(), "until its deletion is complete") {
		t.Errorf("a VM being deleted still has its disk: %v", got)
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
	mac := Identifier{kindMAC, "02:aa:00:00:00:01", "spec.template.spec.domain.devices.interfaces[a].macAddress"}
	want := []Identifier{
		{kindFirmwareUUID, "5d307ca9-b3ef-428c-8861-06e72d69f223", "spec.template.spec.domain.firmware.uuid"},
		{kindFirmwareSerial, "s1", "spec.template.spec.domain.firmware.serial"}, mac,
	}
	if diff := cmp.Diff(want, m.Identifiers); diff != "" {
		t.Fatal(diff)
	}
	seen := Related{Uses: map[Identifier]Use{mac: {SameNamespace: []string{"a", "b", "c", "d", "e"}, OtherNamespaces: 2}}}
	said := Warnings(&m, nil, seen)
	if len(said) != 1 || !strings.Contains(said[0], "used by a, b, c and 2 more and 2 VMs in other namespaces") {
		t.Errorf("got %q", said)
	}
	if said := Warnings(&m, nil, seen.Anonymous()); len(said) != 1 || !strings.HasSuffix(said[0], "is also used by another VM") {
		t.Errorf("an admission response says %q", said)
	}
	if again := Warnings(&m, &m, seen); len(again) > 0 {
		t.Errorf("an update without a change has warnings %q", again)
	}
}

func TestConflicts(t *testing.T) {
	now := metav1.NewTime(time.Unix(1000, 0))
	m := vm("u1")
	m.Created, m.DataVolumes = now, []string{"d"}
	seen := Related{
		VMI:         instance(),
		DataVolumes: map[string][]Identity{"d": {{Name: "zoo", Created: now}, {Name: "ant", Created: now}, {Name: "new", Created: metav1.NewTime(now.Add(time.Minute))}}},
	}
	got := strings.Join(Conflicts(m, seen), "\n")
	if !strings.Contains(got, "VirtualMachineInstance web") || !strings.Contains(got, "VirtualMachine ant") || strings.Contains(got, "zoo") || strings.Contains(got, "new") {
		t.Errorf("got %s", got)
	}
	for _, fine := range []*Identity{nil, instance(createdByController), instance(deleting), instance(controlledBy("VirtualMachine", "web", "u1"))} {
		if got := Conflicts(m, Related{VMI: fine}); len(got) > 0 {
			t.Errorf("%+v: got %q", fine, got)
		}
	}
}
