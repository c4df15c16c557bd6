package presets_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/test/presettest"
)

func disks(elements string) string {
	return vm("spec: {template: {spec: {domain: {devices: {disks: [" + elements + "]}}}}}")
}

func setsDisks(priority, role, elements string) string {
	return "{priority: " + priority + ", " + role + ": {spec: {template: {spec: {domain: {devices: {disks: [" + elements + "]}}}}}}}"
}

// data adds a disk with its volume.
func data(priority, role string) string {
	return "{priority: " + priority + ", " + role + ": {spec: {template: {spec: {volumes: [{name: data, emptyDisk: {capacity: 1Gi}}], " +
		"domain: {devices: {disks: [{name: data, cache: writeback, disk: {bus: scsi}}]}}}}}}}"
}

func TestEveryElement(t *testing.T) {
	all := at + "devices.disks"
	noCache := func(priority string) string { return setsDisks(priority, "overrides", `{name: "*", cache: none}`) }
	onVirtio := cluster("virtio", setsDisks("0", "overrides", `{name: "*", disk: {bus: virtio}}`))
	for name, c := range map[string]resolveCase{
		"Override": {
			reason: "it replaces the value of each element", presets: list(cluster("cache", noCache("0"))), object: disks("{name: a, cache: writeback}, {name: b}"),
			want: map[string]string{all: `[{"cache":"none","name":"a"},{"cache":"none","name":"b"}]`},
			warn: []string{"disks[a].cache"},
		},
		"Default": {
			reason: "it sets the field only where the author did not", presets: list(cluster("cache", setsDisks("0", "defaults", `{name: "*", cache: none}`))),
			object: disks("{name: a, cache: writeback}, {name: b}"), silent: true,
			want: map[string]string{all: `[{"cache":"writeback","name":"a"},{"cache":"none","name":"b"}]`},
		},
		"NoElements": {
			reason: "it adds no element", presets: list(cluster("cache", noCache("0"))), object: vm(""), want: map[string]string{all: ""},
		},
		"AddedByWeaker": {
			reason: "an element that a weaker preset adds", presets: list(cluster("cache", noCache("5")), cluster("data", data("0", "defaults"))), object: vm(""),
			want: map[string]string{all: `[{"cache":"none","disk":{"bus":"scsi"},"name":"data"}]`},
		},
		"AddedByStronger": {
			reason: "an element that a stronger preset adds", presets: list(cluster("cache", setsDisks("0", "defaults", `{name: "*", cache: none, io: native}`)), cluster("data", data("5", "defaults"))),
			object: vm(""), silent: true,
			want: map[string]string{all: `[{"cache":"writeback","disk":{"bus":"scsi"},"io":"native","name":"data"}]`},
		},
		"AddedByPlatform": {
			reason: "an element that a platform default adds", presets: list(cluster("cache", noCache("0"))), engine: presets.Engine{Platform: &presets.Platform{}},
			object: vm("spec: {template: {spec: {volumes: [{name: root, emptyDisk: {capacity: 1Gi}}]}}}"),
			want:   map[string]string{all: `[{"cache":"none","disk":{"bus":"sata"},"name":"root"}]`},
		},
		"BindingOfPodNetwork": {
			reason: "the interface of a platform default has the binding of the preset only", engine: presets.Engine{Platform: &presets.Platform{}},
			presets: list(cluster("bridge", `defaults: {spec: {template: {spec: {domain: {devices: {interfaces: [{name: "*", bridge: {}}]}}}}}}`)), object: vm(""),
			want: map[string]string{at + "devices.interfaces": `[{"bridge":{},"name":"default"}]`},
		},
		"RemovedByWeaker": {
			reason: "it keeps no preset from removing an element", presets: list(cluster("cache", noCache("5")), cluster("floppy", `remove: ["`+all+`[a]"]`)),
			object: disks("{name: a}, {name: b}"), want: map[string]string{all: `[{"cache":"none","name":"b"}]`},
		},
		"RemovedByItself": {
			reason: "the preset removes an element, and changes the others", object: disks("{name: a}, {name: b}"),
			presets: list(cluster("cache", strings.Replace(noCache("0"), "{", `{remove: ["`+all+`[a]"], `, 1))),
			want:    map[string]string{all: `[{"cache":"none","name":"b"}]`},
		},
		"Choices": {
			reason: "it acts on disks and on elements without a choice, not on a cdrom or lun", presets: list(onVirtio),
			object: disks("{name: a, disk: {bus: sata}}, {name: b, cdrom: {bus: sata}}, {name: c, lun: {}}, {name: d}"),
			want: map[string]string{all: `[{"disk":{"bus":"virtio"},"name":"a"},{"cdrom":{"bus":"sata"},"name":"b"},` +
				`{"lun":{},"name":"c"},{"disk":{"bus":"virtio"},"name":"d"}]`},
		},
		"ChoiceOfWeaker": {
			reason: "a weaker preset's choice counts", object: disks("{name: a}"),
			presets: list(onVirtio, cluster("cdrom", setsDisks("-1", "defaults", "{name: a, cdrom: {bus: sata}}"))),
			want:    map[string]string{all: `[{"cdrom":{"bus":"sata"},"name":"a"}]`},
		},
		"OneElementDiffers": {
			reason: "what the preset sets for one element counts more", object: disks("{name: a}, {name: b}"), silent: true,
			presets: list(cluster("cache", setsDisks("0", "overrides", `{name: "*", cache: none, io: native}, {name: a, cache: writethrough}`))),
			want:    map[string]string{all: `[{"cache":"writethrough","io":"native","name":"a"},{"cache":"none","io":"native","name":"b"}]`},
		},
		"StrongerElement": {
			reason: "a stronger preset sets one element", object: disks("{name: a}, {name: b}"),
			presets: list(cluster("cache", noCache("0")), cluster("a", setsDisks("5", "overrides", "{name: a, cache: writethrough}"))),
			want:    map[string]string{all: `[{"cache":"writethrough","name":"a"},{"cache":"none","name":"b"}]`},
		},
		"Conflict": {
			reason: "presets of one priority conflict", object: disks("{name: a}"),
			presets: list(cluster("cache", noCache("0")), cluster("zz", setsDisks("0", "overrides", "{name: a, cache: writethrough}"))),
			want:    map[string]string{all: `[{"cache":"none","name":"a"}]`}, warn: []string{"cluster/zz"},
		},
		"Computed": {
			reason: "a computed value is set in each element, also with a computed key", object: disks("{name: a}"),
			presets: list(
				cluster("serial", setsDisks("0", "overrides", `{name: "*", serial: {$cel: "object.metadata.name"}}`)),
				cluster("data", strings.ReplaceAll(data("0", "defaults"), "name: data", `name: {$cel: "object.metadata.name + '-data'"}`)),
			),
			want: map[string]string{all: `[{"name":"a","serial":"web"},{"cache":"writeback","disk":{"bus":"scsi"},"name":"web-data","serial":"web"}]`},
		},
		"ReadByExpressions": {
			reason: "expressions see the values of every element", object: disks("{name: a}"),
			presets: list(cluster("cache", noCache("0")), cluster("copy", `overrides: {metadata: {labels: {cache: {$cel: "object.spec.template.spec.domain.devices.disks[0].?cache.orValue('')"}}}}`)),
			want:    map[string]string{"metadata.labels.cache": `"none"`},
		},
		"DataVolumeTemplates": {
			reason: "elements whose key is nested", presets: list(cluster("fast", `overrides: {spec: {dataVolumeTemplates: [{metadata: {name: "*"}, spec: {storage: {storageClassName: fast}}}]}}`)),
			object: vm(`spec: {dataVolumeTemplates: [{metadata: {name: a}, spec: {storage: {storageClassName: slow}}}, {metadata: {name: b}, spec: {pvc: {}}}]}`),
			want: map[string]string{"spec.dataVolumeTemplates": `[{"metadata":{"name":"a"},"spec":{"storage":{"storageClassName":"fast"}}},` +
				`{"metadata":{"name":"b"},"spec":{"pvc":{}}}]`},
		},
		"ElementsBeneath": {
			reason:  "it may add elements to a list in every element",
			presets: list(cluster("ssh", `defaults: {spec: {template: {spec: {domain: {devices: {interfaces: [{name: "*", ports: [{port: 22}]}]}}}}}}`)),
			object:  vm("spec: {template: {spec: {domain: {devices: {interfaces: [{name: a, ports: [{port: 80}]}]}}}}}"),
			want:    map[string]string{at + "devices.interfaces": `[{"name":"a","ports":[{"port":80},{"port":22}]}]`},
		},
		"Instancetype": {
			reason: "fields of a preference are left to it", presets: list(cluster("bus", setsDisks("0", "defaults", `{name: "*", cache: none, disk: {bus: scsi}}`))),
			object:        vm("spec: {preference: {name: p}, template: {spec: {domain: {devices: {disks: [{name: a, disk: {}}]}}}}}"),
			instancetypes: map[string]string{"VirtualMachineClusterPreference p": "devices: {preferredDiskBus: virtio}"},
			want:          map[string]string{all: `[{"cache":"none","disk":{},"name":"a"}]`},
		},
	} {
		t.Run(name, func(t *testing.T) { c.run(t) })
	}
}

func TestOriginsOfEveryElement(t *testing.T) {
	c := resolveCase{
		reason: "origins", object: disks("{name: a, cache: writeback}"),
		presets: list(cluster("cache", setsDisks("5", "overrides", `{name: "*", cache: none}`)), cluster("data", data("0", "defaults"))),
	}
	record := c.run(t).Record
	for path, want := range map[string]string{
		"devices.disks[a].cache": "cluster/cache", "devices.disks[data].cache": "cluster/cache",
		"devices.disks[data].name": "cluster/data", "devices.disks[data].disk.bus": "cluster/data",
	} {
		p, err := presets.ParsePath(at + path)
		if err != nil {
			t.Fatal(err)
		}
		if by, _ := record.SourceOf(p); by.Preset != want {
			t.Errorf("%s is by %q, want %q", path, by.Preset, want)
		}
	}
}

func TestUpdateWithEveryElement(t *testing.T) {
	c := resolveCase{reason: "create", object: disks("{name: a}"), presets: list(cluster("cache", setsDisks("0", "overrides", `{name: "*", cache: none}`)))}
	stored, err := json.Marshal(c.run(t).Object())
	if err != nil {
		t.Fatal(err)
	}
	c.reason, c.old, c.object = "an element that is added later", string(stored), disks("{name: a}, {name: b}")
	c.want = map[string]string{at + "devices.disks": `[{"cache":"none","name":"a"},{"cache":"none","name":"b"}]`}
	c.run(t)
}

// TestVerifyEveryElement: a later webhook may not undo an override of every element.
func TestVerifyEveryElement(t *testing.T) {
	c := resolveCase{reason: "create", object: disks("{name: a}"), presets: list(cluster("cache", setsDisks("0", "overrides", `{name: "*", cache: none}, {name: a, io: native}`)))}
	whole, err := json.Marshal(c.run(t).Object())
	if err != nil {
		t.Fatal(err)
	}
	var engine presets.Engine
	snapshot := presettest.Snapshot(t, c.presets...)
	if err := engine.VerifyApplied(t.Context(), snapshot, requestOf(string(whole))); err != nil {
		t.Error(err)
	}
	undone := strings.Replace(string(whole), `"cache":"none"`, `"cache":"writeback"`, 1)
	if err := engine.VerifyApplied(t.Context(), snapshot, requestOf(undone)); err == nil || !strings.Contains(err.Error(), "disks[a].cache") {
		t.Errorf("undone, got %v", err)
	}
}

// TestExplainEveryElement: explain names each element, with the values that lost there.
func TestExplainEveryElement(t *testing.T) {
	var engine presets.Engine
	x, err := engine.Explain(t.Context(), presettest.Snapshot(t,
		cluster("strong", setsDisks("5", "defaults", `{name: "*", cache: none}`)),
		cluster("weak", setsDisks("0", "defaults", `{name: "*", cache: writeback, disk: {bus: virtio}}`)),
	), requestOf(disks("{name: a}, {name: b, cdrom: {bus: sata}}")))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, o := range x.Fields {
		lost := ""
		for _, l := range o.Losing {
			lost += " over " + l.By.Preset
		}
		if !o.User {
			got[strings.TrimPrefix(o.Path.String(), at+"devices.disks")] = o.By.Preset + lost
		}
	}
	want := map[string]string{
		"[a].cache": "cluster/strong over cluster/weak", "[b].cache": "cluster/strong over cluster/weak", "[a].disk.bus": "cluster/weak",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want -, got +\n%s", diff)
	}
}

// TestTraceEveryElement: a field counts as applied if any element got it.
func TestTraceEveryElement(t *testing.T) {
	var engine presets.Engine
	snapshot := presettest.Snapshot(t, cluster("p", setsDisks("0", "defaults", `{name: "*", cache: none, cdrom: {bus: sata}}`)))
	for object, want := range map[string]int{vm(""): 0, disks("{name: a, disk: {}}"): 1, disks("{name: a}"): 2} {
		traces, err := engine.Trace(t.Context(), snapshot, requestOf(object))
		if err != nil {
			t.Fatal(err)
		}
		if got := len(traces[0].Applied); got != want {
			t.Errorf("%d of %d fields of the preset were applied, want %d: %s", got, len(traces[0].Preset.Actions()), want, object)
		}
	}
}

func TestInvalidEveryElement(t *testing.T) {
	in := func(spec string) string { return "overrides: {spec: " + spec + "}" }
	template := func(spec string) string { return in("{template: {spec: " + spec + "}}") }
	for name, c := range map[string]struct{ spec, want string }{
		"OnlyKey": {
			template(`{domain: {devices: {disks: [{name: "*"}]}}}`),
			`spec.overrides.spec.template.spec.domain.devices.disks[0]: Required value: * stands for every element of the list: add the fields to set in each`,
		},
		"Twice": {template(`{domain: {devices: {disks: [{name: "*", cache: none}, {name: "*", io: native}]}}}`), `disks[1]: Duplicate value: "*"`},
		"ListWithOtherKeys": {
			template(`{tolerations: [{key: "*", tolerationSeconds: 5}]}`),
			`spec.overrides.spec.template.spec.tolerations[0].key: Invalid value: "*": this list does not support * for every element: write one element for each key`,
		},
		"KeyMayBeStar": {template(`{dnsConfig: {options: [{name: "*", value: a}]}}`), `dnsConfig.options[0].name: Invalid value: "*": this list does not support`},
		"Singleton": {
			template(`{networks: [{name: "*", multus: {default: true}}]}`),
			`networks[*].multus.default: Invalid value: "true": a VM may have a default network only once: name one element instead of *`,
		},
		"RemovedFromOne": {
			strings.Replace(template(`{domain: {devices: {disks: [{name: "*", cache: none}]}}}`), "overrides", `{remove: ["`+at+`devices.disks[a].cache"], overrides`, 1) + "}",
			`which spec.remove of this preset removes: keep one of them`,
		},
		"UnknownField": {template(`{domain: {devices: {disks: [{name: "*", cahce: none}]}}}`), `disks[*].cahce`},
	} {
		t.Run(name, func(t *testing.T) {
			_, errs := presets.Compile(cluster("p", c.spec))
			if got := errs.ToAggregate(); got == nil || !strings.Contains(got.Error(), c.want) {
				t.Errorf("got %v, want %s", got, c.want)
			}
		})
	}
}
