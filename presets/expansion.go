package presets

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/presets/vmschema"
)

func (c contributions) expanded(vm map[string]any) map[string]any {
	if c == (contributions{}) {
		return vm
	}
	out := tree.AsObject(tree.Clone(vm))
	c.expand(child(child(out, "spec"), "template"))
	return out
}

// expand adds the known fields of the instancetype and preference to the template of a VM.
func (c contributions) expand(template map[string]any) {
	spec := child(template, "spec")
	var preferred map[string]any
	if c.preference != nil {
		preferred = c.preference.spec
	}
	if it := c.instancetype; it != nil && it.spec != nil {
		applyTopology(spec, it.spec, preferred)
		applyOvercommit(spec, it.spec)
		it.apply(template, spec)
	}
	if preferred != nil {
		c.preference.apply(template, spec)
	}
}

func (c *contribution) apply(template, spec map[string]any) {
	visitSetRows(c.field, c.spec, func(row contributedField, value any) {
		if value = tree.Clone(value); row.apply != nil {
			row.apply(spec, value)
			return
		}
		p := row.owns[0][len(vmschema.TemplateSpec):]
		parent, name := parentOf(spec, p), p[len(p)-1].Name
		keeps := isSet(parent[name])
		if c.field == "instancetype" { // most of its fields are no pointers: false and 0 are unset
			keeps = isWritten(parent[name])
		}
		if !keeps {
			parent[name] = value
		}
	})
	for key, value := range tree.AsObject(c.spec["annotations"]) {
		if all := child(child(template, "metadata"), "annotations"); all[key] == nil {
			all[key] = value
		}
	}
}

func whole(v any) int64 {
	switch v := v.(type) {
	case int64:
		return v
	case float64:
		return int64(v)
	}
	return 0
}

// applyTopology distributes the vCPUs of an instancetype as the preference says; by default they
// become sockets. A VM keeps a topology of its own, although KubeVirt rejects it.
func applyTopology(spec, instancetype, preference map[string]any) {
	cpu := child(child(spec, "domain"), "cpu")
	if whole(cpu["sockets"])+whole(cpu["cores"])+whole(cpu["threads"]) > 0 {
		return
	}
	guest, _ := tree.Lookup(instancetype, "cpu.guest")
	cpu["sockets"], cpu["cores"], cpu["threads"] = topology(whole(guest), preference)
}

func topology(guest int64, preference map[string]any) (sockets, cores, threads int64) {
	preferred, _ := tree.Lookup(preference, "cpu.preferredCPUTopology")
	switch preferred {
	case "cores", "preferCores":
		return 1, guest, 1
	case "threads", "preferThreads":
		return 1, 1, guest
	case "spread", "preferSpread":
		return spread(guest, preference)
	}
	return guest, 1, 1
}

func spread(guest int64, preference map[string]any) (sockets, cores, threads int64) {
	ratio, across := spreadOptions(preference)
	switch {
	case guest == 1:
		return 1, 1, 1
	case across == "CoresThreads":
		return 1, guest / ratio, ratio
	case across == "SocketsCoresThreads":
		return guest / 2 / ratio, ratio, 2
	}
	return guest / ratio, ratio, 1
}

func spreadOptions(preference map[string]any) (ratio int64, across any) {
	ratio = 2
	for _, name := range []string{"preferSpreadSocketToCoreRatio", "cpu.spreadOptions.ratio"} {
		if v, _ := tree.Lookup(preference, name); whole(v) > 0 {
			ratio = whole(v)
		}
	}
	across, _ = tree.Lookup(preference, "cpu.spreadOptions.across")
	return ratio, across
}

// spreadConflict says that the vCPUs of an instancetype cannot be spread as the preference says,
// as KubeVirt's CheckSpreadCPUTopology does.
func spreadConflict(instancetype, preference map[string]any) string {
	preferred, _ := tree.Lookup(preference, "cpu.preferredCPUTopology")
	guest, _ := tree.Lookup(instancetype, "cpu.guest")
	divisor, across := spreadOptions(preference)
	if across == "SocketsCoresThreads" {
		divisor *= 2
	}
	if preferred != "spread" && preferred != "preferSpread" || whole(guest)%divisor == 0 {
		return ""
	}
	return fmt.Sprintf("the number of vCPUs of its instancetype, %d, is not divisible by %d, as the topology of its preference requires", whole(guest), divisor)
}

func applyOvercommit(spec, instancetype map[string]any) {
	percent, _ := tree.Lookup(instancetype, "memory.overcommitPercent")
	guest, _ := tree.Lookup(instancetype, "memory.guest")
	size, err := tree.ParseQuantity(guest)
	if whole(percent) <= 0 || err != nil {
		return
	}
	const all = 100
	requested := int64(float32(size.Value()) * (1 - float32(whole(percent))/all)) // in KubeVirt's precision
	requests := child(child(child(spec, "domain"), "resources"), "requests")
	if requests["memory"] == nil {
		requests["memory"] = resource.NewQuantity(requested, size.Format).String()
	}
}

// overwriting returns a row that KubeVirt also applies against the user.
func overwriting(from, to string) contributedField {
	owns := paths(to)
	return contributedField{from: from, owns: owns, apply: func(spec map[string]any, value any) {
		setField(spec, owns[0][len(vmschema.TemplateSpec):], value)
	}}
}

func devicesOf(spec map[string]any) map[string]any { return child(child(spec, "domain"), "devices") }

func objectsIn(obj map[string]any, name string) []map[string]any {
	var out []map[string]any
	for _, e := range tree.AsList(obj[name]) {
		if tree.IsObject(e) {
			out = append(out, tree.AsObject(e))
		}
	}
	return out
}

func setUnset(object map[string]any, name string, value any) {
	if !isSet(object[name]) {
		object[name] = value
	}
}

func toElements(list, name string) func(map[string]any, any) {
	return func(spec map[string]any, value any) {
		for _, e := range objectsIn(devicesOf(spec), list) {
			setUnset(e, name, value)
		}
	}
}

// target returns the target of a disk, if it is of this kind. A disk without a target is a disk.
func target(disk map[string]any, kind string) map[string]any {
	if kind == "disk" && disk["disk"] == nil && disk["cdrom"] == nil && disk["lun"] == nil {
		disk["disk"] = map[string]any{}
	}
	return tree.AsObject(disk[kind])
}

func toTargets(kind, name string) func(map[string]any, any) {
	return func(spec map[string]any, value any) {
		for _, disk := range objectsIn(devicesOf(spec), "disks") {
			if at := target(disk, kind); at != nil {
				setUnset(at, name, value)
			}
		}
	}
}

// toDisks sets a field in disks that are no cdrom or lun; with a bus, only in those on it.
func toDisks(name, bus string) func(map[string]any, any) {
	return func(spec map[string]any, value any) {
		for _, disk := range objectsIn(devicesOf(spec), "disks") {
			if at := target(disk, "disk"); at != nil && (bus == "" || at["bus"] == bus) {
				setUnset(disk, name, value)
			}
		}
	}
}

func applySoundModel(spec map[string]any, value any) {
	if sound := tree.AsObject(devicesOf(spec)["sound"]); sound != nil {
		setUnset(sound, "model", value)
	}
}

func applyMasquerade(spec map[string]any, value any) {
	others := vmschema.VM().At(vmschema.TemplateSpec).At(provenance.Of("domain", "devices", "interfaces")).Elem.Alternatives["masquerade"]
	for _, e := range objectsIn(devicesOf(spec), "interfaces") {
		bound := e["masquerade"] != nil || slices.ContainsFunc(others, func(name string) bool { return e[name] != nil })
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

func applyHyperv(spec map[string]any, value any) {
	hyperv := child(child(child(spec, "domain"), "features"), "hyperv")
	for name, v := range tree.AsObject(value) {
		if hyperv[name] == nil {
			hyperv[name] = v
		}
	}
}

// applyClockOffset keeps an existing offset of either kind.
func applyClockOffset(spec map[string]any, value any) {
	clock := child(child(spec, "domain"), "clock")
	if offset, ok := value.(map[string]any); ok && clock["utc"] == nil && clock["timezone"] == nil {
		maps.Copy(clock, offset)
	}
}

func applyCPUFeatures(spec map[string]any, value any) {
	cpu := child(child(spec, "domain"), "cpu")
	has := tree.AsList(cpu["features"])
	for _, e := range tree.AsList(value) {
		if !slices.ContainsFunc(objectsIn(cpu, "features"), func(f map[string]any) bool { return f["name"] == tree.AsObject(e)["name"] }) {
			has = append(has, e)
		}
	}
	cpu["features"] = has
}

func applyFirmware(spec map[string]any, value any) {
	prefers, chosen := tree.AsObject(value), map[string]any{}
	bootloader, _ := tree.Lookup(spec, "domain.firmware.bootloader")
	maps.Copy(chosen, tree.AsObject(bootloader))
	none := func() bool { return chosen["bios"] == nil && chosen["efi"] == nil }
	if prefers["preferredUseBios"] == true && none() {
		chosen["bios"] = map[string]any{}
	}
	complete(chosen, "bios", "useSerial", prefers["preferredUseBiosSerial"])
	if none() && prefers["preferredEfi"] != nil {
		chosen["efi"] = prefers["preferredEfi"]
	} else {
		if none() && prefers["preferredUseEfi"] == true {
			chosen["efi"] = map[string]any{}
		}
		complete(chosen, "efi", "secureBoot", prefers["preferredUseSecureBoot"])
	}
	if len(chosen) > 0 {
		child(child(spec, "domain"), "firmware")["bootloader"] = chosen
	}
}

func complete(bootloader map[string]any, kind, name string, value any) {
	if fields := tree.AsObject(bootloader[kind]); fields != nil && value != nil && fields[name] == nil {
		fields[name] = value
	}
}
