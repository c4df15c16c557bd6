package stories

import (
	"bufio"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// unchangedFile has the fields of a VM's template that are not changed, each with the reason. A
// person keeps it.
const unchangedFile = "testdata/unchanged.txt"

// fieldsFile has VMs with most fields. The first of them is runnable.
const fieldsFile = "testdata/fields.yaml"

// A fieldChange sets fields of a VM's template to values, or removes those with the value nil.
type fieldChange struct {
	name   string
	values map[string]any
	before map[string]any
	after  map[string]any // what a preset sets
}

// pairedChanges plug and unplug, which takes two lists. They begin with the first VM of fieldsFile.
const pairedChanges = `
an added volume that can be plugged:
  domain.devices.disks: [{name: root, disk: {bus: virtio}}, {name: cloud, disk: {bus: virtio}}, {name: more, disk: {bus: scsi}}]
  volumes:
  - {name: root, containerDisk: {image: "example.org/disk:1"}}
  - {name: cloud, cloudInitNoCloud: {userData: "#cloud-config"}}
  - {name: more, persistentVolumeClaim: {claimName: more, hotpluggable: true}}
an added volume that cannot be plugged:
  domain.devices.disks: [{name: root, disk: {bus: virtio}}, {name: cloud, disk: {bus: virtio}}, {name: more, disk: {bus: scsi}}]
  volumes:
  - {name: root, containerDisk: {image: "example.org/disk:1"}}
  - {name: cloud, cloudInitNoCloud: {userData: "#cloud-config"}}
  - {name: more, persistentVolumeClaim: {claimName: more}}
a removed volume:
  domain.devices.disks: [{name: root, disk: {bus: virtio}}]
  volumes: [{name: root, containerDisk: {image: "example.org/disk:1"}}]
an added interface:
  domain.devices.interfaces: [{name: default, masquerade: {}}, {name: more, bridge: {}}]
  networks: [{name: default, pod: {}}, {name: more, multus: {networkName: more}}]
memory up to the default maximum: {domain.memory.guest: 4Gi}
memory above the default maximum: {domain.memory.guest: 8Gi}
memory in a part of a block: {domain.memory.guest: 1025Mi}
sockets up to the default maximum: {domain.cpu.sockets: 4}
sockets above the default maximum: {domain.cpu.sockets: 8}
another binding:
  domain.devices.interfaces: [{name: default, bridge: {}}]
a removed interface:
  domain.devices.interfaces: [{name: more, bridge: {}}]
  networks: [{name: more, multus: {networkName: more}}]
`

// inParallel calls a function for all items, eight at a time.
func inParallel[T any](items []T, do func(int, T)) {
	var group errgroup.Group
	group.SetLimit(8)
	for i := range items {
		group.Go(func() error {
			defer GinkgoRecover()
			do(i, items[i])
			return nil
		})
	}
	_ = group.Wait() // failures are Ginkgo's
}

// changesOfFields returns a change of every field of a VM's template that KubeVirt admits, except
// for those in unchangedFile, and pairedChanges.
func changesOfFields() []*fieldChange {
	GinkgoHelper()
	pool := poolOfVMs()
	skipped := unchanged()
	paths := slices.DeleteFunc(fieldsOf(reflect.TypeFor[kubevirtv1.VirtualMachineInstanceSpec](), ""), func(path string) bool { return slices.Contains(skipped, path) })
	found := make([]*fieldChange, len(paths))
	inParallel(paths, func(i int, path string) {
		for _, c := range candidates(pool, path) {
			if c.isAdmitted() {
				found[i] = c
				return
			}
		}
	})
	var missing []string
	for i, c := range found {
		if c == nil {
			missing = append(missing, paths[i])
		}
	}
	Expect(strings.Join(missing, "\n")).To(BeEmpty(), "no VM of "+fieldsFile+" and of the fixtures covers these fields, see "+unchangedFile)
	pairs := map[string]map[string]any{}
	Expect(yaml.Unmarshal([]byte(pairedChanges), &pairs)).To(Succeed())
	var paired []*fieldChange
	for _, name := range slices.Sorted(maps.Keys(pairs)) {
		c := newFieldChange(name, pool[0].object, pairs[name])
		Expect(c).NotTo(BeNil(), name)
		paired = append(paired, c)
	}
	return slices.Concat(found, paired)
}

// newFieldChange returns a change of a VM, or nil if there is none.
func newFieldChange(name string, before, values map[string]any) *fieldChange {
	after := runtime.DeepCopyJSON(before)
	c := &fieldChange{name, values, before, after}
	if !c.apply(templateSpecOf(after)) || reflect.DeepEqual(after, before) {
		return nil
	}
	return c
}

// apply changes the spec of a template. It reports whether it could.
func (c *fieldChange) apply(spec map[string]any) bool {
	for path, value := range c.values {
		if !setAt(spec, strings.Split(path, "."), value) {
			return false
		}
	}
	return true
}

// isAdmitted reports whether KubeVirt admits the change of a VM that it has completed, and its VMI.
func (c *fieldChange) isAdmitted() bool {
	vm := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(c.before)}
	for _, change := range []func(map[string]any) bool{func(map[string]any) bool { return true }, c.apply} {
		if !change(templateSpecOf(vm.Object)) || !isCreatable(vm) {
			return false
		}
	}
	vmi := &unstructured.Unstructured{Object: map[string]any{"spec": templateSpecOf(runtime.DeepCopyJSON(c.before))}}
	vmi.SetGroupVersionKind(kubevirtv1.VirtualMachineInstanceGroupVersionKind)
	return isCreatable(vmi)
}

// isCreatable reports whether KubeVirt alone admits an object, and completes it.
func isCreatable(object *unstructured.Unstructured) bool {
	object.SetName("candidate")
	object.SetNamespace(excluded)
	object.SetResourceVersion("")
	object.SetUID("")
	return here.Objects.Create(here.Context(), object, client.DryRunAll) == nil
}

// unchanged returns the fields in unchangedFile.
func unchanged() []string {
	GinkgoHelper()
	file, err := os.Open(unchangedFile)
	Expect(err).NotTo(HaveOccurred())
	defer file.Close()
	var out []string
	for lines := bufio.NewScanner(file); lines.Scan(); {
		path, reason, _ := strings.Cut(lines.Text(), "\t")
		Expect(reason).NotTo(BeEmpty(), lines.Text())
		out = append(out, path)
	}
	return out
}

// wholeTypes have values that count as one field.
var wholeTypes = []reflect.Type{
	reflect.TypeFor[resource.Quantity](), reflect.TypeFor[metav1.LabelSelector](), reflect.TypeFor[metav1.Time](), reflect.TypeFor[intstr.IntOrString](),
	reflect.TypeFor[corev1.Affinity](), reflect.TypeFor[corev1.TopologySpreadConstraint](), reflect.TypeFor[corev1.Toleration](), reflect.TypeFor[corev1.PodDNSConfig](),
}

// fieldsOf returns the paths of the fields beneath a type. An element of a list is [].
func fieldsOf(t reflect.Type, path string) []string {
	switch {
	case t.Kind() == reflect.Pointer:
		return fieldsOf(t.Elem(), path)
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct && !slices.Contains(wholeTypes, t.Elem()):
		return fieldsOf(t.Elem(), path+"[]")
	case t.Kind() != reflect.Struct, slices.Contains(wholeTypes, t), t.NumField() == 0:
		return []string{path}
	}
	var out []string
	for field := range t.Fields() {
		switch name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name {
		case "-":
		case "":
			out = append(out, fieldsOf(field.Type, path)...)
		default:
			out = append(out, fieldsOf(field.Type, strings.TrimPrefix(path+"."+name, "."))...)
		}
	}
	return out
}

// A pooledVM is the spec of a VM's template with its fields.
type pooledVM struct {
	object map[string]any
	values map[string]any // one for each path of fieldsOf
}

// poolOfVMs returns the VMs of fieldsFile, and the fixtures of rules that need no instancetype.
func poolOfVMs() []pooledVM {
	GinkgoHelper()
	content, err := os.ReadFile(fieldsFile)
	Expect(err).NotTo(HaveOccurred())
	var out []pooledVM
	for _, vm := range documents(content) {
		out = append(out, pooledVM{vm.Object, valuesOf(templateSpecOf(vm.Object))})
	}
	for _, q := range fixtures() {
		spec, _ := q.object["spec"].(map[string]any)
		template := templateSpecOf(q.object)
		if q.object["kind"] != "VirtualMachine" || template == nil || strings.HasPrefix(q.name, "gpu-name-unique") || strings.HasPrefix(q.name, "cpu-feature-name") || spec["instancetype"] != nil || spec["preference"] != nil || spec["dataVolumeTemplates"] != nil {
			continue
		}
		if domain, ok := template["domain"].(map[string]any); ok && domain["devices"] == nil {
			domain["devices"] = map[string]any{}
		}
		out = append(out, pooledVM{q.object, valuesOf(template)})
	}
	return out
}

// templateSpecOf returns spec.template.spec, which is nil where it is no object.
func templateSpecOf(vm map[string]any) map[string]any {
	value, _, _ := unstructured.NestedFieldNoCopy(vm, "spec", "template", "spec")
	spec, _ := value.(map[string]any)
	return spec
}

// valuesOf returns a value of each path, with those of objects.
func valuesOf(spec map[string]any) map[string]any {
	out := map[string]any{}
	var visit func(string, any)
	visit = func(path string, value any) {
		if _, known := out[path]; !known {
			out[path] = value
		}
		switch v := value.(type) {
		case map[string]any:
			for name := range v {
				visit(strings.TrimPrefix(path+"."+name, "."), v[name])
			}
		case []any:
			for _, element := range v {
				visit(path+"[]", element)
			}
		}
	}
	visit("", spec)
	return out
}

// candidates returns changes of a field, which KubeVirt may reject: the field of each VM removed,
// or changed to another value, and a value set in the full VM.
func candidates(pool []pooledVM, path string) []*fieldChange {
	values := []any{true, false, int64(1), int64(2), "x", "1", map[string]any{}}
	for _, vm := range pool {
		if value, ok := vm.values[path]; ok && !slices.ContainsFunc(values, func(v any) bool { return reflect.DeepEqual(v, value) }) {
			values = append(values, value)
		}
	}
	isKey := strings.HasSuffix(path, "[].name")
	var out []*fieldChange
	add := func(before map[string]any, value any) {
		if _, has := valuesOf(templateSpecOf(before))[path]; isKey && (value == nil || value == "") || !has && value == false {
			return // no key, or what KubeVirt stores as the absence of the field
		}
		if c := newFieldChange(path, before, map[string]any{path: value}); c != nil {
			out = append(out, c)
		}
	}
	slices.Reverse(values)
	for i := range pool {
		_, has := pool[i].values[path]
		if !has && i > 0 {
			continue
		}
		for _, value := range values {
			add(pool[i].object, value)
		}
		if has {
			add(pool[i].object, nil)
		}
	}
	return out
}

// setAt sets a field, or removes it if the value is nil. Of a list, it takes the first element that
// has the next field, or the first. It reports whether it could.
func setAt(object map[string]any, path []string, value any) bool {
	name, isList := strings.CutSuffix(path[0], "[]")
	switch {
	case len(path) == 1 && value == nil:
		delete(object, path[0])
		return true
	case len(path) == 1:
		object[path[0]] = runtime.DeepCopyJSONValue(value)
		return true
	case isList:
		list, _ := object[name].([]any)
		if len(list) == 0 {
			return false
		}
		next, _ := strings.CutSuffix(path[1], "[]")
		at := max(0, slices.IndexFunc(list, func(e any) bool { _, has := e.(map[string]any)[next]; return has }))
		isTaken := next == "name" && slices.ContainsFunc(list, func(e any) bool { return e.(map[string]any)[next] == value })
		return !isTaken && setAt(list[at].(map[string]any), path[1:], value)
	}
	child, ok := object[name].(map[string]any)
	if object[name] == nil {
		child, ok = map[string]any{}, true
		object[name] = child
	}
	return ok && setAt(child, path[1:], value)
}
