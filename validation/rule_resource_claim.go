package validation

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

var resourceClaimRules = []Rule{{
	ID:    "resource-claim-name",
	Says:  "The name of a resource claim is a DNS label.",
	Check: resourceClaimName,
}, {
	ID:    "resource-claim-name-unique",
	Says:  "No two resource claims have the same name.",
	Check: resourceClaimNameUnique,
}, {
	ID:    "resource-claim-source",
	Says:  "A resource claim names either a claim or a template.",
	Check: resourceClaimSource,
}, {
	ID:      "gpu-claims-enabled",
	Says:    "GPUs given by claims need feature gate GPUsWithDRA.",
	Cluster: true,
	Check:   gpuClaimsEnabled,
}, {
	ID:      "host-device-claims-enabled",
	Says:    "Host devices given by claims need feature gate HostDevicesWithDRA.",
	Cluster: true,
	Check:   hostDeviceClaimsEnabled,
}, {
	ID:    "device-claim-complete",
	Says:  "A device given by a claim has claimName and requestName.",
	Check: deviceClaimComplete,
}, {
	ID:    "device-claim-exists",
	Says:  "The claim of a device is one of the machine's resource claims.",
	Check: deviceClaimExists,
}, {
	ID:    "device-claim-unique",
	Says:  "No two GPUs, host devices and networks share a request of a claim.",
	Check: deviceClaimUnique,
}}

func resourceClaimName(m *Machine, r *Report) {
	for i := range m.Spec.ResourceClaims {
		if name := m.Spec.ResourceClaims[i].Name; !isDNSLabel(name) {
			r.Add(field.Invalid(m.Path("spec", "resourceClaims").Index(i).Child("name"), name, dnsLabelDetail))
		}
	}
}

func resourceClaimNameUnique(m *Machine, r *Report) {
	claims := m.Spec.ResourceClaims
	name := func(i int) string { return claims[i].Name }
	for i, first := range repeated(len(claims), name) {
		r.Add(duplicate(m.Path("spec", "resourceClaims").Index(i).Child("name"), name(i), "resourceClaims", first))
	}
}

func resourceClaimSource(m *Machine, r *Report) {
	for i := range m.Spec.ResourceClaims {
		claim := &m.Spec.ResourceClaims[i]
		if (claim.ResourceClaimName == nil) == (claim.ResourceClaimTemplateName == nil) {
			r.Add(field.Forbidden(m.Path("spec", "resourceClaims").Index(i), "must have either resourceClaimName or resourceClaimTemplateName"))
		}
	}
}

func gpuClaimsEnabled(m *Machine, r *Report) { claimsEnabled(m, r, "gpus", GateGPUsWithDRA) }

func hostDeviceClaimsEnabled(m *Machine, r *Report) {
	claimsEnabled(m, r, "hostDevices", GateHostDevicesWithDRA)
}

// claimsEnabled reports the first device of a list that a claim gives without a gate.
func claimsEnabled(m *Machine, r *Report, list string, gate Gate) {
	if m.Config.Enabled(gate) {
		return
	}
	for device := range m.eachPassthrough {
		if device.list == list && device.claimed() {
			r.Add(disabled(device.at(m), gate))
			return
		}
	}
}

func deviceClaimComplete(m *Machine, r *Report) {
	for device := range m.eachPassthrough {
		switch {
		case !device.claimed():
		case device.claim.ClaimName == "":
			r.Add(field.Required(device.at(m, "claimName"), "must be the name of one of spec.resourceClaims"))
		case device.claim.RequestName == "":
			r.Add(field.Required(device.at(m, "requestName"), "must be the name of a request of the claim"))
		}
	}
}

// claimNames yields the names of the machine's resource claims.
func (m *Machine) claimNames(yield func(string) bool) {
	for i := range m.Spec.ResourceClaims {
		if !yield(m.Spec.ResourceClaims[i].Name) {
			return
		}
	}
}

func deviceClaimExists(m *Machine, r *Report) {
	var known map[string]bool
	for device := range m.eachPassthrough {
		if !device.claimed() || device.claim.ClaimName == "" {
			continue
		}
		if known == nil {
			known = make(map[string]bool, len(m.Spec.ResourceClaims))
			for name := range m.claimNames {
				known[name] = true
			}
		}
		if name := device.claim.ClaimName; !known[name] {
			r.Add(field.Invalid(device.at(m, "claimName"), name,
				"must be the name of one of spec.resourceClaims"+r.Suggest(name, m.claimNames)))
		}
	}
}

// A request is one request of a claim.
type request struct{ claim, name string }

func deviceClaimUnique(m *Machine, r *Report) {
	var first map[request]string
	for device := range m.eachPassthrough {
		if !device.claimed() || device.claim.ClaimName == "" || device.claim.RequestName == "" {
			continue
		}
		asked := request{device.claim.ClaimName, device.claim.RequestName}
		if other, taken := first[asked]; taken {
			r.Add(requestTaken(device.at(m, "requestName"), asked, other))
			continue
		}
		if first == nil {
			first = map[request]string{}
		}
		first[asked] = device.list + "[" + quoted(device.name) + "]"
	}
	// Networks that share a request with another network are left to the rules of networks.
	for i := range m.Spec.Networks {
		claim := m.Spec.Networks[i].ResourceClaim
		if claim == nil {
			continue
		}
		asked := request{claim.ClaimName, claim.RequestName}
		if other, taken := first[asked]; taken {
			r.Add(requestTaken(m.Path("spec", "networks").Index(i).Child("resourceClaim", "requestName"), asked, other))
		}
	}
}

func requestTaken(at *field.Path, asked request, other string) *field.Error {
	err := field.Duplicate(at, asked.name)
	err.Detail = fmt.Sprintf("of claim %s is asked for by %s already", quoted(asked.claim), other)
	return err
}
