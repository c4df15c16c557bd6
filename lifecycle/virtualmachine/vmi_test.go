package virtualmachine

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/lifecycle/partialobject"
)

func parse(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	out := &unstructured.Unstructured{}
	raw, err := yaml.YAMLToJSON([]byte(manifest))
	if err == nil {
		err = out.UnmarshalJSON(raw)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestNewVMI(t *testing.T) {
	vm := parse(t, `
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: web, namespace: shop, uid: 11111111-1111-4111-8111-111111111111, generation: 7, labels: {mine: "yes"}, annotations: {mine: "yes"}}
spec:
  runStrategy: Always
  template:
    metadata:
      name: other
      labels: {app: web}
      annotations: {note: x, virtwright.dev/presets: gpu, virtwright.dev/instance-of: forged, kubevirt.io/vm-generation: "1"}
      ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: a, uid: b}]
      finalizers: [example.com/x]
    spec: {domain: {devices: {}, firmware: {serial: s1}, unknown: 5}, terminationGracePeriodSeconds: 5}
`)
	before := vm.DeepCopy()
	got, err := newVMI(vm, decision{Create: true, Paused: true})
	if err != nil {
		t.Fatal(err)
	}
	hash, values := partialobject.TemplateHashes(vm.Object["spec"].(map[string]any)["template"])
	want := parse(t, `
apiVersion: kubevirt.io/v1
kind: VirtualMachineInstance
metadata:
  name: web
  namespace: shop
  labels: {app: web}
  annotations: {note: x, virtwright.dev/presets: gpu, virtwright.dev/instance-of: 11111111-1111-4111-8111-111111111111, virtwright.dev/template: `+hash+`, virtwright.dev/template-values: `+values+`, kubevirt.io/vm-generation: "7"}
  finalizers: [virtwright.dev/pod]
  ownerReferences: [{apiVersion: kubevirt.io/v1, kind: VirtualMachine, name: web, uid: 11111111-1111-4111-8111-111111111111, controller: true, blockOwnerDeletion: true}]
spec: {domain: {devices: {}, firmware: {serial: s1, uuid: ""}, unknown: 5}, terminationGracePeriodSeconds: 5, startStrategy: Paused}
`)
	identity, _, _ := unstructured.NestedString(got.Object, "spec", "domain", "firmware", "uuid")
	if err := unstructured.SetNestedField(want.Object, identity, "spec", "domain", "firmware", "uuid"); err != nil || identity == "" {
		t.Fatal(identity, err)
	}
	if diff := cmp.Diff(want.Object, got.Object); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before.Object, vm.Object); diff != "" {
		t.Errorf("the VM changed (-want +got):\n%s", diff)
	}
	again, err := newVMI(vm, decision{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	if same, _, _ := unstructured.NestedString(again.Object, "spec", "domain", "firmware", "uuid"); same != identity {
		t.Errorf("the firmware is %s, then %s", identity, same)
	}
	vm.SetUID("22222222-2222-4222-8222-222222222222")
	other, err := newVMI(vm, decision{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	if same, _, _ := unstructured.NestedString(other.Object, "spec", "domain", "firmware", "uuid"); same == identity {
		t.Error("two VMs of one name have one firmware identity")
	}
	if _, err := newVMI(parse(t, `{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: a}, spec: {}}`), decision{}); err == nil {
		t.Error("want an error without a template")
	}
}

func TestRecentWrites(t *testing.T) {
	var w recentWrites
	key := types.NamespacedName{Namespace: "shop", Name: "web"}
	if w.missing(key, "1", noon) || w.deleted(key, "u") {
		t.Error("nothing was written")
	}
	w.record(key, "10", noon)
	if !w.missing(key, "9", noon) || !w.missing(key, "", noon) {
		t.Error("a cache without the write is not reported")
	}
	if w.missing(key, "10", noon) || w.missing(key, "9", noon) {
		t.Error("a cache with the write is reported, or the write is not forgotten")
	}
	w.recordDeletion(key, "u")
	if !w.deleted(key, "u") || w.deleted(key, "v") {
		t.Error("want the deletion of u, and no other")
	}
	w.forget(key)
	if w.deleted(key, "u") {
		t.Error("the deletion is not forgotten")
	}
}

// A start request that was served since is not served again.
func TestSameRunState(t *testing.T) {
	asks := parse(t, `{apiVersion: kubevirt.io/v1, kind: VirtualMachine, status: {printableStatus: Stopped, stateChangeRequests: [{action: Start}]}}`)
	served := parse(t, `{apiVersion: kubevirt.io/v1, kind: VirtualMachine, status: {printableStatus: Stopped}}`)
	stopped := parse(t, `{apiVersion: kubevirt.io/v1, kind: VirtualMachine, status: {printableStatus: Stopped, runStrategy: RerunOnFailure}}`)
	bare := parse(t, `{apiVersion: kubevirt.io/v1, kind: VirtualMachine}`)
	decided := func(requests ...kubevirtv1.VirtualMachineStateChangeRequest) *partialobject.VirtualMachine {
		return &partialobject.VirtualMachine{Status: partialobject.VirtualMachineStatus{StateChangeRequests: requests}}
	}
	start := kubevirtv1.VirtualMachineStateChangeRequest{Action: kubevirtv1.StartRequest}
	for name, tc := range map[string]struct {
		now  *unstructured.Unstructured
		vm   *partialobject.VirtualMachine
		want bool
	}{
		"still pending":   {asks, decided(start), true},
		"served since":    {served, decided(start), false},
		"requested since": {asks, decided(), false},
		"none":            {served, decided(), true},
		"no status yet":   {bare, decided(), true},
		"stopped since":   {stopped, decided(), false},
	} {
		if got := sameRunState(tc.now, tc.vm); got != tc.want {
			t.Errorf("%s: want %t, got %t", name, tc.want, got)
		}
	}
}
