package validation

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
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
}, {
	ID:          "probe-port",
	Requirement: "A probe by httpGet or tcpSocket names its port.",
	Check: func(vm *ExpandedVM, r *Report) {
		for at, port := range vm.eachProbePort {
			if *port == (intstr.IntOrString{}) && !vm.sends(at()) {
				r.Add(field.Required(at(), "must be the port that the guest listens on, such as 80"))
			}
		}
	},
}, {
	ID:          "probe-port-valid",
	Requirement: "The port of a probe is a number from 1 to 65535, or the name of a port.",
	Strictness:  StricterThanKubeVirt,
	Check: func(vm *ExpandedVM, r *Report) {
		for at, port := range vm.eachProbePort {
			switch {
			case port.Type == intstr.Int && !isPort(port.IntVal) && (port.IntVal != 0 || vm.sends(at())):
				r.Add(field.Invalid(at(), port.IntVal, "must be from 1 to 65535"))
			case port.Type == intstr.String && len(validation.IsValidPortName(port.StrVal)) > 0:
				r.Add(field.Invalid(at(), port.StrVal, "must be a number from 1 to 65535, or the name of a port such as http"))
			}
		}
	},
}, {
	ID:          "probe-scheme",
	Leaf:        true,
	Requirement: "The scheme of a probe by httpGet is " + probeSchemes.String() + ".",
	Check: func(vm *ExpandedVM, r *Report) {
		for name, probe := range vm.eachProbe {
			if probe.HTTPGet != nil {
				probeSchemes.checkIfSet(r, string(probe.HTTPGet.Scheme), func() *field.Path { return vm.Path("spec", name, "httpGet", "scheme") })
			}
		}
	},
}, {
	ID:          "probe-http-header",
	Requirement: "The headers of a probe by httpGet have names that HTTP admits.",
	Strictness:  StricterThanKubeVirt,
	Check: func(vm *ExpandedVM, r *Report) {
		for name, probe := range vm.eachProbe {
			if probe.HTTPGet == nil {
				continue
			}
			for i, header := range probe.HTTPGet.HTTPHeaders {
				if len(validation.IsHTTPHeaderName(header.Name)) > 0 {
					r.Add(field.Invalid(vm.Path("spec", name, "httpGet", "httpHeaders").Index(i).Child("name"), header.Name, "must be letters, digits and '-'"))
				}
			}
		}
	},
}, {
	ID:          "probe-command",
	Requirement: "A probe by exec has a command.",
	Strictness:  StricterThanKubeVirt,
	Check: func(vm *ExpandedVM, r *Report) {
		for name, probe := range vm.eachProbe {
			if probe.Exec != nil && len(probe.Exec.Command) == 0 {
				r.Add(field.Required(vm.Path("spec", name, "exec", "command"), "must be a program in the guest, with its arguments"))
			}
		}
	},
}, {
	ID:          "probe-numbers",
	Leaf:        true,
	Requirement: "The numbers of a probe are not negative, and successThreshold of a liveness probe is 1.",
	Strictness:  StricterThanKubeVirt,
	Check: func(vm *ExpandedVM, r *Report) {
		for name, probe := range vm.eachProbe {
			for _, number := range []struct {
				field string
				value int32
			}{
				{"initialDelaySeconds", probe.InitialDelaySeconds},
				{"timeoutSeconds", probe.TimeoutSeconds},
				{"periodSeconds", probe.PeriodSeconds},
				{"successThreshold", probe.SuccessThreshold},
				{"failureThreshold", probe.FailureThreshold},
			} {
				if number.value < 0 {
					r.Add(field.Invalid(vm.Path("spec", name, number.field), number.value, "must not be negative"))
				}
			}
			if name == livenessProbe && probe.SuccessThreshold > 1 {
				r.Add(field.Invalid(vm.Path("spec", name, "successThreshold"), probe.SuccessThreshold, "must be 1 for a liveness probe"))
			}
		}
	},
}}

const (
	readinessProbe = "readinessProbe"
	livenessProbe  = "livenessProbe"
)

var probeSchemes = valueSet{"HTTP", "HTTPS"}

// eachProbePort yields the port of each probe that has one, with its path.
func (vm *ExpandedVM) eachProbePort(yield func(at func() *field.Path, port *intstr.IntOrString) bool) {
	for name, probe := range vm.eachProbe {
		if probe.HTTPGet != nil && !yield(func() *field.Path { return vm.Path("spec", name, "httpGet", "port") }, &probe.HTTPGet.Port) {
			return
		}
		if probe.TCPSocket != nil && !yield(func() *field.Path { return vm.Path("spec", name, "tcpSocket", "port") }, &probe.TCPSocket.Port) {
			return
		}
	}
}

func (vm *ExpandedVM) eachProbe(yield func(string, *kubevirtv1.Probe) bool) {
	if vm.Spec.ReadinessProbe != nil && !yield(readinessProbe, vm.Spec.ReadinessProbe) {
		return
	}
	if vm.Spec.LivenessProbe != nil {
		yield(livenessProbe, vm.Spec.LivenessProbe)
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
