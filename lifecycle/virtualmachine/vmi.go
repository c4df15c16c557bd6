package virtualmachine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/domain"
	"github.com/virtwright/virtwright/lifecycle/partialobject"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/validation/protection"
)

// newVMI returns the VMI of a VM: its template under its name, owned by it. Labels and annotations
// are the template's, as in KubeVirt.
func newVMI(vm *unstructured.Unstructured, d decision) (*unstructured.Unstructured, error) {
	template, _, err := unstructured.NestedMap(vm.Object, "spec", "template") // a copy
	if err != nil || template == nil {
		return nil, errors.New("spec.template must be an object: the VMI is created from it")
	}
	spec, _ := template["spec"].(map[string]any)
	if spec == nil {
		spec = map[string]any{}
	}
	out := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	out.SetGroupVersionKind(kubevirtv1.VirtualMachineInstanceGroupVersionKind)
	out.SetNamespace(vm.GetNamespace())
	out.SetName(vm.GetName())
	labels, _, _ := unstructured.NestedStringMap(template, "metadata", "labels")
	out.SetLabels(labels)
	out.SetAnnotations(vmiAnnotations(vm, template))
	out.SetOwnerReferences([]metav1.OwnerReference{*ownerReference(vm)})
	out.SetFinalizers([]string{v1alpha1.FinalizerPod}) // until its pod is gone, see package virtualmachineinstance
	if d.Paused {
		spec["startStrategy"] = string(kubevirtv1.StartStrategyPaused)
	}
	return out, setFirmwareIdentity(out, domain.FirmwareIdentity(vm.GetUID()))
}

// vmiAnnotations returns the annotations of the template that users may set on a VMI, and ours.
func vmiAnnotations(vm *unstructured.Unstructured, template map[string]any) map[string]string {
	given, _, _ := unstructured.NestedStringMap(template, "metadata", "annotations")
	out := map[string]string{}
	for key, value := range given {
		if !strings.HasPrefix(key, v1alpha1.AnnotationPrefix) || slices.Contains(v1alpha1.UserAnnotations(), key) {
			out[key] = value
		}
	}
	out[v1alpha1.AnnotationOwnerUID] = string(vm.GetUID())
	written, values := partialobject.TemplateHashes(vm.Object["spec"].(map[string]any)["template"])
	out[v1alpha1.AnnotationTemplateHash], out[v1alpha1.AnnotationTemplateValues] = written, values
	out[protection.VMGeneration] = strconv.FormatInt(vm.GetGeneration(), 10)
	return out
}

func ownerReference(vm metav1.Object) *metav1.OwnerReference {
	return metav1.NewControllerRef(vm, kubevirtv1.VirtualMachineGroupVersionKind)
}

// setFirmwareIdentity sets the firmware UUID and serial that the template does not set.
func setFirmwareIdentity(vmi *unstructured.Unstructured, identity string) error {
	for _, name := range []string{"uuid", "serial"} {
		path := []string{"spec", "domain", "firmware", name}
		if given, _, _ := unstructured.NestedString(vmi.Object, path...); given != "" {
			continue
		}
		if err := unstructured.SetNestedField(vmi.Object, identity, path...); err != nil {
			return fmt.Errorf("spec.template.spec.domain.firmware: must be an object: %w", err)
		}
	}
	return nil
}

const (
	maxNamedChanges = 3
	maxChangesBytes = 1000 // limits their text: keys of list elements and maps may be long
)

// readChanges describes the fields of the template that differ from the VMI. It reads both from the
// API server, because caches have neither.
func (c *Controller) readChanges(ctx context.Context, vm *partialobject.VirtualMachine) (string, error) {
	key := client.ObjectKeyFromObject(vm)
	full, err := c.readFull(ctx, vm)
	if err != nil {
		return "", err
	}
	vmi := &unstructured.Unstructured{}
	vmi.SetGroupVersionKind(kubevirtv1.VirtualMachineInstanceGroupVersionKind)
	if err := c.Live.Get(ctx, key, vmi); err != nil {
		return "", fmt.Errorf("cannot read VirtualMachineInstance %s: %w", key, err)
	}
	now, err := full.MarshalJSON()
	was, otherErr := vmi.MarshalJSON()
	if err = errors.Join(err, otherErr); err != nil {
		return "", fmt.Errorf("cannot encode VirtualMachine %s or its VMI: %w", key, err)
	}
	changes, err := presets.TemplateChanges(now, was)
	if err != nil {
		return "", nil //nolint:nilerr // stored before a rule rejected it: the condition names no field
	}
	return describeChanges(changes), nil
}

func describeChanges(changes []presets.Origin) string {
	var out []string
	for _, change := range changes[:min(len(changes), maxNamedChanges)] {
		out = append(out, fmt.Sprintf("%s (%s)", change.Path, originOf(change)))
	}
	if more := len(changes) - len(out); more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return tree.Truncate(presets.Escape(strings.Join(out, ", ")), maxChangesBytes)
}

func originOf(change presets.Origin) string {
	switch {
	case change.User:
		return "user"
	case change.By.Role == provenance.Platform:
		return "platform default " + change.By.Preset
	}
	return "preset " + change.By.Preset
}
