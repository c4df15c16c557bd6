package presets_test

import (
	"fmt"
	"testing"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/vmschema"
	"github.com/virtwright/virtwright/test/presettest"
)

// A label by which a preset selects stays, though another preset gives the same label: a label that
// a preset gives selects no presets.
func TestSparsifyKeepsWhatPresetsMatch(t *testing.T) {
	snapshot := presettest.Snapshot(t,
		presettest.Cluster("policy", `{match: {labels: {matchLabels: {level: high}}}, forbid: [{path: spec.template.spec.domain.devices.sound}]}`),
		presettest.Cluster("labels", `{defaults: {metadata: {labels: {level: high, team: a}}}}`))
	out, _, err := (&presets.Engine{}).Sparsify(t.Context(), snapshot, presets.Request{
		Kind: presets.VirtualMachine, Namespace: presets.Namespace{Name: "ns"},
		Object: []byte(`{"metadata":{"name":"vm","labels":{"level":"high","team":"a"}},"spec":{"runStrategy":"Halted","template":{"spec":{"domain":{"devices":{}}}}}}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(vmschema.Value(out.Object, provenance.Of("metadata", "labels"))); got != "map[level:high]" {
		t.Errorf("labels are %s", got)
	}
	for _, k := range out.Kept {
		if k.Path.String() == "metadata.labels.level" && k.Reason() != "cluster/policy would not match" {
			t.Errorf("it stays because %s", k.Reason())
		}
	}
}

// A preset that only forbids may match by a field that another preset gives: this field stays, and
// no others.
func TestSparsifyKeepsFieldsOfConditions(t *testing.T) {
	snapshot := presettest.Snapshot(t,
		presettest.Cluster("policy", `{match: {conditions: [{name: large, expression: "object.spec.template.spec.domain.?cpu.?cores.orValue(0) >= 2"}]}, forbid: [{path: spec.template.spec.domain.devices.sound}]}`),
		presettest.Cluster("size", `{defaults: {spec: {template: {spec: {hostname: a, domain: {cpu: {cores: 4, threads: 2}, memory: {guest: 1Gi}}}}}}}`))
	got, err := (&presets.Engine{}).Abridge(t.Context(), snapshot, presets.Request{
		Kind: presets.VirtualMachine, Namespace: presets.Namespace{Name: "ns"},
		Object: []byte(`{"metadata":{"name":"vm"},"spec":{"runStrategy":"Halted","template":{"spec":{"hostname":"a","domain":{"cpu":{"cores":4,"threads":2},"memory":{"guest":"1Gi"},"devices":{}}}}}}`),
	})
	if want := `{"metadata":{"name":"vm"},"spec":{"runStrategy":"Halted","template":{"spec":{"domain":{"cpu":{"cores":4}}}}}}`; err != nil || string(marshal(t, got)) != want {
		t.Errorf("%v: got %s, want %s", err, marshal(t, got), want)
	}
}

// A disk that the platform adds again comes last. Its fields stay, and no others.
func TestAbridgeKeepsTheOrderOfDisks(t *testing.T) {
	snapshot := presettest.Snapshot(t, presettest.Cluster("tier", `{overrides: {spec: {template: {spec: {priorityClassName: production}}}}}`))
	vm := `{"metadata":{"name":"vm"},"spec":{"template":{"spec":{"domain":{"devices":{"disks":[{"disk":{"bus":"sata"},"name":"a"},{"disk":{"bus":"virtio"},"name":"b"}]},"memory":{"guest":"1Gi"}},"volumes":[{"containerDisk":{"image":"a"},"name":"a"},{"containerDisk":{"image":"b"},"name":"b"}]}}}}`
	engine := &presets.Engine{Platform: &presets.Platform{}}
	request := presets.Request{Kind: presets.VirtualMachine, Namespace: presets.Namespace{Name: "ns"}, Object: []byte(vm)}
	full, err := engine.Resolve(t.Context(), snapshot, request)
	if err != nil {
		t.Fatal(err)
	}
	request.Object = marshal(t, full.Object())
	got, err := engine.Abridge(t.Context(), snapshot, request)
	if err != nil || string(marshal(t, got)) != vm {
		t.Errorf("%v: got %s", err, marshal(t, got))
	}
}
