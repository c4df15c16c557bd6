package validation

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// bindingRules are about how interfaces are bound to their networks.
var bindingRules = []Rule{{
	ID:    "interface-one-binding",
	Says:  "An interface is bound in exactly one way: bridge, masquerade, sriov, passtBinding or a plugin.",
	Check: interfaceOneBinding,
}, {
	ID:    "discontinued-binding",
	Says:  "The bindings slirp, macvtap and passt, which KubeVirt v1.3 discontinued, are not used any more.",
	Check: discontinuedBinding,
}, {
	ID:    "masquerade-pod-network",
	Says:  "Only an interface of the pod network is bound by masquerade.",
	Check: masqueradePodNetwork,
}, {
	ID:      "bridge-pod-network-permitted",
	Says:    "An interface of the pod network is bound by a bridge only where that is permitted.",
	Cluster: true,
	Check:   bridgePodNetworkPermitted,
}, {
	ID:      "passt-binding-enabled",
	Says:    "An interface is bound by passtBinding only where PasstBinding is enabled.",
	Cluster: true,
	Check:   passtBindingEnabled,
}, {
	ID:    "passt-pod-network",
	Says:  "Only an interface of the pod network is bound by passtBinding.",
	Check: passtPodNetwork,
}}

// discontinued says which discontinued binding an interface has; empty for none.
func discontinued(nic *kubevirtv1.Interface) string {
	switch {
	case nic.DeprecatedSlirp != nil:
		return "slirp"
	case nic.DeprecatedMacvtap != nil:
		return "macvtap"
	case nic.DeprecatedPasst != nil:
		return "passt"
	}
	return ""
}

// bindings counts the ways in which an interface is bound. A discontinued one,
// of which another rule speaks, counts too.
func bindings(nic *kubevirtv1.Interface) int {
	return count(nic.Bridge != nil, nic.Masquerade != nil, nic.SRIOV != nil, nic.PasstBinding != nil, nic.Binding != nil,
		nic.DeprecatedSlirp != nil, nic.DeprecatedMacvtap != nil, nic.DeprecatedPasst != nil)
}

// interfaceOneBinding: a preference may choose the binding of an interface that has none.
func interfaceOneBinding(m *Machine, r *Report) {
	for i, nic := range m.eachInterface() {
		switch n := bindings(nic); {
		case n == 0 && !m.PreferencesElsewhere():
			r.Add(field.Required(m.nic(i), "must be one of bridge, masquerade, sriov, passtBinding and binding"))
		case n > 1:
			r.Add(field.Forbidden(m.nic(i), "must be one of bridge, masquerade, sriov, passtBinding and binding; leave out the others"))
		}
	}
}

// discontinuedBinding: what an instance of old has it keeps, by the ratchet.
func discontinuedBinding(m *Machine, r *Report) {
	for i, nic := range m.eachInterface() {
		if name := discontinued(nic); name != "" {
			r.Add(field.Forbidden(m.nic(i, name), "must be another binding, such as masquerade or passtBinding: KubeVirt discontinued this one in v1.3"))
		}
	}
}

// elsewhere reports whether an interface is on a network that is not the pod's.
func (m *Machine) elsewhere(nic *kubevirtv1.Interface) bool {
	network := m.Network(nic.Name)
	return network != nil && network.Pod == nil && (network.Multus != nil || network.ResourceClaim != nil)
}

func masqueradePodNetwork(m *Machine, r *Report) {
	for i, nic := range m.eachInterface() {
		if nic.Masquerade != nil && m.elsewhere(nic) {
			r.Add(field.Forbidden(m.nic(i, "masquerade"), "must be another binding, such as bridge: the network is not the pod network"))
		}
	}
}

func bridgePodNetworkPermitted(m *Machine, r *Report) {
	if !m.Config.NoBridgeOnPodNetwork {
		return
	}
	for i, nic := range m.eachInterface() {
		if network := m.Network(nic.Name); nic.Bridge != nil && network != nil && network.Pod != nil {
			r.Add(field.Forbidden(m.nic(i, "bridge"), "must be another binding, such as masquerade: the cluster permits no bridge on the pod network"))
		}
	}
}

func passtBindingEnabled(m *Machine, r *Report) {
	for i, nic := range m.eachInterface() {
		if nic.PasstBinding != nil && !m.Config.Enabled(GatePasstBinding) {
			r.Add(disabled(m.nic(i, "passtBinding"), GatePasstBinding))
		}
	}
}

func passtPodNetwork(m *Machine, r *Report) {
	for i, nic := range m.eachInterface() {
		if nic.PasstBinding != nil && m.elsewhere(nic) {
			r.Add(field.Forbidden(m.nic(i, "passtBinding"), "must be another binding, such as bridge: the network is not the pod network"))
		}
	}
}
