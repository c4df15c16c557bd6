package validation

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

var probeRules = []Rule{{
	ID:    "probe-kind",
	Says:  "A probe is exactly one of httpGet, tcpSocket, exec and guestAgentPing.",
	Check: probeKind,
}, {
	ID:    "probe-needs-pod-network",
	Says:  "A probe by httpGet or tcpSocket needs the pod network.",
	Check: probeNeedsPodNetwork,
}}

// eachProbe yields the probes of m that there are, by name.
func (m *Machine) eachProbe(yield func(string, *kubevirtv1.Probe) bool) {
	if m.Spec.ReadinessProbe != nil && !yield("readinessProbe", m.Spec.ReadinessProbe) {
		return
	}
	if m.Spec.LivenessProbe != nil {
		yield("livenessProbe", m.Spec.LivenessProbe)
	}
}

// probeKinds are what a probe does.
func probeKinds(probe *kubevirtv1.Probe) []string {
	var kinds []string
	if probe.HTTPGet != nil {
		kinds = append(kinds, "httpGet")
	}
	if probe.TCPSocket != nil {
		kinds = append(kinds, "tcpSocket")
	}
	if probe.Exec != nil {
		kinds = append(kinds, "exec")
	}
	if probe.GuestAgentPing != nil {
		kinds = append(kinds, "guestAgentPing")
	}
	return kinds
}

func probeKind(m *Machine, r *Report) {
	for name, probe := range m.eachProbe {
		switch kinds := probeKinds(probe); {
		case len(kinds) == 0:
			r.Add(field.Required(m.Path("spec", name), "must be one of httpGet, tcpSocket, exec and guestAgentPing"))
		case len(kinds) > 1:
			r.Add(field.Forbidden(m.Path("spec", name), "must be only one of "+strings.Join(kinds, ", ")))
		}
	}
}

// onPodNetwork reports whether m is on the pod network; one that says nothing
// of networks is, unless it wants none.
func onPodNetwork(m *Machine) bool {
	for i := range m.Spec.Networks {
		if m.Spec.Networks[i].Pod != nil {
			return true
		}
	}
	devices := &m.Spec.Domain.Devices
	return len(m.Spec.Networks) == 0 && len(devices.Interfaces) == 0 && isOn(devices.AutoattachPodInterface, true)
}

func probeNeedsPodNetwork(m *Machine, r *Report) {
	for name, probe := range m.eachProbe {
		if (probe.HTTPGet != nil || probe.TCPSocket != nil) && !onPodNetwork(m) {
			r.Add(field.Forbidden(m.Path("spec", name, probeKinds(probe)[0]), "needs the pod network; exec and guestAgentPing do without"))
		}
	}
}
