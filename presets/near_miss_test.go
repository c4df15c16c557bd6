package presets_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/test/presettest"
)

func TestLabelTypos(t *testing.T) {
	snapshot := presettest.Snapshot(t,
		cluster("small", "match: {labels: {matchLabels: {vm-size: small}}}\n"+defaults("{memory: {guest: 1Gi}}")),
		cluster("large", "match: {labels: {matchLabels: {vm-size: large}}}\n"+defaults("{memory: {guest: 4Gi}}")),
		cluster("windows", "match: {labels: {matchExpressions: [{key: os, operator: In, values: [windows, reactos]}]}}\n"+defaults("{memory: {guest: 4Gi}}")),
		cluster("web1", "match: {labels: {matchLabels: {app: web1}}}\n"+defaults("{memory: {guest: 4Gi}}")),
		cluster("open", "match: {labels: {matchExpressions: [{key: tier, operator: Exists}]}}\n"+defaults("{memory: {guest: 4Gi}}")),
		cluster("prod", "match: {labels: {matchLabels: {tier: production}}}\n"+defaults("{memory: {guest: 4Gi}}")),
		cluster("off", "mode: 'Off'\nmatch: {labels: {matchLabels: {stage: testing}}}\n"+defaults("{memory: {guest: 4Gi}}")),
		cluster("team-a", "match: {labels: {matchLabels: {team: team-a}}}\n"+defaults("{memory: {guest: 4Gi}}")),
		cluster("zone", "match: {labels: {matchLabels: {zone: eu-west-1a}}}\n"+defaults("{memory: {guest: 4Gi}}")),
		cluster("secret", "match: {explicit: true, labels: {matchLabels: {project: manhattan}}}\n"+defaults("{memory: {guest: 4Gi}}")),
		cluster("elsewhere", "match: {namespaces: {matchLabels: {tier: prod}}, labels: {matchLabels: {backup: nightly}}}\n"+defaults("{memory: {guest: 4Gi}}")),
		local("mine", "match: {labels: {matchLabels: {flavour: vanilla}}}\n"+defaults("{memory: {guest: 4Gi}}")),
	)
	for labels, want := range map[string]string{
		"vm-size: smal":      "label vm-size=smal: did you mean vm-size=small, which selects preset cluster/small?",
		"vm-size: SMALL":     "",
		"vm-sise: small":     "label vm-sise=small: did you mean vm-size=small, which selects preset cluster/small?",
		"VM-Size: small":     "label VM-Size=small: did you mean vm-size=small, which selects preset cluster/small?",
		"vm-sise: smal":      "label vm-sise=smal: did you mean vm-size=small, which selects preset cluster/small?",
		"os: windos":         "label os=windos: did you mean os=windows, which selects preset cluster/windows?",
		"flavour: vanila":    "label flavour=vanila: did you mean flavour=vanilla, which selects preset mine?",
		"vm-size: small":     "",
		"os: linux":          "",
		"app: web2":          "",
		"tier: productio":    "label tier=productio: did you mean tier=production, which selects preset cluster/prod?",
		"stage: testin":      "",
		"vm-size: xs":        "",
		"team: small":        "",
		"unrelated: windows": "",
		"team: team-b":       "",
		"zone: eu-west-1b":   "",
		"vm-size: xlarge":    "",
		"project: manhatan":  "",
		"backup: nightl":     "",
	} {
		if labels == "vm-size: SMALL" {
			want = "label vm-size=SMALL: did you mean vm-size=small, which selects preset cluster/small?"
		}
		result, err := (&presets.Engine{}).Resolve(t.Context(), snapshot, presets.Request{
			Kind: presets.VirtualMachine, Object: presettest.JSON("metadata: {name: a, labels: {" + labels + "}}"), Namespace: presets.Namespace{Name: "lab"},
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(result.Warnings, "\n"); got != want {
			t.Errorf("%s: got %q, want %q", labels, got, want)
		}
	}
}

func TestGivers(t *testing.T) {
	const path = "spec.template.spec.domain.memory.guest"
	for name, c := range map[string]struct {
		object, preset string
		want           string
	}{
		"a typo":            {"metadata: {labels: {vm-size: smal}}", "match: {labels: {matchLabels: {vm-size: small}}}", "VMs with vm-size=small; this VM has vm-size=smal"},
		"no label":          {"{}", "match: {labels: {matchLabels: {vm-size: small}}}", "VMs with vm-size=small; this VM has no label vm-size"},
		"another namespace": {"{}", "match: {namespaces: {matchLabels: {tier: prod}}}", "VMs in namespaces with tier=prod; namespace lab has tier=dev"},
		"explicit":          {"{}", "match: {explicit: true}", ""},
		"several reasons": {
			"metadata: {labels: {vm-size: smal}}", "match: {labels: {matchLabels: {vm-size: small}}, namespaces: {matchLabels: {tier: prod}}, conditions: [{name: tpm, expression: 'has(object.spec.template.spec.domain.devices.tpm)'}]}",
			`VMs with vm-size=small in namespaces with tier=prod for which its condition "tpm" is true; this VM has vm-size=smal, namespace lab has tier=dev`,
		},
		"a condition":        {"{}", "match: {conditions: [{name: tpm, expression: 'has(object.spec.template.spec.domain.devices.tpm)'}]}", `VMs for which its condition "tpm" is true`},
		"excluded":           {"metadata: {annotations: {virtwright.dev/exclude: cluster/a}}", "match: {}", "VMs that do not exclude it; this VM does, in the annotation virtwright.dev/exclude"},
		"one that acts":      {"{}", "match: {}", ""},
		"one that only says": {"{}", "mode: Audit\nmatch: {explicit: true}", ""},
	} {
		snapshot := presettest.Snapshot(t, cluster("a", c.preset+"\n"+defaults("{memory: {guest: 1Gi}}")))
		got := (&presets.Engine{}).NearMisses(t.Context(), snapshot, presets.Request{
			Kind: presets.VirtualMachine, Object: presettest.JSON(c.object), Namespace: presets.Namespace{Name: "lab", Labels: map[string]string{"tier": "dev"}},
		}, path)[0]
		want := ""
		if c.want != "" {
			want = "preset cluster/a gives memory.guest to " + c.want
		}
		if strings.Join(got, "\n") != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func TestGiversAreFewAndNearestFirst(t *testing.T) {
	snapshot := presettest.Snapshot(t,
		cluster("a", "match: {labels: {matchLabels: {other: one}}}\n"+defaults("{memory: {guest: 1Gi}}")),
		cluster("b", "match: {labels: {matchLabels: {vm-size: large}}}\n"+defaults("{memory: {guest: 1Gi}}")),
		cluster("c", "match: {labels: {matchLabels: {vm-size: small}}}\n"+defaults("{memory: {guest: 1Gi}}")),
		cluster("d", "match: {labels: {matchLabels: {vm-size: huge}}}\n"+overrides("{memory: {guest: 1Gi}}")),
		cluster("e", "match: {explicit: true}\n"+defaults("{cpu: {cores: 1}}")),
	)
	for size, want := range map[string]int{"smal": 1, "tiny": 3} {
		got := (&presets.Engine{}).NearMisses(t.Context(), snapshot, presets.Request{
			Kind: presets.VirtualMachine, Object: presettest.JSON("metadata: {labels: {vm-size: " + size + "}}"), Namespace: presets.Namespace{Name: "lab"},
		}, "spec.template.spec.domain.memory.guest")[0]
		if len(got) != want || size == "smal" && !strings.HasPrefix(got[0], "preset cluster/c ") {
			t.Errorf("%s: got %q", size, got)
		}
	}
}

func TestNameOrigins(t *testing.T) {
	snapshot := presettest.Snapshot(t, cluster("a", "defaults: {spec: {template: {spec: {domain: {machine: {type: q53}, devices: {disks: [{name: root, disk: {bus: virtio}}]}}, volumes: [{name: root, emptyDisk: {capacity: 1Gi}}]}}}}"))
	for name, c := range map[string]struct {
		kind         presets.Kind
		object       string
		path, preset string
	}{
		"a leaf":                 {presets.VirtualMachine, "metadata: {name: a}", "spec.template.spec.domain.machine.type", "cluster/a"},
		"an element":             {presets.VirtualMachine, "spec: {template: {spec: {domain: {devices: {disks: [{name: data, disk: {}}]}}, volumes: [{name: data, emptyDisk: {capacity: 1Gi}}]}}}", "spec.template.spec.domain.devices.disks[1].disk.bus", "cluster/a"},
		"the user's element":     {presets.VirtualMachine, "spec: {template: {spec: {domain: {devices: {disks: [{name: data, disk: {bus: sata}}]}}, volumes: [{name: data, emptyDisk: {capacity: 1Gi}}]}}}", "spec.template.spec.domain.devices.disks[0].disk.bus", ""},
		"the user's leaf":        {presets.VirtualMachine, "spec: {template: {spec: {domain: {machine: {type: q35}}}}}", "spec.template.spec.domain.machine.type", ""},
		"of a VMI":               {presets.VirtualMachineInstance, "metadata: {name: a}", "spec.domain.machine.type", "cluster/a"},
		"a field that is absent": {presets.VirtualMachine, "metadata: {name: a}", "spec.template.spec.domain.cpu", ""},
		"no field":               {presets.VirtualMachine, "metadata: {name: a}", "spec.template.spec.nothing[3].more", ""},
		"nothing":                {presets.VirtualMachine, "metadata: {name: a}", "", ""},
	} {
		result, err := (&presets.Engine{}).Resolve(t.Context(), snapshot, presets.Request{Kind: c.kind, Object: presettest.JSON(c.object), Namespace: presets.Namespace{Name: "lab"}})
		if err != nil {
			t.Fatal(err)
		}
		problem := field.Invalid(nil, "x", "wrong (rule)")
		problem.Field = c.path
		want := "wrong (rule)"
		if c.preset != "" {
			want += " (set by preset " + c.preset + ")"
		}
		got, setBy := presets.AddOrigins(c.kind, result.Object(), field.ErrorList{problem})
		if got[0].Detail != want || setBy[0] != c.preset {
			t.Errorf("%s: got %q, set by %q, want %q", name, got[0].Detail, setBy[0], want)
		}
	}
}

func TestUnknownFields(t *testing.T) {
	for path, want := range map[string]string{
		"spec.template.spec.domain.resources.memory":          "it belongs under requests, or limits",
		"spec.template.spec.domain.devices.disks[a].bus":      "it belongs under cdrom or disk or lun",
		"spec.template.spec.domain.devices.disks[a].disk.io":  "it belongs one level higher",
		"spec.template.spec.nodeName":                         "known fields: ",
		"spec.template.spec.domain.gpus":                      "it belongs under devices",
		"spec.domain":                                         "it belongs under template.spec",
		"spec.template.spec.domain.memroy":                    `did you mean "memory"?`,
		"spec.template.spec.domain.devices.interfaces[a].mac": `did you mean "macAddress"?`,
		"spec.template.spec.volumes[a].registryDisk":          `did you mean "containerDisk"?`,
		"spec.template.spec.domain.devices.disks[a].dsk":      `did you mean "disk"?`,
		"spec.template.spec.domain.cpu.core":                  `did you mean "cores"?`,
	} {
		_, problems := presets.Compile(cluster("a", "remove: ["+`"`+path+`"`+"]"))
		if len(problems) != 1 || !strings.Contains(problems[0].Error(), want) {
			t.Errorf("%s: got %v, want %q", path, problems, want)
		}
	}
}

func TestNamesInTheOtherScope(t *testing.T) {
	snapshot := presettest.Snapshot(t, cluster("golden-image", "match: {explicit: true}\n"+defaults("{memory: {guest: 1Gi}}")), local("p-gpu", "match: {explicit: true}\n"+defaults("{memory: {guest: 1Gi}}")))
	for name, want := range map[string]string{
		"golden-image": `did you mean "cluster/golden-image"?`, "golden-imgae": `did you mean "cluster/golden-image"?`,
		"cluster/p-gpu": `did you mean "p-gpu"?`, "p-gpuu": `did you mean "p-gpu"?`, "else": "",
	} {
		request := presets.Request{Kind: presets.VirtualMachine, Namespace: presets.Namespace{Name: "lab"}}
		request.Object = presettest.JSON("metadata: {annotations: {virtwright.dev/exclude: " + name + "}}")
		result, err := (&presets.Engine{}).Resolve(t.Context(), snapshot, request)
		if err != nil {
			t.Fatal(err)
		}
		request.Object = presettest.JSON("metadata: {annotations: {virtwright.dev/presets: " + name + "}}")
		_, err = (&presets.Engine{}).Resolve(t.Context(), snapshot, request)
		switch {
		case name == "golden-image" || name == "p-gpu":
		case err == nil || !strings.Contains(err.Error(), want):
			t.Errorf("presets: %s: got %v, want %q", name, err, want)
		}
		if got := strings.Join(result.Warnings, "\n"); !strings.Contains(got, want) {
			t.Errorf("exclude: %s: got %q, want %q", name, got, want)
		}
	}
}
