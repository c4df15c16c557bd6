package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/webhooks"
)

const crds = "../../charts/virtwright/files/crds"

const vm = `
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: %s, namespace: default, labels: {size: small}}
`

const small = `
apiVersion: virtwright.dev/v1alpha1
kind: ClusterVirtualMachinePreset
metadata: {name: small}
spec:
  match: {labels: {matchLabels: {size: small}}}
  defaults: {spec: {template: {spec: {domain: {memory: {guest: 2Gi}}}}}}
`

// elsewhere is a namespace that virtwright does not spare; kube-system and the
// manager's own are spared.
const elsewhere = `{apiVersion: v1, kind: Namespace, metadata: {name: elsewhere}}`

func in(namespace, manifest string) string {
	return strings.ReplaceAll(manifest, "namespace: default", "namespace: "+namespace)
}

// One cluster and one manager, through the manager's life.
func TestLife(t *testing.T) {
	c := newCluster(t)
	early := startReplica(t, c)
	eventually(t, "the manager waits for CRDs", func() error {
		if !strings.Contains(early.log.String(), "are the CRDs installed?") {
			return errors.New(early.log.String())
		}
		return nil
	})
	if early.ready(t) == nil {
		t.Error("the manager must not be ready without presets")
	}
	if err := c.InstallCRDs(t.Context(), crds); err != nil {
		t.Fatal(err)
	}
	early.serves(t)
	c.create(t, elsewhere)

	t.Run("PresetIsReadyAndActs", func(t *testing.T) { testPresetActs(t, c) })
	t.Run("RefusedPreset", func(t *testing.T) { testRefusedPreset(t, c) })
	t.Run("InvalidPresetSaysSo", func(t *testing.T) { testInvalidPreset(t, c) })
	t.Run("OwnedInstance", func(t *testing.T) { testOwnedInstance(t, c) })
	t.Run("MatchConditions", func(t *testing.T) { testMatchConditions(t, c, early) })
	t.Run("SparedNamespaces", func(t *testing.T) { testSparedNamespaces(t, c) })
	t.Run("BundleComesBack", func(t *testing.T) { testBundleComesBack(t, c) })
	t.Run("Shutdown", func(t *testing.T) { testShutdown(t, c, early) })
	t.Run("NobodyAnswers", func(t *testing.T) { testNobodyAnswers(t, c) })
	t.Run("Replicas", func(t *testing.T) { testReplicas(t, c) })
}

func testPresetActs(t *testing.T, c *cluster) {
	c.create(t, small)
	awaitReady(t, c, &v1alpha1.ClusterVirtualMachinePreset{ObjectMeta: metav1.ObjectMeta{Name: "small"}}, metav1.ConditionTrue)
	got := c.create(t, in("elsewhere", fmt.Sprintf(vm, "sparse")))
	if memory := field(got, "spec", "template", "spec", "domain", "memory", "guest"); memory != "2Gi" {
		t.Errorf("want the preset's memory, got %v", memory)
	}
	if strategy := field(got, "spec", "runStrategy"); strategy != "Halted" {
		t.Errorf("want the platform's run strategy, got %v", strategy)
	}
}

// awaitReady waits until a preset's condition Ready, of its present generation, has a status.
func awaitReady(t *testing.T, c *cluster, preset v1alpha1.Preset, want metav1.ConditionStatus) *metav1.Condition {
	t.Helper()
	var ready *metav1.Condition
	eventually(t, "preset "+preset.GetName(), func() error {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(preset), preset); err != nil {
			return err
		}
		status := preset.GetStatus()
		ready = meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
		if ready == nil || ready.Status != want || status.ObservedGeneration != preset.GetGeneration() {
			return fmt.Errorf("status is %+v", status)
		}
		return nil
	})
	return ready
}

func testRefusedPreset(t *testing.T, c *cluster) {
	bad := object(t, `
apiVersion: virtwright.dev/v1alpha1
kind: VirtualMachinePreset
metadata: {name: bad, namespace: elsewhere}
spec: {defaults: null, overrides: {spec: {template: {spec: {domain: {memroy: {}}}}}}, remove: [spec.nowhere]}`)
	err := c.Create(t.Context(), bad)
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Code != http.StatusUnprocessableEntity {
		t.Fatalf("want 422, got %v", err)
	}
	for _, want := range []string{"spec.defaults", `did you mean "memory"?`, "spec.remove[0]"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("want %q in %v", want, err)
		}
	}
	large := object(t, `{apiVersion: virtwright.dev/v1alpha1, kind: VirtualMachinePreset, metadata: {name: large, namespace: elsewhere}}`)
	large.Object["spec"] = map[string]any{"defaults": map[string]any{"metadata": map[string]any{"annotations": map[string]any{"a": strings.Repeat("x", 2<<20)}}}}
	if err := c.Create(t.Context(), large); err == nil || !strings.Contains(err.Error(), "this one is 2048 KiB: make several of it") {
		t.Errorf("got %.300v", err)
	}
}

// A preset that is stored and cannot be right says so, and counts stay as they are.
func testInvalidPreset(t *testing.T, c *cluster) {
	validating := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := c.Get(t.Context(), types.NamespacedName{Name: webhooks.ConfigurationName}, validating); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), validating); err != nil {
		t.Fatal(err)
	}
	stored := object(t, `
apiVersion: virtwright.dev/v1alpha1
kind: VirtualMachinePreset
metadata: {name: stored, namespace: elsewhere}
spec: {remove: [spec.nowhere]}`)
	eventually(t, "a preset that nobody checks is stored", func() error { return c.Create(t.Context(), stored) })
	preset := &v1alpha1.VirtualMachinePreset{ObjectMeta: metav1.ObjectMeta{Name: "stored", Namespace: "elsewhere"}}
	ready := awaitReady(t, c, preset, metav1.ConditionFalse)
	if ready.Reason != v1alpha1.ReasonInvalid || !strings.Contains(ready.Message, "spec.remove[0]") {
		t.Errorf("got %+v", ready)
	}
	if err := c.Status().Patch(t.Context(), preset, client.RawPatch(types.MergePatchType, []byte(`{"status":{"matched":3}}`))); err != nil {
		t.Fatal(err)
	}
	patch(t, c, preset, `{"spec":{"remove":["spec.template.spec.domain.devices.rng"]}}`)
	awaitReady(t, c, preset, metav1.ConditionTrue)
	if preset.Status.Matched == nil || *preset.Status.Matched != 3 {
		t.Errorf("matched is somebody else's, got %v", preset.Status.Matched)
	}
	validating.ResourceVersion, validating.UID = "", ""
	if err := c.Create(t.Context(), validating); err != nil {
		t.Fatal(err)
	}
}

func testOwnedInstance(t *testing.T, c *cluster) {
	c.create(t, `
apiVersion: virtwright.dev/v1alpha1
kind: VirtualMachinePreset
metadata: {name: pool, namespace: elsewhere}
spec: {applyAt: Launch, match: {labels: {matchLabels: {size: small}}}, defaults: {spec: {template: {spec: {nodeSelector: {pool: a}}}}}}`)
	awaitReady(t, c, &v1alpha1.VirtualMachinePreset{ObjectMeta: metav1.ObjectMeta{Name: "pool", Namespace: "elsewhere"}}, metav1.ConditionTrue)
	owner := c.create(t, in("elsewhere", fmt.Sprintf(vm, "owner")))
	if got := field(owner, "spec", "template", "spec", "nodeSelector"); got != nil {
		t.Errorf("want nothing of Launch on a VM, got %v", got)
	}
	instance := c.create(t, fmt.Sprintf(`
apiVersion: kubevirt.io/v1
kind: VirtualMachineInstance
metadata:
  name: owner
  namespace: elsewhere
  ownerReferences: [{apiVersion: kubevirt.io/v1, kind: VirtualMachine, name: owner, uid: %s, controller: true}]
spec: {domain: {devices: {}}}`, owner.GetUID()))
	// The label is the VM's: only its owner lets the preset match.
	if got := field(instance, "spec", "nodeSelector", "pool"); got != "a" {
		t.Errorf("want the pool at launch, got %v", got)
	}
}

func testMatchConditions(t *testing.T, c *cluster, r *replica) {
	large := object(t, in("elsewhere", fmt.Sprintf(vm, "large")))
	annotations, volumes, disks := map[string]any{}, []any{}, []any{}
	for i := range 250 {
		name := fmt.Sprint("v", i)
		annotations[name] = strings.Repeat("x", 100)
		volumes = append(volumes, map[string]any{"name": name, "cloudInitNoCloud": map[string]any{"userData": strings.Repeat("x", 4000)}})
		disks = append(disks, map[string]any{"name": name, "disk": map[string]any{"bus": "virtio"}})
	}
	large.Object["spec"] = map[string]any{"template": map[string]any{
		"metadata": map[string]any{"annotations": annotations},
		"spec":     map[string]any{"volumes": volumes, "domain": map[string]any{"devices": map[string]any{"disks": disks}}},
	}}
	large.SetFinalizers([]string{"example.com/hold"})
	if err := c.Create(t.Context(), large); err != nil {
		t.Fatalf("conditions must bear a VM of 1 MiB: %v", err)
	}
	collector := clientOf(t, c.ControlPlane, "system:serviceaccount:kube-system:generic-garbage-collector")
	cases := []struct {
		name, patch string
		by          client.Client
		reaches     bool
	}{
		{"Annotation", `{"metadata":{"annotations":{"a":"b"}}}`, c, false},
		{"Finalizer", `{"metadata":{"finalizers":["example.com/hold","example.com/more"]}}`, c, false},
		{"Label", `{"metadata":{"labels":{"a":"b"}}}`, c, true},
		{"Spec", `{"spec":{"template":{"spec":{"hostname":"a"}}}}`, c, true},
		{"TrustedSpec", `{"spec":{"template":{"spec":{"hostname":"b"}}}}`, collector, false},
		{"Exclude", `{"metadata":{"annotations":{"virtwright.dev/exclude":"*"}}}`, c, true},
		{"Provenance", `{"metadata":{"annotations":{"virtwright.dev/provenance":"forged"}}}`, c, true},
	}
	for _, tc := range cases {
		before := r.admissions(t, "VirtualMachine", "UPDATE")
		patch(t, tc.by, large, tc.patch)
		if got := r.admissions(t, "VirtualMachine", "UPDATE") > before; got != tc.reaches {
			t.Errorf("%s: reaches the webhook: want %t, got %t", tc.name, tc.reaches, got)
		}
	}
	if text, _ := field(large, "metadata", "annotations", "virtwright.dev/provenance").(string); text == "forged" {
		t.Error("a forged provenance must not be stored")
	}
}

func testSparedNamespaces(t *testing.T, c *cluster) {
	got := object(t, fmt.Sprintf(vm, "spared"))
	got.Object["spec"] = map[string]any{"runStrategy": "Manual", "template": map[string]any{"spec": map[string]any{"domain": map[string]any{"devices": map[string]any{}}}}}
	if err := c.Create(t.Context(), got); err != nil {
		t.Fatal(err)
	}
	if memory := field(got, "spec", "template", "spec", "domain", "memory"); memory != nil {
		t.Errorf("the manager's own namespace must be spared, got %v", memory)
	}
}

func testBundleComesBack(t *testing.T, c *cluster) {
	mutating := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: webhooks.ConfigurationName}}
	wipe := []byte(`[{"op":"remove","path":"/webhooks/0/clientConfig/caBundle"}]`)
	if err := c.Patch(t.Context(), mutating, client.RawPatch(types.JSONPatchType, wipe)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the bundle comes back", func() error {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(mutating), mutating); err != nil {
			return err
		}
		for _, w := range mutating.Webhooks {
			if len(w.ClientConfig.CABundle) == 0 {
				return errors.New(w.Name + " has none")
			}
		}
		return nil
	})
}

func testShutdown(t *testing.T, c *cluster, r *replica) {
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-r.ended:
		if err != nil {
			t.Errorf("want a clean end, got %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the manager does not end")
	}
}

// With no manager at all, nothing passes unexpanded, and what must go on goes on.
func testNobodyAnswers(t *testing.T, c *cluster) {
	if err := c.Create(t.Context(), object(t, in("elsewhere", fmt.Sprintf(vm, "unheard")))); err == nil {
		t.Error("a VM must not pass unexpanded")
	}
	held := object(t, in("elsewhere", fmt.Sprintf(vm, "large")))
	patch(t, c, held, `{"metadata":{"annotations":{"c":"d"}}}`)
	if err := c.Delete(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	patch(t, c, held, `{"metadata":{"finalizers":null}}`)
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(held), held); !apierrors.IsNotFound(err) {
		t.Errorf("a finalizer must not hang on the webhook: %v", err)
	}
}

// Replicas that share a Secret present certificates that one bundle covers, and
// go on serving for a while after they were told to stop.
func testReplicas(t *testing.T, c *cluster) {
	shared := []string{"--cert-secret=default/virtwright-certificates", "--leader-elect", "--shutdown-delay=3s"}
	replicas := []*replica{startReplica(t, c, shared...), startReplica(t, c, shared...)}
	secret := &corev1.Secret{}
	for _, r := range replicas {
		r.serves(t)
	}
	if err := c.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: "virtwright-certificates"}, secret); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(secret.Data["ca.crt"])
	reach := func(r *replica) error {
		conn, err := tls.Dial("tcp", r.webhook, &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13})
		if err != nil {
			return err
		}
		return conn.Close()
	}
	for _, r := range replicas {
		if err := reach(r); err != nil {
			t.Errorf("the shared bundle does not cover a replica: %v", err)
		}
	}
	leaving := replicas[0]
	if err := leaving.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the replica is not ready", func() error {
		if leaving.ready(t) == nil {
			return errors.New("it is")
		}
		return nil
	})
	if err := reach(leaving); err != nil {
		t.Errorf("a replica that leaves must go on serving: %v", err)
	}
	if err := <-leaving.ended; err != nil {
		t.Errorf("want a clean end, got %v", err)
	}
}
