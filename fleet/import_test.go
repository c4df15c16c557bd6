package fleet_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/fleet"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/test/cases"
	"github.com/virtwright/virtwright/test/golden"
)

func rawJSON(t *testing.T, text string) []byte {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func decoded(t *testing.T, text string) map[string]any {
	t.Helper()
	var out map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(rawJSON(t, text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func importFixtures(t *testing.T, text string) (source fleet.ImportSource, vms []map[string]any) {
	t.Helper()
	for document := range strings.SplitSeq(text, "---\n") {
		object := decoded(t, document)
		kind, _ := object["kind"].(string)
		meta, _ := object["metadata"].(map[string]any)
		name, _ := meta["name"].(string)
		namespace, _ := meta["namespace"].(string)
		spec, _ := object["spec"].(map[string]any)
		switch kind {
		case "VirtualMachine":
			vms = append(vms, object)
		case "VirtualMachineInstancePreset":
			p := &kubevirtv1.VirtualMachineInstancePreset{}
			if err := yaml.Unmarshal([]byte(document), p); err != nil {
				t.Fatal(err)
			}
			source.Legacy = append(source.Legacy, p)
		default:
			version, _ := object["apiVersion"].(string)
			if of := schema.FromAPIVersionAndKind(version, kind).GroupKind(); fleet.ImportsPolicy(of) {
				source.Policies = append(source.Policies, fleet.Policy{Kind: of, Namespace: namespace, Name: name, JSON: rawJSON(t, document)})
				continue
			}
			source.Contributors = append(source.Contributors, fleet.Contributor{Kind: kind, Namespace: namespace, Name: name, Spec: spec})
		}
	}
	return source, vms
}

// TestImport compares the presets, deviations and VMs of each file with golden files.
func TestImport(t *testing.T) {
	files, err := filepath.Glob("testdata/import/*.in.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		in, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		source, vms := importFixtures(t, string(in))
		source.Standalone = strings.Contains(file, "standalone")
		made := fleet.NewImport(t.Context(), source)
		result := map[string]any{"items": made.Items}
		var converted []fleet.Converted
		for _, vm := range vms {
			c, err := made.Convert(t.Context(), vm, presets.Namespace{Name: "prod"})
			if err != nil {
				t.Fatal(err)
			}
			converted = append(converted, c)
		}
		result["vms"] = converted
		out, err := yaml.Marshal(result)
		if err != nil {
			t.Fatal(err)
		}
		golden.Equal(t, strings.Replace(file, ".in.", ".out.", 1), string(out))
	}
	golden.Stale(t, "testdata/import/*.out.yaml")
}

// togetherOnly are fields that have an effect only together with others.
var togetherOnly = map[string]bool{
	"preferredUseSecureBoot": true, "preferredUseBiosSerial": true,
}

// TestImportKnowsEveryField fails if a field of an instancetype or a preference is neither
// expressed nor listed with its own reason.
func TestImportKnowsEveryField(t *testing.T) {
	for kind, of := range map[string]reflect.Type{
		"VirtualMachineClusterInstancetype": reflect.TypeFor[v1beta1.VirtualMachineInstancetypeSpec](),
		"VirtualMachineClusterPreference":   reflect.TypeFor[v1beta1.VirtualMachinePreferenceSpec](),
	} {
		fields := 0
		eachField(of, nil, func(path []string, sample any) {
			fields++
			spec := map[string]any{"cpu": map[string]any{"guest": int64(2)}, "memory": map[string]any{"guest": "2Gi"}}
			if kind == "VirtualMachineClusterPreference" {
				spec = map[string]any{}
			}
			at := spec
			for _, name := range path[:len(path)-1] {
				sub, _ := at[name].(map[string]any)
				if sub == nil {
					sub = map[string]any{}
				}
				at[name], at = sub, sub
			}
			at[path[len(path)-1]] = sample
			made := fleet.NewImport(t.Context(), fleet.ImportSource{Contributors: []fleet.Contributor{{Kind: kind, Name: "x", Spec: spec}}})
			text := strings.Join(path, ".")
			for _, d := range made.Items[0].Deviations {
				if strings.HasPrefix(d.Path, "spec."+text) && strings.Contains(d.Reason, "has no effect") && !togetherOnly[path[len(path)-1]] {
					t.Errorf("%s: import does not know field %s: %v", kind, text, d)
				}
			}
			if made.Items[0].Preset == nil && len(made.Items[0].Deviations) == 0 {
				t.Errorf("%s: field %s is dropped", kind, text)
			}
		})
		if fields < 15 {
			t.Errorf("%s has only %d fields", kind, fields)
		}
	}
}

// eachField visits the fields that v1beta1 declares, with a value for each.
func eachField(of reflect.Type, at []string, visit func([]string, any)) {
	for f := range of.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		path := slices.Concat(at, []string{name})
		kind := f.Type
		if kind.Kind() == reflect.Pointer {
			kind = kind.Elem()
		}
		if kind.Kind() == reflect.Struct && strings.HasSuffix(kind.PkgPath(), "/instancetype/v1beta1") {
			eachField(kind, path, visit)
			continue
		}
		visit(path, sampleOf(kind))
	}
}

// sampleOf returns a value of a type, as decoded JSON.
func sampleOf(of reflect.Type) any {
	switch {
	case of == reflect.TypeFor[resource.Quantity]():
		return "1Gi"
	case of.Kind() == reflect.Pointer:
		return sampleOf(of.Elem())
	case of.Kind() == reflect.Bool:
		return true
	case of.Kind() == reflect.String:
		return "threads"
	case of.Kind() == reflect.Map:
		return map[string]any{"key": "value"}
	case of.Kind() == reflect.Slice:
		return []any{sampleOf(of.Elem())}
	case of.Kind() == reflect.Struct:
		out := map[string]any{}
		if of.NumField() > 0 {
			name, _, _ := strings.Cut(of.Field(0).Tag.Get("json"), ",")
			out[name] = sampleOf(of.Field(0).Type)
		}
		return out
	}
	return int64(3)
}

// TestImportRejectsLabels does not import an object if its name is not a valid label value.
func TestImportRejectsLabels(t *testing.T) {
	long := strings.Repeat("a", 64)
	made := fleet.NewImport(t.Context(), fleet.ImportSource{Contributors: []fleet.Contributor{{Kind: "VirtualMachinePreference", Namespace: "prod", Name: long}}})
	want := []fleet.Deviation{{Path: "metadata.name", Value: long, Reason: "VMs select the preset by a label, and the name is not a valid label value"}}
	if diff := cmp.Diff(want, made.Items[0].Deviations); diff != "" || made.Items[0].Preset != nil {
		t.Error(diff)
	}
}

// TestImportKeepsLabels does not convert a VM that already has the selecting label.
func TestImportKeepsLabels(t *testing.T) {
	source := fleet.ImportSource{Contributors: []fleet.Contributor{{Kind: "VirtualMachineClusterInstancetype", Name: "small", Spec: decoded(t, "{cpu: {guest: 1}, memory: {guest: 1Gi}}")}}}
	for labels, want := range map[string][]string{
		"{cluster-instancetype: ours}":  {"its existing label cluster-instancetype: ours would select another preset: use another label prefix"},
		"{cluster-instancetype: small}": nil,
		"{preference: ours}":            nil,
	} {
		vm := decoded(t, "{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: vm, namespace: prod, labels: "+labels+"}, spec: {instancetype: {name: small}, template: {spec: {domain: {devices: {}}}}}}")
		got, err := fleet.NewImport(t.Context(), source).Convert(t.Context(), vm, presets.Namespace{Name: "prod"})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got.Problems); diff != "" || (got.VM != nil) != (want == nil) {
			t.Errorf("%s: %s\nVM: %v", labels, diff, got.VM)
		}
	}
}

// TestImportNamesKinds suggests the kind that the VM does not set.
func TestImportNamesKinds(t *testing.T) {
	source := fleet.ImportSource{Contributors: []fleet.Contributor{{Kind: "VirtualMachineInstancetype", Namespace: "prod", Name: "small", Spec: decoded(t, "{cpu: {guest: 1}, memory: {guest: 1Gi}}")}}}
	vm := decoded(t, "{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: vm, namespace: prod}, spec: {instancetype: {name: small}, template: {spec: {domain: {}}}}}")
	got, err := fleet.NewImport(t.Context(), source).Convert(t.Context(), vm, presets.Namespace{Name: "prod"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"VirtualMachineClusterInstancetype small is not in the input, but VirtualMachineInstancetype small is: set the kind"}
	if diff := cmp.Diff(want, got.Problems); diff != "" {
		t.Error(diff)
	}
}

// legacyDomains are domains of legacy presets; vmDomains are domains of VMs.
var (
	legacyDomains = []string{
		"{cpu: {cores: 2}}", "{cpu: {cores: 4, model: EPYC}}", "{resources: {requests: {memory: 1Gi}}}", "{memory: {guest: 2Gi}}",
		"{clock: {utc: {}, timer: {rtc: {tickPolicy: catchup}}}}", "{features: {acpi: {}, hyperv: {relaxed: {}}}}", "{ioThreadsPolicy: auto}",
		"{devices: {watchdog: {name: dog, i6300esb: {action: reset}}, rng: {}}}", "{firmware: {uuid: c8f99fc8-20f5-46c4-85e5-2b841c547cef}}",
		"{machine: {type: q35}, devices: {tpm: {}}}",
	}
	vmDomains = []string{"{}", "{cpu: {cores: 2}}", "{cpu: {threads: 2}}", "{resources: {requests: {cpu: 1}}}", "{clock: {timezone: Europe/Berlin}}", "{features: {hyperv: {relaxed: {enabled: false}}}}"}
)

// TestImportedLegacyPresetsActAlike compares VMs with legacy presets and with the imported presets,
// in both modes. Some VMs are rejected because two legacy presets conflict.
func TestImportedLegacyPresetsActAlike(t *testing.T) {
	rejected, reported, applied := 0, 0, 0
	for n := range cases.Of(2000) {
		random := rand.New(rand.NewPCG(19, uint64(n)))
		source := fleet.ImportSource{Standalone: n%2 == 0}
		for i := range 1 + random.IntN(4) {
			selector := []string{"{}", "{matchLabels: {size: s}}", "{matchExpressions: [{key: size, operator: NotIn, values: [s]}]}"}[random.IntN(3)]
			object := fmt.Sprintf("{metadata: {name: p%d, namespace: prod}, spec: {selector: %s, domain: %s}}", i, selector, legacyDomains[random.IntN(len(legacyDomains))])
			p := &kubevirtv1.VirtualMachineInstancePreset{}
			if err := yaml.UnmarshalStrict([]byte(object), p); err != nil {
				t.Fatal(err)
			}
			source.Legacy = append(source.Legacy, p)
		}
		labels := []string{"{}", "{size: s}", "{size: m}"}[random.IntN(3)]
		exclude := []string{"{}", "{virtualmachineinstancepresets.admission.kubevirt.io/exclude: 'true'}", "{virtualmachineinstancepresets.admission.kubevirt.io/exclude: 'yes'}"}[random.IntN(3)]
		sets := vmDomains[random.IntN(len(vmDomains))]
		vm := decoded(t, fmt.Sprintf("{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: vm, namespace: prod}, spec: {template: {metadata: {labels: %s, annotations: %s}, spec: {domain: %s}}}}",
			labels, exclude, sets))
		made := fleet.NewImport(t.Context(), source)
		got, err := made.Convert(t.Context(), vm, presets.Namespace{Name: "prod"})
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case len(got.Problems) > 0 && strings.HasPrefix(got.Problems[0], "its VMI is currently rejected: "):
			rejected++
		case len(got.Changes) > 0 && !source.Standalone && sets != "{}":
			reported++ // KubeVirt takes whole fields, and the VM has part of one
		case len(got.Problems)+len(got.Changes) > 0:
			t.Errorf("case %d: %v %v\n%v", n, got.Problems, got.Changes, vm)
		default:
			applied++
		}
	}
	if rejected == 0 || reported == 0 || applied == 0 {
		t.Errorf("%d are rejected, %d are reported, %d are alike", rejected, reported, applied)
	}
	t.Logf("%d are alike, %d are reported, %d are rejected", applied, reported, rejected)
}
