package webhooks

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/domain"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/test/presettest"
	"github.com/virtwright/virtwright/validation"
)

// quantityPlaces has a manifest for every quantity of a VM's spec; %s is the quantity.
var quantityPlaces = map[string]string{
	"dataVolumeTemplates[].spec.pvc.resources.limits[]":       `{dataVolumeTemplates: [{metadata: {name: d}, spec: {source: {blank: {}}, pvc: {resources: {requests: {storage: 1}, limits: {storage: %s}}}}}]}`,
	"dataVolumeTemplates[].spec.pvc.resources.requests[]":     `{dataVolumeTemplates: [{metadata: {name: d}, spec: {source: {blank: {}}, pvc: {resources: {requests: {storage: %s}}}}}]}`,
	"dataVolumeTemplates[].spec.storage.resources.limits[]":   `{dataVolumeTemplates: [{metadata: {name: d}, spec: {source: {blank: {}}, storage: {resources: {requests: {storage: 1}, limits: {storage: %s}}}}}]}`,
	"dataVolumeTemplates[].spec.storage.resources.requests[]": `{dataVolumeTemplates: [{metadata: {name: d}, spec: {source: {blank: {}}, storage: {resources: {requests: {storage: %s}}}}}]}`,

	"template.spec.domain.memory.guest":                          `{template: {spec: {domain: {memory: {guest: %s}}}}}`,
	"template.spec.domain.memory.maxGuest":                       `{template: {spec: {domain: {memory: {guest: 1Mi, maxGuest: %s}}}}}`,
	"template.spec.domain.memory.reservedOverhead.addedOverhead": `{template: {spec: {domain: {memory: {guest: 1Gi, reservedOverhead: {addedOverhead: %s}}}}}}`,
	"template.spec.domain.resources.limits[]":                    `{template: {spec: {domain: {resources: {limits: {memory: %s}}}}}}`,
	"template.spec.domain.resources.requests[]":                  `{template: {spec: {domain: {resources: {requests: {memory: %s}}}}}}`,

	"template.spec.volumes[].downwardAPI.fields[].resourceFieldRef.divisor": `{template: {spec: {domain: {memory: {guest: 1Gi}, devices: {disks: [{name: v, disk: {}}]}}, volumes: [{name: v, downwardAPI: {fields: [{path: p, resourceFieldRef: {resource: limits.cpu, divisor: %s}}]}}]}}}`,
	emptyDisk: `{template: {spec: {domain: {memory: {guest: 1Gi}, devices: {disks: [{name: v, disk: {}}]}}, volumes: [{name: v, emptyDisk: {capacity: %s}}]}}}`,
	"template.spec.volumes[].hostDisk.capacity": `{template: {spec: {domain: {memory: {guest: 1Gi}, devices: {disks: [{name: v, disk: {}}]}}, volumes: [{name: v, hostDisk: {path: /d, type: DiskOrCreate, capacity: %s}}]}}}`,
}

// emptyDisk is the path of the only capacity that must be positive.
const emptyDisk = "template.spec.volumes[].emptyDisk.capacity"

// quantityPaths returns the paths of the quantities in a type.
func quantityPaths(t reflect.Type, path string) []string {
	switch {
	case t == reflect.TypeFor[resource.Quantity]():
		return []string{strings.TrimPrefix(path, ".")}
	case t.Kind() == reflect.Pointer:
		return quantityPaths(t.Elem(), path)
	case t.Kind() == reflect.Slice, t.Kind() == reflect.Map:
		return quantityPaths(t.Elem(), path+"[]")
	case t.Kind() != reflect.Struct:
		return nil
	}
	var out []string
	for f := range t.Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			out = append(out, quantityPaths(f.Type, path+"."+name)...)
		} else if f.Anonymous {
			out = append(out, quantityPaths(f.Type, path)...)
		}
	}
	return out
}

func TestEveryQuantityIsTried(t *testing.T) {
	found := quantityPaths(reflect.TypeFor[kubevirtv1.VirtualMachineSpec](), "")
	slices.Sort(found)
	if tried := slices.Sorted(maps.Keys(quantityPlaces)); !slices.Equal(found, tried) {
		t.Errorf("the API has quantities\n%s\nand the table\n%s", strings.Join(found, "\n"), strings.Join(tried, "\n"))
	}
}

// quantitySpellings are texts that Kubernetes reads as quantities, with the bytes that KubeVirt's
// converter gives a guest: fractions of a byte are dropped.
var quantitySpellings = map[string]uint{
	"0.5Gi": 1 << 29, ".5Gi": 1 << 29, "1.5Gi": 3 << 29, "2.5Gi": 5 << 29, "2.50Gi": 5 << 29, "1.Gi": 1 << 30, "+1Gi": 1 << 30,
	"1.0000000001Gi": 1 << 30, "100Ti": 100 << 40, "3.3Gi": 3543348019, "7.25Gi": 29 << 28, "1023Pi": 1023 << 50,
	"1e9": 1e9, "1E9": 1e9, "1E": 1e18, "1.5e9": 1.5e9, "1.5G": 1.5e9, "2048M": 2048e6, "2048Mi": 2 << 30, "1073741824": 1 << 30,
	"1073741824000m": 1 << 30, "1073741824.5": 1 << 30, "1Mi": 1 << 20, "1048576": 1 << 20,
	"512m": 0, "2048": 2048, "1e3": 1000, "1e-3": 0, "1000k": 1000e3, "1023Ki": 1023 << 10, "0": 0,
}

// TestQuantities compares what we accept with what Kubernetes and KubeVirt accept, for all
// quantities of the API. Of memory below 1Mi no guest can be made: it is rejected in standalone
// mode.
func TestQuantities(t *testing.T) {
	for path, manifest := range quantityPlaces {
		memory := strings.HasPrefix(path, "template.spec.domain") && !strings.Contains(path, "Overhead")
		for text, bytes := range quantitySpellings {
			m, err := quantityMachine(t, fmt.Sprintf(manifest, `"`+text+`"`), false)
			if err != nil {
				t.Errorf("%s: %s: %v", path, text, err)
				continue
			}
			problems := m.Config.Validate(m).Errors
			size := resource.MustParse(text)
			if fine := !memory && (path != emptyDisk || size.Sign() > 0) || bytes >= 1<<20; fine != (len(problems) == 0) {
				t.Errorf("%s: %s: accept: %t, got %v", path, text, fine, problems)
			} else if fine {
				rendersMemory(t, m, path, text, bytes)
			}
			if m, err = quantityMachine(t, fmt.Sprintf(manifest, `"`+text+`"`), true); err != nil {
				t.Fatal(err)
			}
			request := path == "template.spec.domain.resources.requests[]" && bytes < 1e6 && text != "0"
			if problems := m.Config.Validate(m).Errors; request != (len(problems) > 0) {
				t.Errorf("%s: %s: alongside KubeVirt, got %v", path, text, problems)
			}
		}
		for _, text := range []string{"1GB", "1 Gi", "1gi", "", "1..5Gi", "1,5Gi", "one", "1e", "1Gi5"} {
			if _, err := resource.ParseQuantity(text); err == nil {
				t.Errorf("Kubernetes accepts %q", text)
			}
			if _, err := quantityMachine(t, fmt.Sprintf(manifest, `"`+text+`"`), false); err == nil {
				t.Errorf("%s: %q is accepted", path, text)
			}
		}
	}
}

// rendersMemory checks the memory of a guest, in bytes.
func rendersMemory(t *testing.T, m *validation.ExpandedVM, path, text string, want uint) {
	plan, problems := (&domain.Profiles{}).Plan(&kubevirtv1.VirtualMachineInstance{ObjectMeta: *m.Meta, Spec: *m.Spec}, nil, nil)
	if len(problems) > 0 {
		t.Errorf("%s: %s: %v", path, text, problems)
		return
	}
	switch {
	case strings.HasSuffix(path, ".maxGuest") && want > 1<<20:
		if got := plan.Host.Domain.MaximumMemory.Value; got != want {
			t.Errorf("%s: %s is %d, want %d", path, text, got, want)
		}
	case strings.HasSuffix(path, ".guest"), strings.Contains(path, "domain.resources"):
		if got := plan.Host.Domain.Memory.Value; got != want {
			t.Errorf("%s: %s is %d, want %d", path, text, got, want)
		}
	}
}

// quantityMachine expands and decodes a VM with a spec.
func quantityMachine(t *testing.T, spec string, addon bool) (*validation.ExpandedVM, error) {
	t.Helper()
	object := map[string]any{}
	if err := json.Unmarshal(presettest.JSON(spec), &object); err != nil {
		t.Fatal(err)
	}
	engine := &presets.Engine{}
	if !addon {
		engine.Platform = &presets.Platform{}
	}
	vm := map[string]any{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": map[string]any{"name": "web", "namespace": "lab"}, "spec": object}
	if object["template"] == nil {
		object["template"] = json.RawMessage(`{"spec":{"domain":{"memory":{"guest":"1Gi"},"devices":{"disks":[{"name":"d","disk":{}}]}},"volumes":[{"name":"d","dataVolume":{"name":"d"}}]}}`)
	}
	object["runStrategy"] = "Halted"
	raw, err := json.Marshal(vm)
	if err != nil {
		t.Fatal(err)
	}
	result, err := engine.Resolve(t.Context(), presettest.Snapshot(t), presets.Request{Kind: presets.VirtualMachine, Object: raw})
	if err != nil {
		return nil, err
	}
	if raw, err = json.Marshal(result.Object()); err != nil {
		t.Fatal(err)
	}
	m, err := validation.NewVirtualMachine(raw)
	if err == nil {
		m.Config = &validation.Config{Addon: addon, NoLiveUpdate: true, Gates: map[validation.Gate]bool{validation.GateReservedOverhead: true, validation.GateHostDisk: true}}
	}
	return m, err
}
