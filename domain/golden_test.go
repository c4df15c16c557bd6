package domain

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/test/golden"
)

// A goldenCase is testdata/NAME.in.yaml: the relevant parts of a VMI, and the arguments of both
// stages.
type goldenCase struct {
	// Spec of the VMI shop/web; by default it has one CPU, 128Mi and a machine type.
	Spec     kubevirtv1.VirtualMachineInstanceSpec `json:"spec"`
	Labels   map[string]string                     `json:"labels,omitempty"`
	Notes    map[string]string                     `json:"annotations,omitempty"`
	Frontend v1alpha1.FrontendSettings             `json:"frontend,omitzero"`
	Backend  v1alpha1.BackendSettings              `json:"backend,omitzero"`
	// Facts override those of a default host.
	Facts *HostFacts `json:"facts,omitempty"`
}

func (c *goldenCase) vmi() *kubevirtv1.VirtualMachineInstance {
	vmi := &kubevirtv1.VirtualMachineInstance{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web", Namespace: "shop", UID: "5a1f0b5e-3c55-4b5e-9d06-0c1a5a3f7d11",
			Labels: c.Labels, Annotations: c.Notes,
		},
		Spec: *c.Spec.DeepCopy(),
	}
	arch, err := architectureOf(vmi.Spec.Architecture)
	if err != nil {
		return vmi
	}
	vmi.Spec.Architecture = arch.name
	domain := &vmi.Spec.Domain
	if domain.Machine == nil {
		domain.Machine = &kubevirtv1.Machine{Type: arch.machine}
	}
	if domain.Firmware == nil {
		domain.Firmware = &kubevirtv1.Firmware{}
	}
	if domain.Firmware.UUID == "" {
		domain.Firmware.UUID = "5d307ca9-b3ef-428c-8861-06e72d69f223"
	}
	if domain.Features == nil {
		domain.Features = &kubevirtv1.Features{}
	}
	fill(reflect.ValueOf(&domain.CPU).Elem(), reflect.ValueOf(&kubevirtv1.CPU{Cores: 1, Sockets: 1, Threads: 1, Model: "host-model"}))
	if domain.Memory == nil || domain.Memory.Guest == nil {
		if domain.Memory == nil {
			domain.Memory = &kubevirtv1.Memory{}
		}
		domain.Memory.Guest = new(resource.MustParse("128Mi"))
	}
	return vmi
}

// facts returns the facts of the case, and those assumed for a VMI that asks for nothing.
func (c *goldenCase) facts(arch string) *HostFacts {
	facts := AssumedFacts(&kubevirtv1.VirtualMachineInstance{Spec: kubevirtv1.VirtualMachineInstanceSpec{Architecture: arch}})
	facts.TSCFrequency, facts.VSOCKCID, facts.QuoteSocket = 0, 0, ""
	if c.Facts != nil {
		return c.Facts.Or(facts)
	}
	return facts
}

// run runs both stages. Built-in settings fill those that are missing.
func (c *goldenCase) run() (*GuestDomain, *HostDomain, field.ErrorList) {
	vmi := c.vmi()
	frontend, backend := c.Frontend, c.Backend
	fill(reflect.ValueOf(&frontend).Elem(), reflect.ValueOf(builtinFrontend()))
	fill(reflect.ValueOf(&backend).Elem(), reflect.ValueOf(builtinBackend()))
	guest, errs := Frontend(vmi, &frontend)
	if len(errs) > 0 {
		return nil, nil, errs
	}
	host, errs := Backend(guest, &backend, c.facts(vmi.Spec.Architecture))
	return guest, host, errs
}

// goldenCases reads the cases of testdata, by name.
func goldenCases(t testing.TB) map[string]*goldenCase {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.in.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	out := map[string]*goldenCase{}
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		c := &goldenCase{}
		if err := yaml.UnmarshalStrict(raw, c); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		out[strings.TrimSuffix(filepath.Base(path), ".in.yaml")] = c
	}
	return out
}

// TestGolden runs both stages for every case of testdata. NAME.guest.xml is the result of stage 2
// with its placeholders; NAME.out.xml is that of stage 3 with its decisions; NAME.out.txt has the
// errors instead.
func TestGolden(t *testing.T) {
	for name, c := range goldenCases(t) {
		t.Run(name, func(t *testing.T) {
			guest, host, errs := c.run()
			at := filepath.Join("testdata", name)
			if len(errs) > 0 {
				lines := make([]string, 0, len(errs))
				for _, err := range errs {
					lines = append(lines, err.Error())
				}
				golden.Equal(t, at+".out.txt", strings.Join(lines, "\n")+"\n")
				return
			}
			golden.Equal(t, at+".guest.xml", rendered(t, &guest.Domain)+placeholdersText(guest.Placeholders))
			golden.Equal(t, at+".out.xml", rendered(t, &host.Domain)+decisionsText(host.Decisions))
		})
	}
	for _, pattern := range []string{"testdata/*.guest.xml", "testdata/*.out.xml", "testdata/*.out.txt"} {
		golden.Stale(t, pattern)
	}
}

func rendered(t *testing.T, d *libvirtxml.Domain) string {
	t.Helper()
	text, err := Render(d)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func placeholdersText(all []Placeholder) string {
	var out strings.Builder
	for _, l := range all {
		out.WriteString("<!-- late-bound: " + l.String() + " -->\n")
	}
	return out.String()
}

func decisionsText(all []Decision) string {
	var out strings.Builder
	for _, d := range all {
		out.WriteString("<!-- " + strings.ReplaceAll(d.String(), "--", "- -") + " -->\n")
	}
	return out.String()
}
