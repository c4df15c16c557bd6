package validation

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

var memoryRules = []Rule{{
	ID:          "memory-given",
	Requirement: "The memory of the guest is given.",
	Strictness:  EarlierThanKubeVirt,
	Check: func(vm *ExpandedVM, r *Report) {
		// Ignores VMIs with dedicated CPUs, which dedicated-cpus-need-memory reports.
		limit := vm.Spec.Domain.Resources.Limits[corev1.ResourceMemory] // the default of the guest memory
		if limit.IsZero() && !requestsMemory(vm) && !vm.hasInstancetype() && !dedicated(vm) {
			r.Add(field.Required(vm.Domain("memory", "guest"), "must say how much memory the guest has, such as 1Gi"))
		}
	},
}, {
	ID:          "memory-not-negative",
	Leaf:        true,
	Requirement: "Memory requests and limits are not negative.",
	Check:       func(vm *ExpandedVM, r *Report) { notNegative(vm, r, corev1.ResourceMemory) },
}, {
	ID:          "memory-request-minimum",
	Leaf:        true,
	Requirement: "A memory request is at least 1M.",
	Check: func(vm *ExpandedVM, r *Report) {
		request := vm.Spec.Domain.Resources.Requests[corev1.ResourceMemory]
		if request.Sign() > 0 && request.Cmp(leastMemory) < 0 {
			r.Add(field.Invalid(vm.Domain("resources", "requests", "memory"), request.String(), "must be at least 1M; 1Gi is a gibibyte"))
		}
	},
}, {
	ID:          "memory-request-within-limit",
	Requirement: "The memory request is at most the memory limit.",
	Check: func(vm *ExpandedVM, r *Report) {
		requestWithinLimit(vm, r, corev1.ResourceMemory)
	},
}, {
	ID:          "guest-memory-minimum",
	Leaf:        true,
	Requirement: "The guest has at least 1Mi of memory.",
	Strictness:  StricterThanKubeVirt,
	Check: func(vm *ExpandedVM, r *Report) {
		// Ignores requests, which memory-not-negative and memory-request-minimum report, and huge
		// pages, which hugepages-page-size reports.
		guest := memoryOf(vm).Guest
		if guest == nil || guest.Cmp(leastGuestMemory) >= 0 || vm.hasInstancetype() {
			return
		}
		at := guestMemorySource(vm, guest)
		reported := at[0] == "resources" && (guest.Sign() < 0 || at[1] == "requests" && guest.Sign() > 0 && guest.Cmp(leastMemory) < 0)
		if !reported && at[1] != "hugepages" {
			r.Add(field.Invalid(vm.Domain(at...), guest.String(), "must be at least 1Mi"+sizeSuggestion(guest)))
		}
	},
}, {
	ID:                "guest-memory-within-limit",
	Requirement:       "Without live updates, the guest's memory is at most the memory limit.",
	ClusterConfigured: true,
	Check: func(vm *ExpandedVM, r *Report) {
		// Ignores requests above the limit, which memory-request-within-limit reports.
		guest, limit := memoryOf(vm).Guest, vm.Spec.Domain.Resources.Limits[corev1.ResourceMemory]
		if !vm.Config.NoLiveUpdate || guest == nil || limit.Sign() <= 0 || guest.Cmp(limit) <= 0 || vm.hasInstancetype() {
			return
		}
		if request := vm.Spec.Domain.Resources.Requests[corev1.ResourceMemory]; request.Cmp(*guest) != 0 {
			r.Add(field.Invalid(vm.Domain("memory", "guest"), guest.String(),
				fmt.Sprintf("must be at most the limit, which is %s", limit.String())))
		}
	},
}, {
	ID:          "reserved-overhead-enabled",
	Requirement: "Reserving memory for overhead needs feature gate ReservedOverheadMemlock.",
	Gate:        GateReservedOverhead,
	Check: func(vm *ExpandedVM, r *Report) {
		if memoryOf(vm).ReservedOverhead != nil {
			r.addDisabled(vm.Domain("memory", "reservedOverhead"))
		}
	},
}, {
	ID:          "hugepages-page-size",
	Leaf:        true,
	Requirement: "The size of huge pages is a quantity of memory.",
	Check: func(vm *ExpandedVM, r *Report) {
		pages := memoryOf(vm).Hugepages
		if pages == nil {
			return
		}
		if size, err := pageSize(vm); err != nil || size.Sign() <= 0 {
			reach := SameAsKubeVirt
			if err == nil && size.Sign() < 0 {
				reach = StricterThanKubeVirt
			}
			r.addStricter(reach, field.Invalid(vm.Domain("memory", "hugepages", "pageSize"), pages.PageSize, errPageSize.Error()))
		}
	},
}, {
	ID:          "hugepages-whole",
	Requirement: "Memory is a whole number of huge pages.",
	Check: func(vm *ExpandedVM, r *Report) {
		if memoryOf(vm).Hugepages == nil || vm.hasInstancetype() {
			return
		}
		size, err := pageSize(vm)
		memory, at := memoryInPages(vm)
		if err != nil || size.Sign() <= 0 || memory.Sign() <= 0 {
			return // other rules report it
		}
		if memory.Cmp(size) < 0 || memory.Value()%size.Value() != 0 {
			r.Add(field.Invalid(vm.Domain(at...), memory.String(), fmt.Sprintf("must be a multiple of the page size, which is %s", size.String())))
		}
	},
}}

// memoryOf returns spec.domain.memory, or an empty one.
func memoryOf(vm *ExpandedVM) *kubevirtv1.Memory { return orEmpty(vm.Spec.Domain.Memory) }

// requestsMemory reports whether a memory request, guest memory or huge pages are set. A limit
// alone does not count.
func requestsMemory(vm *ExpandedVM) bool {
	request, memory := vm.Spec.Domain.Resources.Requests[corev1.ResourceMemory], memoryOf(vm)
	return !request.IsZero() || memory.Guest != nil || memory.Hugepages != nil
}

// leastMemory is the minimum memory request.
var leastMemory = resource.MustParse("1M")

// leastGuestMemory is the minimum memory of a guest.
var leastGuestMemory = resource.MustParse("1Mi")

// sizeWithoutUnit matches sizes with a missing or wrong unit, such as 2048, 512m or 512k.
var sizeWithoutUnit = regexp.MustCompile(`^([0-9]{1,6})(m|k|Ki)?$`)

// sizeSuggestion suggests a unit for a size that is too small. Quantities print 2000 as 2k, so a
// low number probably means gibibytes.
func sizeSuggestion(q *resource.Quantity) string {
	parts := sizeWithoutUnit.FindStringSubmatch(q.String())
	switch {
	case parts == nil || q.IsZero():
		return ", such as 1Gi"
	case len(parts[1]) == 1:
		return fmt.Sprintf("; did you mean %sGi?", parts[1])
	}
	return fmt.Sprintf("; did you mean %sMi?", parts[1])
}

// guestMemorySource returns the field that sets the guest memory, whose default is the request, the
// limit or the size of a huge page.
func guestMemorySource(vm *ExpandedVM, guest *resource.Quantity) []string {
	for _, of := range []struct {
		name string
		list corev1.ResourceList
	}{{"requests", vm.Spec.Domain.Resources.Requests}, {"limits", vm.Spec.Domain.Resources.Limits}} {
		if given, ok := of.list[corev1.ResourceMemory]; ok && given.Cmp(*guest) == 0 {
			return []string{"resources", of.name, "memory"}
		}
	}
	if page, err := pageSize(vm); err == nil && page.Cmp(*guest) == 0 {
		return []string{"memory", "hugepages"}
	}
	return []string{"memory", "guest"}
}

const (
	// maxPageSize is the maximum length of a page size, in bytes of text.
	maxPageSize = 24
	// maxExponent is the maximum length of its exponent, because parsing larger ones takes too
	// long.
	maxExponent = 3
)

var errPageSize = errors.New("must be a quantity of memory, such as 2Mi or 1Gi")

// pageSize returns the size of huge pages, which may be zero or negative.
func pageSize(vm *ExpandedVM) (resource.Quantity, error) {
	pages := memoryOf(vm).Hugepages
	if pages == nil || len(pages.PageSize) > maxPageSize {
		return resource.Quantity{}, errPageSize
	}
	if e := strings.IndexAny(pages.PageSize, "eE"); e >= 0 && len(pages.PageSize)-e-1 > maxExponent {
		return resource.Quantity{}, errPageSize
	}
	return resource.ParseQuantity(pages.PageSize)
}

// memoryInPages returns the memory that consists of huge pages, and its field below spec.domain.
func memoryInPages(vm *ExpandedVM) (resource.Quantity, []string) {
	resources := &vm.Spec.Domain.Resources
	if request := resources.Requests[corev1.ResourceMemory]; !request.IsZero() {
		return request, []string{"resources", "requests", "memory"}
	}
	if guest := memoryOf(vm).Guest; guest != nil {
		return *guest, []string{"memory", "guest"}
	}
	return resources.Limits[corev1.ResourceMemory], []string{"resources", "limits", "memory"}
}
