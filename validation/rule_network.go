package validation

import (
	"iter"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

var networkRules = []Rule{{
	ID:    "network-limits",
	Says:  "There are at most 256 networks and 256 interfaces.",
	Check: networkLimits,
}, {
	ID:    "network-name-unique",
	Says:  "No two networks have the same name.",
	Check: networkNameUnique,
}, {
	ID:    "network-one-source",
	Says:  "A network is exactly one of pod, multus and resourceClaim.",
	Check: networkOneSource,
}, {
	ID:    "multus-network-named",
	Says:  "A Multus network names its network attachment definition.",
	Check: multusNetworkNamed,
}, {
	ID:    "single-pod-network",
	Says:  "At most one network is the pod network.",
	Check: singlePodNetwork,
}, {
	ID:    "single-multus-default",
	Says:  "At most one Multus network is the default.",
	Check: singleMultusDefault,
}, {
	ID:    "single-default-network",
	Says:  "A pod network and a default Multus network exclude each other.",
	Check: singleDefaultNetwork,
}, {
	ID:    "network-has-interface",
	Says:  "Each network has an interface of its name.",
	Check: networkHasInterface,
}}

// eachNetwork yields the networks with their positions, without copying them.
func (m *Machine) eachNetwork() iter.Seq2[int, *kubevirtv1.Network] {
	return pointers(m.Spec.Networks)
}

// network is the path of a part of a network.
func (m *Machine) network(i int, more ...string) *field.Path {
	return under(m.Path("spec", "networks").Index(i), more)
}

const maxNetworks = 256

// networkLimits does not say how many there are, so that one less is the same problem.
func networkLimits(m *Machine, r *Report) {
	const detail = "must have at most 256 elements"
	if len(m.Spec.Networks) > maxNetworks {
		r.Add(field.Forbidden(m.Path("spec", "networks"), detail))
	}
	if len(m.Spec.Domain.Devices.Interfaces) > maxNetworks {
		r.Add(field.Forbidden(m.Device("interfaces"), detail))
	}
}

func networkNameUnique(m *Machine, r *Report) {
	networks := m.Spec.Networks
	for i, first := range repeated(len(networks), func(i int) string { return networks[i].Name }) {
		r.Add(duplicate(m.network(i, "name"), networks[i].Name, "networks", first))
	}
}

func networkOneSource(m *Machine, r *Report) {
	for i, network := range m.eachNetwork() {
		switch n := count(network.Pod != nil, network.Multus != nil, network.ResourceClaim != nil); {
		case n == 0:
			r.Add(field.Required(m.network(i), "must be one of pod, multus and resourceClaim"))
		case n > 1:
			r.Add(field.Forbidden(m.network(i), "must be one of pod, multus and resourceClaim; leave out the others"))
		}
	}
}

func multusNetworkNamed(m *Machine, r *Report) {
	for i, network := range m.eachNetwork() {
		if network.Multus != nil && network.Multus.NetworkName == "" {
			r.Add(field.Required(m.network(i, "multus", "networkName"), "must name the network attachment definition"))
		}
	}
}

func singlePodNetwork(m *Machine, r *Report) {
	seen := false
	for i, network := range m.eachNetwork() {
		if network.Pod != nil && seen {
			r.Add(field.Forbidden(m.network(i, "pod"), "must be left out: another network is the pod network already"))
		}
		seen = seen || network.Pod != nil
	}
}

func multusDefault(network *kubevirtv1.Network) bool {
	return network.Multus != nil && network.Multus.Default
}

func singleMultusDefault(m *Machine, r *Report) {
	seen := false
	for i, network := range m.eachNetwork() {
		if multusDefault(network) && seen {
			r.Add(field.Invalid(m.network(i, "multus", "default"), true, "must be false: another Multus network is the default already"))
		}
		seen = seen || multusDefault(network)
	}
}

func singleDefaultNetwork(m *Machine, r *Report) {
	pod := false
	for _, network := range m.eachNetwork() {
		// One network that is both has two sources.
		pod = pod || network.Pod != nil && network.Multus == nil
	}
	for i, network := range m.eachNetwork() {
		if pod && multusDefault(network) && network.Pod == nil {
			r.Add(field.Invalid(m.network(i, "multus", "default"), true, "must be false, or the pod network must be left out"))
			return
		}
	}
}

// networkHasInterface leaves as many networks out as there are interfaces
// without a network: their names are misspelt, which interface-has-network says.
func networkHasInterface(m *Machine, r *Report) {
	interfaces := m.Spec.Domain.Devices.Interfaces
	misspelt := 0
	names := make(map[string]bool, len(interfaces))
	for i := range interfaces {
		names[interfaces[i].Name] = true
		if m.Network(interfaces[i].Name) == nil {
			misspelt++
		}
	}
	for i, network := range m.eachNetwork() {
		switch {
		case names[network.Name]:
		case misspelt > 0:
			misspelt--
		default:
			err := field.NotFound(m.network(i, "name"), network.Name)
			err.Detail = "must be the name of an interface too"
			r.Add(err)
		}
	}
}
