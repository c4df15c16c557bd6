package presets

import (
	"k8s.io/apimachinery/pkg/api/resource"
)

// expanded is a VM with what its instancetype and its preference give it.
func (c contributions) expanded(vm map[string]any) map[string]any {
	if c == (contributions{}) {
		return vm
	}
	out, _ := cloneJSON(vm).(map[string]any)
	c.expand(child(child(out, "spec"), "template"))
	return out
}

// expand gives the template of a VM what its instancetype and its preference give it, as far as
// they are known. The template is changed in place.
func (c contributions) expand(template map[string]any) {
	spec := child(template, "spec")
	if it := c.instancetype; it != nil && it.spec != nil {
		applyTopology(spec, it.spec, c.preference)
		applyOvercommit(spec, it.spec)
		it.apply(template, spec)
	}
	if p := c.preference; p != nil && p.spec != nil {
		p.apply(template, spec)
	}
}

// apply sets what every row and the annotations contribute.
func (c *contribution) apply(template, spec map[string]any) {
	rowsOf(c.field, c.spec, func(row contributedField, value any) {
		if value = cloneJSON(value); row.apply != nil {
			row.apply(spec, value)
			return
		}
		setField(spec, row.owns[0], value, false)
	})
	annotations, _ := c.spec["annotations"].(map[string]any)
	for key, value := range annotations {
		if all := child(child(template, "metadata"), "annotations"); all[key] == nil {
			all[key] = value
		}
	}
}

// whole is a JSON number as an integer.
func whole(v any) int64 {
	switch v := v.(type) {
	case int64:
		return v
	case float64:
		return int64(v)
	}
	return 0
}

// applyTopology spreads the vCPUs of an instancetype as the preference prefers; by default they
// become sockets. A VM with a topology of its own is refused by KubeVirt, and keeps it here.
func applyTopology(spec, instancetype map[string]any, preference *contribution) {
	cpu := child(child(spec, "domain"), "cpu")
	if whole(cpu["sockets"])+whole(cpu["cores"])+whole(cpu["threads"]) > 0 {
		return
	}
	guest, _ := lookupDotted(instancetype, "cpu.guest")
	var prefers map[string]any
	if preference != nil {
		prefers = preference.spec
	}
	sockets, cores, threads := topology(whole(guest), prefers)
	cpu["sockets"], cpu["cores"], cpu["threads"] = sockets, cores, threads
}

func topology(guest int64, preference map[string]any) (sockets, cores, threads int64) {
	preferred, _ := lookupDotted(preference, "cpu.preferredCPUTopology")
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

// spread divides vCPUs as spreadOptions say.
func spread(guest int64, preference map[string]any) (sockets, cores, threads int64) {
	ratio := int64(2)
	if v, _ := lookupDotted(preference, "preferSpreadSocketToCoreRatio"); whole(v) > 0 {
		ratio = whole(v)
	}
	if v, _ := lookupDotted(preference, "cpu.spreadOptions.ratio"); whole(v) > 0 {
		ratio = whole(v)
	}
	across, _ := lookupDotted(preference, "cpu.spreadOptions.across")
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

// applyOvercommit requests less memory than the guest sees.
func applyOvercommit(spec, instancetype map[string]any) {
	percent, _ := lookupDotted(instancetype, "memory.overcommitPercent")
	guest, _ := lookupDotted(instancetype, "memory.guest")
	size, err := parseQuantity(guest)
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
