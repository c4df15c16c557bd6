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
}, {
	ID:          "device-resource-name",
	Requirement: "The deviceName of a GPU or host device is the qualified name of a resource.",
	Strictness:  StricterThanKubeVirt,
	Check: func(vm *ExpandedVM, r *Report) {
		check := func(list string, i int, name string) {
			if name != "" && !(strings.Contains(name, "/") && isPodResource(name)) {
				r.Add(field.Invalid(vm.Device(list).Index(i).Child("deviceName"), name, "must be a qualified name such as example.com/device"))
			}
		}
		for i, gpu := range pointers(vm.Spec.Domain.Devices.GPUs) {
			check("gpus", i, gpu.DeviceName)
		}
		for i, device := range pointers(vm.Spec.Domain.Devices.HostDevices) {
			check("hostDevices", i, device.DeviceName)
		}
	},
}, {
	ID:          "resource-limit-equal",
	Requirement: "Huge pages and resources with qualified names have equal requests and limits.",
	Strictness:  StricterThanKubeVirt,
	Check: func(vm *ExpandedVM, r *Report) {
		resources := vm.Spec.Domain.Resources
		for _, name := range slices.Sorted(maps.Keys(resources.Requests)) {
			if !isPodResource(string(name)) || !isExclusive(string(name)) {
				continue
			}
			request, at := resources.Requests[name], vm.Domain("resources", "requests").Key(string(name))
			switch limit, limited := resources.Limits[name]; {
			case !limited:
				r.Add(field.Invalid(at, request.String(), "needs the same value in resources.limits"))
			case request.Cmp(limit) != 0:
				r.Add(field.Invalid(at, request.String(), "must equal the limit, which is "+limit.String()))
			}
		}
	},
}}

// isExclusive reports whether nodes never promise more of a resource than they have.
func isExclusive(name string) bool {
	return strings.HasPrefix(name, corev1.ResourceHugePagesPrefix) || strings.Contains(name, "/") && !strings.HasPrefix(name, corev1.ResourceDefaultNamespacePrefix)
}

// isPodResource reports whether a container of a pod can have a resource.
func isPodResource(name string) bool {
	if strings.Contains(name, "/") {
		return len(validation.IsQualifiedName(name)) == 0
	}
	return slices.Contains([]string{"cpu", "memory", "ephemeral-storage"}, name) || strings.HasPrefix(name, corev1.ResourceHugePagesPrefix)
}
