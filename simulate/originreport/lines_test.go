package originreport_test

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/simulate"
	"github.com/virtwright/virtwright/simulate/manifest"
	"github.com/virtwright/virtwright/simulate/originreport"
	"github.com/virtwright/virtwright/templates/portable"
	"github.com/virtwright/virtwright/validation"
)

const examples = "../../examples/"

// expand returns the VMs of manifests as the command line explains them.
func expand(t *testing.T, platform *presets.Platform, objects ...manifest.Object) []originreport.VM {
	t.Helper()
	c, err := simulate.NewCluster(t.Context(), objects, simulate.Settings{
		Engine: &presets.Engine{Platform: platform}, Rules: &validation.Config{Addon: platform == nil}, Namespace: "default",
	})
	if err != nil {
		t.Fatal(err)
	}
	var out []originreport.VM
	for _, m := range c.VMs {
		x, err := c.Explain(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		object, _, err := c.Expand(t.Context(), m)
		if err != nil { // a cluster would reject the VM
			object = x.Result.Object()
		}
		text, err := portable.YAML(object)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, originreport.VM{Kind: m.Kind, Object: object, YAML: string(text), Explanation: x})
	}
	return out
}

func parse(t *testing.T, text string) []manifest.Object {
	t.Helper()
	objects, err := manifest.Parse("test", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func example(t *testing.T, paths ...string) []manifest.Object {
	t.Helper()
	for i := range paths {
		paths[i] = examples + paths[i]
	}
	objects, err := manifest.Read(nil, paths, true)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// checkLines checks that lines repeat the YAML, and show each field of the explanation once.
func checkLines(t *testing.T, vm originreport.VM) {
	t.Helper()
	var text strings.Builder
	shown, last := map[string]int{}, ""
	for _, l := range vm.Lines() {
		if !l.Removed && !l.AtStart() {
			text.WriteString(l.Text + "\n")
		}
		if l.From != "" && (l.Path != last || l.Removed || l.AtStart()) {
			shown[l.Path]++
		}
		if l.From == "unknown" {
			t.Errorf("the origin of %s is unknown", l.Path)
		}
		last = l.Path
	}
	if text.String() != vm.YAML {
		t.Errorf("got lines\n%s\nwant the YAML\n%s", text.String(), vm.YAML)
	}
	for _, o := range vm.Explanation.Fields {
		if n := shown[o.Path.String()]; n != 1 {
			t.Errorf("%s is shown %d times", o.Path, n)
		}
		delete(shown, o.Path.String())
	}
	if vm.Kind == presets.VirtualMachineInstance {
		delete(shown, "apiVersion")
		delete(shown, "kind")
	}
	for path := range shown {
		t.Errorf("%s is shown, and is not explained", path)
	}
}

func TestLinesOfExamples(t *testing.T) {
	files, err := filepath.Glob(examples + "vms/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d examples: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			for _, vm := range expand(t, &presets.Platform{}, example(t, "vms/"+filepath.Base(file), "presets", "namespaces.yaml")...) {
				checkLines(t, vm)
			}
		})
	}
}

const awkward = `apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata:
  name: vm
  namespace: default
  annotations:
    "a: b": "line one\n\n  line three\n"
    "no": "yes"
    empty: ""
    nel: "x\u0085y\u2028z"
    equals: "="
    script: "<script>alert(1)</script>"
    json: "{\"a\": 1}"
spec:
  runStrategy: Halted
  template:
    metadata: {}
    spec:
      domain:
        devices:
          disks:
          - {name: a, disk: {}}
          - {name: "b] [*]", cdrom: {bus: sata}}
        memory: {guest: 1Gi}
      accessCredentials:
      - userPassword: {source: {secret: {secretName: s}}, propagationMethod: {qemuGuestAgent: {}}}
      nodeSelector: {kubernetes.io/arch: amd64}
      tolerations:
      - {operator: Exists}
      - {key: k, value: "", effect: NoSchedule}
      volumes:
      - {name: a, emptyDisk: {capacity: 1Gi}}
      - name: "b] [*]"
        cloudInitNoCloud:
          userData: |
            #cloud-config

            packages: [curl]
`

func TestLinesOfAwkwardValues(t *testing.T) {
	for name, text := range map[string]string{"a VM": awkward, "a VMI": instance} {
		for _, platform := range []*presets.Platform{nil, {}} {
			vms := expand(t, platform, parse(t, text)...)
			if len(vms) != 1 {
				t.Fatalf("%d VMs", len(vms))
			}
			t.Run(name, func(t *testing.T) { checkLines(t, vms[0]) })
			t.Run(name+" in JSON", func(t *testing.T) { // as expand prints some values
				encoded, err := json.MarshalIndent(vms[0].Object, "", "  ")
				if err != nil {
					t.Fatal(err)
				}
				vms[0].YAML = "---\n" + string(encoded) + "\n"
				checkLines(t, vms[0])
			})
		}
	}
}

const instance = `apiVersion: kubevirt.io/v1
kind: VirtualMachineInstance
metadata: {name: vmi, labels: {a: b}}
spec:
  domain:
    devices: {disks: [{name: a, disk: {bus: virtio}}]}
    memory: {guest: 1Gi}
  volumes: [{name: a, emptyDisk: {capacity: 1Gi}}]
`

// row formats a line for comparison.
func row(l originreport.Line) string {
	text := l.Text
	if l.Removed {
		text = "-" + text
	}
	return strings.Join(append([]string{text + " | " + l.By}, l.Notes...), " | ")
}

func TestLinesSayWhy(t *testing.T) {
	old := expand(t, &presets.Platform{}, example(t, "../cmd/virtwright/testdata/explain/old-appliance.yaml", "presets", "namespaces.yaml")...)[0]
	worker := expand(t, &presets.Platform{}, example(t, "vms/worker.yaml", "presets", "namespaces.yaml")...)[0]
	desktop := expand(t, &presets.Platform{}, example(t, "vms/desktop.yaml", "presets", "namespaces.yaml")...)[0]
	const spec = "spec.template.spec."
	for path, c := range map[string]struct {
		vm   originreport.VM
		want []string
	}{
		spec + "priorityClassName": {old, []string{
			`      priorityClassName: production | cluster/tier-prod (override) | The user wrote "appliances". An override outranks the user.`,
		}},
		spec + "domain.firmware": {old, []string{
			`        firmware: | `, `          bootloader: | `,
			`-            bios: {} | cluster/secure-boot (override) | The user wrote {}. The preset sets an alternative to this field.`,
			`            efi: | `, `              secureBoot: true | cluster/secure-boot (override)`,
		}},
		"spec.runStrategy": {old, []string{
			`  runStrategy: Halted | platform (run-strategy) | Preset cluster/tier-prod (default) would set "Always", but the annotation virtwright.dev/exclude excludes it.`,
		}},
		spec + "volumes[system].name": {old, []string{`      volumes: | `, `      - name: system | user`}},
		spec + "volumes[*].name":      {old, []string{`      volumes: | `, `      - name: system | user`}},
		"spec.dataVolumeTemplates[worker-1-root].metadata.name": {worker, []string{
			`  dataVolumeTemplates: | `, `  - metadata: | `,
			`      name: worker-1-root | cluster/root-disk (default) | Computed by the expression object.metadata.name + '-root'`,
		}},
		spec + "domain.memory": {desktop, []string{
			`        memory: | `,
			`          guest: 12Gi | user | Preset cluster/size-medium (default) would set "8Gi", but the user's value outranks a default.`,
		}},
	} {
		t.Run(path, func(t *testing.T) {
			under, err := provenance.ParsePath(path)
			if err != nil {
				t.Fatal(err)
			}
			c.vm.Under = under
			var got []string
			for _, l := range c.vm.Lines() {
				if !slices.Contains([]string{"spec:", "  template:", "    spec:", "      domain:"}, l.Text) {
					got = append(got, row(l))
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

// TestLinesWithoutTheField adds lines for fields that the object does not have.
func TestLinesWithoutTheField(t *testing.T) {
	const text = `metadata:
  name: vm
spec:
  template:
    spec:
      domain:
        devices:
          disks:
          - disk: {}
            name: root
        memory:
          guest: 1Gi
`
	origin := func(path string, value, was any, by provenance.Source) presets.Origin {
		p, err := provenance.ParsePath(path)
		if err != nil {
			t.Fatal(err)
		}
		return presets.Origin{Path: p, Value: value, By: by, Overruled: was != nil, Was: was}
	}
	remove := provenance.Source{Preset: "p", Generation: 1, Role: provenance.Remove}
	const domain = "spec.template.spec.domain."
	bus := origin(domain+"devices.disks[root].disk.bus", "virtio", nil, provenance.Source{})
	bus.ContributedBy = presets.Matcher{Kind: "VirtualMachinePreference", Name: "fedora"}
	sockets := origin(domain+"cpu.sockets", int64(2), nil, provenance.Source{})
	sockets.ContributedBy = presets.Matcher{Kind: "VirtualMachineClusterInstancetype", Name: "u1"}
	vm := originreport.VM{Kind: presets.VirtualMachine, YAML: text, Explanation: &presets.Explanation{Fields: []presets.Origin{
		origin("metadata.labels[\"a/b\"]", nil, "x", remove),
		bus, sockets,
		origin(domain+"devices.disks[cd].cdrom.bus", nil, "sata", remove),
		origin(domain+"devices.watchdog.name", nil, nil, remove),
		origin("apiVersion", nil, nil, remove),
		origin("status", nil, nil, provenance.Source{}), // an explicit null
	}}}
	if err := yaml.Unmarshal([]byte(text), &vm.Object); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range vm.Lines() {
		if l.From != "unknown" {
			got = append(got, row(l))
		}
	}
	want := []string{
		"-apiVersion | p (remove)",
		"metadata: | ",
		`-  labels["a/b"]: x | p (remove) | The user wrote "x". The preset removes this field.`,
		"  name: vm | the API server", "spec: | ", "  template: | ", "    spec: | ", "      domain: | ",
		"        cpu.sockets: 2 | VirtualMachineClusterInstancetype u1 | VirtualMachineClusterInstancetype u1 sets this field when the VM starts. The stored VM does not have it.",
		"        devices: | ", "          disks: | ",
		"            disk.bus: virtio | VirtualMachinePreference fedora | VirtualMachinePreference fedora sets this field when the VM starts. The stored VM does not have it.",
		`-          disks[cd].cdrom.bus: sata | p (remove) | The user wrote "sata". The preset removes this field.`,
		"-          watchdog.name | p (remove)", "        memory: | ",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
