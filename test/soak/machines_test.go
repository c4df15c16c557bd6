package soak

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// policies is what makes the machines whole: two presets that set what people leave open, add to
// lists, and have a say in the same of them.
const policies = `
apiVersion: virtwright.dev/v1alpha1
kind: VirtualMachinePreset
metadata: {name: small, namespace: soak}
spec:
  priority: 10
  match: {labels: {matchLabels: {size: small}}}
  defaults:
    metadata: {labels: {tier: bronze}}
    spec:
      template:
        spec:
          domain:
            cpu: {cores: 2}
            memory: {guest: 1Gi}
            devices: {disks: [{name: scratch, disk: {bus: virtio}}]}
          volumes: [{name: scratch, emptyDisk: {capacity: 1Gi}}]
          tolerations: [{key: soak, operator: Exists}]
---
apiVersion: virtwright.dev/v1alpha1
kind: ClusterVirtualMachinePreset
metadata: {name: soak-everybody}
spec:
  match: {namespaces: {matchLabels: {kubernetes.io/metadata.name: soak}}}
  defaults:
    spec:
      template:
        spec:
          domain:
            memory: {guest: 2Gi}
            devices: {disks: [{name: tools, cdrom: {bus: sata}}]}
          volumes: [{name: tools, emptyDisk: {capacity: 64Mi}}]
          tolerations: [{key: everybody, operator: Exists}]
`

// whole is a VM that only the policies have changed.
type whole struct {
	Spec                any
	Annotations, Labels map[string]string
}

var (
	vms       = schema.GroupVersionResource{Group: "kubevirt.io", Version: "v1", Resource: "virtualmachines"}
	instances = schema.GroupVersionResource{Group: "kubevirt.io", Version: "v1", Resource: "virtualmachineinstances"}
)

// snapshot names all presets that there were, also those that do not match.
var snapshot = regexp.MustCompile(`"snapshot":"[0-9a-f]+",`)

// settle is how long controllers may take for what people asked last.
const settle = 2 * time.Minute

// essence is a machine without what people did to it.
func essence(vm *unstructured.Unstructured) whole {
	vm = vm.DeepCopy()
	for _, path := range [][]string{{"spec", "template", "metadata"}, {"metadata", "annotations", "soak/turn"}, {"metadata", "labels", "soak"}} {
		unstructured.RemoveNestedField(vm.Object, path...)
	}
	annotations := vm.GetAnnotations()
	annotations[v1alpha1.AnnotationProvenance] = snapshot.ReplaceAllString(annotations[v1alpha1.AnnotationProvenance], "")
	return whole{vm.Object["spec"], annotations, vm.GetLabels()}
}

// checkMachines compares every machine with one that was created, and every instance with one that
// was started, while nothing happened, and waits until each machine runs, or does not, as people
// asked.
func checkMachines(t *testing.T, config *rest.Config, l *load) {
	t.Helper()
	created := l.serial.Load()
	config = rest.CopyConfig(config)
	config.WarningHandler = rest.NoWarnings{}
	client := dynamic.NewForConfigOrDie(config)
	all := list(t, client, vms)
	if int64(len(all)) != created {
		t.Errorf("%d machines were created, there are %d", created, len(all))
	}
	pattern := all["vm-4"]
	if pattern == nil {
		t.Fatal("there is no vm-4")
	}
	for _, want := range []string{"1Gi", "soak", "everybody", "scratch", "tools"} {
		if !contains(pattern.Object["spec"], want) {
			t.Errorf("vm-4 was not expanded: no %s in %v", want, pattern.Object["spec"])
		}
	}
	differ := 0
	for name, vm := range all {
		if diff := cmp.Diff(essence(pattern), essence(vm)); diff != "" && differ < 5 {
			differ++
			t.Errorf("%s is not as vm-4 (-vm-4 +%s):\n%s", name, name, diff)
		}
	}
	running := l.settled(t, client)
	first := running["vm-4"]
	for name, instance := range running {
		for _, i := range []*unstructured.Unstructured{first, instance} {
			unstructured.RemoveNestedField(i.Object, "spec", "domain", "firmware") // which identifies it
		}
		if diff := cmp.Diff(first.Object["spec"], instance.Object["spec"]); diff != "" {
			t.Errorf("instance %s is not as vm-4 (-vm-4 +%s):\n%s", name, name, diff)
		}
	}
}

// settled returns the instances once there are those that people asked for, and the machines'
// status says so.
func (l *load) settled(t *testing.T, client dynamic.Interface) map[string]*unstructured.Unstructured {
	t.Helper()
	for end := time.Now().Add(settle); ; time.Sleep(time.Second) {
		running := list(t, client, instances)
		var wrong []string
		for name, vm := range list(t, client, vms) {
			asked, ok := l.runs.Load(name)
			want := stopped
			switch {
			case ok && asked != either:
				want = asked.(demand)
			case ok && running[name] != nil:
				want = started
			}
			status, _, _ := unstructured.NestedString(vm.Object, "status", "printableStatus")
			if status != string(want) || (running[name] != nil) != (want == started) {
				wrong = append(wrong, fmt.Sprintf("%s is %q, and should be %q (an instance: %t)", name, status, want, running[name] != nil))
			}
		}
		switch {
		case len(running) == 0:
			t.Fatal("nothing runs")
		case len(wrong) > 0 && time.Now().After(end):
			t.Errorf("%d machines are not as people asked: %s …", len(wrong), strings.Join(wrong[:min(len(wrong), 5)], "; "))
		case len(wrong) > 0:
			continue
		}
		return running
	}
}

func list(t *testing.T, client dynamic.Interface, kind schema.GroupVersionResource) map[string]*unstructured.Unstructured {
	t.Helper()
	out := map[string]*unstructured.Unstructured{}
	for more := ""; ; {
		page, err := client.Resource(kind).Namespace(home).List(t.Context(), metav1.ListOptions{Limit: 500, Continue: more})
		if err != nil {
			t.Fatal(err)
		}
		for at := range page.Items {
			out[page.Items[at].GetName()] = &page.Items[at]
		}
		if more = page.GetContinue(); more == "" {
			return out
		}
	}
}

// contains reports whether a value is somewhere in a tree.
func contains(tree any, value string) bool {
	switch tree := tree.(type) {
	case map[string]any:
		for _, v := range tree {
			if contains(v, value) {
				return true
			}
		}
	case []any:
		for _, v := range tree {
			if contains(v, value) {
				return true
			}
		}
	}
	return fmt.Sprint(tree) == value
}
