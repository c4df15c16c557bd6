package presets

import (
	"maps"
	"slices"

	"github.com/virtwright/virtwright/presets/provenance"
)

// A contributedField says what one field of an instancetype or a preference gives a VM.
type contributedField struct {
	// from is the field of the spec of the instancetype or preference.
	from string
	// owns are the fields of the VM that it sets, or keeps others from setting.
	owns []provenance.Path
	// apply sets them in the template's spec. Where it is nil, the value goes into owns[0], if
	// nothing is there.
	apply func(spec map[string]any, value any)
	// each says that of owns[0] only those fields or elements belong to it that the value has.
	each bool
}

func plain(from, to string) contributedField { return contributedField{from: from, owns: paths(to)} }

// sizes are the fields that every instancetype owns: it must set CPU and memory.
var sizes = paths(
	"domain.cpu.sockets", "domain.cpu.cores", "domain.cpu.threads",
	"domain.resources.requests.cpu", "domain.resources.limits.cpu",
	"domain.memory.guest", "domain.resources.requests.memory", "domain.resources.limits.memory",
)

// topologyFields are those of sizes that KubeVirt sets to 1 by default.
var topologyFields = sizes[:3]

// instancetypeRows are KubeVirt's pkg/instancetype/apply, but for the CPU topology and annotations.
var instancetypeRows = []contributedField{
	plain("nodeSelector", "nodeSelector"),
	plain("schedulerName", "schedulerName"),
	plain("cpu.model", "domain.cpu.model"),
	plain("cpu.dedicatedCPUPlacement", "domain.cpu.dedicatedCpuPlacement"),
	plain("cpu.isolateEmulatorThread", "domain.cpu.isolateEmulatorThread"),
	plain("cpu.numa", "domain.cpu.numa"),
	plain("cpu.realtime", "domain.cpu.realtime"),
	plain("cpu.maxSockets", "domain.cpu.maxSockets"),
	plain("memory.guest", "domain.memory.guest"),
	plain("memory.hugepages", "domain.memory.hugepages"),
	plain("memory.maxGuest", "domain.memory.maxGuest"),
	plain("ioThreads.supplementalPoolThreadCount", "domain.ioThreads.supplementalPoolThreadCount"),
	plain("ioThreadsPolicy", "domain.ioThreadsPolicy"),
	plain("launchSecurity", "domain.launchSecurity"),
	plain("gpus", "domain.devices.gpus"),
	plain("hostDevices", "domain.devices.hostDevices"),
}

// preferenceRows are KubeVirt's pkg/instancetype/preference/apply, but for annotations, in its order.
var preferenceRows = []contributedField{
	plain("devices.preferredUseVirtioTransitional", "domain.devices.useVirtioTransitional"),
	plain("devices.preferredBlockMultiQueue", "domain.devices.blockMultiQueue"),
	plain("devices.preferredNetworkInterfaceMultiQueue", "domain.devices.networkInterfaceMultiqueue"),
	overwriting("devices.preferredDisableHotplug", "domain.devices.disableHotplug"),
	{"devices.preferredSoundModel", paths("domain.devices.sound.model"), applySoundModel, false},
	plain("devices.preferredRng", "domain.devices.rng"),
	plain("devices.preferredTPM", "domain.devices.tpm"),
	plain("devices.preferredVideoType", "domain.devices.video.type"),
	plain("devices.preferredAutoattachGraphicsDevice", "domain.devices.autoattachGraphicsDevice"),
	plain("devices.preferredAutoattachMemBalloon", "domain.devices.autoattachMemBalloon"),
	plain("devices.preferredAutoattachPodInterface", "domain.devices.autoattachPodInterface"),
	plain("devices.preferredAutoattachSerialConsole", "domain.devices.autoattachSerialConsole"),
	plain("devices.preferredAutoattachInputDevice", "domain.devices.autoattachInputDevice"),
	{"devices.preferredDiskBus", paths("domain.devices.disks[*].disk.bus"), toTargets("disk", "bus"), false},
	{"devices.preferredCdromBus", paths("domain.devices.disks[*].cdrom.bus"), toTargets("cdrom", "bus"), false},
	{"devices.preferredLunBus", paths("domain.devices.disks[*].lun.bus"), toTargets("lun", "bus"), false},
	{"devices.preferredDiskBlockSize", paths("domain.devices.disks[*].blockSize"), toDisks("blockSize", anyTarget), false},
	{"devices.preferredDiskCache", paths("domain.devices.disks[*].cache"), toDisks("cache", anyTarget), false},
	{"devices.preferredDiskIO", paths("domain.devices.disks[*].io"), toDisks("io", anyTarget), false},
	{"devices.preferredDiskDedicatedIoThread", paths("domain.devices.disks[*].dedicatedIOThread"), toDisks("dedicatedIOThread", onVirtio), false},
	{"devices.preferredInterfaceModel", paths("domain.devices.interfaces[*].model"), toElements("interfaces", "model"), false},
	{"devices.preferredInterfaceMasquerade", paths("domain.devices.interfaces[*].masquerade"), applyMasquerade, false},
	{"devices.preferredInputBus", paths("domain.devices.inputs[*].bus"), toElements("inputs", "bus"), false},
	{"devices.preferredInputType", paths("domain.devices.inputs[*].type"), toElements("inputs", "type"), false},
	{"devices.preferredPanicDeviceModel", paths("domain.devices.panicDevices"), applyPanicModel, false},
	overwriting("features.preferredAcpi", "domain.features.acpi"),
	plain("features.preferredApic", "domain.features.apic"),
	{"features.preferredHyperv", paths("domain.features.hyperv", "domain.features.hypervPassthrough"), applyHyperv, true},
	plain("features.preferredKvm", "domain.features.kvm"),
	plain("features.preferredPvspinlock", "domain.features.pvspinlock"),
	plain("features.preferredSmm", "domain.features.smm"),
	{"firmware", paths("domain.firmware.bootloader"), applyFirmware, false},
	plain("machine.preferredMachineType", "domain.machine.type"),
	{"clock.preferredClockOffset", paths("domain.clock.utc", "domain.clock.timezone"), applyClockOffset, false},
	plain("clock.preferredTimer", "domain.clock.timer"),
	{"cpu.preferredCPUFeatures", paths("domain.cpu.features"), applyCPUFeatures, true},
	plain("preferredSubdomain", "subdomain"),
	plain("preferredTerminationGracePeriodSeconds", "terminationGracePeriodSeconds"),
	plain("preferredArchitecture", "architecture"),
	plain("preferredLaunchSecurity", "domain.launchSecurity"),
}

// rowsOf are the rows that an instancetype or a preference has, with the values.
func rowsOf(field string, spec map[string]any, visit func(contributedField, any)) {
	rows := instancetypeRows
	if field == "preference" {
		rows = preferenceRows
	}
	for _, row := range rows {
		if v, ok := lookupDotted(spec, row.from); ok && isSet(v) {
			visit(row, v)
		}
	}
}

// isSet reports whether a value in an instancetype or preference counts as set.
func isSet(v any) bool {
	list, isList := v.([]any)
	return v != nil && v != "" && (!isList || len(list) > 0)
}

// ownedBy are the fields of a VM that belong to an instancetype or a preference of this spec.
func ownedBy(field string, spec map[string]any) []provenance.Path {
	var out []provenance.Path
	if field == "instancetype" {
		out = slices.Clone(sizes)
	}
	rowsOf(field, spec, func(row contributedField, value any) { out = append(out, row.owned(value)...) })
	annotations, _ := spec["annotations"].(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		out = append(out, templateAnnotations.With(provenance.Segment{Name: key}))
	}
	return out
}

// owned are the fields that belong to a row of this value.
func (r contributedField) owned(value any) []provenance.Path {
	if !r.each {
		return r.owns
	}
	out := slices.Clone(r.owns[1:])
	fields, _ := value.(map[string]any)
	for name := range fields {
		out = append(out, r.owns[0].With(provenance.Segment{Name: name}))
	}
	elements, _ := value.([]any)
	for _, e := range elements {
		fields, _ := e.(map[string]any)
		name, _ := fields["name"].(string)
		out = append(out, r.owns[0].With(provenance.Segment{Name: name, Kind: provenance.Element}))
	}
	return out
}

// setField sets the field at p beneath spec.template.spec, which obj is. Without overwrite, it keeps a
// value that is there.
func setField(obj map[string]any, p provenance.Path, value any, overwrite bool) {
	p = p[len(templateSpec):]
	for _, seg := range p[:len(p)-1] {
		obj = child(obj, seg.Name)
	}
	if name := p[len(p)-1].Name; overwrite || !isSet(obj[name]) {
		obj[name] = value
	}
}

// child returns the object in a field of obj, and makes it where there is none.
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
