package presets

import (
	"maps"
	"slices"

	"github.com/virtwright/virtwright/presets/provenance"
)

// overwriting is a row that KubeVirt applies also against the user.
func overwriting(from, to string) contributedField {
	owns := paths(to)
	return contributedField{from: from, owns: owns, apply: func(spec map[string]any, value any) { setField(spec, owns[0], value, true) }}
}

func devicesOf(spec map[string]any) map[string]any { return child(child(spec, "domain"), "devices") }

// objectsIn yields the elements of a list of objects.
func objectsIn(obj map[string]any, name string) []map[string]any {
	list, _ := obj[name].([]any)
	out := make([]map[string]any, 0, len(list))
	for _, e := range list {
		if fields, ok := e.(map[string]any); ok {
			out = append(out, fields)
		}
	}
	return out
}

// toElements gives each element of a list of devices a field.
func toElements(list, name string) func(map[string]any, any) {
	return func(spec map[string]any, value any) {
		for _, e := range objectsIn(devicesOf(spec), list) {
			if !isSet(e[name]) {
				e[name] = value
			}
		}
	}
}

// target is the target of a disk of one kind, if it is of that kind. A disk without a target is a disk.
func target(disk map[string]any, kind string) map[string]any {
	if kind == "disk" && disk["disk"] == nil && disk["cdrom"] == nil && disk["lun"] == nil {
		disk["disk"] = map[string]any{}
	}
	found, _ := disk[kind].(map[string]any)
	return found
}

// toTargets gives each target of one kind a field.
func toTargets(kind, name string) func(map[string]any, any) {
	return func(spec map[string]any, value any) {
		for _, disk := range objectsIn(devicesOf(spec), "disks") {
			if at := target(disk, kind); at != nil && !isSet(at[name]) {
				at[name] = value
			}
		}
	}
}

func anyTarget(map[string]any) bool { return true }

func onVirtio(target map[string]any) bool { return target["bus"] == "virtio" }

// toDisks gives each disk that is no cdrom and no lun a field.
func toDisks(name string, wants func(target map[string]any) bool) func(map[string]any, any) {
	return func(spec map[string]any, value any) {
		for _, disk := range objectsIn(devicesOf(spec), "disks") {
			if at := target(disk, "disk"); at != nil && wants(at) && !isSet(disk[name]) {
				disk[name] = value
			}
		}
	}
}

func applySoundModel(spec map[string]any, value any) {
	if sound, ok := devicesOf(spec)["sound"].(map[string]any); ok && !isSet(sound["model"]) {
		sound["model"] = value
	}
}

// applyMasquerade binds interfaces without a binding that are on the pod network.
func applyMasquerade(spec map[string]any, value any) {
	for _, e := range objectsIn(devicesOf(spec), "interfaces") {
		bound := slices.ContainsFunc(oneOfs["core/v1.Interface"][0], func(names []string) bool { return e[names[0]] != nil })
		onPod := slices.ContainsFunc(objectsIn(spec, "networks"), func(n map[string]any) bool { return n["name"] == e["name"] && n["pod"] != nil })
		if !bound && onPod {
			e["masquerade"] = value
		}
	}
}

func applyPanicModel(spec map[string]any, value any) {
	devices := devicesOf(spec)
	if len(objectsIn(devices, "panicDevices")) == 0 {
		devices["panicDevices"] = []any{map[string]any{"model": value}}
		return
	}
	toElements("panicDevices", "model")(spec, value)
}

// applyHyperv gives each enlightenment that is not there.
func applyHyperv(spec map[string]any, value any) {
	preferred, _ := value.(map[string]any)
	hyperv := child(child(child(spec, "domain"), "features"), "hyperv")
	for name, v := range preferred {
		if hyperv[name] == nil {
			hyperv[name] = v
		}
	}
}

// applyClockOffset keeps an offset of either kind.
func applyClockOffset(spec map[string]any, value any) {
	clock := child(child(spec, "domain"), "clock")
	if offset, ok := value.(map[string]any); ok && clock["utc"] == nil && clock["timezone"] == nil {
		maps.Copy(clock, offset)
	}
}

// applyCPUFeatures adds the features that are not there.
func applyCPUFeatures(spec map[string]any, value any) {
	cpu := child(child(spec, "domain"), "cpu")
	has, _ := cpu["features"].([]any)
	preferred, _ := value.([]any)
	for _, e := range preferred {
		fields, _ := e.(map[string]any)
		if !slices.ContainsFunc(objectsIn(cpu, "features"), func(f map[string]any) bool { return f["name"] == fields["name"] }) {
			has = append(has, e)
		}
	}
	cpu["features"] = has
}

// applyFirmware chooses a bootloader where none is chosen, and completes the one that is.
func applyFirmware(spec map[string]any, value any) {
	prefers, _ := value.(map[string]any)
	bootloader, _ := lookup(spec, vmSchema().at(templateSpec), provenance.Of("domain", "firmware", "bootloader")).(map[string]any)
	chosen := maps.Clone(bootloader)
	if chosen == nil {
		chosen = map[string]any{}
	}
	none := func() bool { return chosen["bios"] == nil && chosen["efi"] == nil }
	if prefers["preferredUseBios"] == true && none() {
		chosen["bios"] = map[string]any{}
	}
	complete(chosen, "bios", "useSerial", prefers["preferredUseBiosSerial"])
	switch {
	case none() && prefers["preferredEfi"] != nil:
		chosen["efi"] = prefers["preferredEfi"]
	case none() && prefers["preferredUseEfi"] == true:
		chosen["efi"] = map[string]any{}
		complete(chosen, "efi", "secureBoot", prefers["preferredUseSecureBoot"])
	default:
		complete(chosen, "efi", "secureBoot", prefers["preferredUseSecureBoot"])
	}
	if len(chosen) > 0 {
		child(child(spec, "domain"), "firmware")["bootloader"] = chosen
	}
}

// complete sets a field of a bootloader that is chosen.
func complete(bootloader map[string]any, kind, name string, value any) {
	fields, ok := bootloader[kind].(map[string]any)
	if !ok || value == nil || fields[name] != nil {
		return
	}
	fields = maps.Clone(fields)
	fields[name] = value
	bootloader[kind] = fields
}
