package names

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
)

// Related holds the objects that may conflict with one VM or VMI.
type Related struct {
	// VM and VMI have the same namespace and name; nil if they do not exist.
	VM, VMI *Identity
	// DataVolumes holds the other VMs of the namespace that have a dataVolumeTemplate of the same
	// name, by that name.
	DataVolumes map[string][]Identity
	// Uses holds the objects that have the same identifier.
	Uses map[Identifier]Use
}

// A Use holds the other objects that have an identifier.
type Use struct {
	// SameNamespace holds names of objects in the same namespace.
	SameNamespace []string
	// OtherNamespaces counts objects in other namespaces. Their names are not shown, because the
	// user may lack permission to read them.
	OtherNamespaces int
}

// Check returns the conflicts of m that reject a write. An update may keep the conflicts of old,
// the stored object. Trusted is true for trusted writers.
func Check(m, old *Identity, seen Related, trusted bool) field.ErrorList {
	var problems field.ErrorList
	if old == nil {
		problems = append(problems, checkName(m, seen, trusted)...)
	}
	for i, name := range m.DataVolumes {
		if old != nil && slices.Contains(old.DataVolumes, name) {
			continue
		}
		if others := seen.DataVolumes[name]; len(others) > 0 {
			problems = append(problems, field.Invalid(field.NewPath("spec", "dataVolumeTemplates").Index(i).Child("metadata", "name"), name,
				fmt.Sprintf("%s has a dataVolumeTemplate of this name%s, and both would write to one disk: %s", others[0].text(), deletingText(&others[0]), m.remedy(name))))
		}
	}
	return problems
}

// Anonymous returns r as an admission response may show it: it says which names and identifiers are
// taken, but not by which objects, because the author of the request may be unable to read these.
func (r Related) Anonymous() Related {
	out := Related{VM: r.VM, VMI: r.VMI, DataVolumes: map[string][]Identity{}, Uses: map[Identifier]Use{}}
	for name := range r.DataVolumes {
		out.DataVolumes[name] = []Identity{{}}
	}
	for id := range r.Uses {
		out.Uses[id] = Use{}
	}
	return out
}

// text describes the VM; one without a name is anonymous.
func (m *Identity) text() string {
	if m.Name == "" {
		return "another VirtualMachine"
	}
	return "VirtualMachine " + m.Name
}

// remedy describes how to rename a dataVolumeTemplate.
func (m *Identity) remedy(name string) string {
	at := provenance.Of("spec", "dataVolumeTemplates").With(provenance.Segment{Name: name, Kind: provenance.Element})
	rec, err := provenance.Decode(m.Provenance)
	if err != nil {
		return "choose another name"
	}
	given, ok := rec.SourceOf(append(at, provenance.Of("metadata", "name")...))
	if !ok {
		return "choose another name"
	}
	return fmt.Sprintf(`preset %s gives this name; let it compute one for each VM, as in name: {$cel: "object.metadata.name + '-%s'"}`, given.Preset, name)
}

// NeedsLiveRead reports whether seen, which comes from an index, must be read from the API server
// before m is written. That is so before a rejection, and if a writer other than a VM's controller
// creates a VMI, because the index may lack the VM.
func NeedsLiveRead(m, old *Identity, seen Related, trusted bool) bool {
	byController := trusted && m.hasVMController()
	return old == nil && m.Kind == presets.VirtualMachineInstance && m.Name != "" && !byController || len(Check(m, old, seen, trusted)) > 0
}

// deletingText describes when a VM that is being deleted releases its disks.
func deletingText(m *Identity) string {
	if m.Deleting {
		return " until its deletion is complete"
	}
	return ""
}

func checkName(m *Identity, seen Related, trusted bool) field.ErrorList {
	why := ""
	if m.Kind == presets.VirtualMachineInstance {
		why = vmiNameProblem(m, seen.VM, trusted)
	} else if i := seen.VMI; i != nil && !i.isLeaving() && !i.BelongsTo(m) {
		why = "a VirtualMachineInstance of this name exists, which does not belong to this VirtualMachine: choose another name, or delete it first"
	}
	if why == "" {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata", "name"), m.Name, why)}
}

// vmiNameProblem returns the reason why a VMI may not have the name of a VM, or "".
func vmiNameProblem(m, vm *Identity, trusted bool) string {
	switch {
	case vm == nil || trusted && m.hasVMController() && m.Controller.UID == vm.UID:
		return ""
	case m.hasVMController() && m.Controller.UID != vm.UID:
		return "its owner is not the VirtualMachine of this name"
	}
	return "a VirtualMachine has this name, and only its controller may create the VirtualMachineInstance: start the VirtualMachine, or choose another name"
}

// ownerText describes the owner of a VMI.
func ownerText(vmi *Identity) string {
	if c := vmi.Controller; c != nil {
		return fmt.Sprintf("belongs to %s %s", c.Kind, c.Name)
	}
	return "belongs to no VirtualMachine"
}

// Warnings reports identifiers of m that other objects have too. On an update it reports only new
// ones.
func Warnings(m, old *Identity, seen Related) []string {
	var out []string
	for _, id := range m.Identifiers {
		use, used := seen.Uses[id]
		if !used || old != nil && slices.ContainsFunc(old.Identifiers, func(was Identifier) bool { return was.Kind == id.Kind && was.Value == id.Value }) {
			continue
		}
		out = append(out, fmt.Sprintf("%s: %s %s is also used by %s", id.Field, id.Kind, id.Value, use))
	}
	return out
}

// String lists names of the same namespace and counts the rest. The zero value is anonymous.
func (u Use) String() string {
	const most = 3
	var parts []string
	if len(u.SameNamespace) > 0 {
		parts = append(parts, tree.List(u.SameNamespace, most))
	}
	switch {
	case len(u.SameNamespace) == 0 && u.OtherNamespaces == 0:
		return "another VM"
	case u.OtherNamespaces == 1:
		parts = append(parts, "1 VM in another namespace")
	case u.OtherNamespaces > 1:
		parts = append(parts, fmt.Sprintf("%d VMs in other namespaces", u.OtherNamespaces))
	}
	return strings.Join(parts, " and ")
}

// Conflicts returns the conflicts of an admitted VM, one line each.
func Conflicts(vm *Identity, seen Related) []string {
	var out []string
	if i := seen.VMI; i != nil && !i.isLeaving() && !i.BelongsTo(vm) {
		out = append(out, fmt.Sprintf("VirtualMachineInstance %s has the name of this VirtualMachine and %s; the VirtualMachine cannot start until it is deleted", i.Name, ownerText(i)))
	}
	for _, name := range vm.DataVolumes {
		for _, other := range seen.DataVolumes[name] {
			if older(&other, vm) {
				out = append(out, fmt.Sprintf("dataVolumeTemplate %s belongs to VirtualMachine %s, which is older; both would write to one disk", name, other.Name))
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// older reports whether a was created before b. If both were created in the same second, it
// compares names.
func older(a, b *Identity) bool {
	if !a.Created.Equal(&b.Created) {
		return a.Created.Before(&b.Created)
	}
	return a.Name < b.Name
}
