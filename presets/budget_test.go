package presets_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/test/presettest"
)

// costly reads each pair of a VM's disks.
const costly = `object.spec.template.spec.domain.devices.disks.all(a, object.spec.template.spec.domain.devices.disks.all(b, true))`

// crowded are a cluster preset, and presets of a namespace that cost too much.
func crowded(t *testing.T, noisy string) *presets.Snapshot {
	t.Helper()
	all := []v1alpha1.Preset{presettest.Cluster("size", `
match: {conditions: [{name: has-disks, expression: "`+costly+`"}]}
defaults: {spec: {template: {spec: {domain: {memory: {guest: 2Gi}}}}}}`)}
	for i := range 40 {
		all = append(all, presettest.Namespaced("lab", fmt.Sprintf("noisy-%02d", i), `
priority: 1000
match: {conditions: [{name: costly, expression: "`+costly+`"}]}
`+noisy))
	}
	return presettest.Snapshot(t, all...)
}

// The presets of a namespace cannot use up what cluster presets have.
func TestNoisyNamespace(t *testing.T) {
	var disks strings.Builder
	for i := range 120 {
		fmt.Fprintf(&disks, `{"name":"d%d"},`, i)
	}
	vm := func(labels string) []byte {
		return []byte(`{"metadata":{"name":"a","namespace":"lab","labels":{` + labels + `}},"spec":{"template":{"spec":{"domain":{"devices":{"disks":[` +
			strings.TrimSuffix(disks.String(), ",") + `]}}}}}}`)
	}
	create := presets.Request{Kind: presets.VirtualMachine, Object: vm(""), Namespace: presets.Namespace{Name: "lab"}}
	engine := &presets.Engine{}
	const says = "the conditions of the presets of namespace lab cost too much for one request"

	t.Run("defaults are skipped", func(t *testing.T) {
		s := crowded(t, `defaults: {spec: {template: {spec: {hostname: x}}}}`)
		got, err := engine.Resolve(t.Context(), s, create)
		if err != nil {
			t.Fatal(err)
		}
		if memory := presettest.At(got.Object(), "spec.template.spec.domain.memory.guest"); memory != "2Gi" {
			t.Errorf("the cluster preset must act: memory is %v", memory)
		}
		if len(got.OverBudget) == 0 || len(got.OverBudget) >= 40 {
			t.Errorf("%d of 40 presets are over the budget", len(got.OverBudget))
		}
		if len(got.Warnings) == 0 || !strings.HasPrefix(got.Warnings[0], says) || !strings.Contains(got.Warnings[0], fmt.Sprintf("%d skipped: noisy-", len(got.OverBudget))) {
			t.Errorf("the first warning must say so, got %q", got.Warnings)
		}
	})
	for name, rule := range map[string]string{
		"overrides": `overrides: {spec: {template: {spec: {hostname: x}}}}`,
		"forbids":   `forbid: [{path: spec.template.spec.hostname}]`,
	} {
		t.Run(name+" reject", func(t *testing.T) {
			s := crowded(t, rule)
			update := create
			update.OldObject, update.Object = update.Object, vm(`"a":"b"`)
			for operation, req := range map[string]presets.Request{"create": create, "relabel": update} {
				_, err := engine.Resolve(t.Context(), s, req)
				rejection, ok := errors.AsType[*presets.Rejection](err)
				if !ok || len(rejection.Problems) != 1 || !strings.Contains(rejection.Error(), says) || len(rejection.OverBudget) == 0 {
					t.Errorf("%s: got %.300v", operation, err)
				}
			}
		})
	}
}

// A preset that could not be evaluated on an update keeps the values that it set.
func TestUnevaluablePresetsKeepWhatTheyGave(t *testing.T) {
	s := presettest.Snapshot(t, presettest.Cluster("strong", `
priority: 10
match: {conditions: [{name: fails-with-team, expression: "!has(object.metadata.labels) || !('team' in object.metadata.labels) || object.metadata.labels['absent'] == 'x'"}]}
defaults: {spec: {template: {spec: {hostname: strong}}}}`), presettest.Cluster("weak", `
match: {labels: {matchLabels: {team: a}}}
defaults: {spec: {template: {spec: {hostname: weak}}}}`))
	engine := &presets.Engine{}
	stored := []byte(`{"metadata":{"name":"a","namespace":"lab"},"spec":{"template":{"spec":{}}}}`)
	created, err := engine.Resolve(t.Context(), s, presets.Request{Kind: presets.VirtualMachine, Object: stored, Namespace: presets.Namespace{Name: "lab"}})
	if err != nil {
		t.Fatal(err)
	}
	old, err := json.Marshal(created.Object())
	if err != nil {
		t.Fatal(err)
	}
	relabelled := strings.Replace(string(old), `"name":"a"`, `"labels":{"team":"a"},"name":"a"`, 1)
	got, err := engine.Resolve(t.Context(), s, presets.Request{
		Kind: presets.VirtualMachine, Object: []byte(relabelled), OldObject: old, Namespace: presets.Namespace{Name: "lab"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if hostname := presettest.At(got.Object(), "spec.template.spec.hostname"); hostname != "strong" {
		t.Errorf("hostname is %v, want that of the preset that could not be evaluated", hostname)
	}
	_, err = engine.Resolve(t.Context(), s, presets.Request{
		Kind: presets.VirtualMachine, Object: []byte(strings.Replace(relabelled, `"labels"`, `"annotations":{"virtwright.dev/reapply":"now"},"labels"`, 1)),
		OldObject: []byte(relabelled), Namespace: presets.Namespace{Name: "lab"},
	})
	if err == nil || !strings.Contains(err.Error(), "cannot evaluate the conditions of preset cluster/strong: the fields that it set would be lost") {
		t.Errorf("a reapply must not lose what the preset gave: %v", err)
	}
}
