package domain

import (
	"slices"
	"strings"
	"testing"

	"libvirt.org/go/libvirtxml"
)

// TestWhatAHostDoesNotKnowIsRefused leaves every kind of what is late-bound to
// a host that knows nothing. What libvirt resolves itself, and what follows
// from names, needs no fact.
func TestWhatAHostDoesNotKnowIsRefused(t *testing.T) {
	for kind, want := range map[LateKind]string{
		LateMachine:           "facts.machines.amd64[q35]",
		LateHostCPU:           "",
		LateHyperVPassthrough: "",
		LateTSC:               "facts.tscFrequency",
		LateNUMA:              "dedicatedCpuPlacement",
		LateMAC:               "",
		LateMTU:               "",
		LateBlockSize:         "facts.volumes[x].logicalBlockSize",
		LateVSOCKCID:          "facts.vsockCID",
		LateHostDevice:        "facts.devices[x]",
		"Unheard":             "no resolver",
	} {
		t.Run(string(kind), func(t *testing.T) {
			partial := &Partial{Instance: (&goldenCase{}).instance(), Late: []Late{{Kind: kind, Field: "spec.here", Device: "x"}}}
			partial.Domain = libvirtxml.Domain{
				OS:    &libvirtxml.DomainOS{Type: &libvirtxml.DomainOSType{Machine: "q35"}},
				CPU:   &libvirtxml.DomainCPU{Mode: "host-model"},
				Clock: &libvirtxml.DomainClock{Timer: []libvirtxml.DomainTimer{{Name: "tsc"}}},
				Devices: &libvirtxml.DomainDeviceList{
					Interfaces: []libvirtxml.DomainInterface{{Alias: &libvirtxml.DomainAlias{Name: "ua-x"}}},
				},
			}
			settings := builtinBackend()
			_, errs := Backend(partial, &settings, &HostFacts{Architecture: "amd64", KVM: true})
			if want == "" && len(errs) > 0 {
				t.Fatalf("got %v", errs)
			}
			if want != "" && (len(errs) != 1 || !strings.Contains(errs[0].Error(), want)) {
				t.Fatalf("got %v, want one error about %s", errs, want)
			}
		})
	}
	kinds := []LateKind{LateMachine, LateHostCPU, LateHyperVPassthrough, LateTSC, LateNUMA, LateMAC, LateMTU, LateBlockSize, LateVSOCKCID, LateHostDevice}
	for kind := range lateResolvers {
		if !slices.Contains(kinds, kind) {
			t.Errorf("%s is not tried here", kind)
		}
	}
}

// TestVSOCKOfStatus has a context ID in the instance's status, as KubeVirt's
// controller writes it; what the host says is stronger.
func TestVSOCKOfStatus(t *testing.T) {
	vmi := instanceOf(t, "{domain: {devices: {autoattachVSOCK: true}}}")
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
		if got := plan.Whole.Domain.Devices.VSock.CID.Address; got != row.want {
			t.Errorf("got %s, want %s", got, row.want)
		}
	}
}

// TestBackendNeedsNothing gives stage 3 neither settings nor facts.
func TestBackendNeedsNothing(t *testing.T) {
	for name, c := range goldenCases(t) {
		t.Run(name, func(t *testing.T) {
			settings := builtinFrontend()
			partial, errs := Frontend(c.instance(), &settings)
			if len(errs) > 0 {
				t.Skip("refused")
			}
			if _, errs = Backend(partial, nil, nil); len(errs) == 0 {
				t.Error("a host that says nothing of itself can run it")
			}
		})
	}
}

func TestOwnerOf(t *testing.T) {
	_, whole, errs := (&goldenCase{}).run()
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	text, err := Render(&whole.Domain)
	if err != nil {
		t.Fatal(err)
	}
	var read libvirtxml.Domain
	if err := read.Unmarshal(text); err != nil {
		t.Fatal(err)
	}
	want := Owner{Namespace: "shop", Name: "web", UID: "5a1f0b5e-3c55-4b5e-9d06-0c1a5a3f7d11"}
	if got, ok := OwnerOf(&read); !ok || got != want {
		t.Errorf("got %v, %v, want %v", got, ok, want)
	}
	for name, metadata := range map[string]*libvirtxml.DomainMetadata{
		"none":    nil,
		"foreign": {XML: `<instance xmlns="http://example.com"><name>web</name></instance>`},
		"broken":  {XML: `<instance`},
	} {
		if got, ok := OwnerOf(&libvirtxml.Domain{Metadata: metadata}); ok {
			t.Errorf("%s: got %v", name, got)
		}
	}
	// As libvirt gives it back, and beside what others have written.
	with := `<o:a xmlns:o="http://o/"/><v:instance xmlns:v="http://virtwright.dev/domain/v1"><v:namespace>shop</v:namespace><v:name>web</v:name></v:instance>`
	if got, ok := OwnerOf(&libvirtxml.Domain{Metadata: &libvirtxml.DomainMetadata{XML: with}}); !ok || got.Name != "web" || got.UID != "" {
		t.Errorf("got %v, %v", got, ok)
	}
}
