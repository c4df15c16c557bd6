package stories

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/test/kubevirt"
)

// latencyVariable is how many creates TestLatency times for each way; unset skips it.
const latencyVariable = "VIRTWRIGHT_LATENCY"

// bare is a namespace that virtwright's webhooks exclude, and KubeVirt's once exclude has run.
const bare = metav1.NamespaceSystem

// TestLatency times creates of a VM without webhooks, with KubeVirt's, and with virtwright's too,
// in turn. It prints ratios of medians for docs/costs.md, and asserts nothing.
func TestLatency(t *testing.T) {
	var count int
	if _, err := fmt.Sscan(os.Getenv(latencyVariable), &count); err != nil {
		t.Skip(latencyVariable + " is not set")
	}
	c := kubevirt.Start(t, kubevirt.Options{})
	exclude(t, c)
	c.Must("", "create", "namespace", "timed")
	const full = `{domain: {cpu: {cores: 2}, memory: {guest: 1Gi}, devices: {rng: {}, interfaces: [{name: default, masquerade: {}}]}}, networks: [{name: default, pod: {}}]}`
	c.Must(`
apiVersion: virtwright.dev/v1alpha1
kind: VirtualMachinePreset
metadata: {name: small, namespace: timed}
spec: {match: {labels: {matchLabels: {size: small}}}, defaults: {spec: {template: {spec: `+full+`}}}}`, "apply", "-f", "-")
	c.Must("", "wait", "vmpreset/small", "-n", "timed", "--for=condition=Ready")
	ways := []struct{ name, namespace, labels, template string }{
		{"no webhook", bare, "", full},
		{"KubeVirt", excluded, "", full},
		{"both, full VM", "timed", "", full},
		{"both, sparse VM", "timed", "size: small", "{domain: {devices: {}}}"},
	}
	times := make([][]time.Duration, len(ways))
	const warmUp = 20
	for i := range count + warmUp {
		for j := range ways {
			at := (i + j) % len(ways)
			way := ways[at]
			vm := &unstructured.Unstructured{}
			manifest := fmt.Sprintf("{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: timed-%d-%d, namespace: %s, labels: {%s}}, spec: {runStrategy: Halted, template: {spec: %s}}}", i, at, way.namespace, way.labels, way.template)
			if err := yaml.Unmarshal([]byte(manifest), &vm.Object); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			if err := c.Objects.Create(c.Context(), vm); err != nil {
				t.Fatalf("%s: %v", way.name, err)
			}
			if took := time.Since(began); i >= warmUp {
				times[at] = append(times[at], took)
				if _, mutated, _ := unstructured.NestedString(vm.Object, "spec", "template", "spec", "architecture"); mutated == (way.namespace == bare) {
					t.Fatalf("%s: KubeVirt's webhooks set the architecture: %v", way.name, mutated)
				}
			}
			time.Sleep(10 * time.Millisecond) // controllers see the VM
		}
	}
	for at, way := range ways {
		slices.Sort(times[at])
		median, nothing, alone := times[at][count/2], times[0][count/2], times[1][count/2]
		t.Logf("%-16s median %s, %.2f of no webhook, %.2f of KubeVirt, p90 %s", way.name, median.Round(100*time.Microsecond),
			float64(median)/float64(nothing), float64(median)/float64(alone), times[at][count*9/10].Round(100*time.Microsecond))
	}
}

// exclude keeps the bare namespace from KubeVirt's webhooks.
func exclude(t *testing.T, c *kubevirt.Cluster) {
	t.Helper()
	for kind, name := range map[string]string{"MutatingWebhookConfiguration": "virt-api-mutator", "ValidatingWebhookConfiguration": "virt-api-validator"} {
		configuration := &unstructured.Unstructured{}
		configuration.SetGroupVersionKind(admissionregistrationv1.SchemeGroupVersion.WithKind(kind))
		if err := c.Objects.Get(c.Context(), client.ObjectKey{Name: name}, configuration); err != nil {
			t.Fatal(err)
		}
		for _, webhook := range configuration.Object["webhooks"].([]any) {
			webhook.(map[string]any)["namespaceSelector"] = map[string]any{"matchExpressions": []any{
				map[string]any{"key": corev1.LabelMetadataName, "operator": "NotIn", "values": []any{bare}},
			}}
		}
		if err := c.Objects.Update(c.Context(), configuration); err != nil {
			t.Fatal(err)
		}
	}
}
