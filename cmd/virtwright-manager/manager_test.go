package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/lifecycle/replicastatus"
	"github.com/virtwright/virtwright/test/controlplane"
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

// elsewhere is a namespace that virtwright does not exclude, unlike kube-system and the manager's
// own.
const elsewhere = `{apiVersion: v1, kind: Namespace, metadata: {name: elsewhere}}`

func in(namespace, manifest string) string {
	return strings.ReplaceAll(manifest, "namespace: default", "namespace: "+namespace)
}

// life is a cluster with a manager.
type life struct {
	cluster *cluster
	manager *replica
}

func TestLife(t *testing.T) {
	c := newCluster(t)
	subresources := controlplane.FreeAddress(t)
	early := startReplica(t, c, "--subresources-bind-address="+subresources)
	early.subresources = subresources
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

	l := &life{c, early}
	t.Run("PresetIsReadyAndActs", l.presetActs)
	t.Run("CountsVMs", l.countsVMs)
	t.Run("RejectedPreset", l.rejectedPreset)
	t.Run("InvalidPresetSaysSo", l.invalidPreset)
	t.Run("OwnedInstance", l.ownedInstance)
	t.Run("MatchConditions", l.matchConditions)
	t.Run("ExcludedNamespaces", l.excludedNamespaces)
	t.Run("BundleComesBack", l.bundleComesBack)
	t.Run("SlowRequests", l.slowRequests)
	t.Run("Shutdown", l.shutdown)
	t.Run("NoManager", l.noManager)
	t.Run("Replicas", l.replicas)
	t.Run("LostCertificates", l.lostCertificates)
}

func (l *life) presetActs(t *testing.T) {
	l.cluster.create(t, small)
	awaitReady(t, l.cluster, &v1alpha1.ClusterVirtualMachinePreset{ObjectMeta: metav1.ObjectMeta{Name: "small"}}, metav1.ConditionTrue)
	got := l.cluster.create(t, in("elsewhere", fmt.Sprintf(vm, "sparse")))
	if memory := field(got, "spec", "template", "spec", "domain", "memory", "guest"); memory != "2Gi" {
		t.Errorf("want the preset's memory, got %v", memory)
	}
	if strategy := field(got, "spec", "runStrategy"); strategy != "Halted" {
		t.Errorf("want the platform's run strategy, got %v", strategy)
	}
}

// countsVMs expects the VM of presetActs to be stopped, and a metric of each VMI.
func (l *life) countsVMs(t *testing.T) {
	for _, want := range []string{`virtwright_virtual_machines{status="Stopped"} 1`, `virtwright_longest_start_seconds 0`} {
		eventually(t, want, func() error {
			if _, body := get(t, "http://"+l.manager.metrics+"/metrics"); !strings.Contains(body, "\n"+want+"\n") {
				return errors.New("no such line in /metrics")
			}
			return nil
		})
	}
	// The VMI stays, because it has no VM that stops it.
	alone := l.cluster.create(t, `
apiVersion: kubevirt.io/v1
kind: VirtualMachineInstance
metadata: {name: alone, namespace: elsewhere}
spec: {domain: {devices: {}, memory: {guest: 1Gi}}}`)
	eventually(t, "the VMI has a metric", func() error {
		_, body := get(t, "http://"+l.manager.metrics+"/metrics")
		if !regexp.MustCompile(`(?m)^kubevirt_vmi_info\{.*name="alone",namespace="elsewhere",.*\} 1$`).MatchString(body) {
			return errors.New("no such line in /metrics")
		}
		return nil
	})
	if err := l.cluster.Delete(t.Context(), alone); err != nil {
		t.Fatal(err)
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

func (l *life) rejectedPreset(t *testing.T) {
	bad := object(t, `
apiVersion: virtwright.dev/v1alpha1
kind: VirtualMachinePreset
metadata: {name: bad, namespace: elsewhere}
spec: {defaults: null, overrides: {spec: {template: {spec: {domain: {memroy: {}}}}}}, remove: [spec.nowhere]}`)
	err := l.cluster.Create(t.Context(), bad)
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
	if err := l.cluster.Create(t.Context(), large); err == nil || !strings.Contains(err.Error(), "this one is 2048 KiB: split it") {
		t.Errorf("got %.300v", err)
	}
}

// A stored preset that is invalid has a condition, and counts do not change.
func (l *life) invalidPreset(t *testing.T) {
	validating := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := l.cluster.Get(t.Context(), types.NamespacedName{Name: webhooks.ConfigurationName}, validating); err != nil {
		t.Fatal(err)
	}
	if err := l.cluster.Delete(t.Context(), validating); err != nil {
		t.Fatal(err)
	}
	stored := object(t, `
apiVersion: virtwright.dev/v1alpha1
kind: VirtualMachinePreset
metadata: {name: stored, namespace: elsewhere}
spec: {remove: [spec.nowhere]}`)
	eventually(t, "a preset is stored without validation", func() error { return l.cluster.Create(t.Context(), stored) })
	preset := &v1alpha1.VirtualMachinePreset{ObjectMeta: metav1.ObjectMeta{Name: "stored", Namespace: "elsewhere"}}
	ready := awaitReady(t, l.cluster, preset, metav1.ConditionFalse)
	if ready.Reason != v1alpha1.ReasonInvalid || !strings.Contains(ready.Message, "spec.remove[0]") {
		t.Errorf("got %+v", ready)
	}
	if !strings.Contains(l.manager.log.String(), `"msg":"A preset is invalid and not in use"`) {
		t.Error("the log does not name the invalid preset")
	}
	if err := l.cluster.Status().Patch(t.Context(), preset, client.RawPatch(types.MergePatchType, []byte(`{"status":{"matched":3}}`))); err != nil {
		t.Fatal(err)
	}
	patch(t, l.cluster, preset, `{"spec":{"remove":["spec.template.spec.domain.devices.rng"]}}`)
	awaitReady(t, l.cluster, preset, metav1.ConditionTrue)
	if preset.Status.Matched == nil || *preset.Status.Matched != 0 {
		t.Errorf("want the number of VMs that have the preset, got %v", preset.Status.Matched)
	}
	patch(t, l.cluster, preset, `{"spec":{"remove":null,"match":{"conditions":[{"name":"tier","expression":"object.metadata.labels.tier == 'x'"}]},"defaults":{"spec":{"template":{"spec":{"domain":{"machine":{"type":"q53"}}}}}}}}`)
	eventually(t, "a preset that could not be created any more says so", func() error {
		if err := l.cluster.Get(t.Context(), client.ObjectKeyFromObject(preset), preset); err != nil {
			return err
		}
		deprecated := meta.FindStatusCondition(preset.Status.Conditions, v1alpha1.ConditionDeprecated)
		if deprecated == nil || !strings.Contains(deprecated.Message, "object.metadata.?labels.?tier.orValue('')") || !strings.Contains(deprecated.Message, `"q53"`) {
			return fmt.Errorf("got %+v", deprecated)
		}
		return nil
	})
	if ready := awaitReady(t, l.cluster, preset, metav1.ConditionTrue); ready.ObservedGeneration != preset.Generation {
		t.Errorf("it keeps acting, got %+v", ready)
	}
	patch(t, l.cluster, preset, `{"spec":{"match":null,"defaults":null,"remove":["spec.template.spec.domain.devices.rng"]}}`)
	validating.ResourceVersion, validating.UID = "", ""
	if err := l.cluster.Create(t.Context(), validating); err != nil {
		t.Fatal(err)
	}
}

func (l *life) ownedInstance(t *testing.T) {
	l.cluster.create(t, `
apiVersion: virtwright.dev/v1alpha1
kind: VirtualMachinePreset
metadata: {name: pool, namespace: elsewhere}
spec: {applyAt: Launch, match: {labels: {matchLabels: {size: small}}}, defaults: {spec: {template: {spec: {nodeSelector: {pool: a}}}}}}`)
	awaitReady(t, l.cluster, &v1alpha1.VirtualMachinePreset{ObjectMeta: metav1.ObjectMeta{Name: "pool", Namespace: "elsewhere"}}, metav1.ConditionTrue)
	owner := l.cluster.create(t, in("elsewhere", fmt.Sprintf(vm, "owner")))
	if got := field(owner, "spec", "template", "spec", "nodeSelector"); got != nil {
		t.Errorf("want no value of a launch preset on the VM, got %v", got)
	}
	instance := object(t, fmt.Sprintf(`
apiVersion: kubevirt.io/v1
kind: VirtualMachineInstance
metadata:
  name: owner
  namespace: elsewhere
  ownerReferences: [{apiVersion: kubevirt.io/v1, kind: VirtualMachine, name: owner, uid: %s, controller: true}]
spec: {domain: {devices: {}, memory: {guest: 1Gi}}}`, owner.GetUID()))
	if err := l.cluster.Create(t.Context(), instance); err == nil || !strings.Contains(err.Error(), "owner-references") {
		t.Errorf("want an administrator rejected, got %v", err)
	}
	if err := l.collector(t).Create(t.Context(), instance); err != nil {
		t.Fatal(err)
	}
	// The label is the VM's: only its owner lets the preset match.
	if got := field(instance, "spec", "nodeSelector", "pool"); got != "a" {
		t.Errorf("want the pool at launch, got %v", got)
	}
}

// collector returns a client of a trusted user.
func (l *life) collector(t *testing.T) client.Client {
	t.Helper()
	return clientOf(t, l.cluster.ControlPlane, "system:serviceaccount:kube-system:generic-garbage-collector")
}

func (l *life) matchConditions(t *testing.T) {
	large := object(t, in("elsewhere", fmt.Sprintf(vm, "large")))
	annotations, volumes, disks := map[string]any{}, []any{}, []any{}
	for i := range 250 {
		name := fmt.Sprint("v", i)
		annotations[name] = strings.Repeat("x", 4000)
		volumes = append(volumes, map[string]any{"name": name, "emptyDisk": map[string]any{"capacity": "1Gi"}})
		disks = append(disks, map[string]any{"name": name, "disk": map[string]any{"bus": "virtio"}})
	}
	large.Object["spec"] = map[string]any{"template": map[string]any{
		"metadata": map[string]any{"annotations": annotations},
		"spec":     map[string]any{"volumes": volumes, "domain": map[string]any{"devices": map[string]any{"disks": disks}}},
	}}
	large.SetFinalizers([]string{"example.com/hold"})
	if err := l.cluster.Create(t.Context(), large); err != nil {
		t.Fatalf("conditions must bear a VM of 1 MiB: %v", err)
	}
	collector := l.collector(t)
	cases := []struct {
		name, patch string
		by          client.Client
		reaches     bool
	}{
		{"Annotation", `{"metadata":{"annotations":{"a":"b"}}}`, l.cluster, true},
		{"Hold", `{"metadata":{"annotations":{"virtwright.dev/rollout":"Hold"}}}`, l.cluster, false},
		{"Finalizer", `{"metadata":{"finalizers":["example.com/hold","example.com/more"]}}`, l.cluster, false},
		{"Label", `{"metadata":{"labels":{"a":"b"}}}`, l.cluster, true},
		{"Spec", `{"spec":{"template":{"spec":{"hostname":"a"}}}}`, l.cluster, true},
		{"TrustedSpec", `{"spec":{"template":{"spec":{"hostname":"b"}}}}`, collector, false},
		{"Exclude", `{"metadata":{"annotations":{"virtwright.dev/exclude":"unknown"}}}`, l.cluster, true},
		{"Provenance", `{"metadata":{"annotations":{"virtwright.dev/provenance":"forged"}}}`, l.cluster, true},
	}
	for _, tc := range cases {
		before := l.manager.admissions(t, "VirtualMachine", "UPDATE")
		patch(t, tc.by, large, tc.patch)
		if got := l.manager.admissions(t, "VirtualMachine", "UPDATE") > before; got != tc.reaches {
			t.Errorf("%s: reaches the webhook: want %t, got %t", tc.name, tc.reaches, got)
		}
	}
	if text, _ := field(large, "metadata", "annotations", "virtwright.dev/provenance").(string); text == "forged" {
		t.Error("a forged provenance must not be stored")
	}
}

func (l *life) excludedNamespaces(t *testing.T) {
	got := object(t, fmt.Sprintf(vm, "excluded"))
	got.Object["spec"] = map[string]any{"runStrategy": "Always", "template": map[string]any{"spec": map[string]any{"domain": map[string]any{"devices": map[string]any{}}}}}
	if err := l.cluster.Create(t.Context(), got); err != nil {
		t.Fatal(err)
	}
	if memory := field(got, "spec", "template", "spec", "domain", "memory"); memory != nil {
		t.Errorf("the manager's own namespace must be excluded, got %v", memory)
	}
	eventually(t, "status says why the VM does not start", func() error {
		if err := l.cluster.Get(t.Context(), client.ObjectKeyFromObject(got), got); err != nil {
			return err
		}
		conditions, _, _ := unstructured.NestedSlice(got.Object, "status", "conditions")
		if text := fmt.Sprint(conditions); !strings.Contains(text, "reason:ExcludedNamespace") || !strings.Contains(text, "create the VM in another namespace") {
			return fmt.Errorf("conditions are %s", text)
		}
		return nil
	})
	vmi := object(t, "{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance}")
	if err := l.cluster.Get(t.Context(), client.ObjectKeyFromObject(got), vmi); !apierrors.IsNotFound(err) {
		t.Errorf("no VMI must be created in an excluded namespace: %v", err)
	}
}

func (l *life) bundleComesBack(t *testing.T) {
	mutating := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: webhooks.ConfigurationName}}
	wipe := []byte(`[{"op":"remove","path":"/webhooks/0/clientConfig/caBundle"}]`)
	if err := l.cluster.Patch(t.Context(), mutating, client.RawPatch(types.JSONPatchType, wipe)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the bundle comes back", func() error {
		if err := l.cluster.Get(t.Context(), client.ObjectKeyFromObject(mutating), mutating); err != nil {
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

func (l *life) shutdown(t *testing.T) {
	if err := l.manager.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-l.manager.ended:
		if err != nil {
			t.Errorf("want a clean end, got %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the manager does not end")
	}
}

// Without a manager, VMs are rejected, but they can be kept out of rollouts, and be deleted.
func (l *life) noManager(t *testing.T) {
	if err := l.cluster.Create(t.Context(), object(t, in("elsewhere", fmt.Sprintf(vm, "unheard")))); err == nil {
		t.Error("a VM must not pass unexpanded")
	}
	held := object(t, in("elsewhere", fmt.Sprintf(vm, "large")))
	patch(t, l.cluster, held, `{"metadata":{"annotations":{"virtwright.dev/rollout":null}}}`)
	if err := l.cluster.Delete(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	patch(t, l.cluster, held, `{"metadata":{"finalizers":null}}`)
	if err := l.cluster.Get(t.Context(), client.ObjectKeyFromObject(held), held); !apierrors.IsNotFound(err) {
		t.Errorf("a finalizer must not hang on the webhook: %v", err)
	}
}

// Replicas that share a Secret serve certificates that one bundle verifies, and keep serving for a
// while after SIGTERM.
func (l *life) replicas(t *testing.T) {
	shared := []string{"--cert-secret=default/virtwright-certificates", "--leader-elect", "--shutdown-delay=3s"}
	ended := l.cluster.create(t, `
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: virtwright-replica-ended, namespace: default, labels: {virtwright.dev/replica: ""}, annotations: {virtwright.dev/serving: earlier}}
spec: {holderIdentity: ended, leaseDurationSeconds: 15, renewTime: "2026-01-01T00:00:00.000000Z"}
`)
	replicas := []*replica{startReplica(t, l.cluster, shared...), startReplica(t, l.cluster, shared...)}
	secret := &corev1.Secret{}
	for _, r := range replicas {
		r.serves(t)
	}
	if err := l.cluster.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: "virtwright-certificates"}, secret); err != nil {
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
	eventually(t, "the Lease of a replica that ended long ago is deleted", func() error {
		if err := l.cluster.Get(t.Context(), client.ObjectKeyFromObject(ended), ended); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it exists (%w)", errors.Join(err))
		}
		return nil
	})
	leaving := replicas[0]
	if err := leaving.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the replica reports that it drains", func() error {
		var leases coordinationv1.LeaseList
		if err := l.cluster.List(t.Context(), &leases, client.InNamespace("default")); err != nil {
			return err
		}
		draining := func(lease coordinationv1.Lease) bool {
			return lease.Annotations[v1alpha1.AnnotationReplicaPhase] == string(replicastatus.Draining)
		}
		if !slices.ContainsFunc(leases.Items, draining) {
			return errors.New("no Lease says so")
		}
		return nil
	})
	if leaving.ready(t) == nil {
		t.Error("outside a cluster a replica that drains must not be ready")
	}
	if err := reach(leaving); err != nil {
		t.Errorf("a replica that drains must keep serving: %v", err)
	}
	if err := <-leaving.ended; err != nil {
		t.Errorf("want a clean end, got %v", err)
	}
}
