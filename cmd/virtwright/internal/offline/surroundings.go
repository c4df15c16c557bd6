package offline

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/validation/names"
	"github.com/virtwright/virtwright/webhooks"
)

// unnamed reports whether the API server is yet to make up a name.
func unnamed(name string) bool { return name == "" || strings.HasSuffix(name, "*") }

// others are the machines that were judged before, as far as they could be read. They are found by
// what machines may share, so that many machines cost no more than their number.
type others struct {
	named map[types.NamespacedName][]*names.Machine
	disks map[types.NamespacedName][]*names.Machine
	users map[names.Identifier][]*names.Machine
	// stored are machines that a cluster has, until they are judged.
	stored map[storedKey]*names.Machine
}

type storedKey struct {
	kind presets.Kind
	types.NamespacedName
}

func keyOf(m *names.Machine) storedKey {
	return storedKey{m.Kind, types.NamespacedName{Namespace: m.Namespace, Name: m.Name}}
}

var _ webhooks.Names = (*others)(nil)

func newOthers() *others {
	return &others{
		named: map[types.NamespacedName][]*names.Machine{}, disks: map[types.NamespacedName][]*names.Machine{},
		users: map[names.Identifier][]*names.Machine{}, stored: map[storedKey]*names.Machine{},
	}
}

// store takes in a machine as a cluster has it, if it can be read. What is judged later takes its
// place.
func (o *others) store(m Machine) {
	var out names.Machine
	var err error
	if m.Kind == presets.VirtualMachine {
		var vm kubevirtv1.VirtualMachine
		err = kjson.UnmarshalCaseSensitivePreserveInts(m.JSON, &vm)
		out = names.OfVirtualMachine(&vm)
	} else {
		var vmi kubevirtv1.VirtualMachineInstance
		err = kjson.UnmarshalCaseSensitivePreserveInts(m.JSON, &vmi)
		out = names.OfInstance(&vmi)
	}
	if err == nil {
		o.stored[keyOf(&out)] = &out
		o.add(&out)
	}
}

// keep puts back a stored machine whose change is refused.
func (o *others) keep(t *turn) {
	if t.stored != nil {
		o.remove(t.judged)
		o.add(t.stored)
	}
}

// Confirm says the same again.
func (o *others) Confirm(_ context.Context, _ *names.Machine, seen names.Surroundings) (names.Surroundings, error) {
	return seen, nil
}

// Around is what m may collide with. It waits for the machines before m, and adds m to them under the
// name that messages show.
func (o *others) Around(ctx context.Context, m *names.Machine) (names.Surroundings, error) {
	shown := *m
	if t := turnOf(ctx); t != nil {
		t.wait()
		shown.Name = t.name
	}
	if stored := o.stored[keyOf(m)]; stored != nil {
		o.remove(stored)
		if t := turnOf(ctx); t != nil {
			t.stored, t.judged = stored, &shown
		}
	}
	defer o.add(&shown)
	out := names.Surroundings{Disks: map[string][]names.Machine{}, Uses: map[names.Identifier]names.Use{}}
	itself := func(other *names.Machine) bool { // an instance and its VM are one
		return other.Namespace == m.Namespace && other.Name == m.Name && !unnamed(m.Name)
	}
	if !unnamed(m.Name) {
		for _, other := range o.named[types.NamespacedName{Namespace: m.Namespace, Name: m.Name}] {
			named(&out, other)
		}
	}
	for _, disk := range m.DataVolumes {
		for _, other := range o.disks[types.NamespacedName{Namespace: m.Namespace, Name: disk}] {
			if !itself(other) {
				out.Disks[disk] = append(out.Disks[disk], *other)
			}
		}
	}
	for _, id := range m.Identifiers {
		for _, other := range o.users[names.Identifier{What: id.What, Value: id.Value}] {
			if !itself(other) {
				share(out.Uses, id, m, other)
			}
		}
	}
	for id, use := range out.Uses {
		slices.Sort(use.Here)
		use.Here = slices.Compact(use.Here)
		out.Uses[id] = use
	}
	return out, nil
}

// add takes in a machine. Its record is needed only while it is judged itself.
func (o *others) add(m *names.Machine) {
	m.Record = ""
	at := types.NamespacedName{Namespace: m.Namespace, Name: m.Name}
	o.named[at] = append(o.named[at], m)
	for i, disk := range m.DataVolumes {
		if disk != "" && !slices.Contains(m.DataVolumes[:i], disk) {
			at.Name = disk
			o.disks[at] = append(o.disks[at], m)
		}
	}
	added := map[names.Identifier]bool{}
	for _, id := range m.Identifiers {
		if id.Field = ""; !added[id] {
			added[id] = true
			o.users[id] = append(o.users[id], m)
		}
	}
}

// remove takes out a machine.
func (o *others) remove(m *names.Machine) {
	at := types.NamespacedName{Namespace: m.Namespace, Name: m.Name}
	o.named[at] = withoutMachine(o.named[at], m)
	for _, disk := range m.DataVolumes {
		at.Name = disk
		o.disks[at] = withoutMachine(o.disks[at], m)
	}
	for _, id := range m.Identifiers {
		id.Field = ""
		o.users[id] = withoutMachine(o.users[id], m)
	}
}

func withoutMachine(all []*names.Machine, m *names.Machine) []*names.Machine {
	return slices.DeleteFunc(all, func(other *names.Machine) bool { return other == m })
}

func named(out *names.Surroundings, other *names.Machine) {
	if other.Kind == presets.VirtualMachine {
		out.VM = other
		return
	}
	out.Instance = other
}

// share notes that another machine has an identifier of m too.
func share(uses map[names.Identifier]names.Use, id names.Identifier, m, other *names.Machine) {
	use := uses[id]
	if other.Namespace == m.Namespace {
		use.Here = append(use.Here, other.Name)
	} else {
		use.Elsewhere++
	}
	uses[id] = use
}
