package validation

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

var networkRules = []Rule{{
	ID:          "network-limits",
	Requirement: "At most 256 networks and 256 interfaces are given.",
	Check: func(vm *ExpandedVM, r *Report) {
		// Does not report the count, so an update that removes one has the same problem.
		const detail = "must have at most 256 elements"
		if len(vm.Spec.Networks) > maxNetworks {
			r.Add(field.Forbidden(vm.Path("spec", "networks"), detail))
		}
		if len(vm.Spec.Domain.Devices.Interfaces) > maxNetworks {
			r.Add(field.Forbidden(vm.Device("interfaces"), detail))
		}
	},
}, {
	ID:          "network-name-unique",
	Requirement: "No two networks have the same name.",
	Check:       uniqueNames(networksOf, func(network *kubevirtv1.Network) string { return network.Name }, "networks"),
}, {
	ID:          "network-one-source",
	Requirement: "A network is exactly one of pod, multus and resourceClaim.",
	Check: forEach(networksOf, func(vm *ExpandedVM, r *Report, i int, network *kubevirtv1.Network) {
		const detail = "must be one of pod, multus and resourceClaim"
		r.exactlyOne(func() *field.Path { return vm.networkPath(i) },
			count(network.Pod != nil, network.Multus != nil, network.ResourceClaim != nil), detail, detail+"; leave out the others")
	}),
}, {
	ID:          "multus-network-named",
	Requirement: "A Multus network names its network attachment definition.",
	Check: forEach(networksOf, func(vm *ExpandedVM, r *Report, i int, network *kubevirtv1.Network) {
		if network.Multus != nil && network.Multus.NetworkName == "" {
			r.Add(field.Required(vm.networkPath(i, "multus", "networkName"), "must name the network attachment definition"))
		}
	}),
}, {
	ID:          "single-pod-network",
	Requirement: "At most one network is the pod network.",
	Check: func(vm *ExpandedVM, r *Report) {
		seen := false
		for i, network := range pointers(networksOf(vm)) {
			if network.Pod != nil && seen {
				r.Add(field.Forbidden(vm.networkPath(i, "pod"), "must be left out: another network is the pod network already"))
			}
			seen = seen || network.Pod != nil
		}
	},
}, {
	ID:          "single-multus-default",
	Requirement: "At most one Multus network is the default.",
	Check: func(vm *ExpandedVM, r *Report) {
		seen := false
		for i, network := range pointers(networksOf(vm)) {
			if multusDefault(network) && seen {
				r.Add(field.Invalid(vm.networkPath(i, "multus", "default"), true, "must be false: another Multus network is the default already"))
			}
			seen = seen || multusDefault(network)
		}
	},
}, {
	ID:          "single-default-network",
	Requirement: "A pod network and a default Multus network exclude each other.",
	Check: func(vm *ExpandedVM, r *Report) {
		pod := false
		for _, network := range pointers(networksOf(vm)) {
			// A network that is both has two sources, which network-one-source reports.
			pod = pod || network.Pod != nil && network.Multus == nil
		}
		for i, network := range pointers(networksOf(vm)) {
			if pod && multusDefault(network) && network.Pod == nil {
				r.Add(field.Invalid(vm.networkPath(i, "multus", "default"), true, "must be false, or the pod network must be left out"))
				return
			}
		}
	},
}, {
	ID:          "network-has-interface",
	Requirement: "Each network has an interface of its name.",
	Check: func(vm *ExpandedVM, r *Report) {
		// Ignores one network per interface without a network, because that name is probably
		// misspelt, which interface-has-network reports.
		interfaces := vm.Spec.Domain.Devices.Interfaces
		misspelt := 0
		names := make(map[string]bool, len(interfaces))
		for i := range interfaces {
			names[interfaces[i].Name] = true
			if vm.Network(interfaces[i].Name) == nil {
				misspelt++
			}
		}
		for i, network := range pointers(networksOf(vm)) {
			switch {
			case names[network.Name]:
			case misspelt > 0:
				misspelt--
			default:
				err := field.NotFound(vm.networkPath(i, "name"), network.Name)
				err.Detail = "must be the name of an interface too"
				r.Add(err)
			}
		}
	},
}, {
	ID:          "network-claims-enabled",
	Requirement: "A network uses a resource claim only if feature gate NetworkDevicesWithDRA is enabled.",
	Gate:        GateNetworksWithDRA,
	Check: forEach(networksOf, func(vm *ExpandedVM, r *Report, i int, network *kubevirtv1.Network) {
		if network.ResourceClaim != nil {
			r.addDisabled(vm.networkPath(i, "resourceClaim"))
		}
	}),
}, {
	ID:          "network-claims-not-multus",
	Requirement: "Networks of resource claims and Multus networks are not mixed.",
	Check: func(vm *ExpandedVM, r *Report) {
		multus := false
		for _, network := range pointers(networksOf(vm)) {
			multus = multus || network.Multus != nil && network.ResourceClaim == nil
		}
		for i, network := range pointers(networksOf(vm)) {
			if multus && network.ResourceClaim != nil && network.Multus == nil {
				r.Add(field.Forbidden(vm.networkPath(i, "resourceClaim"), "must not be combined with a Multus network"))
				return
			}
		}
	},
}, {
	ID:          "network-claim-binding",
	Requirement: "The interface of a network with a resource claim has the binding sriov or a plugin.",
	Check: forEach(interfacesOf, func(vm *ExpandedVM, r *Report, i int, nic *kubevirtv1.Interface) {
		network := vm.Network(nic.Name)
		if network != nil && network.ResourceClaim != nil && nic.SRIOV == nil && nic.Binding == nil {
			r.Add(field.Invalid(vm.interfacePath(i), nic.Name, "must have the binding sriov or a plugin: its network uses a resource claim"))
		}
	}),
}, {
	ID:          "network-claim-complete",
	Requirement: "A network of a resource claim names the claim and the request.",
	Check: forEach(networksOf, func(vm *ExpandedVM, r *Report, i int, network *kubevirtv1.Network) {
		if network.ResourceClaim == nil {
			return
		}
		if network.ResourceClaim.ClaimName == "" {
			r.Add(field.Required(vm.networkPath(i, "resourceClaim", "claimName"), "must name one of the resourceClaims"))
		}
		if network.ResourceClaim.RequestName == "" {
			r.Add(field.Required(vm.networkPath(i, "resourceClaim", "requestName"), "must name a request of the claim"))
		}
	}),
}, {
	ID:          "network-claim-known",
	Requirement: "The resource claim of a network is in spec.resourceClaims.",
	Check: func(vm *ExpandedVM, r *Report) {
		for i, network := range pointers(networksOf(vm)) {
			if network.ResourceClaim == nil || network.ResourceClaim.ClaimName == "" {
				continue
			}
			if name := network.ResourceClaim.ClaimName; !vm.hasClaim(name) {
				err := field.NotFound(vm.networkPath(i, "resourceClaim", "claimName"), name)
				err.Detail = "must be the name of one of the resourceClaims" + r.suggest(name, namesOf(vm.Spec.ResourceClaims, claimName))
				r.Add(err)
			}
		}
	},
}, {
	ID:          "network-claim-unique",
	Requirement: "No two networks use the same request of a claim.",
	Check: func(vm *ExpandedVM, r *Report) {
		networks := vm.Spec.Networks
		request := func(i int) string {
			claim := networks[i].ResourceClaim
			if claim == nil || claim.ClaimName == "" || claim.RequestName == "" {
				return ""
			}
			return claim.ClaimName + "/" + claim.RequestName
		}
		for i, first := range repeated(len(networks), request) {
			r.Add(duplicate(vm.networkPath(i, "resourceClaim"), request(i), "must differ from that of network "+quoted(networks[first].Name)))
		}
	},
}}

func networksOf(vm *ExpandedVM) []kubevirtv1.Network { return vm.Spec.Networks }

func (vm *ExpandedVM) networkPath(i int, more ...string) *field.Path {
	return childPath(vm.Path("spec", "networks").Index(i), more)
}

const maxNetworks = 256

func multusDefault(network *kubevirtv1.Network) bool {
	return network.Multus != nil && network.Multus.Default
}
