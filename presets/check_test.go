package presets

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/presets/vmschema"
)

func TestCheckShape(t *testing.T) {
	type want struct{ unknown, kept, mistyped []string }
	for name, c := range map[string]struct {
		kind Kind
		in   string
		want want
	}{
		"Fine": {VirtualMachine, `
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: a, labels: {a.b/c: d}, creationTimestamp: null, managedFields: [{fieldsV1: {"f:spec": {}}}]}
spec: {template: {spec: {hostname: null, domain: {cpu: {cores: 2.0}, memory: {guest: 1Gi}, resources: {requests: {cpu: 1}}}, readinessProbe: {httpGet: {port: 80}}}}}
status: {ready: true}`, want{}},
		"Unknown": {VirtualMachine, "{spec: {template: {spec: {domain: {memroy: {guest: 1Gi}, devices: {disks: [{name: a}, {name: b, dsk: {}}]}}}}}}", want{unknown: []string{
			`spec.template.spec.domain.devices.disks[1].dsk: Invalid value: "dsk": unknown field "dsk"; did you mean "disk"?`,
			`spec.template.spec.domain.memroy: Invalid value: "memroy": unknown field "memroy"; did you mean "memory"?`,
		}}},
		"Case": {VirtualMachine, "{spec: {runstrategy: Always}}", want{unknown: []string{
			`spec.runstrategy: Invalid value: "runstrategy": unknown field "runstrategy"; did you mean "runStrategy"?`,
		}}},
		"FarFromAll": {VirtualMachine, "{spec: {template: {spec: {domain: {cpu: {features: [{xxxxxxxxxx: 1}]}}}}}}", want{unknown: []string{
			`spec.template.spec.domain.cpu.features[0].xxxxxxxxxx: Invalid value: "xxxxxxxxxx": unknown field "xxxxxxxxxx"; known fields: name, policy`,
		}}},
		"Status":       {VirtualMachine, "{status: {redy: true}}", want{unknown: []string{`status.redy: Invalid value: "redy": unknown field "redy"; did you mean "ready"?`}}},
		"RootMetadata": {VirtualMachine, "{metadata: {lables: {}}}", want{unknown: []string{`metadata.lables: Invalid value: "lables": unknown field "lables"; did you mean "labels"?`}}},
		"Kept": {VirtualMachine, "{spec: {template: {metadata: {lables: {}}, spec: {domain: {clock: {utcx: {}, timer: {hpett: {}}}}}}}}", want{
			kept: []string{
				`spec.template.metadata.lables: Invalid value: "lables": unknown field "lables"; did you mean "labels"?`,
				`spec.template.spec.domain.clock.utcx: Invalid value: "utcx": unknown field "utcx"; did you mean "utc"?`,
			},
			unknown: []string{`spec.template.spec.domain.clock.timer.hpett: Invalid value: "hpett": unknown field "hpett"; did you mean "hpet"?`},
		}},
		"Mistyped": {VirtualMachine, `
metadata: {labels: {a: 3}}
spec: {running: "yes", template: {spec: {domain: {cpu: {cores: "2", sockets: 1.5}, memory: {guest: 2Gigs}, devices: {disks: {name: a}}, resources: {requests: {cpu: 0.5, memory: [1]}}}, tolerations: [null]}}}`, want{mistyped: []string{
			`metadata.labels[a]: Invalid value: 3: must be a string`,
			`spec.running: Invalid value: "yes": must be true or false`,
			`spec.template.spec.domain.cpu.cores: Invalid value: "2": must be a whole number`,
			`spec.template.spec.domain.cpu.sockets: Invalid value: 1.5: must be a whole number`,
			`spec.template.spec.domain.devices.disks: Invalid value: {"name":"a"}: must be a list`,
			`spec.template.spec.domain.memory.guest: Invalid value: "2Gigs": must be a quantity such as 2Gi or 500m`,
			`spec.template.spec.domain.resources.requests[memory]: Invalid value: [1]: must be a quantity such as 2Gi or 500m`,
			`spec.template.spec.tolerations[0]: Invalid value: null: must be an object`,
		}}},
		"MistypedMetadata": {VirtualMachine, `
metadata: {namespace: 123, name: true, creationTimestamp: "2026-01-31T12:00:00Z", deletionTimestamp: x, managedFields: [{time: yesterday}]}`, want{mistyped: []string{
			`metadata.deletionTimestamp: Invalid value: "x": must be a time such as 2026-01-31T12:00:00Z`,
			`metadata.managedFields[0].time: Invalid value: "yesterday": must be a time such as 2026-01-31T12:00:00Z`,
			`metadata.name: Invalid value: true: must be a string; YAML reads yes, no, on, off, y and n without quotes as true or false`,
			`metadata.namespace: Invalid value: 123: must be a string`,
		}}},
		"Limits": {VirtualMachine, `
metadata: {annotations: {a: 100000000000000000000}}
spec: {template: {spec: {terminationGracePeriodSeconds: -5, domain: {cpu: {cores: 4294967296, sockets: 1e30, threads: -1}, ioThreads: {supplementalPoolThreadCount: 3000000000}, devices: {disks: [{name: a, bootOrder: 18446744073709551607}]}}}}}`, want{mistyped: []string{
			`metadata.annotations[a]: Invalid value: 1e+20: must be a string`,
			`spec.template.spec.domain.cpu.cores: Invalid value: 4294967296: must be a whole number from 0 to 2147483647`,
			`spec.template.spec.domain.cpu.sockets: Invalid value: 1e+30: must be a whole number from 0 to 2147483647`,
			`spec.template.spec.domain.cpu.threads: Invalid value: -1: must be a whole number from 0 to 2147483647`,
			`spec.template.spec.domain.devices.disks[0].bootOrder: Invalid value: 1.8446744073709552e+19: must be a whole number from 0 to 9223372036854775807`,
			`spec.template.spec.domain.ioThreads.supplementalPoolThreadCount: Invalid value: 3000000000: must be a whole number from 0 to 2147483647`,
		}}},
		"HugeQuantity": {VirtualMachine, "{spec: {template: {spec: {domain: {memory: {guest: 1e-99999999}}}}}}", want{}},
		"Instance": {VirtualMachineInstance, "{spec: {domain: {cpus: {}, chassis: 3}}}", want{
			unknown:  []string{`spec.domain.cpus: Invalid value: "cpus": unknown field "cpus"; did you mean "cpu"?`},
			mistyped: []string{`spec.domain.chassis: Invalid value: 3: must be an object`},
		}},
		"LegacyPreset": {VirtualMachineInstancePreset, "{spec: {selctor: {}, domain: {cpus: {}}}}", want{unknown: []string{
			`spec.domain.cpus: Invalid value: "cpus": unknown field "cpus"; did you mean "cpu"?`,
			`spec.selctor: Invalid value: "selctor": unknown field "selctor"; did you mean "selector"?`,
		}}},
		"AnythingElse": {"Pod", "{a: b}", want{}},
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := yaml.YAMLToJSON([]byte(c.in))
			if err != nil {
				t.Fatal(err)
			}
			object, err := decode("object", raw)
			if err != nil {
				t.Fatal(err)
			}
			shape := CheckSchema(c.kind, object)
			got := want{texts(shape.Unknown), texts(shape.Preserved), texts(shape.Mistyped)}
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(want{})); diff != "" {
				t.Errorf("-want, +got:\n%s", diff)
			}
		})
	}
}

func texts(problems field.ErrorList) []string {
	var out []string
	for _, p := range problems {
		out = append(out, p.Error())
	}
	return out
}

// TestShapeIsTheSchema: CheckSchema knows the same fields as the CRDs.
func TestShapeIsTheSchema(t *testing.T) {
	for kind, file := range map[Kind]string{
		VirtualMachine: "virtualmachines", VirtualMachineInstance: "virtualmachineinstances", VirtualMachineInstancePreset: "virtualmachineinstancepresets",
	} {
		content, err := os.ReadFile("../charts/virtwright/files/crds/kubevirt.io_" + file + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(content, &crd); err != nil {
			t.Fatal(err)
		}
		for _, version := range crd.Spec.Versions {
			if version.Name != "v1alpha2" { // which conversion turns into v1
				compareShapes(t, version.Schema.OpenAPIV3Schema, shapes[kind](), nil)
			}
		}
	}
}

func compareShapes(t *testing.T, declared *apiextensionsv1.JSONSchemaProps, s *vmschema.Schema, at *field.Path) {
	t.Helper()
	if kept := declared.XPreserveUnknownFields != nil && s.Shape == vmschema.Object; kept != (s.Shape == vmschema.Object && at != nil && keepsUnknown(s, at)) {
		t.Errorf("%s: unknown fields are kept: declared %v", at, kept)
	}
	if at.String() == "metadata" || s.GoType == "meta/v1.ObjectMeta" {
		return // which no CRD declares
	}
	if s.Shape == vmschema.Object && len(declared.Properties) > 0 {
		if diff := cmp.Diff(slices.Sorted(maps.Keys(declared.Properties)), slices.Sorted(maps.Keys(s.Fields))); diff != "" {
			t.Errorf("%s: -declared, +known:\n%s", at, diff)
			return
		}
	}
	for name, property := range declared.Properties {
		compareDefaults(t, &property, s, at.Child(name))
		compareShapes(t, &property, s.Fields[name], at.Child(name))
	}
	if declared.Items != nil {
		compareShapes(t, declared.Items.Schema, s.Elem, at.Index(0))
	}
	if declared.Format == "int32" && s.Shape == vmschema.Integer && s.Most > math.MaxInt32 {
		t.Errorf("%s: at most %d, declared as int32", at, s.Most)
	}
	if got, want := declaredType(s), typeOf(declared); got != want && s.Shape != vmschema.Any {
		t.Errorf("%s: declared as %s, known as %s", at, want, got)
	}
}

// compareDefaults compares what a schema does about a field that is absent or null. VMs are created
// without status.
func compareDefaults(t *testing.T, declared *apiextensionsv1.JSONSchemaProps, holder *vmschema.Schema, at *field.Path) {
	t.Helper()
	path := at.String()
	if strings.HasPrefix(path, "status") || path == "metadata" || holder.GoType == "meta/v1.ObjectMeta" {
		return
	}
	if keeps := nullable.MatchString(path); keeps != declared.Nullable {
		t.Errorf("%s: null is kept: %t, declared: %t", at, keeps, declared.Nullable)
	}
	names := strings.Split(path, ".")
	known, err := json.Marshal(schemaDefaults[holder.GoType][names[len(names)-1]])
	if err != nil {
		t.Fatal(err)
	}
	want := "null"
	if declared.Default != nil {
		want = string(declared.Default.Raw)
	}
	if string(known) != want {
		t.Errorf("%s: the default is %s, declared: %s", at, known, want)
	}
}

// TestShapeDefaults drops and sets what API servers drop and set.
func TestShapeDefaults(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"Nulls": {"{metadata: {annotations: null}, spec: {running: null, template: {metadata: null, spec: {volumes: null, nodeSelector: {a: null}, domain: {memory: {guest: null}}}}}}",
			"{metadata: {}, spec: {template: {metadata: null, spec: {nodeSelector: {}, domain: {memory: {}}}}}}"},
		"NullsThatAreKept": {"{spec: {template: {metadata: {labels: null, annotations: {a: null}}}, dataVolumeTemplates: [{metadata: null, spec: {source: null}}]}}",
			"{spec: {template: {metadata: {labels: null, annotations: {a: null}}}, dataVolumeTemplates: [{metadata: null, spec: {}}]}}"},
		"Defaults": {"{spec: {template: {spec: {volumes: [{name: a, containerPath: {}}, {name: b, containerPath: {readOnly: false}}, {name: c, configMap: {name: null}}, {name: d, sysprep: {secret: {}}}]}}}}",
			"{spec: {template: {spec: {volumes: [{name: a, containerPath: {readOnly: true}}, {name: b, containerPath: {readOnly: false}}, {name: c, configMap: {name: ''}}, {name: d, sysprep: {secret: {name: ''}}}]}}}}"},
		"Nothing": {"{spec: {template: {spec: {domain: {}}}}}", "{spec: {template: {spec: {domain: {}}}}}"},
	} {
		t.Run(name, func(t *testing.T) {
			var object, want map[string]any
			if err := errors.Join(yaml.Unmarshal([]byte(c.in), &object), yaml.Unmarshal([]byte(c.want), &want)); err != nil {
				t.Fatal(err)
			}
			if changed := CheckSchema(VirtualMachine, object).Default(); changed != (c.in != c.want) {
				t.Errorf("changed: %t", changed)
			}
			if diff := cmp.Diff(want, object); diff != "" {
				t.Errorf("-want, +got:\n%s", diff)
			}
		})
	}
}

func typeOf(declared *apiextensionsv1.JSONSchemaProps) string {
	if declared.XIntOrString {
		return "int or string"
	}
	return declared.Type
}

func declaredType(s *vmschema.Schema) string {
	for declared, of := range map[string][]vmschema.Shape{
		"object": {vmschema.Object, vmschema.Map}, "array": {vmschema.Keyed, vmschema.Atomic}, "string": {vmschema.String}, "boolean": {vmschema.Bool},
		"integer": {vmschema.Integer}, "number": {vmschema.Number}, "int or string": {vmschema.Quantity, vmschema.IntOrString},
	} {
		if slices.Contains(of, s.Shape) {
			return declared
		}
	}
	return fmt.Sprint("shape ", s.Shape)
}
