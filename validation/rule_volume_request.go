package validation

import (
	"iter"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

var volumeRequestRules = []Rule{{
	ID:          "volume-request-action",
	Requirement: "A volume request adds or removes a volume.",
	Scope:       VirtualMachines,
	Check: forEach(volumeRequestsOf, func(vm *ExpandedVM, r *Report, i int, request *kubevirtv1.VirtualMachineVolumeRequest) {
		r.exactlyOne(func() *field.Path { return vm.requestPath(i) }, count(request.AddVolumeOptions != nil, request.RemoveVolumeOptions != nil),
			"must have addVolumeOptions or removeVolumeOptions", "must have one of addVolumeOptions and removeVolumeOptions; use two requests")
	}),
}, {
	ID:          "volume-request-unique",
	Requirement: "No volume is added or removed by two requests.",
	Scope:       VirtualMachines,
	Check: func(vm *ExpandedVM, r *Report) {
		added, removed := map[string]bool{}, map[string]bool{}
		for i, request := range pointers(volumeRequestsOf(vm)) {
			if add := request.AddVolumeOptions; add != nil {
				if added[add.Name] {
					r.Add(field.Duplicate(vm.requestPath(i, "addVolumeOptions", "name"), add.Name))
				}
				added[add.Name] = true
			}
			if remove := request.RemoveVolumeOptions; remove != nil {
				if removed[remove.Name] {
					r.Add(field.Duplicate(vm.requestPath(i, "removeVolumeOptions", "name"), remove.Name))
				}
				removed[remove.Name] = true
			}
		}
	},
}, addRule("volume-request-source", "A request that adds a volume has a source: a claim or a data volume.",
	lacksSource, func(r *Report, _ *kubevirtv1.AddVolumeOptions, at *field.Path) {
		r.Add(field.Required(at.Child("volumeSource"), "must have persistentVolumeClaim or dataVolume"))
	},
), addRule("volume-request-device", "A request that adds a volume has a device: a disk or a lun.",
	lacksDevice, func(r *Report, _ *kubevirtv1.AddVolumeOptions, at *field.Path) {
		r.Add(field.Required(at.Child("disk"), "must be a disk or a lun"))
	},
), addRule("volume-request-bus", "A hotplugged disk is on the scsi or virtio bus, and a hotplugged lun on the scsi bus.",
	onWrongBus, func(r *Report, add *kubevirtv1.AddVolumeOptions, at *field.Path) {
		bus, target := busOf(add.Disk)
		hotplugBuses(add).check(r, bus, func() *field.Path { return at.Child("disk", target, "bus") })
	},
), addRule("volume-request-io-thread", "Only a hotplugged disk on the virtio bus has a dedicated I/O thread.",
	hasWrongIOThread, func(r *Report, _ *kubevirtv1.AddVolumeOptions, at *field.Path) {
		r.Add(field.Invalid(at.Child("disk", "dedicatedIOThread"), true, "must be false unless the bus is virtio"))
	},
), addRule("volume-request-boot-order", "The boot order of a hotplugged disk is at least 1.",
	hasWrongBootOrder, func(r *Report, add *kubevirtv1.AddVolumeOptions, at *field.Path) {
		r.Add(field.Invalid(at.Child("disk", "bootOrder"), *add.Disk.BootOrder, "must be at least 1"))
	},
), {
	ID:          "volume-request-clash",
	Requirement: "A request does not add a volume with the name of another one.",
	Scope:       VirtualMachines,
	Check: func(vm *ExpandedVM, r *Report) {
		if vm.Spec == nil {
			return
		}
		for i, add := range vm.eachAdded() {
			if volume := vm.Volume(add.Name); volume != nil && !apiequality.Semantic.DeepEqual(addedVolume(add), *volume) {
				r.Add(field.Invalid(vm.requestPath(i, "addVolumeOptions", "name"), add.Name, "must be another name: another volume has this name"))
			}
		}
	},
}, {
	ID:          "volume-request-fits",
	Requirement: "The VM is valid after its volume requests.",
	Scope:       VirtualMachines,
	Check:       volumeRequestFits,
}, {
	ID:          "volume-request-migration",
	Requirement: "Volumes are not requested while the VM migrates.",
	Strictness:  StricterThanKubeVirt, // KubeVirt reads the status of the VMI
	Scope:       VirtualMachines,
	Check: func(vm *ExpandedVM, r *Report) {
		if len(vm.VM.Status.VolumeRequests) > 0 && vm.VM.Status.PrintableStatus == kubevirtv1.VirtualMachineStatusMigrating {
			r.Add(field.Forbidden(field.NewPath("status", "volumeRequests"), "must not change before the migration ends"))
		}
	},
}}

func volumeRequestsOf(vm *ExpandedVM) []kubevirtv1.VirtualMachineVolumeRequest {
	return vm.VM.Status.VolumeRequests
}

// addRule is a rule for requests that only add a volume.
func addRule(id, requirement string, isWrong func(*kubevirtv1.AddVolumeOptions) bool,
	report func(*Report, *kubevirtv1.AddVolumeOptions, *field.Path),
) Rule {
	return Rule{ID: id, Requirement: requirement, Scope: VirtualMachines, Check: func(vm *ExpandedVM, r *Report) {
		for i, add := range vm.eachAdded() {
			if isWrong(add) {
				report(r, add, vm.requestPath(i, "addVolumeOptions"))
			}
		}
	}}
}

// eachAdded yields requests that only add a volume.
func (vm *ExpandedVM) eachAdded() iter.Seq2[int, *kubevirtv1.AddVolumeOptions] {
	return func(yield func(int, *kubevirtv1.AddVolumeOptions) bool) {
		for i, request := range pointers(volumeRequestsOf(vm)) {
			if request.AddVolumeOptions != nil && request.RemoveVolumeOptions == nil && !yield(i, request.AddVolumeOptions) {
				return
			}
		}
	}
}

func (vm *ExpandedVM) requestPath(i int, more ...string) *field.Path {
	return childPath(field.NewPath("status", "volumeRequests").Index(i), more)
}

func lacksSource(add *kubevirtv1.AddVolumeOptions) bool {
	return add.VolumeSource == nil || add.VolumeSource.PersistentVolumeClaim == nil && add.VolumeSource.DataVolume == nil
}

func lacksDevice(add *kubevirtv1.AddVolumeOptions) bool {
	return add.Disk == nil || add.Disk.Disk == nil && add.Disk.LUN == nil
}

// hotplugBuses returns the buses that support hotplug of the requested device.
func hotplugBuses(add *kubevirtv1.AddVolumeOptions) valueSet {
	if add.Disk.Disk != nil {
		return valueSet{busSCSI, busVirtio}
	}
	return valueSet{busSCSI}
}

func onWrongBus(add *kubevirtv1.AddVolumeOptions) bool {
	if lacksDevice(add) {
		return false
	}
	bus, _ := busOf(add.Disk)
	return !slices.Contains(hotplugBuses(add), bus)
}

func hasWrongIOThread(add *kubevirtv1.AddVolumeOptions) bool {
	if lacksDevice(add) || onWrongBus(add) || add.Disk.DedicatedIOThread == nil || !*add.Disk.DedicatedIOThread {
		return false
	}
	bus, _ := busOf(add.Disk)
	return bus != busVirtio
}

func hasWrongBootOrder(add *kubevirtv1.AddVolumeOptions) bool {
	return add.Disk != nil && add.Disk.BootOrder != nil && *add.Disk.BootOrder < 1
}

// canBeTried reports whether no other rule reports a request.
func canBeTried(add *kubevirtv1.AddVolumeOptions) bool {
	return !lacksSource(add) && !lacksDevice(add) && !onWrongBus(add) && !hasWrongIOThread(add) && !hasWrongBootOrder(add)
}

// addedVolume returns the volume that a request adds.
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

// volumeRequestFits applies the requests, and reports problems that the VM does not have without
// them.
func volumeRequestFits(vm *ExpandedVM, r *Report) {
	if len(vm.VM.Status.VolumeRequests) == 0 || vm.Spec == nil {
		return
	}
	known := map[string]int{}
	for _, p := range r.runVMIRules(vm) {
		known[p.message()]++
	}
	for _, p := range r.runVMIRules(vm.withVolumeRequests()) {
		switch text := p.message(); {
		case p.warnsOnly(vm.Config, vm):
		case known[text] > 0:
			known[text]--
		default:
			r.Add(field.Invalid(field.NewPath("status", "volumeRequests"), p.err.Field, "would make the VM invalid: "+p.err.ErrorBody()))
		}
	}
}

// message identifies a problem without its path, because removed volumes change positions.
func (p problem) message() string { return p.rule.ID + "\n" + p.err.ErrorBody() }

// withVolumeRequests returns the VM after its valid volume requests, applied in order.
func (vm *ExpandedVM) withVolumeRequests() *ExpandedVM {
	removed, added := vm.volumeRequestOutcome()
	spec := *vm.Spec
	spec.Volumes = slices.DeleteFunc(slices.Clone(spec.Volumes), func(v kubevirtv1.Volume) bool { return removed[v.Name] })
	devices := &spec.Domain.Devices
	devices.Disks = slices.DeleteFunc(slices.Clone(devices.Disks), func(d kubevirtv1.Disk) bool { return removed[d.Name] })
	for _, add := range vm.eachAdded() {
		if added[add.Name] == add {
			spec.Volumes = append(spec.Volumes, addedVolume(add))
			devices.Disks = append(devices.Disks, *add.Disk)
			devices.Disks[len(devices.Disks)-1].Name = add.Name
		}
	}
	return &ExpandedVM{VM: vm.VM, Meta: vm.Meta, Spec: &spec, Old: vm.Old, Config: vm.Config, templatePath: vm.templatePath}
}

// volumeRequestOutcome returns the volumes that requests remove, and the requests that add one.
func (vm *ExpandedVM) volumeRequestOutcome() (removed map[string]bool, added map[string]*kubevirtv1.AddVolumeOptions) {
	removed, added = map[string]bool{}, map[string]*kubevirtv1.AddVolumeOptions{}
	exists := map[string]bool{}
	for name := range namesOf(vm.Spec.Volumes, volumeName) {
		exists[name] = true
	}
	for _, request := range pointers(volumeRequestsOf(vm)) {
		switch add, remove := request.AddVolumeOptions, request.RemoveVolumeOptions; {
		case add != nil && remove != nil:
		case add != nil && !exists[add.Name] && canBeTried(add):
			exists[add.Name], added[add.Name] = true, add
		case remove != nil:
			exists[remove.Name], removed[remove.Name] = false, true
			delete(added, remove.Name)
		}
	}
	return removed, added
}
