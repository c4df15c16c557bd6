package validation

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

var probeRules = []Rule{{
	ID:          "probe-kind",
	Requirement: "A probe is exactly one of httpGet, tcpSocket, exec and guestAgentPing.",
	Check: func(vm *ExpandedVM, r *Report) {
		for name, probe := range vm.eachProbe {
			switch kinds := probeKinds(probe); {
			case len(kinds) == 0:
				r.Add(field.Required(vm.Path("spec", name), "must be one of httpGet, tcpSocket, exec and guestAgentPing"))
			case len(kinds) > 1:
				r.Add(field.Forbidden(vm.Path("spec", name), "must be only one of "+strings.Join(kinds, ", ")))
			}
		}
	},
}, {
	ID:          "probe-needs-pod-network",
	Requirement: "A probe by httpGet or tcpSocket needs the pod network.",
	Check: func(vm *ExpandedVM, r *Report) {
		for name, probe := range vm.eachProbe {
			if (probe.HTTPGet != nil || probe.TCPSocket != nil) && !onPodNetwork(vm) {
				r.Add(field.Forbidden(vm.Path("spec", name, probeKinds(probe)[0]), "requires the pod network; exec and guestAgentPing do not"))
			}
		}
	},
}}

func (vm *ExpandedVM) eachProbe(yield func(string, *kubevirtv1.Probe) bool) {
	if vm.Spec.ReadinessProbe != nil && !yield("readinessProbe", vm.Spec.ReadinessProbe) {
		return
	}
	if vm.Spec.LivenessProbe != nil {
		yield("livenessProbe", vm.Spec.LivenessProbe)
	}
}

// probeKinds returns the handlers of a probe.
func probeKinds(probe *kubevirtv1.Probe) []string {
	var kinds []string
	for _, kind := range []struct {
		name  string
		isSet bool
	}{
		{"httpGet", probe.HTTPGet != nil}, {"tcpSocket", probe.TCPSocket != nil},
		{"exec", probe.Exec != nil}, {"guestAgentPing", probe.GuestAgentPing != nil},
	} {
		if kind.isSet {
			kinds = append(kinds, kind.name)
		}
	}
	return kinds
}

// onPodNetwork reports whether the VMI is on the pod network. That is the default.
func onPodNetwork(vm *ExpandedVM) bool {
	for i := range vm.Spec.Networks {
		if vm.Spec.Networks[i].Pod != nil {
			return true
		}
	}
	devices := &vm.Spec.Domain.Devices
	return len(vm.Spec.Networks) == 0 && len(devices.Interfaces) == 0 && ptr.Deref(devices.AutoattachPodInterface, true)
}
