package validation

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// bindingRules restrict the binding of interfaces to networks:
//
//	spec.domain.devices.interfaces[*].{bridge,masquerade,sriov,passtBinding,binding}
//
// Exactly one is set. slirp, macvtap and passt are discontinued.
var bindingRules = []Rule{{
	ID:          "interface-one-binding",
	Requirement: "An interface is bound in exactly one way: bridge, masquerade, sriov, passtBinding or a plugin.",
	Check: forEach(interfacesOf, func(vm *ExpandedVM, r *Report, i int, nic *kubevirtv1.Interface) {
		// Accepts an interface without binding if a preference may set it.
		switch n := bindingCount(nic); {
		case n == 0 && !vm.hasPreference():
			r.Add(field.Required(vm.interfacePath(i), "must be one of bridge, masquerade, sriov, passtBinding and binding"))
		case n > 1:
			r.Add(field.Forbidden(vm.interfacePath(i), "must be one of bridge, masquerade, sriov, passtBinding and binding; leave out the others"))
		}
	}),
}, {
	ID:          "discontinued-binding",
	Requirement: "The bindings slirp, macvtap and passt, which KubeVirt v1.3 discontinued, are not used.",
	Check: forEach(interfacesOf, func(vm *ExpandedVM, r *Report, i int, nic *kubevirtv1.Interface) {
		if name := discontinued(nic); name != "" {
			r.Add(field.Forbidden(vm.interfacePath(i, name),
				"must be another binding, such as masquerade or passtBinding: KubeVirt discontinued this one in v1.3"))
		}
	}),
}, {
	ID:          "masquerade-pod-network",
	Requirement: "Only an interface of the pod network is bound by masquerade.",
	Check: forEach(interfacesOf, func(vm *ExpandedVM, r *Report, i int, nic *kubevirtv1.Interface) {
		if nic.Masquerade != nil && vm.onSecondaryNetwork(nic) {
			r.Add(field.Forbidden(vm.interfacePath(i, "masquerade"), "must be another binding, such as bridge: the network is not the pod network"))
		}
	}),
}, {
	ID:                "bridge-pod-network-permitted",
	Requirement:       "An interface of the pod network is bound by a bridge only if the cluster permits it.",
	ClusterConfigured: true,
	Check: func(vm *ExpandedVM, r *Report) {
		if !vm.Config.NoBridgeOnPodNetwork {
			return
		}
		for i, nic := range pointers(interfacesOf(vm)) {
			if network := vm.Network(nic.Name); nic.Bridge != nil && network != nil && network.Pod != nil {
				r.Add(field.Forbidden(vm.interfacePath(i, "bridge"),
					"must be another binding, such as masquerade: the cluster permits no bridge on the pod network"))
			}
		}
	},
}, {
	ID:          "passt-binding-enabled",
	Requirement: "An interface is bound by passtBinding only if feature gate PasstBinding is enabled.",
	Gate:        GatePasstBinding,
	Check: forEach(interfacesOf, func(vm *ExpandedVM, r *Report, i int, nic *kubevirtv1.Interface) {
		if nic.PasstBinding != nil {
			r.addDisabled(vm.interfacePath(i, "passtBinding"))
		}
	}),
}, {
	ID:          "passt-pod-network",
	Requirement: "Only an interface of the pod network is bound by passtBinding.",
	Check: forEach(interfacesOf, func(vm *ExpandedVM, r *Report, i int, nic *kubevirtv1.Interface) {
		if nic.PasstBinding != nil && vm.onSecondaryNetwork(nic) {
			r.Add(field.Forbidden(vm.interfacePath(i, "passtBinding"),
				"must be another binding, such as bridge: the network is not the pod network"))
		}
	}),
}}

// discontinued returns the discontinued binding of an interface, or "".
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

// bindingCount returns the number of bindings of an interface, discontinued ones included.
func bindingCount(nic *kubevirtv1.Interface) int {
	return count(nic.Bridge != nil, nic.Masquerade != nil, nic.SRIOV != nil, nic.PasstBinding != nil, nic.Binding != nil,
		nic.DeprecatedSlirp != nil, nic.DeprecatedMacvtap != nil, nic.DeprecatedPasst != nil)
}

// onSecondaryNetwork reports whether an interface has a network other than the pod network.
func (vm *ExpandedVM) onSecondaryNetwork(nic *kubevirtv1.Interface) bool {
	network := vm.Network(nic.Name)
	return network != nil && network.Pod == nil && (network.Multus != nil || network.ResourceClaim != nil)
}
