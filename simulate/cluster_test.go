package simulate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/virtwright/virtwright/fleet"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/simulate"
	"github.com/virtwright/virtwright/simulate/manifest"
	"github.com/virtwright/virtwright/validation"
)

const (
	size = `
apiVersion: virtwright.dev/v1alpha1
kind: ClusterVirtualMachinePreset
metadata: {name: size}
spec:
  match: {labels: {matchLabels: {size: small}}}
  defaults: {spec: {template: {spec: {domain: {memory: {guest: 1Gi}}}}}}
`
	noRNG = `
apiVersion: virtwright.dev/v1alpha1
kind: ClusterVirtualMachinePreset
metadata: {name: no-rng}
spec: {forbid: [{path: spec.template.spec.domain.devices.rng, message: no random numbers}]}
`
)

// vm returns a VM with labels and devices.
func vm(name, labels, devices string) string {
	return fmt.Sprintf(`
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: %s, labels: {%s}}
spec:
  runStrategy: Halted
  template:
    spec:
      domain: {devices: {disks: [{name: root, disk: {}}], %s}}
      volumes: [{name: root, containerDisk: {image: example.com/disk}}]
`, name, labels, devices)
}

func objects(t testing.TB, documents ...string) []manifest.Object {
	t.Helper()
	out, err := manifest.Parse("a.yaml", []byte(strings.Join(documents, "---")))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func standalone() simulate.Settings {
	return simulate.Settings{
		Engine:    &presets.Engine{Platform: &presets.Platform{Architecture: "amd64"}},
		Rules:     &validation.Config{Architecture: "amd64"},
		Namespace: "lab",
	}
}

// stored expands a VM and returns it as the cluster stores it.
func stored(t *testing.T, documents ...string) string {
	t.Helper()
	cluster, err := simulate.NewCluster(t.Context(), objects(t, documents...), standalone())
	if err != nil {
		t.Fatal(err)
	}
	object, _, err := cluster.Expand(t.Context(), cluster.VMs[0])
	if err != nil {
		t.Fatal(err)
	}
	out := unstructured.Unstructured{Object: object}
	out.SetNamespace("lab")
	out.SetUID("1")
	out.SetResourceVersion("1")
	text, err := out.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return "\n" + string(text) + "\n"
}

// TestReview creates objects in order, and compares the verdict on the last one.
func TestReview(t *testing.T) {
	for name, test := range map[string]struct {
		documents []string
		fields    simulate.FieldValidation
		problems  []string // field, rule and presets
		warnings  int
	}{
		"a preset completes a sparse VM":         {documents: []string{size, vm("web", "size: small", "")}},
		"without its preset a VM lacks a value":  {documents: []string{vm("web", "size: small", "")}, problems: []string{"spec.template.spec.domain.memory.guest memory-given "}},
		"a rejected preset is not applied":       {documents: []string{strings.ReplaceAll(size, "1Gi", "1Gx"), vm("web", "size: small", "")}, problems: []string{"spec.template.spec.domain.memory.guest memory-given "}},
		"a preset that is created later applies": {documents: []string{vm("web", "size: small", ""), size}},
		"a preset forbids a field": {
			documents: []string{size, noRNG, vm("web", "size: small", "rng: {}")},
			problems:  []string{"spec.template.spec.domain.devices.rng  cluster/no-rng"},
		},
		"a preset sets a value that a rule rejects": {
			documents: []string{strings.ReplaceAll(size, "guest: 1Gi}", "guest: 1Gi}, firmware: {bootloader: {efi: {secureBoot: true}}}"), vm("web", "size: small", "")},
			problems:  []string{"spec.template.spec.domain.firmware.bootloader.efi.secureBoot secure-boot-needs-smm cluster/size"},
		},
		"an unknown field is rejected": {documents: []string{size, vm("web", "size: small", "rgn: {}")}, problems: []string{"spec.template.spec.domain.devices.rgn unknown "}},
		"an unknown field is dropped":  {documents: []string{size, vm("web", "size: small", "rgn: {}")}, fields: simulate.FieldsWarn, warnings: 1},
		"a name is taken":              {documents: []string{size, vm("web", "size: small", ""), vm("web", "size: small", "")}, problems: []string{"metadata.name  "}},
	} {
		t.Run(name, func(t *testing.T) {
			settings := standalone()
			settings.Fields = test.fields
			report, err := simulate.Review(t.Context(), objects(t, test.documents...), settings)
			if err != nil {
				t.Fatal(err)
			}
			verdict := report.Verdicts[len(report.Verdicts)-1]
			var got []string
			for _, p := range verdict.Problems {
				rule := p.Rule()
				if p.IsUnknownField() {
					rule = "unknown"
				}
				got = append(got, fmt.Sprintf("%s %s %s", p.Field, rule, strings.Join(p.Presets(), ",")))
			}
			if diff := cmp.Diff(test.problems, got); diff != "" || len(verdict.Warnings) != test.warnings {
				t.Errorf("problems (-want, +got):\n%s\nwarnings: %q", diff, verdict.Warnings)
			}
		})
	}
}

// TestDrift changes presets after a VM is stored.
func TestDrift(t *testing.T) {
	web := stored(t, size, vm("web", "size: small", "rng: {}"))
	for name, test := range map[string]struct {
		presets []string
		changes []string
		rejects []string // presets
	}{
		"no change":       {presets: []string{size}},
		"another default": {presets: []string{strings.ReplaceAll(size, "1Gi", "2Gi")}, changes: []string{"spec.template.spec.domain.memory.guest"}},
		"a new rule":      {presets: []string{size, noRNG}, rejects: []string{"cluster/no-rng"}},
	} {
		drifted, _, err := simulate.Drift(t.Context(), objects(t, append(test.presets, web)...), standalone())
		if err != nil || len(drifted) != 1 {
			t.Fatalf("%s: %d VMs, error %v", name, len(drifted), err)
		}
		var changes, rejects []string
		for _, c := range drifted[0].Changes {
			changes = append(changes, c.Path)
		}
		for _, p := range drifted[0].Problems {
			rejects = append(rejects, p.Presets()...)
		}
		if diff := cmp.Diff([2][]string{test.changes, test.rejects}, [2][]string{changes, rejects}); diff != "" {
			t.Errorf("%s: changes and rejections (-want, +got):\n%s", name, diff)
		}
	}
}

// TestPlan compares the effect of two sets of presets on a new and on a stored VM.
func TestPlan(t *testing.T) {
	vms := []string{vm("new", "size: small", ""), stored(t, size, vm("web", "size: small", ""))}
	for name, test := range map[string]struct {
		after string
		want  []string
	}{
		"the same presets": {after: size},
		"another default":  {after: strings.ReplaceAll(size, "1Gi", "2Gi"), want: []string{"new: spec.template.spec.domain.memory.guest", "web: spec.template.spec.domain.memory.guest"}},
		"another label":    {after: strings.ReplaceAll(size, "size: small", "size: tiny"), want: []string{"new rejected", "web rejected"}},
	} {
		x := &simulate.Comparison{
			Settings: standalone(), Before: objects(t, append(vms, size)...), After: objects(t, append(vms, test.after)...),
		}
		var got []string
		x.Visit = func(c simulate.Compared) {
			if len(c.Problems) > 0 {
				got = append(got, c.Name+" rejected")
			}
			for _, change := range c.Changes {
				got = append(got, c.Name+": "+change.Path)
			}
		}
		if _, err := x.Plan(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: (-want, +got):\n%s", name, diff)
		}
	}
}

// TestViolations lists stored VMs that break the rule of a preset.
func TestViolations(t *testing.T) {
	web := stored(t, size, vm("web", "size: small", "rng: {}"))
	found, vms, _, err := simulate.Violations(t.Context(), objects(t, size, noRNG, web), standalone(), "cluster/no-rng")
	if err != nil || vms != 1 || len(found) != 1 || found[0].Preset.Ref != "cluster/no-rng" || found[0].Name != "web" {
		t.Errorf("%d VMs, found %v, error %v", vms, found, err)
	}
	if _, _, _, err := simulate.Violations(t.Context(), objects(t, size, web), standalone(), "cluster/no-rng"); err == nil {
		t.Error("want an error about a preset that does not exist")
	}
}

// TestLint finds a defect of a preset, and of a VM with it.
func TestLint(t *testing.T) {
	report, err := simulate.Lint(t.Context(), objects(t, strings.ReplaceAll(size, "guest", "gest")), standalone())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(report.Findings, func(f simulate.LintFinding) bool { return f.Check == fleet.UnknownField && f.Where.File == "a.yaml" }) {
		t.Errorf("got %v", report.Findings)
	}
}

// TestInspect returns all that is known about a VM at once, also if it is rejected.
func TestInspect(t *testing.T) {
	cluster, issues := simulate.Open(t.Context(), objects(t, size, vm("web", "size: small", ""), vm("bad", "size: small", "inputs: [{name: a, type: mouse, bus: usb}]")), standalone())
	if len(issues) > 0 {
		t.Fatal(issues)
	}
	for _, m := range cluster.VMs {
		x := cluster.Inspect(t.Context(), m)
		if memory, _, _ := unstructured.NestedString(x.Object, "spec", "template", "spec", "domain", "memory", "guest"); memory != "1Gi" {
			t.Errorf("%s: memory %q", m, memory)
		}
		if isBad := m.Name == "bad"; isBad != (len(x.Issues) > 0) || isBad != (x.Plan == nil) || x.Explanation == nil {
			t.Errorf("%s: issues %v, plan %v", m, x.Issues, x.Plan)
		}
	}
}

// TestAddonLaunch: the VMI of a VM has the fields of its instancetype and preference. What the
// renderer cannot do is no problem of the VM; what a preset rejects at launch is one.
func TestAddonLaunch(t *testing.T) {
	const sizes = `
apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineClusterInstancetype
metadata: {name: u1}
spec: {cpu: {guest: 2}, memory: {guest: 2Gi}}
---
apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineClusterPreference
metadata: {name: p1}
spec: {machine: {preferredMachineType: pc-q35-7.2}}
`
	matched := strings.Replace(vm("web", "", ""), "  runStrategy: Halted", "  runStrategy: Halted\n  instancetype: {name: u1}\n  preference: {name: p1}", 1)
	dumped := strings.Replace(vm("dump", "size: small", ""), "volumes: [", "volumes: [{name: md, memoryDump: {claimName: x}}, ", 1)
	settings := simulate.Settings{Engine: &presets.Engine{}, Rules: &validation.Config{Addon: true, Architecture: "amd64"}, Namespace: "lab"}
	cluster, issues := simulate.Open(t.Context(), objects(t, size, sizes, strings.Replace(noRNG, "{forbid", "{applyAt: Launch, forbid", 1), matched, dumped, vm("late", "size: small", "rng: {}")), settings)
	if len(issues) > 0 {
		t.Fatal(issues)
	}
	web, dump := cluster.Inspect(t.Context(), cluster.VMs[0]), cluster.Inspect(t.Context(), cluster.VMs[1])
	if web.Plan == nil || len(web.Issues)+len(web.Notes) > 0 {
		t.Fatalf("issues %v, notes %q", web.Issues, web.Notes)
	}
	guest := web.Plan.Host.Domain
	if guest.Memory.Value != 2<<30 || guest.OS.Type.Machine != "pc-q35-7.2" {
		t.Errorf("got a domain of %d %s, machine %s", guest.Memory.Value, guest.Memory.Unit, guest.OS.Type.Machine)
	}
	if dump.Plan != nil || len(dump.Issues) > 0 || len(dump.Notes) == 0 {
		t.Errorf("plan %v, issues %v, notes %q", dump.Plan, dump.Issues, dump.Notes)
	}
	late := cluster.Inspect(t.Context(), cluster.VMs[2])
	if late.Plan != nil || !slices.ContainsFunc(late.Issues, func(i simulate.Issue) bool { return !i.Warning && strings.Contains(i.Message, "no random numbers") }) {
		t.Errorf("plan %v, issues %v", late.Plan, late.Issues)
	}
}
