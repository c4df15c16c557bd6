package names

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
)

// Surroundings are the machines that one machine may collide with.
type Surroundings struct {
	// VM and Instance have its namespace and name; nil where there is none.
	VM, Instance *Machine
	// Disks are the VirtualMachines of its namespace, other than itself, that have
	// a dataVolumeTemplate of the same name, by that name.
	Disks map[string][]Machine
	// Uses are the machines that have an identifier of its own too.
	Uses map[Identifier]Use
}

// A Use is by whom an identifier is used.
type Use struct {
	// Here are names of machines in the same namespace.
	Here []string
	// Elsewhere counts machines in other namespaces, which are not named: whoever
	// asks may not be allowed to know them.
	Elsewhere int
}

// Check returns what keeps m from being written. Old is what is stored, on an
// update: what it had may stay. Trusted says that a trusted writer writes.
func Check(m, old *Machine, seen Surroundings, trusted bool) field.ErrorList {
	var problems field.ErrorList
	if old == nil {
		problems = append(problems, checkName(m, seen, trusted)...)
	}
	for i, name := range m.DataVolumes {
		if old != nil && slices.Contains(old.DataVolumes, name) {
			continue
		}
		if others := seen.Disks[name]; len(others) > 0 {
			problems = append(problems, field.Invalid(field.NewPath("spec", "dataVolumeTemplates").Index(i).Child("metadata", "name"), name,
				fmt.Sprintf("VirtualMachine %s has a dataVolumeTemplate of this name%s, and both would write to one disk: %s", others[0].Name, gone(&others[0]), m.remedy(name))))
		}
	}
	return problems
}

// remedy says how a dataVolumeTemplate gets another name.
func (m *Machine) remedy(name string) string {
	at := provenance.Of("spec", "dataVolumeTemplates").With(provenance.Segment{Name: name, Kind: provenance.Element})
	rec, err := provenance.Decode(m.Record)
	if err != nil {
		return "choose another name"
	}
	given, ok := rec.SourceOf(append(at, provenance.Of("metadata", "name")...))
	if !ok {
		return "choose another name"
	}
	return fmt.Sprintf(`preset %s gives this name; let it compute one for each VM, as in name: {$cel: "object.metadata.name + '-%s'"}`, given.Preset, name)
}

// NeedsLiveRead reports whether what an index saw must be read live before m is
// written: before a refusal, and before a writer other than a VM's controller creates an
// instance, because the index may not have the VM yet.
func NeedsLiveRead(m, old *Machine, seen Surroundings, trusted bool) bool {
	byController := trusted && m.owned()
	return old == nil && m.Kind == presets.VirtualMachineInstance && m.Name != "" && !byController || len(Check(m, old, seen, trusted)) > 0
}

// gone says that a machine which still has its disks will not have them for long.
func gone(m *Machine) string {
	if m.Deleting {
		return " until it is gone"
	}
	return ""
}

func checkName(m *Machine, seen Surroundings, trusted bool) field.ErrorList {
	why := ""
	if m.Kind == presets.VirtualMachineInstance {
		why = besideVM(m, seen.VM, trusted)
	} else if i := seen.Instance; i != nil && !i.leaving() && !i.BelongsTo(m) {
		why = fmt.Sprintf("a VirtualMachineInstance has this name that %s: choose another name, or delete it first", whose(i))
	}
	if why == "" {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata", "name"), m.Name, why)}
}

// besideVM says why an instance may not be made under the name of a VM.
func besideVM(m, vm *Machine, trusted bool) string {
	switch {
	case vm == nil || trusted && m.owned() && m.Controller.UID == vm.UID:
		return ""
	case m.owned() && m.Controller.UID != vm.UID:
		return fmt.Sprintf("the instance belongs to an earlier VirtualMachine (uid %s) than the one that has this name now (uid %s)", m.Controller.UID, vm.UID)
	}
	return "a VirtualMachine has this name, and only its controller makes the instance: start the VirtualMachine, or choose another name"
}

// whose says to whom an instance belongs.
func whose(instance *Machine) string {
	if c := instance.Controller; c != nil {
		return fmt.Sprintf("belongs to %s %s", c.Kind, c.Name)
	}
	return "no VirtualMachine ever had"
}

// Warnings say which identifiers of m others use too. On an update they are
// about what is new.
func Warnings(m, old *Machine, seen Surroundings) []string {
	var out []string
	for _, id := range m.Identifiers {
		use, used := seen.Uses[id]
		if !used || old != nil && slices.ContainsFunc(old.Identifiers, func(was Identifier) bool { return was.What == id.What && was.Value == id.Value }) {
			continue
		}
		out = append(out, fmt.Sprintf("%s: %s %s is used by %s too", id.Field, id.What, id.Value, use))
	}
	return out
}

// String lists names of this namespace and counts the rest.
func (u Use) String() string {
	const most = 3
	var parts []string
	if n := len(u.Here); n > most {
		parts = append(parts, fmt.Sprintf("%s and %d more", strings.Join(u.Here[:most], ", "), n-most))
	} else if n > 0 {
		parts = append(parts, strings.Join(u.Here, ", "))
	}
	switch {
	case u.Elsewhere == 1:
		parts = append(parts, "a machine in another namespace")
	case u.Elsewhere > 1:
		parts = append(parts, fmt.Sprintf("%d machines in other namespaces", u.Elsewhere))
	}
	return strings.Join(parts, " and ")
}

// Conflicts says what collides although each of the machines was admitted, one
// line each, seen from a VirtualMachine.
func Conflicts(vm *Machine, seen Surroundings) []string {
	var out []string
	if i := seen.Instance; i != nil && !i.leaving() && !i.BelongsTo(vm) {
		out = append(out, fmt.Sprintf("VirtualMachineInstance %s has the name of this VirtualMachine and %s; the VirtualMachine cannot start until it is gone", i.Name, whose(i)))
	}
	for _, name := range vm.DataVolumes {
		for _, other := range seen.Disks[name] {
			if older(&other, vm) {
				out = append(out, fmt.Sprintf("dataVolumeTemplate %s is of VirtualMachine %s, which is older; both would write to one disk", name, other.Name))
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// older reports whether a was there before b; names decide within a second.
func older(a, b *Machine) bool {
	if !a.Created.Equal(&b.Created) {
		return a.Created.Before(&b.Created)
	}
	return a.Name < b.Name
}
