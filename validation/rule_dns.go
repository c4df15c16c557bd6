package validation

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var dnsRules = []Rule{{
	ID:    "hostname-format",
	Leaf:  true,
	Says:  "The hostname is a DNS label.",
	Check: hostnameFormat,
}, {
	ID:    "subdomain-format",
	Leaf:  true,
	Says:  "The subdomain is a DNS subdomain.",
	Check: subdomainFormat,
}, {
	ID:    "dns-policy",
	Leaf:  true,
	Says:  "The DNS policy is ClusterFirst, ClusterFirstWithHostNet, Default or None.",
	Check: dnsPolicy,
}, {
	ID:    "dns-none-needs-nameserver",
	Says:  "With DNS policy None there is a nameserver.",
	Check: dnsNoneNeedsNameserver,
}, {
	ID:    "dns-nameservers",
	Leaf:  true,
	Says:  "There are at most 3 nameservers.",
	Check: dnsNameservers,
}, {
	ID:    "dns-nameserver-address",
	Leaf:  true,
	Says:  "A nameserver is an IP address.",
	Check: dnsNameserverAddress,
}, {
	ID:    "dns-searches",
	Leaf:  true,
	Says:  "There are at most 6 search domains, of at most 256 characters together with the spaces between them.",
	Check: dnsSearches,
}, {
	ID:    "dns-search-format",
	Leaf:  true,
	Says:  "A search domain is a DNS subdomain.",
	Check: dnsSearchFormat,
}, {
	ID:    "dns-option-name",
	Says:  "A DNS option has a name.",
	Check: dnsOptionName,
}}

// What resolvers can do, as Kubernetes has it.
const (
	maxNameservers  = 3
	maxSearches     = 6
	maxSearchLength = 256
)

func hostnameFormat(m *Machine, r *Report) {
	if name := m.Spec.Hostname; name != "" && !isDNSLabel(name) {
		r.Add(field.Invalid(m.Path("spec", "hostname"), name, dnsLabelDetail))
	}
}

// dnsSubdomainDetail says what isDNSSubdomain wants.
const dnsSubdomainDetail = "must be DNS labels separated by dots, of at most 253 characters, such as db.example.com"

func isDNSSubdomain(name string) bool { return len(validation.IsDNS1123Subdomain(name)) == 0 }

func subdomainFormat(m *Machine, r *Report) {
	if name := m.Spec.Subdomain; name != "" && !isDNSSubdomain(name) {
		r.Add(field.Invalid(m.Path("spec", "subdomain"), name, dnsSubdomainDetail))
	}
}

var dnsPolicies = []string{"ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"}

func dnsPolicy(m *Machine, r *Report) {
	if policy := string(m.Spec.DNSPolicy); policy != "" && !slices.Contains(dnsPolicies, policy) {
		r.Add(r.unsupported(m.Path("spec", "dnsPolicy"), policy, dnsPolicies...))
	}
}

func dnsNoneNeedsNameserver(m *Machine, r *Report) {
	if m.Spec.DNSPolicy == corev1.DNSNone && (m.Spec.DNSConfig == nil || len(m.Spec.DNSConfig.Nameservers) == 0) {
		r.Add(field.Required(m.Path("spec", "dnsConfig", "nameservers"), "must have a nameserver with dnsPolicy: None"))
	}
}

func dnsNameservers(m *Machine, r *Report) {
	if dns := m.Spec.DNSConfig; dns != nil && len(dns.Nameservers) > maxNameservers {
		r.Add(field.TooMany(m.Path("spec", "dnsConfig", "nameservers"), len(dns.Nameservers), maxNameservers))
	}
}

func dnsNameserverAddress(m *Machine, r *Report) {
	if m.Spec.DNSConfig == nil {
		return
	}
	for i, server := range m.Spec.DNSConfig.Nameservers {
		if address, err := netip.ParseAddr(server); err != nil || address.Zone() != "" {
			r.Add(field.Invalid(m.Path("spec", "dnsConfig", "nameservers").Index(i), server, "must be an IP address, such as 10.96.0.10 or fd00::a"))
		}
	}
}

func dnsSearches(m *Machine, r *Report) {
	if m.Spec.DNSConfig == nil {
		return
	}
	searches := m.Spec.DNSConfig.Searches
	length := max(len(searches)-1, 0)
	for _, search := range searches {
		length += len(search)
	}
	switch {
	case len(searches) > maxSearches:
		r.Add(field.TooMany(m.Path("spec", "dnsConfig", "searches"), len(searches), maxSearches))
	case length > maxSearchLength:
		r.Add(field.Invalid(m.Path("spec", "dnsConfig", "searches"), strings.Join(searches, " "),
			fmt.Sprintf("must have at most %d characters together, and has %d", maxSearchLength, length)))
	}
}

func dnsSearchFormat(m *Machine, r *Report) {
	if m.Spec.DNSConfig == nil {
		return
	}
	for i, search := range m.Spec.DNSConfig.Searches {
		if !isDNSSubdomain(search) {
			r.Add(field.Invalid(m.Path("spec", "dnsConfig", "searches").Index(i), search, dnsSubdomainDetail))
		}
	}
}

func dnsOptionName(m *Machine, r *Report) {
	if m.Spec.DNSConfig == nil {
		return
	}
	for i, option := range m.Spec.DNSConfig.Options {
		if option.Name == "" {
			r.Add(field.Required(m.Path("spec", "dnsConfig", "options").Index(i).Child("name"), "must be the name of an option, such as ndots"))
		}
	}
}
