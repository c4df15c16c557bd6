package presets_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/test/presettest"
)

// A resolveCase is one request and what must come of it.
type resolveCase struct {
	reason  string
	engine  presets.Engine
	presets []v1alpha1.Preset
	kind    presets.Kind // default VirtualMachine
	// object, old and owner in YAML
	object, old, owner string
	trusted, restored  bool
	// want has JSON by path, "" for absent.
	want map[string]string
	// warn and err are parts of warnings and of the error.
	warn, err []string
	// quiet wants no patch.
	quiet bool
	// silent wants no warning.
	silent bool
	// instancetypes are known specs in YAML, by Matcher.String().
	instancetypes map[string]string
}

func (c resolveCase) run(t *testing.T) *presets.Result {
	t.Helper()
	if c.kind == "" {
		c.kind = presets.VirtualMachine
	}
	req := presets.Request{
		Kind: c.kind, Object: presettest.JSON(c.object), Trusted: c.trusted, Restored: c.restored,
		Namespace: presets.Namespace{Name: "lab", Labels: map[string]string{"tier": "prod"}},
	}
	if len(c.instancetypes) > 0 {
		req.Instancetypes = known(c.instancetypes)
	}
	if c.old != "" {
		req.OldObject = presettest.JSON(c.old)
	}
	if c.owner != "" {
		req.Owner = presettest.JSON(c.owner)
	}
	out, err := c.engine.Resolve(t.Context(), presettest.Snapshot(t, c.presets...), req)
	if err != nil {
		if len(c.err) == 0 {
			t.Fatalf("%s: %v", c.reason, err)
		}
		for _, part := range c.err {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: error is %q, want %q in it", c.reason, err, part)
			}
		}
		return nil
	}
	if len(c.err) > 0 {
		t.Fatalf("%s: want an error with %q", c.reason, c.err)
	}
	c.check(t, out)
	return out
}

func (c resolveCase) check(t *testing.T, out *presets.Result) {
	t.Helper()
	for path, want := range c.want {
		got := ""
		if v := presettest.At(out.Object(), path); v != nil {
			b, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			got = string(b)
		}
		if got != want {
			t.Errorf("%s: %s is %q, want %q", c.reason, path, got, want)
		}
	}
	said := strings.Join(out.Warnings, "\n")
	for _, part := range c.warn {
		if !strings.Contains(said, part) {
			t.Errorf("%s: warnings are\n%s\nwant %q in them", c.reason, said, part)
		}
	}
	if c.silent && said != "" {
		t.Errorf("%s: warnings are\n%s\nwant none", c.reason, said)
	}
	if c.quiet && (len(out.Patch) > 0 || len(out.Warnings) > 0) {
		t.Errorf("%s: want nothing, got patch %v, warnings %q", c.reason, out.Patch, out.Warnings)
	}
}

func vm(spec string) string {
	return "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: web, namespace: lab, labels: {app: shop}}\n" + spec
}

func domain(fields string) string {
	return vm("spec: {template: {spec: {domain: " + fields + "}}}")
}

func cluster(name, spec string) v1alpha1.Preset { return presettest.Cluster(name, spec) }

func local(name, spec string) v1alpha1.Preset { return presettest.Namespaced("lab", name, spec) }

func defaults(domain string) string {
	return "defaults: {spec: {template: {spec: {domain: " + domain + "}}}}"
}

func overrides(domain string) string {
	return "overrides: {spec: {template: {spec: {domain: " + domain + "}}}}"
}

func list(in ...v1alpha1.Preset) []v1alpha1.Preset { return in }

const at = "spec.template.spec.domain."

func TestCreate(t *testing.T) {
	for name, c := range map[string]resolveCase{
		"NothingButAName": {
			reason: "a default reaches a VM that has no spec at all", presets: list(cluster("a", defaults("{cpu: {cores: 2}}"))),
			object: vm(""), want: map[string]string{at + "cpu.cores": "2"}, silent: true,
		},
		"WarnEverything": {
			reason: "on request, warnings list what presets gave", presets: list(cluster("a", defaults("{cpu: {cores: 2}}"))), engine: presets.Engine{WarnEverything: true},
			object: vm(""), want: map[string]string{at + "cpu.cores": "2"}, warn: []string{"preset cluster/a set " + at + "cpu.cores"},
		},
		"UserBeatsDefault": {
			reason: "a default never changes what the user wrote", presets: list(cluster("a", defaults("{cpu: {cores: 2, sockets: 1}}"))),
			object: domain("{cpu: {cores: 8}}"), want: map[string]string{at + "cpu.cores": "8", at + "cpu.sockets": "1"},
		},
		"ExplicitZero": {
			reason: "an explicit zero, false and empty string are the user's", presets: list(cluster("a", defaults("{cpu: {cores: 2, model: x, dedicatedCpuPlacement: true}}"))),
			object: domain(`{cpu: {cores: 0, model: "", dedicatedCpuPlacement: false}}`),
			want:   map[string]string{at + "cpu.cores": "0", at + "cpu.model": `""`, at + "cpu.dedicatedCpuPlacement": "false"},
		},
		"OverrideBeatsUser": {
			reason: "an override wins and says what it overruled", presets: list(cluster("a", overrides("{cpu: {cores: 2}}"))),
			object: domain("{cpu: {cores: 8}}"), want: map[string]string{at + "cpu.cores": "2"},
			warn: []string{"preset cluster/a overruled " + at + "cpu.cores (was 8)"},
		},
		"ClusterOverrideBeatsNamespaced": {
			reason:  "cluster overrides are the strongest layer, at any priority",
			presets: list(cluster("a", overrides("{cpu: {cores: 2}}")), local("b", "priority: 9\n"+overrides("{cpu: {cores: 4}}"))),
			object:  vm(""), want: map[string]string{at + "cpu.cores": "2"},
		},
		"NamespacedDefaultBeatsClusterAtEqualPriority": {
			reason:  "among defaults of one priority the namespace is nearer",
			presets: list(cluster("a", defaults("{cpu: {cores: 2}}")), local("b", defaults("{cpu: {cores: 4}}"))),
			object:  vm(""), want: map[string]string{at + "cpu.cores": "4"},
		},
		"IdleExclusions": {
			reason:  "an exclusion has no effect where the preset has no default, and a warning says so",
			presets: list(cluster("a", defaults("{cpu: {cores: 2}}")), cluster("b", overrides("{cpu: {sockets: 4}}"))),
			object:  `{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: x, annotations: {virtwright.dev/exclude: "cluster/a:spec.template.spec.domain.memory, cluster/b"}}}`,
			want:    map[string]string{at + "cpu.cores": "2", at + "cpu.sockets": "4"},
			warn:    []string{"preset cluster/a has no default spec.template.spec.domain.memory,", "preset cluster/b has no default to exclude,"},
		},
		"ExcludedElements": {
			reason:  "an element may be excluded from defaults of every element, or of a computed name",
			presets: list(cluster("a", defaults(`{devices: {interfaces: [{name: "*", model: virtio}], disks: [{name: {$cel: "object.metadata.name + '-data'"}, cache: none}]}}`))),
			object:  `{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: x, annotations: {virtwright.dev/exclude: "cluster/a:spec.template.spec.domain.devices.interfaces[net], cluster/a:spec.template.spec.domain.devices.disks[x-data]"}}, spec: {template: {spec: {domain: {devices: {interfaces: [{name: net, masquerade: {}}]}}, networks: [{name: net, pod: {}}]}}}}`,
			want:    map[string]string{at + "devices.interfaces[net].masquerade": "{}", at + "devices.interfaces[net].model": ""}, quiet: true,
		},
		"PriorityBeatsScopeAmongDefaults": {
			reason:  "priority goes first",
			presets: list(cluster("a", "priority: 1\n"+defaults("{cpu: {cores: 2}}")), local("b", defaults("{cpu: {cores: 4}}"))),
			object:  vm(""), want: map[string]string{at + "cpu.cores": "2"},
		},
		"ConflictByTie": {
			reason:  "the name decides a tie, and it is said",
			presets: list(cluster("b", defaults("{cpu: {cores: 4}}")), cluster("a", defaults("{cpu: {cores: 2}}"))),
			object:  vm(""), want: map[string]string{at + "cpu.cores": "2"}, warn: []string{"presets cluster/a and cluster/b set " + at + "cpu.cores"},
		},
		"ConflictRejected": {
			reason: "presetConflicts: Reject rejects a tie", engine: presets.Engine{RejectConflicts: true},
			presets: list(cluster("b", defaults("{cpu: {cores: 4}}")), cluster("a", defaults("{cpu: {cores: 2}}"))),
			object:  vm(""), err: []string{at + "cpu.cores", "cluster/a", "another priority"},
		},
		"NoConflictWhereUserDecides": {
			reason: "presets that both lose do not conflict", engine: presets.Engine{RejectConflicts: true},
			presets: list(cluster("b", defaults("{cpu: {cores: 4}}")), cluster("a", defaults("{cpu: {cores: 2}}"))),
			object:  domain("{cpu: {cores: 1}}"), want: map[string]string{at + "cpu.cores": "1"},
		},
		"EqualQuantitiesDoNotConflict": {
			reason: "quantities compare by value and keep their spelling", engine: presets.Engine{RejectConflicts: true},
			presets: list(cluster("b", defaults("{memory: {guest: 1Gi}}")), cluster("a", defaults("{memory: {guest: 1024Mi}}"))),
			object:  vm(""), want: map[string]string{at + "memory.guest": `"1024Mi"`},
		},
		"OverrideKeepsSpelling": {
			reason: "an equal quantity is not overruled", presets: list(cluster("a", overrides("{memory: {guest: 1Gi}}"))),
			object: domain("{memory: {guest: 1024Mi}}"), want: map[string]string{at + "memory.guest": `"1024Mi"`},
		},
		"RemoveAndDefault": {
			reason:  "a weaker default does not restore a removed field",
			presets: list(cluster("a", `remove: ["spec.template.spec.domain.devices.rng"]`), local("b", "priority: 9\n"+defaults("{devices: {rng: {}}}"))),
			object:  domain("{devices: {rng: {}}}"), want: map[string]string{at + "devices.rng": ""}, warn: []string{"preset cluster/a removed"},
		},
		"OneOfDefault": {
			reason:  "a default never adds a second member of a choice",
			presets: list(cluster("a", "defaults: {spec: {runStrategy: Always}}")),
			object:  vm("spec: {running: false}"), want: map[string]string{"spec.runStrategy": "", "spec.running": "false"},
		},
		"OneOfOverride": {
			reason:  "an override replaces the whole choice",
			presets: list(cluster("a", "overrides: {spec: {runStrategy: Always}}")),
			object:  vm("spec: {running: false}"), want: map[string]string{"spec.runStrategy": `"Always"`, "spec.running": ""},
		},
		"DiskWithoutVolume": {
			reason:  "a disk comes only with its volume",
			presets: list(cluster("a", defaults("{devices: {disks: [{name: data, disk: {bus: virtio}}]}}"))),
			object:  vm(""), quiet: true,
		},
		"DiskForVolumeOfUser": {
			reason:  "a disk may join a volume that the user has",
			presets: list(cluster("a", defaults("{devices: {disks: [{name: data, disk: {bus: virtio}}]}}"))),
			object:  vm("spec: {template: {spec: {volumes: [{name: data, emptyDisk: {capacity: 1Gi}}]}}}"),
			want:    map[string]string{at + "devices.disks[data].disk.bus": `"virtio"`},
		},
		"PairAcrossPresets": {
			reason: "interface of one preset and network of another come together",
			presets: list(cluster("a", defaults("{devices: {interfaces: [{name: net, masquerade: {}}]}}")),
				cluster("b", "defaults: {spec: {template: {spec: {networks: [{name: net, pod: {}}]}}}}")),
			object: vm(""), want: map[string]string{at + "devices.interfaces[net].masquerade": "{}", "spec.template.spec.networks[net].pod": "{}"},
		},
		"HalfAPairExcluded": {
			reason: "if one of a pair is excluded, neither is added",
			presets: list(cluster("a", `
defaults:
  spec:
    template:
      spec:
        domain: {devices: {interfaces: [{name: net, masquerade: {}}]}}
        networks: [{name: net, pod: {}}]`)),
			object: `{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: x, annotations: {virtwright.dev/exclude: "cluster/a:spec.template.spec.networks[net]"}}}`,
			want:   map[string]string{at + "devices.interfaces[net]": "", "spec.template.spec.networks[net]": ""},
		},
		"ListOrder": {
			reason:  "user elements keep their order, added ones follow in author order",
			presets: list(cluster("a", defaults("{cpu: {features: [{name: z}, {name: b, policy: require}, {name: c}]}}"))),
			object:  domain("{cpu: {features: [{name: c, policy: disable}, {name: b}]}}"),
			want:    map[string]string{at + "cpu.features": `[{"name":"c","policy":"disable"},{"name":"b","policy":"require"},{"name":"z"}]`},
		},
		"AtomicList": {
			reason:  "a list without a key is one value",
			presets: list(cluster("a", "defaults: {spec: {template: {spec: {dnsConfig: {nameservers: [1.1.1.1], options: [{name: ndots}]}}}}}")),
			object:  vm("spec: {template: {spec: {dnsConfig: {nameservers: []}}}}"),
			want:    map[string]string{"spec.template.spec.dnsConfig.nameservers": "[]", "spec.template.spec.dnsConfig.options": `[{"name":"ndots"}]`},
		},
		"Instancetype": {
			reason:  "defaults and overrides skip the fields of an instancetype",
			presets: list(cluster("a", defaults("{cpu: {cores: 2}, devices: {rng: {}}}")), cluster("b", overrides("{memory: {guest: 1Gi}}"))),
			object:  vm("spec: {instancetype: {name: u1.small}}"),
			want:    map[string]string{at + "cpu": "", at + "memory": "", at + "devices.rng": "{}"},
			silent:  true,
		},
		"Preference": {
			reason:  "defaults skip the fields that a preference may fill",
			presets: list(cluster("a", defaults("{machine: {type: q35}, memory: {guest: 1Gi}}"))),
			object:  vm("spec: {preference: {name: fedora}}"), want: map[string]string{at + "machine": "", at + "memory.guest": `"1Gi"`},
		},
		"InstancetypeAndPlatform": {
			reason: "platform defaults skip the fields of an instancetype or preference", engine: presets.Engine{Platform: &presets.Platform{Alongside: true}},
			object: vm("spec: {instancetype: {name: u1}, preference: {name: fedora}, template: {spec: {domain: {cpu: {features: []}, resources: {limits: {memory: 1Gi}}}}}}"),
			want: map[string]string{at + "cpu": `{"features":[]}`, at + "memory.guest": "", at + "resources.requests": "", at + "machine": "",
				"spec.runStrategy": "", "spec.template.spec.evictionStrategy": `"None"`},
		},
		"InstancetypeInStandalone": {
			reason: "standalone mode rejects unsupported fields", engine: presets.Engine{Platform: &presets.Platform{}},
			object: vm("spec: {instancetype: {name: u1.small}}"), err: []string{"spec.instancetype", "standalone"},
		},
		"DecimalQuantities": {
			reason:  "a number with a fraction becomes a string, and stays the user's; a whole one stays as it is",
			presets: list(cluster("a", overrides("{resources: {limits: {cpu: 0.5}}}")), cluster("b", defaults("{resources: {requests: {cpu: 9}}, memory: {maxGuest: 1.5}}"))),
			object:  domain("{resources: {requests: {cpu: 0.1, memory: 1073741824}, limits: {cpu: .25, ephemeral/storage: 1.5}}, memory: {guest: 1073741824.5}}"),
			want: map[string]string{at + "resources.requests.cpu": `"100m"`, at + "resources.requests.memory": "1073741824", at + "resources.limits.cpu": `"500m"`,
				at + `resources.limits["ephemeral/storage"]`: `"1500m"`, at + "memory.guest": `"1073741824500m"`, at + "memory.maxGuest": `"1500m"`},
			warn: []string{"preset cluster/a overruled " + at + `resources.limits.cpu (was "250m")`},
		},
		"DecimalQuantityOfVMI": {
			reason: "the pointer is that of the VMI", kind: presets.VirtualMachineInstance,
			object: `{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance, metadata: {name: x}, spec: {domain: {resources: {requests: {cpu: 0.1}}}, volumes: [{name: a, emptyDisk: {capacity: 1.5}}, {name: b, emptyDisk: {capacity: 2.5}}]}}`,
			want:   map[string]string{"spec.domain.resources.requests.cpu": `"100m"`},
		},
		"DecimalQuantityOfUpdate": {
			reason: "also in an update", presets: list(cluster("a", defaults("{cpu: {cores: 2}}"))),
			old: domain(`{cpu: {cores: 2}, resources: {requests: {cpu: 200m}}}`), object: domain(`{cpu: {cores: 2}, resources: {requests: {cpu: 0.1}}}`),
			want: map[string]string{at + "resources.requests.cpu": `"100m"`},
		},
		"DecimalQuantityOfTheSameValue": {
			reason: "the same value in an update", presets: list(cluster("a", defaults("{cpu: {cores: 2}}"))),
			old: domain(`{resources: {requests: {cpu: 100m}}}`), object: domain(`{resources: {requests: {cpu: 0.1}}}`),
			want: map[string]string{at + "resources.requests.cpu": `"100m"`},
		},
		"WarningsOfVMI": {
			reason: "warnings about a VMI have its paths", engine: presets.Engine{WarnEverything: true}, kind: presets.VirtualMachineInstance,
			presets: list(cluster("a", `{defaults: {spec: {template: {metadata: {labels: {tier: db}}, spec: {domain: {cpu: {cores: 2}}}}}}, remove: ["spec.template.spec.domain.devices.rng"]}`), cluster("b", overrides("{memory: {guest: 1Gi}}"))),
			object:  `{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance, metadata: {name: x}, spec: {domain: {devices: {rng: {}}, memory: {guest: 2Gi}}}}`,
			warn: []string{"preset cluster/a removed spec.domain.devices.rng", "preset cluster/b overruled spec.domain.memory.guest (was",
				"preset cluster/a set metadata.labels.tier, spec.domain.cpu.cores"},
		},
		"LUN": {
			reason: "a lun gets the scsi bus", engine: presets.Engine{Platform: &presets.Platform{}},
			object: vm(`spec: {template: {spec: {domain: {devices: {disks: [{name: a, lun: {}}, {name: b, disk: {}}]}}, volumes: [{name: a, persistentVolumeClaim: {claimName: a}}, {name: b, emptyDisk: {capacity: 1Gi}}]}}}`),
			want:   map[string]string{at + "devices.disks[a].lun.bus": `"scsi"`, at + "devices.disks[b].disk.bus": `"sata"`},
		},
		"InputDevice": {
			reason: "autoattachInputDevice adds a tablet", engine: presets.Engine{Platform: &presets.Platform{}},
			object: domain("{devices: {autoattachInputDevice: true}}"),
			want:   map[string]string{at + "devices.inputs": `[{"bus":"usb","name":"default-0","type":"tablet"}]`},
		},
		"InputDeviceBesideAnother": {
			reason: "autoattachInputDevice adds nothing to the author's inputs", engine: presets.Engine{Platform: &presets.Platform{}},
			object: domain("{devices: {autoattachInputDevice: true, inputs: [{name: mouse, bus: virtio}]}}"),
			want:   map[string]string{at + "devices.inputs": `[{"bus":"virtio","name":"mouse","type":"tablet"}]`},
		},
		"NoInputDevice": {
			reason: "autoattachInputDevice: false adds none", engine: presets.Engine{Platform: &presets.Platform{}},
			object: domain("{devices: {autoattachInputDevice: false}}"), want: map[string]string{at + "devices.inputs": ""},
		},
		"DevicesAlongside": {
			reason: "alongside KubeVirt, whose webhooks require devices, a sparse VM gets them", presets: list(cluster("a", defaults("{cpu: {cores: 2}}"))),
			object: vm("spec: {template: {spec: {}}}"), want: map[string]string{at + "devices": "{}", at + "cpu.cores": "2"},
		},
		"DevicesAlongsideWithoutPresets": {
			reason: "also where no preset matches", object: vm("spec: {template: {spec: {domain: {cpu: {cores: 2}}}}}"), want: map[string]string{at + "devices": "{}"},
		},
		"NoTemplateAlongside": {
			reason: "a VM without a template gets none", object: vm("spec: {runStrategy: Always}"), want: map[string]string{"spec.template": ""},
		},
		"AssumedByKubeVirt": {
			reason: "KubeVirt completes no VM that lacks a run strategy or half of a network", engine: presets.Engine{Platform: &presets.Platform{Alongside: true}},
			object: vm("spec: {template: {spec: {domain: {devices: {interfaces: [{name: default, masquerade: {}}]}}}}}"),
			want:   map[string]string{"spec.runStrategy": "", "spec.template.spec.networks": "", at + "cpu.cores": "1"},
		},
		"SecureBootAssumedByKubeVirt": {
			reason: "KubeVirt turns secure boot off on arm64 after it has validated the VM", engine: presets.Engine{Platform: &presets.Platform{Alongside: true}},
			object: vm("spec: {template: {spec: {architecture: arm64, domain: {firmware: {bootloader: {efi: {}}}}}}}"),
			want:   map[string]string{at + "firmware.bootloader.efi": "{}"},
		},
		"InferredInstancetype": {
			reason: "a matcher that virtctl infers is dropped if inference is unsupported", engine: presets.Engine{Platform: &presets.Platform{}},
			presets: list(cluster("a", defaults("{cpu: {cores: 2}}"))),
			object: vm(`spec: {
instancetype: {inferFromVolume: root, inferFromVolumeFailurePolicy: Ignore},
preference: {inferFromVolume: root, inferFromVolumeFailurePolicy: Ignore},
template: {spec: {domain: {memory: {guest: 512Mi}}}}}`),
			want: map[string]string{"spec.instancetype": "", "spec.preference": "", at + "cpu.cores": "2", at + "memory.guest": `"512Mi"`},
			warn: []string{`spec.instancetype was dropped`, `spec.preference was dropped`},
		},
		"InferredInstancetypeAlongsideKubeVirt": {
			reason: "KubeVirt infers instancetypes itself",
			object: vm(`spec: {instancetype: {inferFromVolume: root, inferFromVolumeFailurePolicy: Ignore}}`), quiet: true,
		},
		"InstancetypeToInferOrReject": {
			reason: "a matcher that must be inferred is rejected, with the remedy", engine: presets.Engine{Platform: &presets.Platform{}},
			object: vm(`spec: {instancetype: {inferFromVolume: root}, preference: {inferFromVolume: root, inferFromVolumeFailurePolicy: Reject}}`),
			err:    []string{"spec.instancetype: Forbidden", "spec.preference: Forbidden", "inferFromVolumeFailurePolicy: Ignore"},
		},
		"InstancetypeNamedAndIgnored": {
			reason: "a named instancetype is rejected", engine: presets.Engine{Platform: &presets.Platform{}},
			object: vm(`spec: {instancetype: {name: u1, inferFromVolumeFailurePolicy: Ignore}}`), err: []string{"spec.instancetype: Forbidden"},
		},
		"InferredInstancetypeSentAgain": {
			reason: "a client sends its manifest again", engine: presets.Engine{Platform: &presets.Platform{}},
			old:    vm(`spec: {runStrategy: Halted, template: {spec: {domain: {memory: {guest: 512Mi}}}}}`),
			object: vm(`spec: {runStrategy: Halted, instancetype: {inferFromVolume: root, inferFromVolumeFailurePolicy: Ignore}, template: {spec: {domain: {memory: {guest: 512Mi}}}}}`),
			want:   map[string]string{"spec.instancetype": "", at + "memory.guest": `"512Mi"`}, warn: []string{`spec.instancetype was dropped`},
		},
		"Forbid": {
			reason:  "nothing outranks forbid, and each violation is reported",
			presets: list(cluster("a", `forbid: [{path: "spec.template.spec.volumes[*].hostDisk", message: no host disks}]`)),
			object:  vm("spec: {template: {spec: {volumes: [{name: x, hostDisk: {path: /x, type: Disk}}, {name: z, hostDisk: {path: /y, type: Disk}}]}}}"),
			err:     []string{"spec.template.spec.volumes[x].hostDisk", "volumes[z]", "no host disks (preset cluster/a)"},
		},
		"ForbidOnResult": {
			reason:  "forbid also checks the fields that presets set",
			presets: list(cluster("a", "forbid: [{path: spec.template.spec.domain.devices.rng}]"), cluster("b", defaults("{devices: {rng: {}}}"))),
			object:  vm(""), err: []string{"devices.rng", "must not be set"},
		},
		"Require": {
			reason:  "each gap is reported; a list without elements has none",
			presets: list(cluster("a", `require: [{path: 'metadata.labels["cost-center"]', message: name who pays}, {path: "spec.template.spec.domain.devices.disks[*].cache"}, {path: "spec.template.spec.networks[*].pod"}]`)),
			object:  domain("{devices: {disks: [{name: x, disk: {}}, {name: y, disk: {}, cache: none}]}}"),
			err:     []string{`metadata.labels.cost-center: Required value: name who pays (preset cluster/a)`, "devices.disks[x].cache: Required value: set a value (preset cluster/a)"},
		},
		"RequireOnResult": {
			reason:  "another preset may set a required field",
			presets: list(cluster("a", "require: [{path: spec.template.spec.domain.devices.rng}]"), cluster("b", defaults("{devices: {rng: {}}}"))),
			object:  vm(""), want: map[string]string{at + "devices.rng": "{}"},
		},
		"RequireWarns": {
			reason:  "mode Warn rejects nothing",
			presets: list(cluster("a", "{mode: Warn, require: [{path: spec.template.spec.hostname, message: name it}]}")),
			object:  vm(""), warn: []string{"preset cluster/a (mode Warn) would reject spec.template.spec.hostname: name it"},
		},
		"Explicit": {
			reason:  "an explicit preset acts only if it is named",
			presets: list(cluster("gpu", "match: {explicit: true}\n"+defaults("{devices: {gpus: [{name: g, deviceName: nvidia.com/a10}]}}"))),
			object:  vm(""), quiet: true,
		},
		"ExplicitNamed": {
			reason:  "an explicit preset acts if it is named",
			presets: list(cluster("gpu", "match: {explicit: true}\n"+defaults("{devices: {gpus: [{name: g, deviceName: nvidia.com/a10}]}}"))),
			object:  `{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: x, annotations: {virtwright.dev/presets: cluster/gpu}}}`,
			want:    map[string]string{at + "devices.gpus[g].deviceName": `"nvidia.com/a10"`},
		},
		"NamedButUnknown": {
			reason:  "naming an unknown preset is an error that suggests the nearest name",
			presets: list(cluster("gpu-a10", "match: {explicit: true}\n"+defaults("{devices: {rng: {}}}"))),
			object:  `{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: x, annotations: {virtwright.dev/presets: cluster/gpu-a01}}}`,
			err:     []string{"metadata.annotations[virtwright.dev/presets]", `did you mean "cluster/gpu-a10"?`},
		},
		"ExcludeAll": {
			reason:  "a star excludes every default, and no override",
			presets: list(cluster("a", defaults("{cpu: {cores: 2}}")), cluster("b", overrides("{memory: {guest: 1Gi}}"))),
			object:  `{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: x, annotations: {virtwright.dev/exclude: "*"}}}`,
			want:    map[string]string{at + "cpu": "", at + "memory.guest": `"1Gi"`},
		},
		"Warn": {
			reason:  "mode Warn changes nothing and warns",
			presets: list(cluster("a", "mode: Warn\n"+defaults("{cpu: {cores: 2}}"))),
			object:  vm(""), want: map[string]string{"spec": ""}, warn: []string{"preset cluster/a (mode Warn) would set " + at + "cpu.cores=2"},
		},
		"Off":            {reason: "mode Off does nothing", presets: list(cluster("a", "mode: \"Off\"\n"+defaults("{cpu: {cores: 2}}"))), object: vm(""), quiet: true},
		"LaunchOnVM":     {reason: "a Launch preset does not change the VM", presets: list(cluster("a", "applyAt: Launch\n"+defaults("{cpu: {cores: 2}}"))), object: vm(""), quiet: true},
		"OtherNamespace": {reason: "a namespaced preset acts in its namespace only", presets: list(presettest.Namespaced("other", "a", defaults("{cpu: {cores: 2}}"))), object: vm(""), quiet: true},
		"PresetsDoNotFeedEachOther": {
			reason: "a label that a preset sets matches no other preset",
			presets: list(cluster("a", "defaults: {metadata: {labels: {size: big}}}"),
				cluster("b", "match: {labels: {matchLabels: {size: big}}}\n"+defaults("{cpu: {cores: 8}}"))),
			object: vm(""), want: map[string]string{at + "cpu": "", "metadata.labels.size": `"big"`},
		},
		"TemplateLabelsOverlay": {
			reason:  "labels of the template win over those of the VM",
			presets: list(cluster("a", "match: {labels: {matchLabels: {app: inner}}}\n"+defaults("{cpu: {cores: 8}}"))),
			object:  vm("spec: {template: {metadata: {labels: {app: inner}}}}"), want: map[string]string{at + "cpu.cores": "8"},
		},
		"ConditionOnSparse": {
			reason: "a condition may read nested fields of a VM without a spec",
			presets: list(cluster("a", `
match: {conditions: [{name: no-tpm, expression: "!has(object.spec.template.spec.domain.devices.tpm) && namespaceObject.metadata.labels.tier == 'prod'"}]}
`+defaults("{devices: {tpm: {}}}"))),
			object: vm(""), want: map[string]string{at + "devices.tpm": "{}"},
		},
		"ConditionFailsDefaults": {
			reason:  "a default with a condition that fails is skipped with a warning",
			presets: list(cluster("a", "match: {conditions: [{name: c, expression: \"object.metadata.nothing == 'x'\"}]}\n"+defaults("{devices: {tpm: {}}}"))),
			object:  vm(""), warn: []string{`preset cluster/a skipped: cannot evaluate condition "c"`},
		},
		"ConditionFailsOverrides": {
			reason:  "an override with a condition that fails rejects the VM",
			presets: list(cluster("a", "match: {conditions: [{name: c, expression: \"object.metadata.nothing == 'x'\"}]}\n"+overrides("{devices: {tpm: {}}}"))),
			object:  vm(""), err: []string{"cannot evaluate the conditions of preset cluster/a, which may overrule this object"},
		},
		"TemplateIsAString": {
			reason: "a wrong type is rejected with its path", presets: list(cluster("a", defaults("{cpu: {cores: 2}}"))),
			object: vm("spec: {template: x}"), err: []string{"spec.template", "must be an object"},
		},
		"ListIsAString": {
			reason: "a nested wrong type is rejected, too", presets: list(cluster("a", defaults("{cpu: {features: [{name: x}]}}"))),
			object: domain("{cpu: {features: x}}"), err: []string{at + "cpu.features", "must be a list"},
		},
		"NullIsAbsent": {
			reason: "null counts as absent", presets: list(cluster("a", defaults("{cpu: {cores: 2}}"))),
			object: domain("{cpu: null}"), want: map[string]string{at + "cpu.cores": "2"},
		},
		"WrongShapes": {
			reason:  "forbid, remove and default meet a list where an object should be",
			presets: list(cluster("a", `forbid: [{path: "spec.template.spec.domain.cpu.cores"}, {path: "spec.template.spec.volumes[*].hostDisk.path"}]`), cluster("b", `remove: ["spec.template.spec.domain.cpu.model"]`)),
			object:  vm("spec: {template: {spec: {domain: {cpu: [{}]}, volumes: [{name: a, hostDisk: [x]}]}}}"), want: map[string]string{at + "cpu": "[{}]"},
		},
		"HalfANetworkTakenAway": {
			reason: "the platform adds both halves of the pod network or none", engine: presets.Engine{Platform: &presets.Platform{}},
			presets: list(cluster("a", `remove: ["spec.template.spec.networks[default]"]`)), object: vm(""),
			want: map[string]string{at + "devices.interfaces": "", "spec.template.spec.networks": ""},
		},
		"InstancetypeByPreset": {
			reason: "presets cannot name an instancetype in standalone mode either", engine: presets.Engine{Platform: &presets.Platform{}},
			presets: list(cluster("a", "defaults: {spec: {instancetype: {name: u1}}}")), object: vm(""), err: []string{"spec.instancetype"},
		},
		"ChoiceOfUserIsNoConflict": {
			reason: "presets that lose to the user's choice do not conflict", engine: presets.Engine{RejectConflicts: true},
			presets: list(cluster("a", defaults("{devices: {disks: [{name: root, cdrom: {bus: sata}}]}}")), cluster("b", defaults("{devices: {disks: [{name: root, disk: {bus: virtio}}]}}"))),
			object:  vm("spec: {template: {spec: {domain: {devices: {disks: [{name: root, cdrom: {}}]}}, volumes: [{name: root, emptyDisk: {capacity: 1Gi}}]}}}"),
			want:    map[string]string{at + "devices.disks[root].cdrom.bus": `"sata"`, at + "devices.disks[root].disk": ""},
		},
		"TwoOfOneName": {
			reason:  "two elements of one name are rejected if a preset merges the list",
			presets: list(cluster("a", overrides("{cpu: {features: [{name: vmx, policy: disable}]}}"))),
			object:  domain("{cpu: {features: [{name: vmx}, {name: vmx, policy: require}]}}"), err: []string{at + "cpu.features[1].name", "Duplicate"},
		},
		"TooManyElements": {
			reason: "the length of a list is checked first", engine: presets.Engine{Platform: &presets.Platform{}},
			object: vm("spec: {template: {spec: {domain: {devices: {inputs: [" + strings.Repeat("{name: a},", 600) + "]}}}}}"), err: []string{at + "devices.inputs", "must have at most 512 items"},
		},
		"ExcludePattern": {
			reason:  "a pattern excludes each element",
			presets: list(cluster("a", defaults("{devices: {disks: [{name: root, cache: none, io: native}]}}"))),
			object:  `{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: x, annotations: {virtwright.dev/exclude: "cluster/a : spec.template.spec.domain.devices.disks[*].cache"}}, spec: {template: {spec: {volumes: [{name: root, emptyDisk: {}}]}}}}`,
			want:    map[string]string{at + "devices.disks[root].cache": "", at + "devices.disks[root].io": `"native"`},
		},
		"WarnOnPlatform": {
			reason: "mode Warn checks the result, with platform defaults", engine: presets.Engine{Platform: &presets.Platform{}},
			presets: list(cluster("a", `{mode: Warn, forbid: [{path: "spec.template.spec.domain.devices.interfaces[*].masquerade", message: bridge only}]}`)),
			object:  vm(""), warn: []string{"would reject spec.template.spec.domain.devices.interfaces[default].masquerade: bridge only"},
		},
		"ForgedProvenance": {
			reason: "a forged record is discarded", presets: list(cluster("a", defaults("{cpu: {cores: 2}}"))),
			object: `{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: x, annotations: {virtwright.dev/provenance: '{"v":1,"snapshot":"x","by":["cluster/a@1:default"],"set":{"spec":{"template":{"spec":{"domain":{"cpu":{"cores":0}}}}}}}'}}, spec: {template: {spec: {domain: {cpu: {cores: 9}, devices: {}}}}}}`,
			want:   map[string]string{at + "cpu.cores": "9", `metadata.annotations["virtwright.dev/provenance"]`: ""},
		},
	} {
		t.Run(name, func(t *testing.T) { c.run(t) })
	}
}
