package presets_test

import (
	"strings"
	"testing"

	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/test/presettest"
)

func TestCompileRejects(t *testing.T) {
	for name, c := range map[string]struct {
		namespace, spec string
		want            []string
	}{
		"UnknownField":       {"", defaults("{memroy: {guest: 1Gi}}"), []string{"spec.defaults.spec.template.spec.domain.memroy", `did you mean "memory"?`}},
		"UnknownDeep":        {"", defaults("{devices: {disks: [{name: a, disk: {buss: virtio}}]}}"), []string{"disks[a].disk.buss", `did you mean "bus"?`}},
		"WrongType":          {"", defaults("{cpu: {cores: many}}"), []string{"cpu.cores", "must be a whole number"}},
		"WrongTypeObject":    {"", defaults("{cpu: 4}"), []string{"domain.cpu", "must be an object"}},
		"WrongTypeList":      {"", defaults("{devices: {disks: {name: a}}}"), []string{"devices.disks", "must be a list"}},
		"Null":               {"", defaults("{cpu: {cores: null}}"), []string{"cpu.cores", "null", "spec.remove"}},
		"NotAnObject":        {"", "defaults: text", []string{"spec.defaults", "partial VirtualMachine"}},
		"Status":             {"", "defaults: {status: {ready: true}}", []string{"spec.defaults.status", "controllers write status"}},
		"Quantity":           {"", defaults("{memory: {guest: 4Gigs}}"), []string{"memory.guest", "4Gigs", "quantity such as 2Gi"}},
		"TwoOfAChoice":       {"", "defaults: {spec: {running: true, runStrategy: Always}}", []string{"exclude each other: keep one"}},
		"ElementWithoutName": {"", defaults("{devices: {disks: [{disk: {}}]}}"), []string{"disks[0].name", "Required"}},
		"ElementTwice":       {"", defaults("{devices: {disks: [{name: a}, {name: a}]}}"), []string{"disks[1]", "Duplicate"}},
		"EmptyKeyedList":     {"", defaults("{devices: {disks: []}}"), []string{"devices.disks", "must not be empty"}},
		"Selector":           {"", "match: {labels: {matchLabels: {a: \"!\"}}}", []string{"spec.match.labels.matchLabels", `"!"`}},
		"SelectorOperator":   {"", "match: {labels: {matchExpressions: [{key: a, operator: Is}]}}", []string{"spec.match.labels.matchExpressions[0].operator", `"Is"`}},
		"NamespacesAtHome":   {"lab", "match: {namespaces: {matchLabels: {a: b}}}", []string{"spec.match.namespaces", "ClusterVirtualMachinePreset"}},
		"CELAssignment":      {"", "match: {conditions: [{name: c, expression: \"object.metadata.name = 'a'\"}]}", []string{"line 1, column 22: Syntax error: token recognition error at: '= ' (did you mean ==?)"}},
		"CELSyntax":          {"", "match: {conditions: [{name: c, expression: \"object.\"}]}", []string{"spec.match.conditions[0].expression", "must compile", "Syntax error"}},
		"CELType":            {"", "match: {conditions: [{name: c, expression: \"1 + 1\"}]}", []string{"conditions[0].expression", "must be true or false"}},
		"CELUnknownVariable": {"", "match: {conditions: [{name: c, expression: \"vm.x\"}]}", []string{"undeclared reference to 'vm'"}},
		"CELCost":            {"", "match: {conditions: [{name: c, expression: \"object.a.all(x, object.a.all(y, object.a.all(z, x + y == z)))\"}]}", []string{"too costly"}},
		"ConditionTwice":     {"", "match: {conditions: [{name: c, expression: \"true\"}, {name: c, expression: \"true\"}]}", []string{"conditions[1].name", "Duplicate"}},
		"Path":               {"", `remove: ["spec.template.spec.domain.devices.rgn"]`, []string{"spec.remove[0]", "path does not exist", `did you mean "rng"?`}},
		"PathIntoList":       {"", `remove: ["spec.template.spec.domain.devices.disks.root"]`, []string{"disks is a list; name an element, as in disks[NAME]"}},
		"PathSyntax":         {"", `forbid: [{path: "spec..x"}]`, []string{"spec.forbid[0].path", "at byte 4"}},
		"RemoveEvery":        {"", `remove: ["spec.template.spec.domain.devices.disks[*].cache"]`, []string{"only spec.forbid and spec.require support [*]"}},
		"RequirePath":        {"", `require: [{path: spec.template.spec.domain.devices.rgn}]`, []string{"spec.require[0].path", `did you mean "rng"?`}},
		"RequireSpine":       {"", `require: [{path: spec.template}]`, []string{"spec.require[0].path", "every VirtualMachine requires this one"}},
		"RequireForbidden":   {"", `{require: [{path: spec.template.spec.domain.cpu.model}], forbid: [{path: spec.template.spec.domain.cpu}]}`, []string{"spec.require[0].path", "spec.forbid", "keep one"}},
		"RequireRemoved":     {"", `{require: [{path: spec.template.spec.hostname}], remove: [spec.template.spec.hostname]}`, []string{"spec.require[0].path", "spec.remove", "keep one"}},
		"RequireBeyond":      {"", `{applyAt: Launch, require: [{path: spec.runStrategy}]}`, []string{"spec.require[0].path", "applyAt: Launch"}},
		"RemoveSpine":        {"", `remove: ["spec.template"]`, []string{"every VirtualMachine requires this one"}},
		"OverrideAndRemove": {"", overrides("{devices: {rng: {}}}") + `
remove: ["spec.template.spec.domain.devices.rng"]`, []string{"spec.overrides", "spec.remove", "keep one"}},
		"DefaultUnderRemoved": {"", defaults("{cpu: {cores: 1}}") + `
remove: ["spec.template.spec.domain.cpu"]`, []string{"spec.defaults.spec.template.spec.domain.cpu.cores", "spec.remove"}},
		"OwnerReferences":    {"", "defaults: {metadata: {ownerReferences: [{name: x}]}}", []string{"metadata.ownerReferences", "labels and annotations"}},
		"Finalizers":         {"", "defaults: {spec: {template: {metadata: {finalizers: [x]}}}}", []string{"template.metadata.finalizers"}},
		"ReservedAnnotation": {"", "defaults: {metadata: {annotations: {virtwright.dev/exclude: \"*\"}}}", []string{"virtwright.dev/ are reserved"}},
		"LastApplied":        {"", "overrides: {metadata: {annotations: {kubectl.kubernetes.io/last-applied-configuration: x}}}", []string{"kubectl apply keeps in it what it applied"}},
		"Hooks":              {"", "defaults: {spec: {template: {metadata: {annotations: {hooks.kubevirt.io/hookSidecars: x}}}}}", []string{"hooks.kubevirt.io/ are reserved"}},
		"ReservedLabel":      {"", "overrides: {spec: {template: {metadata: {labels: {kubevirt.io/nodeName: x}}}}}", []string{"KubeVirt reserves this key"}},
		"ReservedGeneration": {"", "defaults: {spec: {template: {metadata: {annotations: {kubevirt.io/vm-generation: x}}}}}", []string{"KubeVirt reserves this key"}},
		"RemoveAnnotations":  {"", `remove: ["metadata.annotations"]`, []string{"name the key"}},
		"LaunchBeyond":       {"", "applyAt: Launch\ndefaults: {spec: {runStrategy: Always}}", []string{"spec.runStrategy", "applyAt: Launch"}},
		"Priority":           {"", "priority: 1000001", []string{"spec.priority", "1000000"}},
		"Mode":               {"", "mode: Maybe", []string{"spec.mode", `"Enforce"`}},
		"Kind":               {"", "defaults: {kind: Pod}", []string{"spec.defaults.kind", "VirtualMachine"}},
		"TooLarge":           {"", "defaults: {metadata: {annotations: {a: " + strings.Repeat("x", 128<<10) + "}}}", []string{"spec.defaults", "may not be more than 131072 bytes"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := presettest.Cluster("p", c.spec)
			if c.namespace != "" {
				p = presettest.Namespaced(c.namespace, "p", c.spec)
			}
			_, errs := presets.Compile(p)
			if len(errs) == 0 {
				t.Fatal("want it rejected")
			}
			got := errs.ToAggregate().Error()
			for _, part := range c.want {
				if !strings.Contains(got, part) {
					t.Errorf("got %s\nwant %q in it", got, part)
				}
			}
		})
	}
}

// TestCompileLegacyRejects: the paths are those of a VirtualMachineInstancePreset.
func TestCompileLegacyRejects(t *testing.T) {
	preset := &kubevirtv1.VirtualMachineInstancePreset{}
	preset.Name, preset.Namespace = "old", "lab"
	preset.Spec.Selector.MatchLabels = map[string]string{"a": "!"}
	preset.Spec.Domain = &kubevirtv1.DomainSpec{Devices: kubevirtv1.Devices{Disks: []kubevirtv1.Disk{{Name: "a"}, {Name: "a"}}}}
	_, problems := presets.CompileLegacy(preset)
	want := []string{"spec.selector.matchLabels", "spec.domain.devices.disks[1]"}
	if len(problems) != len(want) {
		t.Fatalf("got %v", problems)
	}
	for i, p := range problems {
		if p.Field != want[i] || strings.Contains(p.Error(), "<error>") {
			t.Errorf("got %v, want %s", p, want[i])
		}
	}
}

func TestCompileReportsEveryProblem(t *testing.T) {
	_, errs := presets.Compile(presettest.Cluster("p", "mode: Maybe\nremove: [status]\n"+defaults("{memroy: {}, cpu: {cores: x}}")))
	if len(errs) != 4 {
		t.Errorf("want four problems at once, got %v", errs)
	}
}

func TestCompileAcceptsAPastedHeader(t *testing.T) {
	if _, errs := presets.Compile(presettest.Cluster("p", "defaults: {apiVersion: kubevirt.io/v1, kind: VirtualMachine, spec: {runStrategy: Always}}")); len(errs) > 0 {
		t.Error(errs)
	}
}

// TestHash: the hash depends on the content of presets, not on spelling and order.
func TestHash(t *testing.T) {
	a := presettest.Cluster("a", defaults("{cpu: {cores: 2, sockets: 1}}"))
	same := presettest.Cluster("a", "applyAt: Definition\nmode: Enforce\n"+defaults("{cpu: {sockets: 1, cores: 2}}"))
	other := presettest.Cluster("a", defaults("{cpu: {cores: 3, sockets: 1}}"))
	b := presettest.Namespaced("lab", "a", defaults("{cpu: {cores: 2, sockets: 1}}"))
	hash := func(in ...*presets.Compiled) string { return presets.NewSnapshot(in, nil).Hash() }
	ca, cb := presettest.Compile(t, a)[0], presettest.Compile(t, b)[0]
	if got := hash(presettest.Compile(t, same)[0]); got != hash(ca) {
		t.Error("spelling changed the hash")
	}
	if hash(ca, cb) != hash(cb, ca) {
		t.Error("order changed the hash")
	}
	if hash(presettest.Compile(t, other)[0]) == hash(ca) || hash(cb) == hash(ca) {
		t.Error("different presets have one hash")
	}
}
