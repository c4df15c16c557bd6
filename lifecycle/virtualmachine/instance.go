package virtualmachine

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/lifecycle/machine"
	"github.com/virtwright/virtwright/lifecycle/runstate"
	"github.com/virtwright/virtwright/validation/protection"
)

var (
	machines  = schema.GroupVersionKind{Group: "kubevirt.io", Version: "v1", Kind: "VirtualMachine"}
	instances = schema.GroupVersionKind{Group: "kubevirt.io", Version: "v1", Kind: "VirtualMachineInstance"}
)

// identities is the namespace of firmware identities.
var identities = uuid.MustParse("0b0c7f0e-3f0c-5a0e-9d63-8b0e7f4f9f5a")

// receives marks an instance that waits for one that migrates.
const receives = "kubevirt.io/create-migration-target"

// build is the instance of a VirtualMachine: its template under its name, owned
// by it. Labels and annotations are the template's, as in KubeVirt.
func build(vm *unstructured.Unstructured, d runstate.Decision, strategy runstate.Strategy) (*unstructured.Unstructured, error) {
	template, _, err := unstructured.NestedMap(vm.Object, "spec", "template") // a copy
	if err != nil || template == nil {
		return nil, fmt.Errorf("spec.template: want an object, of which to make the instance")
	}
	spec, _ := template["spec"].(map[string]any)
	if spec == nil {
		spec = map[string]any{}
	}
	out := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	out.SetGroupVersionKind(instances)
	out.SetNamespace(vm.GetNamespace())
	out.SetName(vm.GetName())
	labels, _, _ := unstructured.NestedStringMap(template, "metadata", "labels")
	out.SetLabels(labels)
	given, _, _ := unstructured.NestedStringMap(template, "metadata", "annotations")
	annotations := map[string]string{}
	for key, value := range given {
		if !strings.HasPrefix(key, v1alpha1.AnnotationPrefix) || slices.Contains(v1alpha1.UserAnnotations(), key) {
			annotations[key] = value
		}
	}
	annotations[v1alpha1.AnnotationInstanceOf] = string(vm.GetUID())
	annotations[v1alpha1.AnnotationTemplate] = machine.Hash(vm.Object["spec"].(map[string]any)["template"])
	annotations[protection.VMGeneration] = strconv.FormatInt(vm.GetGeneration(), 10)
	if strategy == kubevirtv1.RunStrategyWaitAsReceiver {
		annotations[receives] = "true"
	}
	out.SetAnnotations(annotations)
	if err := unstructured.SetNestedSlice(out.Object, []any{owner(vm)}, "metadata", "ownerReferences"); err != nil {
		return nil, fmt.Errorf("cannot set the owner of an instance: %w", err)
	}
	if d.Paused {
		spec["startStrategy"] = string(kubevirtv1.StartStrategyPaused)
	}
	return out, identify(out, string(vm.GetUID()))
}

// owner is the reference by which a VirtualMachine controls its instance.
func owner(vm *unstructured.Unstructured) map[string]any {
	return map[string]any{
		"apiVersion": machines.GroupVersion().String(), "kind": machines.Kind, "name": vm.GetName(), "uid": string(vm.GetUID()),
		"controller": true, "blockOwnerDeletion": true,
	}
}

// identify gives the firmware what the template leaves open: an identity that
// follows from the VirtualMachine's UID, so that it stays over restarts and no
// other machine has it.
func identify(instance *unstructured.Unstructured, uid string) error {
	identity := uuid.NewSHA1(identities, []byte(uid)).String()
	for _, field := range []string{"uuid", "serial"} {
		path := []string{"spec", "domain", "firmware", field}
		if given, _, _ := unstructured.NestedString(instance.Object, path...); given != "" {
			continue
		}
		if err := unstructured.SetNestedField(instance.Object, identity, path...); err != nil {
			return fmt.Errorf("spec.template.spec.domain.firmware: want an object: %w", err)
		}
	}
	return nil
}
