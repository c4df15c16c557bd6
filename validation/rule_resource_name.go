package validation

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var resourceNameRules = []Rule{{
	ID:          "resource-name",
	Requirement: "The resources of a VMI are cpu, memory, ephemeral-storage, huge pages or qualified names.",
	Strictness:  StricterThanKubeVirt,
	Check: func(vm *ExpandedVM, r *Report) {
		for _, list := range []struct {
			name      string
			resources corev1.ResourceList
		}{{"requests", vm.Spec.Domain.Resources.Requests}, {"limits", vm.Spec.Domain.Resources.Limits}} {
			for _, resource := range slices.Sorted(maps.Keys(list.resources)) {
				if !isPodResource(string(resource)) {
					r.Add(field.Invalid(vm.Domain("resources", list.name), string(resource),
						"must be cpu, memory, ephemeral-storage, hugepages-SIZE or a qualified name such as example.com/device"))
				}
			}
		}
	},
}}

// isPodResource reports whether a container of a pod can have a resource.
func isPodResource(name string) bool {
	if strings.Contains(name, "/") {
		return len(validation.IsQualifiedName(name)) == 0
	}
	return slices.Contains([]string{"cpu", "memory", "ephemeral-storage"}, name) || strings.HasPrefix(name, corev1.ResourceHugePagesPrefix)
}
