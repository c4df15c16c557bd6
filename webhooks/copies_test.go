package webhooks

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/test/presettest"
	"github.com/virtwright/virtwright/validation"
	"github.com/virtwright/virtwright/validation/protection"
)

// gpus has presets that act only on VMs that name them.
func gpus(t *testing.T) fixed {
	return fixed{presettest.Snapshot(t, presettest.Namespaced("lab", "gpu", `
match: {explicit: true}
defaults: {spec: {template: {spec: {domain: {devices: {gpus: [{name: a, deviceName: b}]}}}}}}`),
		presettest.Namespaced("lab", "late", "{applyAt: Launch, match: {explicit: true}, defaults: {spec: {template: {spec: {hostname: a}}}}}"))}
}

// Who writes a template must be allowed to use the presets that it names.
func TestCopiesNameWhatTheirAuthorMayUse(t *testing.T) {
	const named, excluded = "metadata: {annotations: {virtwright.dev/presets: gpu}}", "metadata: {annotations: {virtwright.dev/presets: gpu, virtwright.dev/exclude: gpu}}"
	late := func(meta string) string {
		return "spec: {template: {" + strings.ReplaceAll(meta, "gpu", "late") + ", spec: {domain: {devices: {}}}}}"
	}
	pool := func(template string) string { return "{spec: {virtualMachineTemplate: {" + template + "}}}" }
	for name, c := range map[string]struct {
		user, kind, old, now string
		want                 []string
	}{
		"a pool by a user without rights":     {"bob", "VirtualMachinePool", "", pool(named), []string{"spec.virtualMachineTemplate.metadata.annotations[virtwright.dev/presets]"}},
		"a pool by a user with rights":        {"jane", "VirtualMachinePool", "", pool(named), nil},
		"a preset of the template's template": {"bob", "VirtualMachinePool", "", pool("spec: {template: {" + named + "}}"), []string{"spec.virtualMachineTemplate.spec.template.metadata.annotations[virtwright.dev/presets]"}},
		"a pool of another size":              {"bob", "VirtualMachinePool", pool(named), strings.Replace(pool(named), "spec: {", "spec: {replicas: 3, ", 1), nil},
		"another field":                       {"bob", "VirtualMachinePool", pool(named), pool(named + ", spec: {runStrategy: Halted}"), nil},
		"an exclusion ends":                   {"bob", "VirtualMachinePool", pool(excluded), pool(named), []string{"spec.virtualMachineTemplate.metadata.annotations[virtwright.dev/presets]"}},
		"an exclusion ends at launch":         {"bob", "VirtualMachinePool", pool(late(excluded)), pool(late(named)), []string{"spec.virtualMachineTemplate.spec.template.metadata.annotations[virtwright.dev/presets]"}},
		"an exclusion of instances ends":      {"bob", "VirtualMachineInstanceReplicaSet", "{spec: {template: {" + excluded + "}}}", "{spec: {template: {" + named + "}}}", []string{"spec.template.metadata.annotations[virtwright.dev/presets]"}},
		"an exclusion is ended with rights":   {"jane", "VirtualMachinePool", pool(excluded), pool(named), nil},
		"a replica set":                       {"bob", "VirtualMachineInstanceReplicaSet", "", "{spec: {template: {" + named + "}}}", []string{"spec.template.metadata.annotations[virtwright.dev/presets]"}},
		"a preset that does not exist":        {"jane", "VirtualMachinePool", "", pool("metadata: {annotations: {virtwright.dev/presets: gone}}"), []string{"spec.virtualMachineTemplate.metadata.annotations[virtwright.dev/presets]"}},
		"a pool without presets":              {"bob", "VirtualMachinePool", "", pool(""), nil},
	} {
		t.Run(name, func(t *testing.T) {
			req := creates(c.kind, "lab", c.now)
			if c.old != "" {
				req = updates(c.kind, "lab", c.old, c.now)
			}
			req.UserInfo.Username = c.user
			handler := copies{
				Authorizer: rights{"jane use lab virtualmachinepresets gpu"}, Engine: &presets.Engine{}, Snapshots: gpus(t),
				Namespaces: namespaces{"lab": {Name: "lab"}},
			}
			if got := causes(handler.Handle(t.Context(), req)); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// A patch of a copy writes what its author may write on a VM, because KubeVirt's controller applies
// it.
func TestPatchesOfCopies(t *testing.T) {
	for patch, allowed := range map[string]bool{
		`{"op": "add", "path": "/metadata/labels/app", "value": "x"}`:                                               true,
		`{"op": "replace", "path": "/metadata/labels", "value": {"app": "x"}}`:                                      true,
		`{"op": "remove", "path": "/metadata/annotations/note"}`:                                                    true,
		`{"op": "replace", "path": "/spec/template/spec/domain/cpu/cores", "value": 2}`:                             true,
		`{"op": "copy", "from": "/spec/template/spec/hostname", "path": "/spec/template/spec/subdomain"}`:           true,
		`{"op": "remove", "path": "/metadata/annotations/virtwright.dev~1provenance"}`:                              true,
		`{"op": "remove", "path": "/spec/template/metadata/annotations/virtwright.dev~1presets"}`:                   true,
		`{"op": "remove", "path": "/metadata/annotations/restore.kubevirt.io~1lastRestoreUID"}`:                     false,
		`{"op": "replace", "path": "/metadata/annotations", "value": {}}`:                                           false,
		`{"op": "add", "path": "/spec/template/Metadata/annotations/virtwright.dev~1presets", "value": "gpu"}`:      false,
		`{"op": "add", "path": "/spec/Template/metadata/finalizers", "value": []}`:                                  false,
		`{"op": "test", "path": "/metadata/name", "value": "x"}`:                                                    true,
		`{"op": "add", "path": "/spec/template/metadata/annotations/note", "value": "x"}`:                           true,
		`{"op": "replace", "path": "/spec/template", "value": {"spec": {"domain": {}}}}`:                            true,
		`{"op": "add", "path": "/metadata/annotations/virtwright.dev~1presets", "value": "gpu"}`:                    false,
		`{"op": "add", "path": "/metadata/annotations", "value": {"virtwright.dev/presets": "gpu"}}`:                false,
		`{"op": "add", "path": "/metadata", "value": {"annotations": {"virtwright.dev/presets": "gpu"}}}`:           false,
		`{"op": "add", "path": "/metadata/ownerReferences", "value": []}`:                                           false,
		`{"p\u0061th": "/metadata/ownerReferences", "op": "add", "value": []}`:                                      false,
		`{"op": "add", "path": "/metadata/finalizers/-", "value": "virtwright.dev/x"}`:                              false,
		`{"op": "add", "path": "/spec/template/metadata/annotations/virtwright.dev~1presets", "value": "gpu"}`:      false,
		`{"op": "add", "path": "/spec/template/metadata", "value": {}}`:                                             false,
		`{"op": "add", "path": "/spec/template", "value": {"metadata": {"annotations": {"virtwright.dev/x": ""}}}}`: false,
		`{"op": "move", "from": "/metadata/labels", "path": "/metadata/annotations"}`:                               false,
		`{"op": "copy", "from": "/metadata/labels", "path": "/spec/template/spec/nodeSelector"}`:                    false,
		`{"op": "move", "from": "/spec/template/spec", "path": "/spec/template"}`:                                   false,
		`{"op": "add", "path": "", "value": {}}`:                                                                    false,
		`{"op": "add", "value": {}}`:                                                                                false,
		`[{"op": "add", "path": "/spec/running", "value": true}]`:                                                   false,
		`{"op": "add", "path": "/spec/running", "value": true}, {"op": "add", "path": "/metadata/labels"}`:          false,
		`nonsense`: false,
	} {
		old := fmt.Sprintf("{spec: {patches: [%q]}}", patch)
		resp := copies{Snapshots: gpus(t)}.Handle(t.Context(), creates("VirtualMachineClone", "lab", old))
		if resp.Allowed != allowed {
			t.Errorf("%s: got %v, %v", patch, resp.Allowed, causes(resp))
		}
		req := updates("VirtualMachineClone", "lab", old, strings.TrimSuffix(old, "}")+", x: 1}")
		if resp := (copies{Snapshots: gpus(t)}).Handle(t.Context(), req); !resp.Allowed {
			t.Errorf("%s: an update that leaves it is rejected: %v", patch, causes(resp))
		}
	}
}

// A controller needs no rights for what its VMs name if their author was asked.
func TestControllersNamePresets(t *testing.T) {
	vm := func(owner string) string {
		return `{metadata: {name: web, annotations: {virtwright.dev/presets: gpu}` + owner + `}, spec: {runStrategy: Halted, template: {spec: {domain: {devices: {}}}}}}`
	}
	owned := func(kind string) string {
		return `, ownerReferences: [{apiVersion: pool.kubevirt.io/v1beta1, kind: ` + kind + `, name: farm, uid: u, controller: true}]`
	}
	v := &Validator{
		Kind: presets.VirtualMachine, Guard: protection.Guard{Controllers: []string{controller}, Addon: true}, Rules: &validation.Config{Addon: true},
		Engine: &presets.Engine{}, Snapshots: gpus(t), Namespaces: namespaces{"lab": {Name: "lab"}}, Authorizer: rights{},
	}
	at := "metadata.annotations[" + v1alpha1.AnnotationPresets + "]"
	for name, c := range map[string]struct {
		owner string
		want  []string
	}{
		"of a pool":            {owned("VirtualMachinePool"), nil},
		"of another kind":      {owned("VirtualMachineFarm"), []string{at}},
		"of a pool without it": {"", []string{at}},
	} {
		req := creates("VirtualMachine", "lab", vm(c.owner))
		req.UserInfo.Username = controller
		if got := causes(v.Handle(t.Context(), req)); !slices.Equal(got, c.want) {
			t.Errorf("a VM %s: got %q, want %q", name, got, c.want)
		}
	}
}

// A pool is no restore: it copies the annotations that the author of its template writes. Its VMs
// name it as their controller, which only controllers may change.
func TestPoolsAreNoRestores(t *testing.T) {
	const (
		pool    = "ownerReferences: [{apiVersion: pool.kubevirt.io/v1beta1, kind: VirtualMachinePool, name: p, uid: u, controller: true}], labels: {kubevirt.io/vm-pool-revision-name: p-2}, "
		marked  = "annotations: {restore.kubevirt.io/lastRestoreUID: x}"
		nothing = "annotations: {}"
	)
	vm := func(metadata string) string {
		return "{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: web, namespace: lab, " + metadata + "}, spec: {}}"
	}
	const restoring = pool + nothing + "}, status: {restoreInProgress: r"
	m := &Mutator{Kind: presets.VirtualMachine, Guard: protection.Guard{Controllers: []string{controller}, Addon: true}}
	for name, c := range map[string]struct {
		user, before, now string
		want              bool
	}{
		"a restore":                     {controller, nothing, marked, true},
		"an update after it":            {controller, marked, marked, false},
		"by a user":                     {"alice", nothing, marked, false},
		"a restore of a pool's VM":      {controller, restoring, pool + marked, true},
		"an annotation in a pool":       {controller, pool + nothing, pool + marked, false},
		"a new VM of a pool":            {controller, "", pool + marked, false},
		"a new VM of a pool's snapshot": {controller, "", marked, true},
	} {
		req := updates("VirtualMachine", "lab", vm(c.before), vm(c.now))
		if req.UserInfo.Username = c.user; c.before == "" {
			req.Operation, req.OldObject.Raw = admissionv1.Create, nil
		}
		if got := isRestored(m.Kind, m.Guard, req); got != c.want {
			t.Errorf("%s: got %t, want %t", name, got, c.want)
		}
	}
}
