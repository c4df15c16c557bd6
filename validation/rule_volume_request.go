package validation

import (
	"iter"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

var volumeRequestRules = []Rule{{
	ID:    "volume-request-action",
	Says:  "A volume request adds or removes a volume.",
	Scope: VirtualMachines,
	Check: volumeRequestAction,
}, {
	ID:    "volume-request-unique",
	Says:  "No volume is added or removed by two requests.",
	Scope: VirtualMachines,
	Check: volumeRequestUnique,
}, {
	ID:    "volume-request-source",
	Says:  "A request that adds a volume says of what: a claim or a data volume.",
	Scope: VirtualMachines,
	Check: volumeRequestSource,
}, {
	ID:    "volume-request-device",
	Says:  "A request that adds a volume has a device: a disk or a lun.",
	Scope: VirtualMachines,
	Check: volumeRequestDevice,
}, {
	ID:    "volume-request-bus",
	Says:  "A disk that is plugged in is on the scsi or virtio bus, and a lun on the scsi bus.",
	Scope: VirtualMachines,
	Check: volumeRequestBus,
}, {
	ID:    "volume-request-io-thread",
	Says:  "Only a disk on the virtio bus is plugged in with an I/O thread of its own.",
	Scope: VirtualMachines,
	Check: volumeRequestIOThread,
}, {
	ID:    "volume-request-boot-order",
	Says:  "The boot order of a disk that is plugged in is at least 1.",
	Scope: VirtualMachines,
	Check: volumeRequestBootOrder,
}, {
	ID:    "volume-request-clash",
	Says:  "A request does not add a volume under the name of another one.",
	Scope: VirtualMachines,
	Check: volumeRequestClash,
}, {
	ID:    "volume-request-fits",
	Says:  "The machine is valid with what volume requests add and remove.",
	Scope: VirtualMachines,
	Check: volumeRequestFits,
}, {
	ID:    "volume-request-migration",
	Says:  "Volumes are not requested while the machine migrates.",
	Reach: BeyondKubeVirt, // which looks at the VMI
	Scope: VirtualMachines,
	Check: volumeRequestMigration,
}}

func (m *Machine) eachRequest() iter.Seq2[int, *kubevirtv1.VirtualMachineVolumeRequest] {
	return pointers(m.VM.Status.VolumeRequests)
}

// eachAdded yields requests that add a volume and do nothing else.
func (m *Machine) eachAdded() iter.Seq2[int, *kubevirtv1.AddVolumeOptions] {
	return func(yield func(int, *kubevirtv1.AddVolumeOptions) bool) {
		for i, request := range m.eachRequest() {
			if request.AddVolumeOptions != nil && request.RemoveVolumeOptions == nil && !yield(i, request.AddVolumeOptions) {
				return
			}
		}
	}
}

// request is the path of a part of a volume request.
func (m *Machine) request(i int, more ...string) *field.Path {
	return under(field.NewPath("status", "volumeRequests").Index(i), more)
}

func volumeRequestAction(m *Machine, r *Report) {
	for i, request := range m.eachRequest() {
		switch count(request.AddVolumeOptions != nil, request.RemoveVolumeOptions != nil) {
		case 0:
			r.Add(field.Required(m.request(i), "must have addVolumeOptions or removeVolumeOptions"))
		case 2:
			r.Add(field.Forbidden(m.request(i), "must have one of addVolumeOptions and removeVolumeOptions; make two requests of them"))
		}
	}
}

func volumeRequestUnique(m *Machine, r *Report) {
	added, removed := map[string]bool{}, map[string]bool{}
	for i, request := range m.eachRequest() {
		if add := request.AddVolumeOptions; add != nil {
			if added[add.Name] {
				r.Add(field.Duplicate(m.request(i, "addVolumeOptions", "name"), add.Name))
			}
			added[add.Name] = true
		}
		if remove := request.RemoveVolumeOptions; remove != nil {
			if removed[remove.Name] {
				r.Add(field.Duplicate(m.request(i, "removeVolumeOptions", "name"), remove.Name))
			}
			removed[remove.Name] = true
		}
	}
}

func lacksSource(add *kubevirtv1.AddVolumeOptions) bool {
	return add.VolumeSource == nil || add.VolumeSource.PersistentVolumeClaim == nil && add.VolumeSource.DataVolume == nil
}

func volumeRequestSource(m *Machine, r *Report) {
	for i, add := range m.eachAdded() {
		if lacksSource(add) {
			r.Add(field.Required(m.request(i, "addVolumeOptions", "volumeSource"), "must have persistentVolumeClaim or dataVolume"))
		}
	}
}

func lacksDevice(add *kubevirtv1.AddVolumeOptions) bool {
	return add.Disk == nil || add.Disk.Disk == nil && add.Disk.LUN == nil
}

func volumeRequestDevice(m *Machine, r *Report) {
	for i, add := range m.eachAdded() {
		if lacksDevice(add) {
			r.Add(field.Required(m.request(i, "addVolumeOptions", "disk"), "must be a disk or a lun"))
		}
	}
}

// pluggable are the buses on which the device of a request can be plugged in.
func pluggable(add *kubevirtv1.AddVolumeOptions) []string {
	if add.Disk.Disk != nil {
		return []string{busSCSI, busVirtio}
	}
	return []string{busSCSI}
}

func onWrongBus(add *kubevirtv1.AddVolumeOptions) bool {
	if lacksDevice(add) {
		return false
	}
	bus, _ := busOf(add.Disk)
	return !slices.Contains(pluggable(add), bus)
}

func volumeRequestBus(m *Machine, r *Report) {
	for i, add := range m.eachAdded() {
		if onWrongBus(add) {
			bus, target := busOf(add.Disk)
			r.Add(r.unsupported(m.request(i, "addVolumeOptions", "disk", target, "bus"), bus, pluggable(add)...))
		}
	}
}

func hasWrongIOThread(add *kubevirtv1.AddVolumeOptions) bool {
	if lacksDevice(add) || onWrongBus(add) || add.Disk.DedicatedIOThread == nil || !*add.Disk.DedicatedIOThread {
		return false
	}
	bus, _ := busOf(add.Disk)
	return bus != busVirtio
}

func volumeRequestIOThread(m *Machine, r *Report) {
	for i, add := range m.eachAdded() {
		if hasWrongIOThread(add) {
			r.Add(field.Invalid(m.request(i, "addVolumeOptions", "disk", "dedicatedIOThread"), true, "must be false unless the bus is virtio"))
		}
	}
}

func hasWrongBootOrder(add *kubevirtv1.AddVolumeOptions) bool {
	return add.Disk != nil && add.Disk.BootOrder != nil && *add.Disk.BootOrder < 1
}

func volumeRequestBootOrder(m *Machine, r *Report) {
	for i, add := range m.eachAdded() {
		if hasWrongBootOrder(add) {
			r.Add(field.Invalid(m.request(i, "addVolumeOptions", "disk", "bootOrder"), *add.Disk.BootOrder, "must be at least 1"))
		}
	}
}

// rightByItself reports whether no other rule speaks of a request, so that it
// can be tried.
func rightByItself(add *kubevirtv1.AddVolumeOptions) bool {
	return !lacksSource(add) && !lacksDevice(add) && !onWrongBus(add) && !hasWrongIOThread(add) && !hasWrongBootOrder(add)
}

// addedVolume is the volume that a request adds.
func addedVolume(add *kubevirtv1.AddVolumeOptions) kubevirtv1.Volume {
	volume := kubevirtv1.Volume{Name: add.Name}
	switch source := add.VolumeSource; {
	case source == nil:
	case source.PersistentVolumeClaim != nil:
		volume.PersistentVolumeClaim = source.PersistentVolumeClaim
	default:
		volume.DataVolume = source.DataVolume
	}
	return volume
}

func volumeRequestClash(m *Machine, r *Report) {
	if m.Spec == nil {
		return
	}
	for i, add := range m.eachAdded() {
		if volume := m.Volume(add.Name); volume != nil && !apiequality.Semantic.DeepEqual(addedVolume(add), *volume) {
			r.Add(field.Invalid(m.request(i, "addVolumeOptions", "name"), add.Name, "must be another name: the machine has another volume of this one"))
		}
	}
}

func volumeRequestMigration(m *Machine, r *Report) {
	if len(m.VM.Status.VolumeRequests) > 0 && m.VM.Status.PrintableStatus == kubevirtv1.VirtualMachineStatusMigrating {
		r.Add(field.Forbidden(field.NewPath("status", "volumeRequests"), "must wait until the migration has ended"))
	}
}
