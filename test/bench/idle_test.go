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
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/virtwright/virtwright/test/cases"
	"github.com/virtwright/virtwright/test/controlplane"
	"github.com/virtwright/virtwright/test/presettest"
	"github.com/virtwright/virtwright/test/standin"
)

// many is how many VMs are idle: 10,000 with all cases.
var many int

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

// idle are kinds of idle VMs, with the printable status of each. The VMI of a VM whose template
// changes needs a restart.
var idle = []struct {
	spec, prints string
	changes      bool
}{
	{spec: `{runStrategy: Halted}`, prints: "Stopped"},
	{spec: `{runStrategy: Always}`, prints: "Running"},
	{spec: `{runStrategy: Manual}`, prints: "Stopped"},
	{spec: `{running: true}`, prints: "Running", changes: true},
}

// TestIdleVMsCostNoWrites restarts the controllers over idle VMs: they list and reconcile all of
// them, and write nothing. The API server's audit log counts the writes.
func TestIdleVMsCostNoWrites(t *testing.T) {
	many = cases.Of(10_000)
	dir := t.TempDir()
	log, policy := filepath.Join(dir, "audit.log"), filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	f := newFleet(t, controlplane.Options{APIServerArgs: []string{
		"--audit-policy-file=" + policy, "--audit-log-path=" + log, "--audit-log-mode=blocking",
	}})
	standin.ForTest(t, f.plane.Config(), standin.Options{})
	m := f.startManager(t)
	f.makeIdle(t, m)
	m.stop(t)
	f.mustBeIdle(t)
	settling := written(t, log)
	if settling["patch virtualmachines/status"] < many {
		t.Fatalf("the audit log lacks some writes of status: %v", settling)
	}

	m = f.startManager(t)
	m.awaitIdle(t, many, 2*time.Minute)
	m.stop(t)
	for what, n := range written(t, log) {
		if n -= settling[what]; n > 0 {
			t.Errorf("%s: %d times, for idle VMs", what, n)
		}
	}
}

// makeIdle creates the VMs, waits until they are idle, and changes templates.
func (f *fleet) makeIdle(t *testing.T, m *manager) {
	t.Helper()
	f.create(t, "idle", many, func(i int) *unstructured.Unstructured {
		vm := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "spec": presettest.Object(presettest.JSON(idle[i%len(idle)].spec)),
		}}
		vm.Object["spec"].(map[string]any)["template"] = presettest.Object(presettest.JSON(`{spec: {domain: {devices: {}, memory: {guest: 1Gi}}}}`))
		return vm
	})
	m.awaitIdle(t, many, 10*time.Minute)
	err := inParallel(t.Context(), many, func(ctx context.Context, i int) error {
		if !idle[i%len(idle)].changes {
			return nil
		}
		_, err := f.client.Resource(machines).Namespace("idle").Patch(ctx, fmt.Sprintf("vm-%d", i), types.MergePatchType,
			[]byte(`{"spec":{"template":{"spec":{"domain":{"memory":{"guest":"2Gi"}}}}}}`), metav1.PatchOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	m.awaitIdle(t, many, 5*time.Minute)
}

// mustBeIdle fails unless every VM has the status of its kind.
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

// written is how often a manager wrote what, as an audit log tells. Its lease is left out, and that
// it asked who it is, which is stored nowhere.
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
