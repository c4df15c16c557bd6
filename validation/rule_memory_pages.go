package validation

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var memoryPageRules = []Rule{{
	ID:    "hugepages-page-size",
	Leaf:  true,
	Says:  "The size of huge pages is a quantity of memory.",
	Check: hugepagesPageSize,
}, {
	ID:    "hugepages-whole",
	Says:  "Memory is a whole number of huge pages.",
	Check: hugepagesWhole,
}}

const (
	// maxPageSize is how many bytes the text of a page size has.
	maxPageSize = 24
	// maxExponent is how many bytes its exponent has. Larger ones take for ever to read.
	maxExponent = 3
)

var errPageSize = errors.New("must be a quantity of memory, such as 2Mi or 1Gi")

// pageSize is the size of huge pages; it may be zero or negative.
func pageSize(m *Machine) (resource.Quantity, error) {
	pages := memoryOf(m).Hugepages
	if pages == nil || len(pages.PageSize) > maxPageSize {
		return resource.Quantity{}, errPageSize
	}
	if e := strings.IndexAny(pages.PageSize, "eE"); e >= 0 && len(pages.PageSize)-e-1 > maxExponent {
		return resource.Quantity{}, errPageSize
	}
	return resource.ParseQuantity(pages.PageSize)
}

func hugepagesPageSize(m *Machine, r *Report) {
	pages := memoryOf(m).Hugepages
	if pages == nil {
		return
	}
	if size, err := pageSize(m); err != nil || size.Sign() <= 0 {
		reach := AsKubeVirt
		if err == nil && size.Sign() < 0 {
			reach = BeyondKubeVirt
		}
		r.addAs(reach, field.Invalid(m.Domain("memory", "hugepages", "pageSize"), pages.PageSize, errPageSize.Error()))
	}
}

// memoryInPages is the memory that huge pages make up, and where m says so.
func memoryInPages(m *Machine) (resource.Quantity, []string) {
	resources := &m.Spec.Domain.Resources
	if request := resources.Requests[corev1.ResourceMemory]; !request.IsZero() {
		return request, []string{"resources", "requests", "memory"}
	}
	if guest := memoryOf(m).Guest; guest != nil {
		return *guest, []string{"memory", "guest"}
	}
	return resources.Limits[corev1.ResourceMemory], []string{"resources", "limits", "memory"}
}

func hugepagesWhole(m *Machine, r *Report) {
	if memoryOf(m).Hugepages == nil || m.SizedElsewhere() {
		return
	}
	size, err := pageSize(m)
	memory, at := memoryInPages(m)
	if err != nil || size.Sign() <= 0 || memory.Sign() <= 0 {
		return // other rules report it
	}
	if memory.Cmp(size) < 0 || memory.Value()%size.Value() != 0 {
		r.Add(field.Invalid(m.Domain(at...), memory.String(), fmt.Sprintf("must be a multiple of the page size, which is %s", size.String())))
	}
}
