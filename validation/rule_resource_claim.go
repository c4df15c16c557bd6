package validation

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

var resourceClaimRules = []Rule{{
	ID:          "resource-claim-name",
	Requirement: "The name of a resource claim is a DNS label.",
	Check: func(vm *ExpandedVM, r *Report) {
		for i := range vm.Spec.ResourceClaims {
			if name := vm.Spec.ResourceClaims[i].Name; !dnsLabelForm.MatchString(name) {
				r.Add(field.Invalid(vm.Path("spec", "resourceClaims").Index(i).Child("name"), name, dnsLabelDetail))
			}
		}
	},
}, {
	ID:          "resource-claim-name-unique",
	Requirement: "No two resource claims have the same name.",
	Check: uniqueNames(
		func(vm *ExpandedVM) []kubevirtv1.VirtualMachineInstanceResourceClaim { return vm.Spec.ResourceClaims },
		func(claim *kubevirtv1.VirtualMachineInstanceResourceClaim) string { return claim.Name }, "resourceClaims"),
}, {
	ID:          "resource-claim-source",
	Requirement: "A resource claim names either a claim or a template.",
	Check: func(vm *ExpandedVM, r *Report) {
		for i, claim := range pointers(vm.Spec.ResourceClaims) {
			if (claim.ResourceClaimName == nil) == (claim.ResourceClaimTemplateName == nil) {
				r.Add(field.Forbidden(vm.Path("spec", "resourceClaims").Index(i), "must have either resourceClaimName or resourceClaimTemplateName"))
			}
		}
	},
}, {
	ID:          "gpu-claims-enabled",
	Requirement: "GPUs given by claims need feature gate GPUsWithDRA.",
	Gate:        GateGPUsWithDRA,
	Check:       func(vm *ExpandedVM, r *Report) { claimsEnabled(vm, r, "gpus") },
}, {
	ID:          "host-device-claims-enabled",
	Requirement: "Host devices given by claims need feature gate HostDevicesWithDRA.",
	Gate:        GateHostDevicesWithDRA,
	Check:       func(vm *ExpandedVM, r *Report) { claimsEnabled(vm, r, "hostDevices") },
}, {
	ID:          "device-claim-complete",
	Requirement: "A device given by a claim has claimName and requestName.",
	Check: func(vm *ExpandedVM, r *Report) {
		for device := range vm.eachPassthrough {
			switch {
			case !device.claimed():
			case device.claim.ClaimName == "":
				r.Add(field.Required(device.at(vm, "claimName"), "must be the name of one of spec.resourceClaims"))
			case device.claim.RequestName == "":
				r.Add(field.Required(device.at(vm, "requestName"), "must be the name of a request of the claim"))
			}
		}
	},
}, {
	ID:          "device-claim-exists",
	Requirement: "The claim of a device is in spec.resourceClaims.",
	Check: func(vm *ExpandedVM, r *Report) {
		for device := range vm.eachPassthrough {
			if !device.claimed() || device.claim.ClaimName == "" {
				continue
			}
			if name := device.claim.ClaimName; !vm.hasClaim(name) {
				r.Add(field.Invalid(device.at(vm, "claimName"), name,
					"must be the name of one of spec.resourceClaims"+r.suggest(name, namesOf(vm.Spec.ResourceClaims, claimName))))
			}
		}
	},
}, {
	ID:          "device-claim-unique",
	Requirement: "No two GPUs, host devices and networks share a request of a claim.",
	Check: func(vm *ExpandedVM, r *Report) {
		var first map[claimRequest]string
		for device := range vm.eachPassthrough {
			if !device.claimed() || device.claim.ClaimName == "" || device.claim.RequestName == "" {
				continue
			}
			asked := claimRequest{device.claim.ClaimName, device.claim.RequestName}
			if other, taken := first[asked]; taken {
				r.Add(requestInUse(device.at(vm, "requestName"), asked, other))
				continue
			}
			if first == nil {
				first = map[claimRequest]string{}
			}
			first[asked] = device.list + "[" + quoted(device.name) + "]"
		}
		// network-claim-unique reports networks that share a request.
		for i := range vm.Spec.Networks {
			claim := vm.Spec.Networks[i].ResourceClaim
			if claim == nil {
				continue
			}
			asked := claimRequest{claim.ClaimName, claim.RequestName}
			if other, taken := first[asked]; taken {
				r.Add(requestInUse(vm.Path("spec", "networks").Index(i).Child("resourceClaim", "requestName"), asked, other))
			}
		}
	},
}}

// claimsEnabled reports the first device of a list that only a claim gives.
func claimsEnabled(vm *ExpandedVM, r *Report, list string) {
	for device := range vm.eachPassthrough {
		if device.list == list && device.claimed() {
			r.addDisabled(device.at(vm))
			return
		}
	}
}

func claimName(c *kubevirtv1.VirtualMachineInstanceResourceClaim) string { return c.Name }

func (vm *ExpandedVM) hasClaim(name string) bool {
	return find(&vm.byName.claims, vm.Spec.ResourceClaims, claimName, name) != nil
}

// A claimRequest is one request of a claim.
type claimRequest struct{ claim, name string }

func requestInUse(at *field.Path, asked claimRequest, other string) *field.Error {
	return duplicate(at, asked.name, fmt.Sprintf("of claim %s is used by %s already", quoted(asked.claim), other))
}
