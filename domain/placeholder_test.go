package domain

import (
	"slices"
	"strings"
	"testing"

	"libvirt.org/go/libvirtxml"
)

// TestMissingFactsAreRejected resolves every kind of placeholder on a host without facts. Values
// that libvirt resolves itself, and values derived from names, need no fact.
func TestMissingFactsAreRejected(t *testing.T) {
	for kind, want := range map[placeholderKind]string{
		kindMachine:           "facts.machines.amd64[q35]",
		kindHostCPU:           "",
		kindHyperVPassthrough: "",
		kindTSC:               "facts.tscFrequency",
		kindNUMA:              "dedicatedCpuPlacement",
		kindMAC:               "",
		kindMTU:               "",
		kindBlockSize:         "facts.volumes[x].logicalBlockSize",
		kindVSOCKCID:          "facts.vsockCID",
		kindHostDevice:        "facts.devices[x]",
		"Unheard":             "no resolver",
	} {
		t.Run(string(kind), func(t *testing.T) {
			guest := &GuestDomain{VMI: (&goldenCase{}).vmi(), Placeholders: []Placeholder{{Kind: kind, Field: "spec.here", Device: "x"}}}
			guest.Domain = libvirtxml.Domain{
				OS:    &libvirtxml.DomainOS{Type: &libvirtxml.DomainOSType{Machine: "q35"}},
				CPU:   &libvirtxml.DomainCPU{Mode: "host-model"},
				Clock: &libvirtxml.DomainClock{Timer: []libvirtxml.DomainTimer{{Name: "tsc"}}},
				Devices: &libvirtxml.DomainDeviceList{
					Interfaces: []libvirtxml.DomainInterface{{Alias: &libvirtxml.DomainAlias{Name: "ua-x"}}},
				},
			}
			settings := builtinBackend()
			_, errs := Backend(guest, &settings, &HostFacts{Architecture: "amd64", KVM: true})
			if want == "" && len(errs) > 0 {
				t.Fatalf("got %v", errs)
			}
			if want != "" && (len(errs) != 1 || !strings.Contains(errs[0].Error(), want)) {
				t.Fatalf("got %v, want one error about %s", errs, want)
			}
		})
	}
	kinds := []placeholderKind{kindMachine, kindHostCPU, kindHyperVPassthrough, kindTSC, kindNUMA, kindMAC, kindMTU, kindBlockSize, kindVSOCKCID, kindHostDevice}
	for kind := range resolvers {
		if !slices.Contains(kinds, kind) {
			t.Errorf("%s is not tested here", kind)
		}
	}
}

// TestVSOCKOfStatus has a context ID in the VMI's status, as KubeVirt's controller writes it; a
// fact of the host overrides it.
func TestVSOCKOfStatus(t *testing.T) {
	vmi := vmiOf(t, "{domain: {devices: {autoattachVSOCK: true}}}")
	vmi.Status.VSOCKCID = new(uint32(77))
	for _, row := range []struct {
		facts *HostFacts
		want  string
	}{
		{&HostFacts{Architecture: "amd64", KVM: true, Machines: map[string]map[string]string{"amd64": {"q35": "q35"}}}, "77"},
		{&HostFacts{Architecture: "amd64", KVM: true, Machines: map[string]map[string]string{"amd64": {"q35": "q35"}}, VSOCKCID: 5}, "5"},
		{nil, "77"},
	} {
		plan, errs := (&Profiles{}).Plan(vmi, nil, row.facts)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		if got := plan.Host.Domain.Devices.VSock.CID.Address; got != row.want {
			t.Errorf("got %s, want %s", got, row.want)
		}
	}
}

// TestBackendWithoutFacts gives stage 3 neither settings nor facts.
func TestBackendWithoutFacts(t *testing.T) {
	for name, c := range goldenCases(t) {
		t.Run(name, func(t *testing.T) {
			settings := builtinFrontend()
			guest, errs := Frontend(c.vmi(), &settings)
			if len(errs) > 0 {
				t.Skip("rejected")
			}
			if _, errs = Backend(guest, nil, nil); len(errs) == 0 {
				t.Error("a host without facts can run it")
			}
		})
	}
}
