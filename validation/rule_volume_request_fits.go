package validation

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// volumeRequestFits tries what the requests ask for, and reports what is wrong
// then and was not before.
func volumeRequestFits(m *Machine, r *Report) {
	if len(m.VM.Status.VolumeRequests) == 0 || m.Spec == nil {
		return
	}
	// What the machine has wrong by itself it may keep here.
	known := map[string]int{}
	for _, p := range r.instance(m) {
		known[p.text()]++
	}
	for _, p := range r.instance(m.requested()) {
		switch text := p.text(); {
		case p.warnsOnly(m.Config, m):
		case known[text] > 0:
			known[text]--
		default:
			r.Add(field.Invalid(field.NewPath("status", "volumeRequests"), p.err.Field, "must leave the machine valid: "+p.err.ErrorBody()))
		}
	}
}

// text is what a problem says, wherever it lies: positions move when volumes go.
func (p problem) text() string { return p.rule.ID + "\n" + p.err.ErrorBody() }

// requested is the machine with what its volume requests add and remove, one
// after the other, as far as they are right by themselves.
func (m *Machine) requested() *Machine {
	gone, added := m.outcome()
	spec := *m.Spec
	spec.Volumes = slices.DeleteFunc(slices.Clone(spec.Volumes), func(v kubevirtv1.Volume) bool { return gone[v.Name] })
	devices := &spec.Domain.Devices
	devices.Disks = slices.DeleteFunc(slices.Clone(devices.Disks), func(d kubevirtv1.Disk) bool { return gone[d.Name] })
	for _, add := range m.eachAdded() {
		if added[add.Name] == add {
			spec.Volumes = append(spec.Volumes, addedVolume(add))
			devices.Disks = append(devices.Disks, *add.Disk)
			devices.Disks[len(devices.Disks)-1].Name = add.Name
		}
	}
	return &Machine{VM: m.VM, Meta: m.Meta, Spec: &spec, Old: m.Old, Config: m.Config, at: m.at}
}

// outcome is which volumes of the machine are gone in the end, and which
// requests have added one.
func (m *Machine) outcome() (gone map[string]bool, added map[string]*kubevirtv1.AddVolumeOptions) {
	gone, added = map[string]bool{}, map[string]*kubevirtv1.AddVolumeOptions{}
	there := map[string]bool{}
	for name := range m.volumeNames {
		there[name] = true
	}
	for _, request := range m.eachRequest() {
		switch add, remove := request.AddVolumeOptions, request.RemoveVolumeOptions; {
		case add != nil && remove != nil:
		case add != nil && !there[add.Name] && rightByItself(add):
			there[add.Name], added[add.Name] = true, add
		case remove != nil:
			there[remove.Name], gone[remove.Name] = false, true
			delete(added, remove.Name)
		}
	}
	return gone, added
}
