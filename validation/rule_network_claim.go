package validation

import "k8s.io/apimachinery/pkg/util/validation/field"

// networkClaimRules are about networks that are devices of a resource claim.
var networkClaimRules = []Rule{{
	ID:      "network-claims-enabled",
	Says:    "A network is of a resource claim only where NetworkDevicesWithDRA is enabled.",
	Cluster: true,
	Check:   networkClaimsEnabled,
}, {
	ID:    "network-claims-not-multus",
	Says:  "Networks of resource claims and Multus networks are not mixed.",
	Check: networkClaimsNotMultus,
}, {
	ID:    "network-claim-binding",
	Says:  "The interface of a resource claim is bound by sriov or a plugin.",
	Check: networkClaimBinding,
}, {
	ID:    "network-claim-complete",
	Says:  "A network of a resource claim names the claim and the request.",
	Check: networkClaimComplete,
}, {
	ID:    "network-claim-known",
	Says:  "The resource claim of a network is one of the machine's.",
	Check: networkClaimKnown,
}, {
	ID:    "network-claim-unique",
	Says:  "No two networks are of the same request of a claim.",
	Check: networkClaimUnique,
}}

func networkClaimsEnabled(m *Machine, r *Report) {
	for i, network := range m.eachNetwork() {
		if network.ResourceClaim != nil && !m.Config.Enabled(GateNetworksWithDRA) {
			r.Add(disabled(m.network(i, "resourceClaim"), GateNetworksWithDRA))
		}
	}
}

func networkClaimsNotMultus(m *Machine, r *Report) {
	multus := false
	for _, network := range m.eachNetwork() {
		multus = multus || network.Multus != nil && network.ResourceClaim == nil
	}
	for i, network := range m.eachNetwork() {
		if multus && network.ResourceClaim != nil && network.Multus == nil {
			r.Add(field.Forbidden(m.network(i, "resourceClaim"), "must not stand beside a Multus network in one machine"))
			return
		}
	}
}

func networkClaimBinding(m *Machine, r *Report) {
	for i, nic := range m.eachInterface() {
		network := m.Network(nic.Name)
		if network != nil && network.ResourceClaim != nil && nic.SRIOV == nil && nic.Binding == nil {
			r.Add(field.Invalid(m.nic(i), nic.Name, "must be bound by sriov or a plugin: its network is of a resource claim"))
		}
	}
}

func networkClaimComplete(m *Machine, r *Report) {
	for i, network := range m.eachNetwork() {
		if network.ResourceClaim == nil {
			continue
		}
		if network.ResourceClaim.ClaimName == "" {
			r.Add(field.Required(m.network(i, "resourceClaim", "claimName"), "must name one of the machine's resourceClaims"))
		}
		if network.ResourceClaim.RequestName == "" {
			r.Add(field.Required(m.network(i, "resourceClaim", "requestName"), "must name a request of the claim"))
		}
	}
}

func networkClaimKnown(m *Machine, r *Report) {
	var known map[string]bool
	for i, network := range m.eachNetwork() {
		if network.ResourceClaim == nil || network.ResourceClaim.ClaimName == "" {
			continue
		}
		if known == nil {
			known = make(map[string]bool, len(m.Spec.ResourceClaims))
			for claim := range m.claimNames {
				known[claim] = true
			}
		}
		if name := network.ResourceClaim.ClaimName; !known[name] {
			err := field.NotFound(m.network(i, "resourceClaim", "claimName"), name)
			err.Detail = "must be the name of one of the machine's resourceClaims" + r.Suggest(name, m.claimNames)
			r.Add(err)
		}
	}
}

func networkClaimUnique(m *Machine, r *Report) {
	networks := m.Spec.Networks
	request := func(i int) string {
		claim := networks[i].ResourceClaim
		if claim == nil || claim.ClaimName == "" || claim.RequestName == "" {
			return ""
		}
		return claim.ClaimName + "/" + claim.RequestName
	}
	for i, first := range repeated(len(networks), request) {
		err := field.Duplicate(m.network(i, "resourceClaim"), request(i))
		err.Detail = "must differ from that of network " + quoted(networks[first].Name)
		r.Add(err)
	}
}
