package pods

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/domain"
	"github.com/virtwright/virtwright/launcher/podspec"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/test/controlplane"
	"github.com/virtwright/virtwright/test/validationtest"
	"github.com/virtwright/virtwright/validation"
)

// namespace has the generated pods, which are never stored.
const namespace = "default"

// settings are those of a cluster with KVM.
var settings = podspec.Settings{Image: "example.org/launcher:1", KVMResource: "example.org/kvm"}

// A cluster has an API server that says whether it admits a pod.
type cluster struct {
	client   client.Client
	engine   *presets.Engine
	profiles *domain.Profiles
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	cp := controlplane.ForTest(t, controlplane.Options{
		APIServerArgs: []string{"--disable-admission-plugins=Priority,ServiceAccount"}, // they ask whether objects exist
	})
	c, err := client.New(cp.Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	profiles, errs := domain.CompileProfiles(nil, nil)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return &cluster{c, &presets.Engine{Platform: &presets.Platform{}}, profiles}
}

// judge asks the rules and the API server.
func (c *cluster) judge(t *testing.T, v *vmi) {
	object, err := c.expand(t, v.object)
	if err != nil {
		v.rules = []string{err.Error()}
		return
	}
	pod, problems := c.pod(t, object)
	v.rules, v.built = problems, pod != nil
	if !v.built {
		return
	}
	if err := c.client.Create(t.Context(), pod, client.DryRunAll); apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		v.pod = err
	} else if err != nil {
		t.Errorf("%s: %v", v.change, err)
	}
}

// expand returns a VMI with platform defaults, as the mutating webhook stores it.
func (c *cluster) expand(t *testing.T, object map[string]any) ([]byte, error) {
	t.Helper()
	raw, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	result, err := c.engine.Resolve(t.Context(), presets.NewSnapshot(nil, nil), presets.Request{Kind: presets.VirtualMachineInstance, Object: raw})
	if err != nil {
		return nil, err
	}
	out, err := json.Marshal(result.Object())
	if err != nil {
		t.Fatal(err)
	}
	return out, nil
}

// pod returns the pod of a VMI, and what the validating webhook reports about the VMI. There is no
// pod of a VMI with a wrong type.
func (c *cluster) pod(t *testing.T, raw []byte) (pod *corev1.Pod, problems []string) {
	t.Helper()
	expanded, err := validation.NewVirtualMachineInstance(raw)
	if err != nil {
		return nil, []string{err.Error()}
	}
	for _, e := range (&validation.Config{}).Validate(expanded).Errors {
		problems = append(problems, e.Error())
	}
	object := &kubevirtv1.VirtualMachineInstance{}
	if err := json.Unmarshal(raw, object); err != nil {
		return nil, []string{err.Error()}
	}
	object.UID = "8ecd1a4c-5a45-4a76-b0e9-5a2a4a2a0e10"
	_, errs := c.profiles.Plan(object, nil, nil)
	for _, e := range append(errs, domain.CheckPod(object)...) {
		problems = append(problems, e.Error())
	}
	if len(problems) > 0 && len(errs) > 0 {
		return nil, problems // as podspec assumes
	}
	claims := map[string]podspec.Claim{"claim": {Capacity: resource.MustParse("1Gi")}}
	pod, err = podspec.New(&podspec.Request{VMI: object, Claims: claims}, &settings)
	if err != nil {
		return nil, append(problems, err.Error())
	}
	return pod, problems
}

// fixtures are the VMIs among the fixtures of rules.
func fixtures(t *testing.T) []vmi {
	t.Helper()
	var out []vmi
	for rule, list := range validationtest.Fixtures(t) {
		for i := range list {
			f := &list[i]
			object := map[string]any{}
			if err := json.Unmarshal(f.Manifest(t), &object); err != nil {
				t.Fatal(err)
			}
			if object["kind"] == "VirtualMachineInstance" {
				object["metadata"] = map[string]any{"name": "web", "namespace": namespace}
				out = append(out, vmi{object: object, change: rule + "/" + f.Name})
			}
		}
	}
	return out
}

// generated are VMIs with one to three additions. One of these has an odd value. The seed is fixed.
func generated(t *testing.T, count int) []vmi {
	t.Helper()
	random := rand.New(rand.NewPCG(5, 6))
	fields, volumes := parse[[]any](t, additions), parse[[]any](t, sources)
	for _, source := range volumes {
		volume := runtime.DeepCopyJSON(source.(map[string]any))
		volume["name"] = "more"
		disk := map[string]any{"name": "more", "disk": map[string]any{"bus": "virtio"}}
		fields = append(fields, map[string]any{"volumes": []any{volume}, "domain": map[string]any{"devices": map[string]any{"disks": []any{disk}}}})
	}
	out := make([]vmi, count)
	for i := range out {
		spec := parse[map[string]any](t, base)
		addition := runtime.DeepCopyJSON(fields[random.IntN(len(fields))].(map[string]any))
		leaves := leavesOf(addition, "")
		leaf := leaves[random.IntN(len(leaves))]
		value := odd[random.IntN(len(odd))]
		leaf.set(value)
		merge(spec, addition)
		for range random.IntN(3) {
			merge(spec, runtime.DeepCopyJSON(fields[random.IntN(len(fields))].(map[string]any)))
		}
		out[i] = vmi{
			object: map[string]any{
				"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "metadata": map[string]any{"name": "web", "namespace": namespace}, "spec": spec,
			},
			change: fmt.Sprintf("case %d (%s: %.40q)", i, leaf.path, fmt.Sprint(value)),
		}
	}
	return out
}

func parse[T any](t *testing.T, text string) T {
	t.Helper()
	var out T
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return runtime.DeepCopyJSONValue(any(out)).(T)
}

// merge adds fields to a spec; of lists, the elements.
func merge(spec, addition map[string]any) {
	for name, value := range addition {
		switch is := spec[name].(type) {
		case map[string]any:
			if more, ok := value.(map[string]any); ok {
				merge(is, more)
				continue
			}
			spec[name] = value
		case []any:
			if more, ok := value.([]any); ok {
				spec[name] = slices.Concat(is, more)
				continue
			}
			spec[name] = value
		default:
			spec[name] = value
		}
	}
}

// A leaf is a scalar, or a key of an object, that can be replaced.
type leaf struct {
	path string
	set  func(any)
}

// leavesOf returns the scalars beneath a value, and the keys of objects with a dot or one field.
func leavesOf(value any, path string) []leaf {
	var out []leaf
	switch v := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			at := path + "." + name
			if inner := leavesOf(v[name], at); inner != nil {
				out = append(out, inner...)
			} else {
				out = append(out, leaf{at, func(x any) { v[name] = x }})
			}
			if isLabel(path) {
				out = append(out, leaf{"key of " + path, func(x any) { v[fmt.Sprint(x)] = v[name]; delete(v, name) }})
			}
		}
	case []any:
		for i := range v {
			if inner := leavesOf(v[i], path+"[]"); inner != nil {
				out = append(out, inner...)
			} else {
				out = append(out, leaf{path + "[]", func(x any) { v[i] = x }})
			}
		}
	}
	return out
}

// isLabel reports whether the keys of an object are data.
func isLabel(path string) bool {
	return slices.ContainsFunc([]string{"nodeSelector", "matchLabels", "requests", "limits"}, func(name string) bool { return strings.HasSuffix(path, "."+name) })
}
