package validation

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

var memoryHotplugRules = []Rule{{
	ID:    "max-guest-memory-at-least-guest",
	Says:  "The most memory that the guest may have is at least what it has.",
	Reach: BeyondKubeVirt,
	Check: maxGuestMemoryAtLeastGuest,
}, {
	ID:      "memory-hotplug-architecture",
	Says:    "With live updates, maxGuest is for amd64 only.",
	Cluster: true,
	Check:   memoryHotplugArchitecture,
}, {
	ID:      "memory-hotplug-compatible",
	Says:    "With live updates, maxGuest goes without realtime, NUMA passthrough and launch security.",
	Cluster: true,
	Check:   memoryHotplugCompatible,
}, {
	ID:      "memory-hotplug-minimum",
	Says:    "With live updates, a guest with maxGuest has at least 1Gi of memory.",
	Cluster: true,
	Check:   memoryHotplugMinimum,
}, {
	ID:      "memory-hotplug-aligned",
	Says:    "With live updates, guest and maxGuest are multiples of 2Mi, or of 1Gi with huge pages of 1Gi.",
	Cluster: true,
	Check:   memoryHotplugAligned,
}}

func maxGuestMemoryAtLeastGuest(m *Machine, r *Report) {
	memory := memoryOf(m)
	if memory.Guest != nil && memory.MaxGuest != nil && memory.MaxGuest.Cmp(*memory.Guest) < 0 && !m.SizedElsewhere() {
		r.Add(field.Invalid(m.Domain("memory", "maxGuest"), memory.MaxGuest.String(),
			fmt.Sprintf("must be at least memory.guest, which is %s", memory.Guest.String())))
	}
}

// hotplugged is the memory of a VirtualMachine that may grow while it runs; nil
// where it may not.
func hotplugged(m *Machine) *kubevirtv1.Memory {
	memory := memoryOf(m)
	if m.VM == nil || m.Config.NoLiveUpdate || memory.MaxGuest == nil || m.SizedElsewhere() {
		return nil
	}
	return memory
}

func memoryHotplugArchitecture(m *Machine, r *Report) {
	if memory := hotplugged(m); memory != nil && m.Architecture() != "amd64" {
		r.Add(field.Forbidden(m.Domain("memory", "maxGuest"), "memory grows on amd64 only, and this machine is "+m.Architecture()))
	}
}

func memoryHotplugCompatible(m *Machine, r *Report) {
	memory := hotplugged(m)
	if memory == nil {
		return
	}
	var with string
	switch cpu := cpuOf(m); {
	case cpu.Realtime != nil:
		with = "cpu.realtime"
	case passesNUMA(cpu):
		with = "cpu.numa.guestMappingPassthrough"
	case m.Spec.Domain.LaunchSecurity != nil:
		with = "launchSecurity"
	default:
		return
	}
	r.Add(field.Forbidden(m.Domain("memory", "maxGuest"), "memory cannot grow with "+with))
}

// leastHotplugged is the least memory of a guest whose memory may grow.
var leastHotplugged = resource.MustParse("1Gi")

func memoryHotplugMinimum(m *Machine, r *Report) {
	memory := hotplugged(m)
	if memory != nil && memory.Guest != nil && memory.Guest.Sign() > 0 && memory.Guest.Cmp(leastHotplugged) < 0 {
		r.Add(field.Invalid(m.Domain("memory", "guest"), memory.Guest.String(), "must be at least 1Gi with maxGuest"))
	}
}

func memoryHotplugAligned(m *Machine, r *Report) {
	memory := hotplugged(m)
	if memory == nil {
		return
	}
	alignment := resource.MustParse("2Mi")
	if page, err := pageSize(m); err == nil && page.Cmp(leastHotplugged) == 0 {
		alignment = page
	}
	detail := fmt.Sprintf("must be a multiple of %s, in which memory grows", alignment.String())
	guest := memory.Guest
	// hugepagesWhole reports memory that huge pages do not make up.
	if paged, _ := memoryInPages(m); guest != nil && guest.Value()%alignment.Value() != 0 && (memory.Hugepages == nil || paged.Cmp(*guest) != 0) {
		r.Add(field.Invalid(m.Domain("memory", "guest"), guest.String(), detail))
	}
	if memory.MaxGuest.Value()%alignment.Value() != 0 {
		r.Add(field.Invalid(m.Domain("memory", "maxGuest"), memory.MaxGuest.String(), detail))
	}
}
