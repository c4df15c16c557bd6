package fleet_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/fleet"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/test/presettest"
)

// edited formats edits, with * for those that loosen.
func edited(t *testing.T, changes []*fleet.ObjectChange) []string {
	t.Helper()
	var out []string
	for _, c := range changes {
		loosens := false
		for _, e := range c.Edits {
			text := e.Field
			if e.Loosens {
				text, loosens = "* "+text, true
			}
			out = append(out, text)
		}
		if c.Action == "changed" && c.Loosens != loosens {
			t.Errorf("%s loosens: %v", c.Name, c.Loosens)
		}
	}
	return out
}

// TestPresetEdits tests which fields differ between two versions of a preset, and which loosen.
func TestPresetEdits(t *testing.T) {
	const (
		memory   = "{spec: {template: {spec: {domain: {memory: {guest: 1Gi}}}}}}"
		tpm      = "{spec: {template: {spec: {domain: {devices: {tpm: %}}}}}}"
		cache    = "{spec: {template: {spec: {domain: {devices: {disks: [{name: %, cache: none}]}}}}}}"
		disk     = "{spec: {dataVolumeTemplates: [{metadata: {name: {$cel: \"object.metadata.name + '-root'\"}}, spec: {source: {blank: {}}, storage: {storageClassName: %, resources: {requests: {storage: 1Gi}}}}}]}}"
		variable = "{variables: [{name: a, expression: '%'}], match: {conditions: [{name: c, expression: variables.a > 1}]}, defaults: {spec: {template: {spec: {domain: {cpu: {cores: {$cel: variables.a}}}}}}}}"
		unused   = "{variables: [{name: a, expression: '%'}]}"
	)
	with := func(text, value string) string {
		for i := range text {
			if text[i] == '%' {
				return text[:i] + value + text[i+1:]
			}
		}
		return text
	}
	for name, test := range map[string]struct {
		before, after string
		want          []string
	}{
		"equal":                      {"{forbid: [{path: spec.running}]}", "{mode: Enforce, forbid: [{path: spec.running}]}", nil},
		"a weaker mode":              {"{}", "{mode: Warn}", []string{"* spec.mode"}},
		"off":                        {"{mode: Audit}", `{mode: "Off"}`, []string{"* spec.mode"}},
		"a stricter mode":            {"{mode: Audit}", "{}", []string{"spec.mode"}},
		"a lower priority":           {"{priority: 10}", "{priority: 9}", []string{"* spec.priority"}},
		"a higher priority":          {"{priority: 10}", "{priority: 11}", []string{"spec.priority"}},
		"at launch":                  {"{}", "{applyAt: Launch}", []string{"* spec.applyAt"}},
		"explicit":                   {"{}", "{match: {explicit: true}}", []string{"* spec.match.explicit"}},
		"a label more":               {"{}", "{match: {labels: {matchLabels: {a: b}}}}", []string{"* spec.match.labels"}},
		"a label less":               {"{match: {labels: {matchLabels: {a: b, c: d}}}}", "{match: {labels: {matchLabels: {a: b}}}}", []string{"spec.match.labels"}},
		"another label":              {"{match: {labels: {matchLabels: {a: b}}}}", "{match: {labels: {matchLabels: {a: c}}}}", []string{"* spec.match.labels"}},
		"a value more":               {"{match: {labels: {matchLabels: {a: b}}}}", "{match: {labels: {matchExpressions: [{key: a, operator: In, values: [b, c]}]}}}", []string{"spec.match.labels"}},
		"a namespace less":           {"{match: {namespaces: {matchExpressions: [{key: a, operator: Exists}]}}}", "{match: {namespaces: {matchLabels: {a: b}}}}", []string{"* spec.match.namespaces"}},
		"a condition":                {"{}", "{match: {conditions: [{name: a, expression: 'has(object.spec)'}]}}", []string{"* spec.match.conditions"}},
		"no condition":               {"{match: {conditions: [{name: a, expression: 'has(object.spec)'}]}}", "{}", []string{"spec.match.conditions"}},
		"a variable":                 {with(variable, "1"), with(variable, "2"), []string{"* spec.match.conditions", "spec.variables.a", "spec.match.conditions", "spec.defaults.spec.template.spec.domain.cpu.cores"}},
		"an unused variable":         {with(unused, "1"), with(unused, "2"), []string{"spec.variables.a"}},
		"no override":                {"{overrides: " + memory + "}", "{}", []string{"* spec.overrides.spec.template.spec.domain.memory.guest"}},
		"a default, not an override": {"{overrides: " + memory + "}", "{defaults: " + memory + "}", []string{"* spec.overrides.spec.template.spec.domain.memory.guest", "spec.defaults.spec.template.spec.domain.memory.guest"}},
		"a field of an override":     {"{overrides: " + with(tpm, "{}") + "}", "{overrides: " + with(tpm, "{persistent: true}") + "}", []string{"spec.overrides.spec.template.spec.domain.devices.tpm", "spec.overrides.spec.template.spec.domain.devices.tpm.persistent"}},
		"no field of an override":    {"{overrides: " + with(tpm, "{persistent: true}") + "}", "{overrides: " + with(tpm, "{}") + "}", []string{"* spec.overrides.spec.template.spec.domain.devices.tpm.persistent", "spec.overrides.spec.template.spec.domain.devices.tpm"}},
		"no override of every disk":  {"{overrides: " + with(cache, "'*'") + "}", "{}", []string{"* spec.overrides.spec.template.spec.domain.devices.disks[*].cache"}},
		"of every disk, not of one": {"{overrides: " + with(cache, "a") + "}", "{overrides: " + with(cache, "'*'") + "}", []string{
			"* spec.overrides.spec.template.spec.domain.devices.disks[a].name", "spec.overrides.spec.template.spec.domain.devices.disks[a].cache",
			"spec.overrides.spec.template.spec.domain.devices.disks[*].cache",
		}},
		"no default":                  {"{defaults: " + memory + "}", "{}", []string{"spec.defaults.spec.template.spec.domain.memory.guest"}},
		"a computed key":              {"{defaults: " + with(disk, "a") + "}", "{defaults: " + with(disk, "b") + "}", []string{"spec.defaults.spec.dataVolumeTemplates[*-root].spec.storage.storageClassName"}},
		"no removal":                  {"{remove: [spec.template.spec.domain.devices.rng]}", "{}", []string{"* spec.remove"}},
		"a removal":                   {"{}", "{remove: [spec.template.spec.domain.devices.rng]}", []string{"spec.remove"}},
		"no forbid, another priority": {"{forbid: [{path: spec.running}]}", "{priority: 1}", []string{"* spec.forbid", "spec.priority"}},
		"no require":                  {"{require: [{path: spec.running}, {path: spec.template.spec.hostname}]}", "{require: [{path: spec.template.spec.hostname}]}", []string{"* spec.require"}},
		"a new require":               {"{forbid: [{path: spec.running}]}", "{forbid: [{path: spec.running}], require: [{path: spec.template.spec.hostname, message: m}]}", []string{"spec.require"}},
		"another message":             {"{forbid: [{path: spec.running}]}", "{forbid: [{path: spec.running, message: m}]}", []string{"spec.forbid[spec.running].message"}},
	} {
		plan := fleet.NewPlan(t.Context(), presettest.Snapshot(t, presettest.Cluster("p", test.before)), presettest.Snapshot(t, presettest.Cluster("p", test.after)))
		if diff := cmp.Diff(test.want, edited(t, plan.Presets)); diff != "" {
			t.Errorf("%s: want -, got +\n%s", name, diff)
		}
	}
}

// TestVariableEditsHideSecrets tests variables of values that may hold secrets.
func TestVariableEditsHideSecrets(t *testing.T) {
	snapshot := func(secret string) *presets.Snapshot {
		return presettest.Snapshot(t, presettest.Cluster("p", "{variables: [{name: a, expression: \"'"+secret+"'\"}, {name: b, expression: variables.a}], match: {conditions: [{name: c, expression: \"variables.b != ''\"}]}, "+
			"defaults: {spec: {template: {spec: {volumes: [{name: init, cloudInitNoCloud: {userData: {$cel: variables.b}}}]}}}}}"))
	}
	text, err := json.Marshal(fleet.NewPlan(t.Context(), snapshot("secret-a"), snapshot("secret-b")).Presets)
	if err != nil || strings.Contains(string(text), "secret-") || !strings.Contains(string(text), `{"field":"spec.variables.a","before":"(hidden)","after":"(hidden)"}`) {
		t.Errorf("%s, %v", text, err)
	}
}

// TestObjectActions tests what loosens as a whole: a deleted preset and a new exception.
func TestObjectActions(t *testing.T) {
	preset := presettest.Snapshot(t, presettest.Cluster("p", "{forbid: [{path: spec.running}]}"))
	excepted := preset.WithExceptions([]*presets.Exception{exception(t, "{presets: [cluster/p], vmSelector: {}, reason: r}")}, time.Now)
	empty := presets.NewSnapshot(nil, nil)
	for name, test := range map[string]struct {
		before, after *presets.Snapshot
		loosens       bool
	}{
		"no preset":    {preset, empty, true},
		"a preset":     {empty, preset, false},
		"an exception": {preset, excepted, true},
		"no exception": {excepted, preset, false},
		"equal":        {excepted, excepted, false},
	} {
		plan := fleet.NewPlan(t.Context(), test.before, test.after)
		if plan.Loosens() != test.loosens || plan.Differs() != test.loosens {
			t.Errorf("%s: loosens %v, differs %v", name, plan.Loosens(), plan.Differs())
		}
	}
}

func exception(t *testing.T, spec string) *presets.Exception {
	t.Helper()
	e := &v1alpha1.PresetException{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "e"}}
	if err := yaml.UnmarshalStrict([]byte(spec), &e.Spec); err != nil {
		t.Fatal(err)
	}
	out, problems := presets.CompileException(e)
	if len(problems) > 0 {
		t.Fatal(problems.ToAggregate())
	}
	return out
}

// TestExceptionEdits tests which changes of an exception loosen.
func TestExceptionEdits(t *testing.T) {
	const small = "vmSelector: {matchLabels: {size: s}}, reason: r"
	for name, test := range map[string]struct {
		before, after string
		want          []string
	}{
		"equal":            {"{presets: [a], " + small + "}", "{presets: [a], " + small + "}", nil},
		"a preset more":    {"{presets: [a], " + small + "}", "{presets: [a, b], " + small + "}", []string{"* spec.presets"}},
		"a preset less":    {"{presets: [a, b], " + small + "}", "{presets: [a], " + small + "}", []string{"spec.presets"}},
		"all VMs":          {"{presets: [a], " + small + "}", "{presets: [a], vmSelector: {}, reason: r}", []string{"* spec.vmSelector"}},
		"fewer VMs":        {"{presets: [a], vmSelector: {}, reason: r}", "{presets: [a], " + small + "}", []string{"spec.vmSelector"}},
		"no end":           {"{presets: [a], " + small + ", until: '2030-01-01T00:00:00Z'}", "{presets: [a], " + small + "}", []string{"* spec.until"}},
		"a later end":      {"{presets: [a], " + small + ", until: '2030-01-01T00:00:00Z'}", "{presets: [a], " + small + ", until: '2031-01-01T00:00:00Z'}", []string{"* spec.until"}},
		"an earlier end":   {"{presets: [a], " + small + ", until: '2031-01-01T00:00:00Z'}", "{presets: [a], " + small + ", until: '2030-01-01T00:00:00Z'}", []string{"spec.until"}},
		"the first end":    {"{presets: [a], " + small + "}", "{presets: [a], " + small + ", until: '2030-01-01T00:00:00Z'}", []string{"spec.until"}},
		"another reason":   {"{presets: [a], " + small + "}", "{presets: [a], vmSelector: {matchLabels: {size: s}}, reason: other}", nil},
		"the same instant": {"{presets: [a], " + small + ", until: '2030-01-01T01:00:00+01:00'}", "{presets: [a], " + small + ", until: '2030-01-01T00:00:00Z'}", nil},
	} {
		set := func(spec string) *presets.Snapshot {
			return presets.NewSnapshot(nil, nil).WithExceptions([]*presets.Exception{exception(t, spec)}, time.Now)
		}
		plan := fleet.NewPlan(t.Context(), set(test.before), set(test.after))
		if diff := cmp.Diff(test.want, edited(t, plan.Exceptions)); diff != "" {
			t.Errorf("%s: want -, got +\n%s", name, diff)
		}
	}
}

// TestNamespaceEdits compares labels, and annotations that an expression may read.
func TestNamespaceEdits(t *testing.T) {
	selecting := presettest.Cluster("selecting", "{match: {namespaces: {matchLabels: {env: prod}}}, forbid: [{path: spec.running}]}")
	off := presettest.Cluster("off", `{mode: "Off", match: {namespaces: {matchLabels: {env: prod}}}, forbid: [{path: spec.running}]}`)
	reading := presettest.Cluster("reading", "{match: {conditions: [{name: a, expression: \"namespaceObject.metadata.?annotations.?a.orValue('') == 'b'\"}]}, forbid: [{path: spec.running}]}")
	namespace := func(labels, annotations map[string]string) presets.Namespace {
		return presets.Namespace{Name: "shop", Labels: labels, Annotations: annotations}
	}
	prod, dev := map[string]string{"env": "prod"}, map[string]string{"env": "dev"}
	for name, test := range map[string]struct {
		preset        v1alpha1.Preset
		before, after presets.Namespace
		want          []string
	}{
		"no longer selected": {selecting, namespace(prod, nil), namespace(dev, nil), []string{"* preset cluster/selecting", "metadata.labels.env"}},
		"selected":           {selecting, namespace(dev, nil), namespace(prod, nil), []string{"metadata.labels.env"}},
		"selected by none":   {off, namespace(prod, nil), namespace(nil, nil), []string{"metadata.labels.env"}},
		"unread annotation":  {selecting, namespace(prod, dev), namespace(prod, prod), nil},
		"read annotation":    {reading, namespace(prod, dev), namespace(prod, prod), []string{"* preset cluster/reading", "metadata.annotations.env"}},
	} {
		set := presettest.Snapshot(t, test.preset)
		plan := fleet.NewPlan(t.Context(), set, set)
		plan.CompareNamespaces(map[string]presets.Namespace{"shop": test.before, "old": test.before}, map[string]presets.Namespace{"shop": test.after, "new": test.after})
		if diff := cmp.Diff(test.want, edited(t, plan.Namespaces)); diff != "" {
			t.Errorf("%s: want -, got +\n%s", name, diff)
		}
	}
}
