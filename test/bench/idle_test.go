package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/virtwright/virtwright/presets/presettest"
	"github.com/virtwright/virtwright/test/controlplane"
)

// many is how many VMs are idle.
const many = 10_000

// auditPolicy logs what managers write, events too.
const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: None, verbs: [get, list, watch]}
- {level: Metadata, users: ["` + ourselves + `"]}
- {level: None}
`

// Kinds of VMs that are idle, by what they print. Their instances, where they
// have some, run.
var idle = []struct {
	spec, prints string
	instance     bool
	change       func(instance *unstructured.Unstructured)
}{
	{spec: `{runStrategy: Halted}`, prints: "Stopped"},
	{spec: `{runStrategy: Always}`, prints: "Running", instance: true},
	{spec: `{runStrategy: Manual}`, prints: "Stopped"},
	{spec: `{running: true}`, prints: "Running", instance: true, change: func(instance *unstructured.Unstructured) {
		annotations := instance.GetAnnotations() // made of a template that has changed since: it needs a restart
		annotations["virtwright.dev/template"] = "0123456789abcdef01234567"
		instance.SetAnnotations(annotations)
	}},
}

// TestIdleMachinesCostNoWrites restarts the controllers over VMs at rest: they
// list all, look at each of them again, and write nothing. What is counted is
// what the API server says that the manager wrote. (At a resync in between, the
// keeper of running state does not even look: nothing has a new version.)
func TestIdleMachinesCostNoWrites(t *testing.T) {
	dir := t.TempDir()
	log, policy := filepath.Join(dir, "audit.log"), filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	f := newFleet(t, controlplane.Options{APIServerArgs: []string{
		"--audit-policy-file=" + policy, "--audit-log-path=" + log, "--audit-log-mode=blocking",
	}})
	f.makeIdle(t)

	m := f.startManager(t)
	m.awaitIdle(t, many, 5*time.Minute)
	m.stop(t)
	f.mustBeIdle(t)
	settling := written(t, log)
	if settling["patch virtualmachines/status"] < many {
		t.Fatalf("the audit log does not tell of every status that was written: %v", settling)
	}

	m = f.startManager(t)
	m.awaitIdle(t, many, 2*time.Minute)
	m.stop(t)
	for what, n := range written(t, log) {
		if n -= settling[what]; n > 0 {
			t.Errorf("%s: %d times, of machines at rest", what, n)
		}
	}
}

// makeIdle makes the VMs, and the instances that run.
func (f *fleet) makeIdle(t *testing.T) {
	t.Helper()
	like := func(i int) *unstructured.Unstructured {
		vm := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "spec": presettest.Object(presettest.JSON(idle[i%len(idle)].spec)),
		}}
		vm.Object["spec"].(map[string]any)["template"] = presettest.Object(presettest.JSON(`{spec: {domain: {devices: {}, memory: {guest: 1Gi}}}}`))
		return vm
	}
	f.create(t, "sample", 1, func(int) *unstructured.Unstructured { return like(1) })
	m := f.startManager(t)
	m.awaitIdle(t, 1, time.Minute)
	m.stop(t)
	l := f.learn(t, "sample", "vm-0")
	f.clear(t, "sample")
	l.instance.Object["status"] = presettest.Object(presettest.JSON(`
phase: Running
nodeName: node-1
conditions: [{type: Ready, status: "True", lastProbeTime: null, lastTransitionTime: "2026-01-01T00:00:00Z"}]
phaseTransitionTimestamps: [{phase: Running, phaseTransitionTimestamp: "2026-01-01T00:00:00Z"}]
`))
	vms := f.create(t, "idle", many, like)
	err := inParallel(t.Context(), many, func(ctx context.Context, i int) error {
		kind := idle[i%len(idle)]
		if !kind.instance {
			return nil
		}
		instance := l.of(vms[i])
		if kind.change != nil {
			kind.change(instance)
		}
		_, err := f.client.Resource(instances).Namespace("idle").Create(ctx, instance, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// mustBeIdle fails unless every VM says that it is as it shall be.
func (f *fleet) mustBeIdle(t *testing.T) {
	t.Helper()
	vms, err := f.client.Resource(machines).Namespace("idle").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got, want := map[string]int{}, map[string]int{"needs a restart": many / len(idle)}
	for _, kind := range idle {
		want[kind.prints] += many / len(idle)
	}
	for i := range vms.Items {
		prints, _ := presettest.At(vms.Items[i].Object, "status.printableStatus").(string)
		got[prints]++
		conditions, _ := presettest.At(vms.Items[i].Object, "status.conditions").([]any)
		if slices.ContainsFunc(conditions, func(c any) bool { return c.(map[string]any)["type"] == "RestartRequired" }) {
			got["needs a restart"]++
		}
	}
	if !maps.Equal(got, want) {
		t.Fatalf("VMs by what they print: %v, want %v", got, want)
	}
}

// written is how often a manager wrote what, as an audit log tells. Its lease is
// left out, and that it asked who it is, which is stored nowhere.
func written(t *testing.T, log string) map[string]int {
	t.Helper()
	content, err := os.ReadFile(log)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	out := map[string]int{}
	for line := range bytes.Lines(content) {
		var event auditv1.Event
		if err := json.Unmarshal(line, &event); err != nil {
			t.Fatalf("cannot decode an audit event: %v", err)
		}
		if event.Stage != auditv1.StageResponseComplete || event.ObjectRef == nil {
			continue
		}
		of := event.ObjectRef
		if what := strings.TrimSuffix(fmt.Sprintf("%s %s/%s", event.Verb, of.Resource, of.Subresource), "/"); of.Resource != "leases" && what != "create selfsubjectreviews" {
			out[what]++
		}
	}
	return out
}
