package presets

import (
	"fmt"
	"maps"
	"slices"

	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/presets/vmschema"
)

// A contributedField says how one field of an instancetype or a preference changes a VM.
type contributedField struct {
	from string            // the field of the spec of the instancetype or preference
	owns []provenance.Path // the fields of the VM that it sets or reserves
	// apply sets them in the template's spec; if it is nil, the value goes into owns[0], if unset.
	apply    func(spec map[string]any, value any)
	perEntry bool // only those entries of owns[0] belong to it that the value has
}

func plain(from, to string) contributedField { return contributedField{from: from, owns: paths(to)} }

// sizes are the fields that every instancetype owns: it must set CPU and memory.
var sizes = paths(
	"domain.cpu.sockets", "domain.cpu.cores", "domain.cpu.threads",
	"domain.resources.requests.cpu", "domain.resources.limits.cpu",
	"domain.memory.guest", "domain.resources.requests.memory", "domain.resources.limits.memory",
)

// topologyFields are the sizes that KubeVirt sets to 1 by default.
var topologyFields = sizes[:3]

// instancetypeRows follow KubeVirt's pkg/instancetype/apply, without CPU topology and annotations.
var instancetypeRows = []contributedField{
	plain("nodeSelector", "nodeSelector"), plain("schedulerName", "schedulerName"),
	plain("cpu.model", "domain.cpu.model"), plain("cpu.dedicatedCPUPlacement", "domain.cpu.dedicatedCpuPlacement"),
	plain("cpu.isolateEmulatorThread", "domain.cpu.isolateEmulatorThread"), plain("cpu.numa", "domain.cpu.numa"),
	plain("cpu.realtime", "domain.cpu.realtime"), overwriting("cpu.maxSockets", "domain.cpu.maxSockets"),
	plain("memory.guest", "domain.memory.guest"), plain("memory.hugepages", "domain.memory.hugepages"),
	plain("memory.maxGuest", "domain.memory.maxGuest"),
	plain("ioThreads.supplementalPoolThreadCount", "domain.ioThreads.supplementalPoolThreadCount"),
	plain("ioThreadsPolicy", "domain.ioThreadsPolicy"), plain("launchSecurity", "domain.launchSecurity"),
	plain("gpus", "domain.devices.gpus"), plain("hostDevices", "domain.devices.hostDevices"),
}

// preferenceRows follow pkg/instancetype/preference/apply, in its order, without annotations.
var preferenceRows = []contributedField{
	plain("devices.preferredUseVirtioTransitional", "domain.devices.useVirtioTransitional"),
	plain("devices.preferredBlockMultiQueue", "domain.devices.blockMultiQueue"),
	plain("devices.preferredNetworkInterfaceMultiQueue", "domain.devices.networkInterfaceMultiqueue"),
	overwriting("devices.preferredDisableHotplug", "domain.devices.disableHotplug"),
	{"devices.preferredSoundModel", paths("domain.devices.sound.model"), applySoundModel, false},
	plain("devices.preferredRng", "domain.devices.rng"), plain("devices.preferredTPM", "domain.devices.tpm"),
	plain("devices.preferredVideoType", "domain.devices.video.type"),
	plain("devices.preferredAutoattachGraphicsDevice", "domain.devices.autoattachGraphicsDevice"),
	plain("devices.preferredAutoattachMemBalloon", "domain.devices.autoattachMemBalloon"),
	plain("devices.preferredAutoattachPodInterface", "domain.devices.autoattachPodInterface"),
	plain("devices.preferredAutoattachSerialConsole", "domain.devices.autoattachSerialConsole"),
	plain("devices.preferredAutoattachInputDevice", "domain.devices.autoattachInputDevice"),
	{"devices.preferredDiskBus", paths("domain.devices.disks[*].disk.bus"), toTargets("disk", "bus"), false},
	{"devices.preferredCdromBus", paths("domain.devices.disks[*].cdrom.bus"), toTargets("cdrom", "bus"), false},
	{"devices.preferredLunBus", paths("domain.devices.disks[*].lun.bus"), toTargets("lun", "bus"), false},
	{"devices.preferredDiskBlockSize", paths("domain.devices.disks[*].blockSize"), toDisks("blockSize", ""), false},
	{"devices.preferredDiskCache", paths("domain.devices.disks[*].cache"), toDisks("cache", ""), false},
	{"devices.preferredDiskIO", paths("domain.devices.disks[*].io"), toDisks("io", ""), false},
	{"devices.preferredDiskDedicatedIoThread", paths("domain.devices.disks[*].dedicatedIOThread"), toDisks("dedicatedIOThread", "virtio"), false},
	{"devices.preferredInterfaceModel", paths("domain.devices.interfaces[*].model"), toElements("interfaces", "model"), false},
	{"devices.preferredInterfaceMasquerade", paths("domain.devices.interfaces[*].masquerade"), applyMasquerade, false},
	{"devices.preferredInputBus", paths("domain.devices.inputs[*].bus"), toElements("inputs", "bus"), false},
	{"devices.preferredInputType", paths("domain.devices.inputs[*].type"), toElements("inputs", "type"), false},
	{"devices.preferredPanicDeviceModel", paths("domain.devices.panicDevices"), applyPanicModel, false},
	overwriting("features.preferredAcpi", "domain.features.acpi"),
	plain("features.preferredApic", "domain.features.apic"),
	{"features.preferredHyperv", paths("domain.features.hyperv", "domain.features.hypervPassthrough"), applyHyperv, true},
	plain("features.preferredKvm", "domain.features.kvm"), plain("features.preferredPvspinlock", "domain.features.pvspinlock"),
	plain("features.preferredSmm", "domain.features.smm"),
	{"firmware", paths("domain.firmware.bootloader"), applyFirmware, false},
	plain("machine.preferredMachineType", "domain.machine.type"),
	{"clock.preferredClockOffset", paths("domain.clock.utc", "domain.clock.timezone"), applyClockOffset, false},
	plain("clock.preferredTimer", "domain.clock.timer"),
	{"cpu.preferredCPUFeatures", paths("domain.cpu.features"), applyCPUFeatures, true},
	plain("preferredSubdomain", "subdomain"),
	plain("preferredTerminationGracePeriodSeconds", "terminationGracePeriodSeconds"),
	plain("preferredArchitecture", "architecture"), plain("preferredLaunchSecurity", "domain.launchSecurity"),
}

func visitSetRows(field string, spec map[string]any, visit func(contributedField, any)) {
	rows := instancetypeRows
	if field == "preference" {
		rows = preferenceRows
	}
	for _, row := range rows {
		if v, ok := tree.Lookup(spec, row.from); ok && isSet(v) {
			visit(row, v)
		}
	}
}

func isSet(v any) bool {
	list, isList := v.([]any)
	return v != nil && v != "" && (!isList || len(list) > 0)
}

func ownedBy(field string, spec map[string]any) []provenance.Path {
	var out []provenance.Path
	if field == "instancetype" {
		out = slices.Clone(sizes)
	}
	visitSetRows(field, spec, func(row contributedField, value any) { out = append(out, row.owned(value)...) })
	for _, key := range slices.Sorted(maps.Keys(tree.AsObject(spec["annotations"]))) {
		out = append(out, vmschema.TemplateAnnotations.Field(key))
	}
	return out
}

func (r contributedField) owned(value any) []provenance.Path {
	if !r.perEntry {
		return r.owns
	}
	out := slices.Clone(r.owns[1:])
	for name := range tree.AsObject(value) {
		out = append(out, r.owns[0].Field(name))
	}
	for _, e := range tree.AsList(value) {
		out = append(out, r.owns[0].Element(tree.AsText(tree.AsObject(e)["name"])))
	}
	return out
}

// setField sets the field at p beneath obj.
func setField(obj map[string]any, p provenance.Path, value any) {
	parentOf(obj, p)[p[len(p)-1].Name] = value
}

// parentOf returns the object that holds the field at p beneath obj, and creates it.
func parentOf(obj map[string]any, p provenance.Path) map[string]any {
	for _, seg := range p[:len(p)-1] {
		obj = child(obj, seg.Name)
	}
	return obj
}

// child returns the object in a field of obj, and creates it if the field is absent.
func child(obj map[string]any, name string) map[string]any {
	sub, ok := obj[name].(map[string]any)
	if !ok {
		sub = map[string]any{}
		if obj[name] == nil {
			obj[name] = sub
		}
	}
	return sub
}

// ExpandInstancetype returns a copy of a VM, decoded JSON, with the disks, instancetype and
// preference that it gets at start. Named are its matchers; an inferred one has no name. Conflict
// says why KubeVirt rejects the VM, if it does.
func ExpandInstancetype(vm map[string]any, find InstancetypeFinder) (expanded map[string]any, named []Matcher, conflict string) {
	out := tree.AsObject(tree.Clone(vm))
	spec := child(out, "spec")
	r := &mergeState{root: vm, findInstancetype: find}
	all := r.contributionsOf(spec)
	if all.instancetype != nil && all.instancetype.spec != nil {
		if at := r.firstSet(all.instancetype); at != nil {
			conflict = fmt.Sprintf("it sets %s, which its instancetype owns", at)
		} else if all.preference != nil {
			conflict = spreadConflict(all.instancetype.spec, all.preference.spec)
		}
	}
	inner := child(child(spec, "template"), "spec")
	addMissingDisks(inner)
	all.expand(child(spec, "template"))
	for _, c := range []*contribution{all.instancetype, all.preference} {
		if c != nil {
			named = append(named, c.matcher)
		}
	}
	return withoutEmpty(out), named, conflict
}

var disksPath = paths("domain.devices.disks")[0]

// addMissingDisks adds disks for volumes without disk or filesystem, and targets for disks.
func addMissingDisks(spec map[string]any) {
	for _, volume := range objectsIn(spec, "volumes") {
		used := func(d map[string]any) bool { return d["name"] == volume["name"] }
		devices := devicesOf(spec)
		if !slices.ContainsFunc(objectsIn(devices, "disks"), used) && !slices.ContainsFunc(objectsIn(devices, "filesystems"), used) {
			disks := tree.AsList(devices["disks"])
			devices["disks"] = append(slices.Clip(disks), map[string]any{"name": volume["name"]})
		}
	}
	for _, disk := range objectsIn(devicesOf(spec), "disks") {
		target(disk, "disk")
	}
}

func withoutEmpty(vm map[string]any) map[string]any {
	for _, at := range paths("domain.devices", "domain.clock", "domain.features.hyperv", "domain.features", "domain.cpu", "domain") {
		if v := vmschema.Value(vm, at); tree.IsObject(v) && tree.IsEmpty(v) {
			(&mergeState{root: vm}).unset(at)
		}
	}
	return vm
}

// CopyFields copies fields from one VM to another; both are decoded JSON. If one lies in a disk,
// the VM first gets all disks that KubeVirt would add, because their order matters.
func CopyFields(to, from map[string]any, at ...provenance.Path) {
	r := &mergeState{root: to}
	if slices.ContainsFunc(at, func(p provenance.Path) bool { return p.HasPrefix(disksPath) }) {
		addMissingDisks(child(child(child(to, "spec"), "template"), "spec"))
	}
	for _, p := range at {
		if v := vmschema.Value(from, p); v != nil {
			r.setAt(p, tree.Clone(v), from)
		}
	}
}

// LegacyDefaults returns the fields that a VirtualMachineInstancePreset sets, as a partial VM.
func LegacyDefaults(p *kubevirtv1.VirtualMachineInstancePreset) (map[string]any, error) {
	domain, err := legacyDomain(p)
	return map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"domain": domain}}}}, err
}
