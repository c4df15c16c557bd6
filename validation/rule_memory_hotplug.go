package validation

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

var memoryHotplugRules = []Rule{{
	ID:          "max-guest-memory-at-least-guest",
	Requirement: "memory.maxGuest is at least memory.guest.",
	Check: func(vm *ExpandedVM, r *Report) {
		memory, reach := memoryOf(vm), StricterThanKubeVirt
		if vm.Config.AssumedStrategy && hotpluggableMemory(vm) != nil {
			reach = SameAsKubeVirt
		}
		if memory.Guest != nil && memory.MaxGuest != nil && memory.MaxGuest.Cmp(*memory.Guest) < 0 && !vm.hasInstancetype() {
			r.addStricter(reach, field.Invalid(vm.Domain("memory", "maxGuest"), memory.MaxGuest.String(),
				fmt.Sprintf("must be at least memory.guest, which is %s", memory.Guest.String())))
		}
	},
}, {
	ID:          "memory-hotplug-architecture",
	Requirement: "With live updates, maxGuest is for amd64 only.",
	LiveUpdate:  true,
	Check: func(vm *ExpandedVM, r *Report) {
		if memory := hotpluggableMemory(vm); memory != nil && vm.Architecture() != "amd64" {
			r.Add(field.Forbidden(vm.Domain("memory", "maxGuest"), "memory hotplug is not supported on "+vm.Architecture()+", only on amd64"))
		}
	},
}, {
	ID:          "memory-hotplug-compatible",
	Requirement: "With live updates, maxGuest excludes realtime, NUMA passthrough and launch security.",
	LiveUpdate:  true,
	Check: func(vm *ExpandedVM, r *Report) {
		memory := hotpluggableMemory(vm)
		if memory == nil {
			return
		}
		var with string
		switch cpu := cpuOf(vm); {
		case cpu.Realtime != nil:
			with = "cpu.realtime"
		case passesNUMA(cpu):
			with = "cpu.numa.guestMappingPassthrough"
		case vm.Spec.Domain.LaunchSecurity != nil:
			with = "launchSecurity"
		default:
			return
		}
		r.Add(field.Forbidden(vm.Domain("memory", "maxGuest"), "memory cannot grow with "+with))
	},
}, {
	ID:          "memory-hotplug-minimum",
	Requirement: "With live updates, a guest with maxGuest has at least 1Gi of memory.",
	LiveUpdate:  true,
	Check: func(vm *ExpandedVM, r *Report) {
		switch memory := hotpluggableMemory(vm); {
		case memory == nil:
		case memory.Guest == nil && vm.Config.Addon: // otherwise memory-given reports it
			r.Add(field.Required(vm.Domain("memory", "guest"), "must be given with maxGuest, and be at least 1Gi"))
		case memory.Guest != nil && memory.Guest.Sign() > 0 && memory.Guest.Cmp(leastHotplugged) < 0:
			r.Add(field.Invalid(vm.Domain("memory", "guest"), memory.Guest.String(), "must be at least 1Gi with maxGuest"))
		}
	},
}, {
	ID:          "memory-hotplug-aligned",
	Requirement: "With live updates, guest and maxGuest are multiples of 2Mi, or of 1Gi with huge pages of 1Gi.",
	LiveUpdate:  true,
	Check: func(vm *ExpandedVM, r *Report) {
		memory := hotpluggableMemory(vm)
		if memory == nil {
			return
		}
		alignment, reach := resource.MustParse("2Mi"), SameAsKubeVirt
		if page, err := pageSize(vm); err == nil && page.Cmp(leastHotplugged) == 0 {
			alignment = page
			if memory.Hugepages.PageSize != "1Gi" { // KubeVirt compares the text
				reach = StricterThanKubeVirt
			}
		}
		detail := fmt.Sprintf("must be a multiple of %s, the step of memory hotplug", alignment.String())
		guest := memory.Guest
		// hugepages-whole reports memory that is not a multiple of the page size.
		paged, _ := memoryInPages(vm)
		if guest != nil && guest.Value()%alignment.Value() != 0 && (memory.Hugepages == nil || paged.Cmp(*guest) != 0) {
			r.addStricter(reach, field.Invalid(vm.Domain("memory", "guest"), guest.String(), detail))
		}
		if memory.MaxGuest.Value()%alignment.Value() != 0 {
			r.addStricter(reach, field.Invalid(vm.Domain("memory", "maxGuest"), memory.MaxGuest.String(), detail))
		}
	},
}}

// hotpluggableMemory returns the memory of a VM if it may grow while the VM runs, or nil.
func hotpluggableMemory(vm *ExpandedVM) *kubevirtv1.Memory {
	memory := memoryOf(vm)
	if vm.VM == nil || vm.Config.NoLiveUpdate || memory.MaxGuest == nil || vm.hasInstancetype() {
		return nil
	}
	return memory
}

// leastHotplugged is the minimum memory of a guest with memory hotplug.
var leastHotplugged = resource.MustParse("1Gi")
