package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/fleet"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/test/cases"
	"github.com/virtwright/virtwright/test/presettest"
)

// A planWorld has presets, exceptions and namespaces by kind and name, as flow YAML of their specs
// or labels.
type planWorld struct {
	*rand.Rand
	presets map[string]map[string]string // of spec, by field
	// exceptions has specs, and namespaces has labels.
	exceptions, namespaces map[string]string
}

func (w *planWorld) clone() *planWorld {
	out := &planWorld{w.Rand, map[string]map[string]string{}, maps.Clone(w.exceptions), maps.Clone(w.namespaces)}
	for name, fields := range w.presets {
		out.presets[name] = maps.Clone(fields)
	}
	return out
}

func (w *planWorld) oneOf(options ...string) string { return options[w.Intn(len(options))] }

// pool has values of each field of a preset; an empty one leaves out the field.
var pool = map[string][]string{
	"mode":     {"", "", "", "Warn", "Audit", `"Off"`},
	"priority": {"", "", "10", "20"},
	"applyAt":  {"", "", "Launch"},
	"match": {
		"", "{labels: {matchLabels: {size: s}}}", "{labels: {matchExpressions: [{key: size, operator: In, values: [s, m]}]}}",
		"{namespaces: {matchLabels: {env: prod}}}", "{labels: {matchLabels: {os: win}}, namespaces: {matchExpressions: [{key: team, operator: Exists}]}}",
		"{conditions: [{name: small, expression: 'object.?spec.template.spec.domain.cpu.cores.orValue(1) < 3'}]}",
	},
	"defaults": {
		"", "{spec: {template: {spec: {domain: {cpu: {cores: 2}}}}}}", "{spec: {template: {spec: {nodeSelector: {site: a}}}}}",
		"{spec: {template: {spec: {domain: {devices: {rng: {}}}, hostname: {$cel: object.metadata.name}}}}}",
		"{spec: {dataVolumeTemplates: [{metadata: {name: {$cel: \"object.metadata.name + '-d'\"}}, spec: {source: {blank: {}}, storage: {storageClassName: a, resources: {requests: {storage: 1Gi}}}}}], " +
			"template: {spec: {domain: {devices: {disks: [{name: d, disk: {bus: virtio}}]}}, volumes: [{name: d, dataVolume: {name: {$cel: \"object.metadata.name + '-d'\"}}}]}}}}",
	},
	"overrides": {
		"", "", "{spec: {template: {spec: {terminationGracePeriodSeconds: 60}}}}", "{spec: {template: {spec: {nodeSelector: {site: b}, domain: {cpu: {threads: 2}}}}}}",
		"{spec: {template: {spec: {subdomain: {$cel: \"namespaceObject.metadata.?labels.?team.orValue('none')\"}}}}}", "{metadata: {labels: {tier: gold}}}",
	},
	"remove": {"", "", "[spec.template.spec.domain.devices.rng]", "[spec.template.spec.hostname, 'spec.template.spec.nodeSelector.site']"},
	"forbid": {
		"", "", "[{path: spec.template.spec.domain.cpu.model}]", "[{path: spec.template.spec.nodeSelector, message: ask us}, {path: 'spec.template.spec.domain.devices.disks[*].cache'}]",
	},
}

var planNames = []string{"cluster/a", "cluster/b", "cluster/c", "shop/a", "shop/d", "prod/a"}

// preset adds a valid preset.
func (w *planWorld) preset(name string) {
	for w.presets[name] = nil; w.presets[name] == nil || !w.isValid(name); {
		fields := map[string]string{}
		for _, field := range slices.Sorted(maps.Keys(pool)) {
			if value := w.oneOf(pool[field]...); value != "" {
				fields[field] = value
			}
		}
		w.presets[name] = fields
	}
}

func (w *planWorld) isValid(name string) bool {
	_, problems := presets.Compile(w.object(name))
	return len(problems) == 0
}

func (w *planWorld) object(name string) v1alpha1.Preset {
	namespace, of, _ := strings.Cut(name, "/")
	if namespace == "cluster" {
		return presettest.Cluster(of, w.spec(name))
	}
	return presettest.Namespaced(namespace, of, w.spec(name))
}

func (w *planWorld) exception(name string) {
	w.exceptions[name] = fmt.Sprintf("{presets: [%s], vmSelector: %s, reason: r%s}", w.oneOf("cluster/a", "cluster/b", "a", "cluster/c, a"),
		w.oneOf("{}", "{matchLabels: {size: s}}", "{matchExpressions: [{key: os, operator: Exists}]}"), w.oneOf("", ", until: '2999-01-01T00:00:00Z'"))
}

func (w *planWorld) namespace(name string) {
	w.namespaces[name] = w.oneOf("{}", "{env: prod}", "{team: x}", "{env: prod, team: z}", "{env: dev}")
}

func (w *planWorld) any(from []string) string { return from[w.Intn(len(from))] }

// change makes one or two changes.
func (w *planWorld) change() {
	for range 1 + w.Intn(2) {
		switch w.Intn(8) {
		case 0:
			delete(w.presets, w.any(planNames))
		case 1:
			w.preset(w.any(planNames))
		case 2:
			w.exception(w.any([]string{"shop/x", "prod/x", "shop/z"}))
		case 3:
			delete(w.exceptions, w.any([]string{"shop/x", "prod/x", "shop/z"}))
		case 4:
			w.namespace(w.any([]string{"shop", "prod"}))
		default:
			w.field()
		}
	}
}

// field changes one field of a preset.
func (w *planWorld) field() {
	name := w.any(slices.Sorted(maps.Keys(w.presets)))
	field := w.any(slices.Sorted(maps.Keys(pool)))
	was := w.presets[name]
	w.presets[name] = maps.Clone(was)
	if w.presets[name][field] = w.oneOf(pool[field]...); w.presets[name][field] == "" {
		delete(w.presets[name], field)
	}
	if !w.isValid(name) {
		w.presets[name] = was
	}
}

func (w *planWorld) spec(name string) string {
	var spec []string
	for _, field := range slices.Sorted(maps.Keys(w.presets[name])) {
		spec = append(spec, field+": "+w.presets[name][field])
	}
	return "{" + strings.Join(spec, ", ") + "}"
}

// snapshot compiles the presets and exceptions.
func (w *planWorld) snapshot(t *testing.T) *presets.Snapshot {
	t.Helper()
	var all []v1alpha1.Preset
	for name := range w.presets {
		all = append(all, w.object(name))
	}
	var exceptions []*presets.Exception
	for name, spec := range w.exceptions {
		e := &v1alpha1.PresetException{}
		e.Namespace, e.Name, _ = strings.Cut(name, "/")
		if err := yaml.Unmarshal([]byte(spec), &e.Spec); err != nil {
			t.Fatal(err)
		}
		compiled, problems := presets.CompileException(e)
		if len(problems) > 0 {
			t.Fatal(problems.ToAggregate())
		}
		exceptions = append(exceptions, compiled)
	}
	return presettest.Snapshot(t, all...).WithExceptions(exceptions, time.Now)
}

// outcome is the VM and its next VMI, as leaves by path; nil if the VM is rejected.
func (w *planWorld) outcome(t *testing.T, s *presets.Snapshot, vm map[string]any) map[string]string {
	t.Helper()
	if vm == nil {
		return nil
	}
	out := plannedLeaves(t, presets.VirtualMachine, vm)
	raw, err := json.Marshal(vm)
	if err != nil {
		t.Fatal(err)
	}
	namespace := presets.Namespace{Name: fmt.Sprint(presettest.At(vm, "metadata.namespace")), Labels: map[string]string{}}
	if err := yaml.Unmarshal([]byte(w.namespaces[namespace.Name]), &namespace.Labels); err != nil {
		t.Fatal(err)
	}
	namespace.Labels["kubernetes.io/metadata.name"] = namespace.Name
	vmi, err := (&presets.Engine{}).Launch(t.Context(), s, presets.Request{Kind: presets.VirtualMachine, Object: raw, Namespace: namespace})
	started := out
	if err == nil { // otherwise plan warns that the VM could not start
		started = plannedLeaves(t, presets.VirtualMachineInstance, presettest.Object(vmi))
	}
	for path, value := range maps.Clone(started) {
		if strings.HasPrefix(path, "spec.template.spec.") {
			out["VMI "+path] = value
		}
	}
	return out
}

func (w *planWorld) yaml() string {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(w.presets)) {
		namespace, of, _ := strings.Cut(name, "/")
		kind, meta := "VirtualMachinePreset", "name: "+of+", namespace: "+namespace
		if namespace == "cluster" {
			kind, meta = "ClusterVirtualMachinePreset", "name: "+of
		}
		fmt.Fprintf(&out, "apiVersion: virtwright.dev/v1alpha1\nkind: %s\nmetadata: {%s}\nspec: %s\n---\n", kind, meta, w.spec(name))
	}
	for _, name := range slices.Sorted(maps.Keys(w.exceptions)) {
		namespace, of, _ := strings.Cut(name, "/")
		fmt.Fprintf(&out, "apiVersion: virtwright.dev/v1alpha1\nkind: PresetException\nmetadata: {name: %s, namespace: %s}\nspec: %s\n---\n", of, namespace, w.exceptions[name])
	}
	for _, name := range slices.Sorted(maps.Keys(w.namespaces)) {
		fmt.Fprintf(&out, "apiVersion: v1\nkind: Namespace\nmetadata: {name: %s, labels: %s}\n---\n", name, w.namespaces[name])
	}
	return out.String()
}

// newVMs returns new VMs of both namespaces.
func (w *planWorld) newVMs() string {
	var out strings.Builder
	for i := range 10 {
		fmt.Fprintf(&out, "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: vm-%d, namespace: %s, labels: %s}\nspec: {runStrategy: Halted, template: {spec: {%sdomain: {memory: {guest: 1Gi}, %sdevices: {}}}}}\n---\n",
			i, w.oneOf("shop", "prod"), w.oneOf("{}", "{size: s}", "{size: m}", "{os: win, size: s}"),
			w.oneOf("", "", "nodeSelector: {site: c}, ", "hostname: h, "), w.oneOf("", "", "cpu: {model: host-model}, ", "cpu: {cores: 4}, "))
	}
	return out.String()
}

// expandedVMs are the VMs that expand prints, by namespace and name, and what it says of others.
func expandedVMs(t *testing.T, files ...string) (map[string]map[string]any, string) {
	t.Helper()
	args := []string{"expand", "--reapply", "--mode", "addon", "-o", "json"}
	for _, file := range files {
		args = append(args, "-f", file)
	}
	got := call(t, "", args...)
	if got.code == exitUsage {
		t.Fatalf("cannot expand %q: %s", files, got.err)
	}
	out := map[string]map[string]any{}
	for decoder := json.NewDecoder(strings.NewReader(got.out)); decoder.More(); {
		var vm map[string]any
		if err := decoder.Decode(&vm); err != nil {
			t.Fatal(err)
		}
		items, isList := vm["items"].([]any)
		if !isList {
			items = []any{vm}
		}
		for _, item := range items {
			object, _ := item.(map[string]any)
			out[fmt.Sprint(presettest.At(object, "metadata.namespace"), "/", presettest.At(object, "metadata.name"))] = object
		}
	}
	return out, got.err
}

// plannedLeaves returns the values of a VM by path, without its record.
func plannedLeaves(t *testing.T, kind presets.Kind, object map[string]any) map[string]string {
	t.Helper()
	leaves, err := presets.Leaves(kind, object)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, l := range leaves {
		if path := l.Path.String(); !strings.Contains(path, "provenance") {
			out[path] = fmt.Sprint(l.Value)
		}
	}
	return out
}

// TestPlanPredicts compares the plan of generated changes with an expansion before and after, and
// requires a mark on each change that frees authors.
func TestPlanPredicts(t *testing.T) {
	happened := map[string]int{}
	for seed := range cases.Of(400) {
		w := &planWorld{rand.New(rand.NewSource(int64(seed))), map[string]map[string]string{}, map[string]string{}, map[string]string{}} //nolint:gosec // it repeats
		for _, name := range planNames[:2+w.Intn(len(planNames)-1)] {
			w.preset(name)
		}
		w.namespace("shop")
		w.namespace("prod")
		if w.Intn(2) == 0 {
			w.exception("shop/x")
		}
		after := w.clone()
		after.change()
		t.Run(fmt.Sprint("change ", seed), func(t *testing.T) { planPredicts(t, w, after, happened) })
	}
	for _, what := range []string{"changed", "rejected", "admitted", "exceptions", "namespaces", "weaker mode", "spec.forbid", "spec.overrides"} {
		if happened[what] == 0 && !testing.Short() {
			t.Errorf("no generated change shows: %s", what)
		}
	}
	t.Log(happened)
}

func planPredicts(t *testing.T, before, after *planWorld, happened map[string]int) {
	dir := t.TempDir()
	put := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	old, now := put("old.yaml", before.yaml()), put("now.yaml", after.yaml())
	vms := put("vms.yaml", before.storedVMs(t, old, put("new.yaml", before.newVMs())))
	was, wasSaid := expandedVMs(t, old, vms)
	is, isSaid := expandedVMs(t, now, vms)
	got := call(t, "", "plan", "-f", now, "-f", vms, "--base-dir", old, "--mode", "addon", "-o", "json")
	var plan fleet.Plan
	if err := json.Unmarshal([]byte(got.out), &plan); err != nil {
		t.Fatalf("%v: %s", err, got.err)
	}
	oldSet, newSet := before.snapshot(t), after.snapshot(t)
	want, said := map[string]string{}, saidOf(&plan)
	for i := range 10 {
		for _, namespace := range []string{"shop", "prod"} {
			vm := fmt.Sprint(namespace, "/vm-", i)
			if what := differenceOf(before.outcome(t, oldSet, was[vm]), after.outcome(t, newSet, is[vm])); what != "" {
				want[vm] = what
				happened[what]++
			}
		}
	}
	if wasSaid != "" && isSaid != "" { // a VM that was rejected may have new reasons
		maps.DeleteFunc(said, func(vm, what string) bool { return what == "rejected" && was[vm] == nil && is[vm] == nil })
	}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Errorf("want -, got +\n%s\nbefore:\n%s\nafter:\n%s\n%s", diff, before.yaml(), after.yaml(), read(t, vms))
	}
	marksLoosening(t, before, after, &plan, happened)
}

// storedVMs stores every second VM as the old presets expand it.
func (w *planWorld) storedVMs(t *testing.T, old, fresh string) string {
	t.Helper()
	expanded, _ := expandedVMs(t, old, fresh)
	var out strings.Builder
	for i, text := range strings.Split(strings.TrimSuffix(read(t, fresh), "---\n"), "---\n") {
		for _, namespace := range []string{"shop", "prod"} {
			object := expanded[fmt.Sprint(namespace, "/vm-", i)]
			meta, found := presettest.At(object, "metadata").(map[string]any)
			if !found || i%2 == 0 {
				continue
			}
			meta["resourceVersion"], meta["uid"] = "1", fmt.Sprint("uid-", i)
			raw, err := yaml.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			text = string(raw)
		}
		out.WriteString(text + "---\n")
	}
	return out.String()
}

func differenceOf(before, after map[string]string) string {
	switch {
	case before == nil && after == nil, before != nil && after != nil && maps.Equal(before, after):
		return ""
	case after == nil:
		return "rejected"
	case before == nil:
		return "admitted"
	}
	return "changed"
}

func saidOf(plan *fleet.Plan) map[string]string {
	out := map[string]string{}
	add := func(what string, vms []string) {
		for _, vm := range vms {
			out[vm] += what
		}
	}
	for _, g := range plan.Groups {
		add("changed", g.VMs)
	}
	for _, r := range plan.Rejected {
		add("rejected", r.VMs)
	}
	add("admitted", plan.Admitted)
	return out
}

// marksLoosening requires a mark on each weaker mode, each removed forbid and override, and each
// new exception.
func marksLoosening(t *testing.T, before, after *planWorld, plan *fleet.Plan, happened map[string]int) {
	t.Helper()
	happened["exceptions"] += len(plan.Exceptions)
	happened["namespaces"] += len(plan.Namespaces)
	marked := func(all []*fleet.ObjectChange, name string, isIt func(fleet.Edit) bool) bool {
		namespace, _, _ := strings.Cut(name, "/")
		return slices.ContainsFunc(all, func(c *fleet.ObjectChange) bool {
			is := c.Namespace == namespace && c.Namespace+"/"+c.Name == name || c.Name == name
			return is && c.Loosens && (isIt == nil || slices.ContainsFunc(c.Edits, func(e fleet.Edit) bool { return e.Loosens && isIt(e) }))
		})
	}
	for name, was := range before.presets {
		is, exists := after.presets[name]
		if !exists {
			if !marked(plan.Presets, name, nil) {
				t.Errorf("the deletion of %s does not loosen", name)
			}
			continue
		}
		modes := []string{`"Off"`, "Audit", "Warn", ""}
		if slices.Index(modes, is["mode"]) < slices.Index(modes, was["mode"]) {
			happened["weaker mode"]++
			if !marked(plan.Presets, name, func(e fleet.Edit) bool { return e.Field == "spec.mode" }) {
				t.Errorf("mode %q of %s does not loosen %q", is["mode"], name, was["mode"])
			}
		}
		for _, field := range []string{"forbid", "overrides", "remove"} {
			if was[field] != "" && is[field] == "" {
				happened["spec."+field]++
				if !marked(plan.Presets, name, func(e fleet.Edit) bool { return strings.HasPrefix(e.Field, "spec."+field) }) {
					t.Errorf("%s without %s does not loosen", name, field)
				}
			}
		}
	}
	for name := range after.exceptions {
		if _, existed := before.exceptions[name]; !existed && !marked(plan.Exceptions, name, nil) {
			t.Errorf("exception %s does not loosen", name)
		}
	}
}
