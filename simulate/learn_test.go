package simulate_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/fleet/learn"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/simulate"
	"github.com/virtwright/virtwright/simulate/manifest"
	"github.com/virtwright/virtwright/test/cases"
	"github.com/virtwright/virtwright/validation"
)

// plantedSecret is in user data only.
const plantedSecret = "hunter2-7f3a"

// A plantedFleet has VMs whose fields follow from labels and namespaces, but for some.
type plantedFleet struct {
	*rand.Rand
	text strings.Builder
	// labelled counts the label values of each size.
	odd int
}

var (
	plantedMemory = map[string]string{"s": "1Gi", "m": "4Gi", "l": "16Gi"}
	plantedClass  = map[string]string{"dev": "slow", "prod": "fast"}
)

func newPlantedFleet(seed uint64, vms int) *plantedFleet {
	f := &plantedFleet{Rand: rand.New(rand.NewPCG(seed, 1))}
	for _, tier := range []string{"dev", "prod"} {
		fmt.Fprintf(&f.text, "---\n{apiVersion: v1, kind: Namespace, metadata: {name: shop-%s, labels: {tier: %[1]s}, annotations: {cost: c-%[1]s}}}\n", tier)
	}
	names := []string{"root", "data", "a", "web", "shop"} // also words of other fields
	for i := range vms {
		name := fmt.Sprintf("web-%d", i)
		if i < len(names) && f.IntN(2) == 0 {
			name = names[i]
		}
		f.vm(name)
	}
	return f
}

func (f *plantedFleet) pick(of ...string) string { return of[f.IntN(len(of))] }

// most returns a value, or rarely another one.
func (f *plantedFleet) most(value, other string) string {
	if f.IntN(30) == 0 {
		f.odd++
		return other
	}
	return value
}

func (f *plantedFleet) vm(name string) {
	size, os, tier := f.pick("s", "m", "l"), f.pick("linux", "windows"), f.pick("dev", "prod")
	bus, extra := "virtio", ""
	if os == "windows" {
		bus, extra = "sata", "tpm: {}\n          "
	}
	if f.IntN(20) == 0 {
		extra += "rng: {}\n          "
	}
	fmt.Fprintf(&f.text, `---
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: %[1]s, namespace: shop-%[2]s, labels: {size: %[3]s, os: %[4]s}, annotations: {cost: %[11]s}}
spec:
  runStrategy: Always
  dataVolumeTemplates:
  - metadata: {name: %[1]s-root}
    spec: {source: {blank: {}}, storage: {storageClassName: %[5]s, resources: {requests: {storage: 10Gi}}}}
  template:
    metadata: {labels: {tier: %[2]s}}
    spec:
      hostname: %[1]s
      domain:
        memory: {guest: %[6]s}
        devices:
          %[7]sdisks:
          - {name: root, disk: {bus: %[8]s}}
          - {name: init, disk: {bus: virtio}}
          interfaces: [{name: default, masquerade: {}, macAddress: "02:00:00:00:%02[9]x:%02[10]x"}]
      networks: [{name: default, pod: {}}]
      volumes:
      - {name: root, dataVolume: {name: %[1]s-root}}
      - {name: init, cloudInitNoCloud: {userData: "%[12]s"}}
`, name, tier, size, os, f.most(plantedClass[tier], "other"), f.most(plantedMemory[size], "3Gi"), extra, f.most(bus, "scsi"),
		f.IntN(256), f.IntN(256), f.most("c-"+tier, "none"), plantedSecret)
}

func learned(t *testing.T, text string, o learn.Options) (*simulate.LearnReport, []manifest.Object) {
	t.Helper()
	objects, err := manifest.Parse("fleet.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return learnedFrom(t, objects, o), objects
}

func learnedFrom(t *testing.T, objects []manifest.Object, o learn.Options) *simulate.LearnReport {
	t.Helper()
	settings := simulate.Settings{Engine: &presets.Engine{}, Rules: &validation.Config{Addon: true}, Namespace: "default"}
	report, err := simulate.Learn(t.Context(), objects, settings, o, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// TestProposedLabels: labels save as much as is said, also for objects of a cluster, which all have
// the position of the cluster.
func TestProposedLabels(t *testing.T) {
	var text strings.Builder
	for i := range 10 {
		fields := ""
		if i < 6 {
			fields = "schedulerName: fast, priorityClassName: high, hostname: web, "
		}
		fmt.Fprintf(&text, "---\napiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: vm-%d}\n"+
			"spec: {runStrategy: Halted, template: {spec: {%sdomain: {devices: {}, memory: {guest: 1Gi}}}}}\n", i, fields)
	}
	report, objects := learned(t, text.String(), learn.Options{Labels: true})
	// Three fields of six VMs become six labels, and a preset with a condition and three fields.
	if len(report.Proposals) != 1 || report.MoreSaved != 3*6-6-5 {
		t.Fatalf("%d fields are saved with %+v", report.MoreSaved, report.Proposals)
	}
	for i := range objects {
		objects[i].Where = manifest.Position{File: "cluster"}
	}
	stored := learnedFrom(t, objects, learn.Options{Labels: true})
	if len(stored.Proposals) != 1 || stored.MoreSaved != report.MoreSaved {
		t.Errorf("%d fields are saved with %+v, want %d as in files", stored.MoreSaved, stored.Proposals, report.MoreSaved)
	}
}

// TestLawLearn learns presets of generated fleets. Every sparse VM expands to the original. The
// presets save the planted fields, and only VMs have a secret.
func TestLawLearn(t *testing.T) {
	var saved, all int
	for seed := range cases.Of(100) {
		f := newPlantedFleet(uint64(seed), 40)
		report, _ := learned(t, f.text.String(), learn.Options{Support: 3, Namespaced: seed%4 == 3, Judge: true})
		own := 0
		for _, p := range report.Presets {
			own += p.Fields + p.Terms
			raw, err := yaml.Marshal(p.Object)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(raw), plantedSecret) {
				t.Errorf("seed %d: a secret in\n%s", seed, raw)
			}
		}
		after := 0
		for _, x := range report.VMs {
			if x.Err != nil {
				t.Errorf("seed %d: %v\n%s", seed, x.Err, f.text.String())
			}
			all, saved, after = all+x.Before, saved+x.Before-x.After, after+x.After
		}
		if total := after + own + len(report.Presets); report.Least > total || report.Least == 0 {
			t.Errorf("seed %d: %d fields, fewer than the lower bound %d", seed, total, report.Least)
		}
		saved -= own
		// 5 fields of each VM are its own: two labels, run strategy, MAC address and user data.
		// Two keep the order of elements. One of 1,000 fleets needs some more.
		if most := 40*7 + 2*f.odd + 40 + 25; after+own > most {
			t.Errorf("seed %d: %d fields and %d of presets, want at most %d", seed, after, own, most)
		}
	}
	t.Logf("of %d fields, %d are saved", all, saved)
}

// TestLearnIsDeterministic compares presets of the same VMs.
func TestLearnIsDeterministic(t *testing.T) {
	text := newPlantedFleet(7, 60).text.String()
	first := ""
	for range 3 {
		report, _ := learned(t, text, learn.Options{Support: 3})
		raw, err := yaml.Marshal(report.Result)
		if err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first = string(raw)
		}
		if string(raw) != first {
			t.Fatalf("the first time:\n%s\nthen:\n%s", first, raw)
		}
	}
}

// TestLearnedPresets: presets select by labels and namespaces, compute what comes from names, and
// are limited by options.
func TestLearnedPresets(t *testing.T) {
	text := newPlantedFleet(3, 80).text.String()
	report, _ := learned(t, text, learn.Options{Support: 3, Judge: true})
	var names []string
	all := ""
	for _, p := range report.Presets {
		raw, err := yaml.Marshal(p.Object)
		if err != nil {
			t.Fatal(err)
		}
		names, all = append(names, presets.RefOf(p.Object)), all+string(raw)
	}
	for _, want := range []string{"cluster/every-vm", "cluster/size-l", "cluster/size-m"} {
		if !slices.Contains(names, want) {
			t.Errorf("no preset %s: %v", want, names)
		}
	}
	for _, want := range []string{
		"$cel: object.metadata.name\n", "$cel: object.metadata.name + '-root'", "$cel: namespaceObject.metadata.labels['tier']",
		"$cel: namespaceObject.metadata.annotations['cost']", "mode: Audit",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("no preset has %q:\n%s", want, all)
		}
	}
	for _, own := range []string{"macAddress", "runStrategy", "userData"} {
		if strings.Contains(all, own) {
			t.Errorf("a preset has %s:\n%s", own, all)
		}
	}
	if len(report.Unusual) == 0 || report.HeldOut.VMs == 0 || report.HeldOut.Saved*10 < report.HeldOut.Fields*7 {
		t.Errorf("%d unusual fields; held out: %+v", len(report.Unusual), report.HeldOut)
	}
	findings, err := simulate.Lint(t.Context(), asObjects(t, report.Presets), simulate.Settings{Engine: &presets.Engine{}, Rules: &validation.Config{Addon: true}, Namespace: "default"})
	if err != nil {
		t.Fatal(err)
	}
	for _, finding := range findings.Findings {
		t.Errorf("%s: %s", finding.ID, finding.Message)
	}
	few, _ := learned(t, text, learn.Options{Support: 3, Presets: 2})
	if len(few.Presets) != 2 {
		t.Errorf("got %d presets, want 2", len(few.Presets))
	}
	for _, p := range few.Presets {
		if p.VMs < 3 {
			t.Errorf("%s selects %d VMs", presets.RefOf(p.Object), p.VMs)
		}
	}
}

// asObjects returns presets in mode Enforce.
func asObjects(t *testing.T, of []learn.Preset) []manifest.Object {
	t.Helper()
	var text strings.Builder
	for _, p := range of {
		raw, err := yaml.Marshal(p.Object)
		if err != nil {
			t.Fatal(err)
		}
		text.WriteString("---\n" + strings.Replace(string(raw), "mode: Audit", "mode: Enforce", 1))
	}
	objects, err := manifest.Parse("presets.yaml", []byte(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// TestLearnBesideOthers: learned presets overrule no existing preset, and none has values that may
// be secret.
func TestLearnBesideOthers(t *testing.T) {
	var text strings.Builder
	for i := range 8 {
		fmt.Fprintf(&text, `---
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: web-%d, namespace: shop, annotations: {example.com/password: %[2]s, aws-secret: %[2]s, api-key: %[2]s, pass: %[2]s, note: the password is %[2]s, key: "-----BEGIN PRIVATE KEY----- %[2]s", backup: '{"password":"%[2]s"}'}}
spec: {runStrategy: Always, dataVolumeTemplates: [{metadata: {name: web-%[1]d}, spec: {source: {http: {url: "https://robot:50%%%[2]s@example.com/i", extraHeaders: ["Authorization: Bearer %[2]s"]}}, storage: {resources: {requests: {storage: 1Gi}}}}}],
  template: {spec: {livenessProbe: {httpGet: {port: 80, path: "/?token=%[2]s", httpHeaders: [{name: Authorization, value: %[2]s}]}}, readinessProbe: {exec: {command: [check, "-p%[2]s"]}},
  volumes: [{name: root, dataVolume: {name: web-%[1]d}}], domain: {cpu: {cores: 2, sockets: 1}, memory: {guest: 1Gi}, devices: {}}}}}
`, i, plantedSecret)
	}
	other := "---\n{apiVersion: virtwright.dev/v1alpha1, kind: ClusterVirtualMachinePreset, metadata: {name: zz}, spec: {priority: -5, defaults: {spec: {template: {spec: {domain: {cpu: {cores: 4}}}}}}}}\n"
	report, _ := learned(t, text.String()+other, learn.Options{Support: 3})
	if len(report.Presets) != 1 {
		t.Fatalf("got %d presets, want 1", len(report.Presets))
	}
	spec := report.Presets[0].Object.GetSpec()
	if spec.Priority >= -5 || strings.Contains(string(spec.Defaults.Raw), plantedSecret) || !strings.Contains(string(spec.Defaults.Raw), "1Gi") {
		t.Errorf("priority %d, defaults %s", spec.Priority, spec.Defaults.Raw)
	}
	for _, x := range report.VMs {
		if cores := presets.ValueAt(x.Kind, x.Object, provenance.Of("spec", "template", "spec", "domain", "cpu", "cores")); x.Err != nil || fmt.Sprint(cores) != "2" {
			t.Errorf("%s: %v cores, %v", x.Name, cores, x.Err)
		}
	}
}

// TestLearnLeavesBookkeeping: no preset gives VMs the labels and annotations by which a tool knows
// one VM, selects by them, or computes from them: the tool would delete other VMs.
func TestLearnLeavesBookkeeping(t *testing.T) {
	var text strings.Builder
	for i := range 12 {
		app := []string{"shop", "bank"}[i%2]
		fmt.Fprintf(&text, `---
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: web-%d, namespace: shop, labels: {argocd.argoproj.io/instance: %[2]s, velero.io/restore-name: night}, annotations: {meta.helm.sh/release-name: night, owner: blue}}
spec: {runStrategy: Always, template: {metadata: {labels: {app.kubernetes.io/instance: %[2]s}}, spec: {subdomain: %[2]s, domain: {cpu: {cores: 2}, memory: {guest: 1Gi}, devices: {}}}}}
`, i, app)
	}
	report, _ := learned(t, text.String(), learn.Options{Support: 3})
	if len(report.Presets) != 1 {
		t.Fatalf("got %d presets, want 1", len(report.Presets))
	}
	raw, err := yaml.Marshal(report.Presets[0].Object)
	if err != nil {
		t.Fatal(err)
	}
	for _, never := range []string{"instance", "restore-name", "release-name", "subdomain"} {
		if strings.Contains(string(raw), never) {
			t.Errorf("the preset has %s:\n%s", never, raw)
		}
	}
	if !strings.Contains(string(raw), "owner: blue") {
		t.Errorf("the preset lacks the other annotation:\n%s", raw)
	}
}

// TestLearnGivesWholeTemplates: no preset gives a part of a template of a DataVolume, or a volume
// without its template, because VMs that lack the rest would be rejected, or would not start.
func TestLearnGivesWholeTemplates(t *testing.T) {
	var text strings.Builder
	for i := range 8 {
		size, image, storage := "small", "rhel9", "30Gi"
		if i%2 == 0 {
			size, image, storage = "large", "win", "60Gi"
		}
		fmt.Fprintf(&text, `---
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: web-%d, namespace: shop, labels: {size: %s}}
spec: {runStrategy: Halted, dataVolumeTemplates: [{metadata: {name: web-%[1]d}, spec: {sourceRef: {kind: DataSource, name: %[3]s, namespace: images}, storage: {resources: {requests: {storage: %[4]s}}}}}],
  template: {spec: {volumes: [{name: root, dataVolume: {name: web-%[1]d}}], domain: {memory: {guest: 1Gi}, devices: {}}}}}
`, i, size, image, storage)
	}
	report, _ := learned(t, text.String(), learn.Options{Support: 3})
	if len(report.Presets) != 3 {
		t.Fatalf("got %d presets, want 3", len(report.Presets))
	}
	for _, p := range report.Presets {
		defaults := string(p.Object.GetSpec().Defaults.Raw)
		whole := true
		for _, field := range []string{`"sourceRef"`, `"kind"`, `"storage"`, `"volumes"`} {
			whole = whole && strings.Contains(defaults, field)
		}
		if everyVM := p.Terms == 0; everyVM && strings.Contains(defaults, "olume") || !everyVM && !whole {
			t.Errorf("%s: defaults are %s", p.Selects, defaults)
		}
	}
}

// TestLearnLeavesPartsInAllNamespaces: what a preset for all VMs leaves to them, none for the
// namespaces with a label gives, though there are many such labels. The mode is addon, in which a
// missing image is a warning.
func TestLearnLeavesPartsInAllNamespaces(t *testing.T) {
	var text strings.Builder
	for i := range 32 {
		fmt.Fprintf(&text, "---\n{apiVersion: v1, kind: Namespace, metadata: {name: n%d, labels: {", i)
		for bit := range 5 {
			fmt.Fprintf(&text, "l%d: '%d', ", bit, i>>bit&1)
		}
		text.WriteString("}}}\n")
		for j := range 3 {
			fmt.Fprintf(&text, "---\n{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: vm-%d, namespace: n%d}, spec: {runStrategy: Halted, template: {spec: {volumes: [{name: root, containerDisk: {image: i-%d-%[1]d, imagePullPolicy: Never}}], domain: {memory: {guest: 1Gi}, devices: {}}}}}}\n", j, i, i)
		}
	}
	report, _ := learned(t, text.String(), learn.Options{Support: 2})
	if len(report.Presets) != 1 || strings.Contains(string(report.Presets[0].Object.GetSpec().Defaults.Raw), "volumes") {
		t.Errorf("got %d presets, the first is %s", len(report.Presets), report.Presets[0].Object.GetSpec().Defaults.Raw)
	}
}

// TestLearnKeepsLabelsOfPresets: a label by which an existing preset selects a VM is not learned,
// because the preset would not match the sparse VM; one by which it selects others is.
func TestLearnKeepsLabelsOfPresets(t *testing.T) {
	var text strings.Builder
	for i := range 4 {
		fmt.Fprintf(&text, "---\n{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: web-%d, namespace: shop, labels: {level: high, team: a, os: linux}}, spec: {runStrategy: Halted, template: {spec: {domain: {memory: {guest: 1Gi}, devices: {}}}}}}\n", i)
	}
	for name, label := range map[string]string{"policy": "level: high", "windows": "os: windows"} {
		fmt.Fprintf(&text, "---\n{apiVersion: virtwright.dev/v1alpha1, kind: ClusterVirtualMachinePreset, metadata: {name: %s}, spec: {match: {labels: {matchLabels: {%s}}}, forbid: [{path: spec.template.spec.domain.devices.sound}]}}\n", name, label)
	}
	report, _ := learned(t, text.String(), learn.Options{Support: 3})
	if len(report.Presets) != 1 {
		t.Fatalf("got %d presets, want 1", len(report.Presets))
	}
	if defaults := string(report.Presets[0].Object.GetSpec().Defaults.Raw); strings.Contains(defaults, "level") || !strings.Contains(defaults, `"os":"linux"`) || !strings.Contains(defaults, `"team":"a"`) {
		t.Errorf("defaults are %s", defaults)
	}
	for _, x := range report.VMs {
		if labels := fmt.Sprint(presets.ValueAt(x.Kind, x.Object, provenance.Of("metadata", "labels"))); x.Err != nil || labels != "map[level:high]" {
			t.Errorf("%s: labels are %s, %v", x.Name, labels, x.Err)
		}
	}
}
