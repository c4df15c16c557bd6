package validation

import (
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var dnsRules = []Rule{{
	ID:          "hostname-format",
	Leaf:        true,
	Requirement: "The hostname is a DNS label.",
	Check: func(vm *ExpandedVM, r *Report) {
		if name := vm.Spec.Hostname; name != "" && !dnsLabelForm.MatchString(name) {
			r.Add(field.Invalid(vm.Path("spec", "hostname"), name, dnsLabelDetail))
		}
	},
}, {
	ID:          "subdomain-format",
	Leaf:        true,
	Requirement: "The subdomain is a DNS subdomain.",
	Check: func(vm *ExpandedVM, r *Report) {
		if name := vm.Spec.Subdomain; name != "" && !isDNSSubdomain(name) {
			r.Add(field.Invalid(vm.Path("spec", "subdomain"), name, dnsSubdomainDetail))
		}
	},
}, {
	ID:          "subdomain-label",
	Leaf:        true,
	Requirement: "The subdomain is a DNS label, because pods accept no other.",
	Strictness:  StricterThanKubeVirt,
	Check: func(vm *ExpandedVM, r *Report) {
		if name := vm.Spec.Subdomain; isDNSSubdomain(name) && !dnsLabelForm.MatchString(name) {
			r.Add(field.Invalid(vm.Path("spec", "subdomain"), name, dnsLabelDetail))
		}
	},
}, {
	ID:          "dns-policy",
	Leaf:        true,
	Requirement: "The DNS policy is " + dnsPolicies.String() + ".",
	Check: func(vm *ExpandedVM, r *Report) {
		dnsPolicies.checkIfSet(r, string(vm.Spec.DNSPolicy), func() *field.Path { return vm.Path("spec", "dnsPolicy") })
	},
}, {
	ID:          "dns-none-needs-nameserver",
	Requirement: "DNS policy None requires a nameserver.",
	Check: func(vm *ExpandedVM, r *Report) {
		if vm.Spec.DNSPolicy == corev1.DNSNone && (vm.Spec.DNSConfig == nil || len(vm.Spec.DNSConfig.Nameservers) == 0) {
			r.Add(field.Required(vm.Path("spec", "dnsConfig", "nameservers"), "must have a nameserver with dnsPolicy: None"))
		}
	},
}, {
	ID:          "dns-nameservers",
	Leaf:        true,
	Requirement: "At most 3 nameservers are given.",
	Check: func(vm *ExpandedVM, r *Report) {
		if dns := vm.Spec.DNSConfig; dns != nil && len(dns.Nameservers) > maxNameservers {
			r.Add(field.TooMany(vm.Path("spec", "dnsConfig", "nameservers"), len(dns.Nameservers), maxNameservers))
		}
	},
}, {
	ID:          "dns-nameserver-address",
	Leaf:        true,
	Requirement: "A nameserver is an IP address.",
	Check: func(vm *ExpandedVM, r *Report) {
		for i, server := range orEmpty(vm.Spec.DNSConfig).Nameservers {
			if address, err := netip.ParseAddr(server); err != nil || address.Zone() != "" {
				r.Add(field.Invalid(vm.Path("spec", "dnsConfig", "nameservers").Index(i), server,
					"must be an IP address, such as 10.96.0.10 or fd00::a"))
			}
		}
	},
}, {
	ID:          "dns-searches",
	Leaf:        true,
	Requirement: "At most 6 search domains are given; joined by spaces they have at most 256 characters.",
	Check: func(vm *ExpandedVM, r *Report) {
		searches := orEmpty(vm.Spec.DNSConfig).Searches
		length := max(len(searches)-1, 0)
		for _, search := range searches {
			length += len(search)
		}
		switch {
		case len(searches) > maxSearches:
			r.Add(field.TooMany(vm.Path("spec", "dnsConfig", "searches"), len(searches), maxSearches))
		case length > maxSearchLength:
			r.Add(field.Invalid(vm.Path("spec", "dnsConfig", "searches"), strings.Join(searches, " "),
				fmt.Sprintf("must have at most %d characters together, and has %d", maxSearchLength, length)))
		}
	},
}, {
	ID:          "dns-search-format",
	Leaf:        true,
	Requirement: "A search domain is a DNS subdomain.",
	Check: func(vm *ExpandedVM, r *Report) {
		for i, search := range orEmpty(vm.Spec.DNSConfig).Searches {
			if !isDNSSubdomain(search) {
				r.Add(field.Invalid(vm.Path("spec", "dnsConfig", "searches").Index(i), search, dnsSubdomainDetail))
			}
		}
	},
}, {
	ID:          "dns-option-name",
	Requirement: "A DNS option has a name.",
	Check: func(vm *ExpandedVM, r *Report) {
		for i, option := range orEmpty(vm.Spec.DNSConfig).Options {
			if option.Name == "" {
				r.Add(field.Required(vm.Path("spec", "dnsConfig", "options").Index(i).Child("name"), "must be the name of an option, such as ndots"))
			}
		}
	},
}}

// Limits of resolvers, as Kubernetes defines them.
const (
	maxNameservers  = 3
	maxSearches     = 6
	maxSearchLength = 256
)

// dnsSubdomainDetail describes the format that isDNSSubdomain requires.
const dnsSubdomainDetail = "must be DNS labels separated by dots, of at most 253 characters, such as db.example.com"

func isDNSSubdomain(name string) bool { return len(validation.IsDNS1123Subdomain(name)) == 0 }

var dnsPolicies = valueSet{"ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"}
