package render

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/fleet"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/test/cases"
)

// legacyDomains are what presets set; legacyVMIs are what VMIs set themselves.
var (
	legacyDomains = []string{
		"{cpu: {cores: 2}}", "{cpu: {cores: 4, model: EPYC}}", "{resources: {requests: {memory: 1Gi}}}", "{resources: {requests: {cpu: 1}, limits: {cpu: 2}}}",
		"{clock: {utc: {}}}", "{clock: {timer: {rtc: {tickPolicy: catchup}}}}", "{clock: {timezone: Europe/Berlin, timer: {hpet: {present: false}}}}",
		"{features: {acpi: {}, hyperv: {relaxed: {}}}}", "{ioThreadsPolicy: auto}", "{devices: {watchdog: {name: dog, i6300esb: {action: reset}}, rng: {}}}",
		"{firmware: {serial: abc}}", "{memory: {guest: 2Gi}, machine: {type: q35}}",
	}
	legacyVMIs = []string{
		"{}", "{cpu: {cores: 2}}", "{cpu: {threads: 2}}", "{resources: {requests: {memory: 3Gi}}}", "{clock: {timezone: Europe/Berlin}}",
		"{clock: {utc: {}, timer: {pit: {tickPolicy: delay}}}}", "{features: {acpi: {enabled: false}}}", "{ioThreadsPolicy: shared}",
	}
)

// legacyCase is a VMI with the legacy presets of its namespace.
type legacyCase struct {
	VMI     map[string]any                             `json:"vmi"`
	Presets []*kubevirtv1.VirtualMachineInstancePreset `json:"presets"`
}

// TestImportedLegacyPresetsActAsInKubeVirt compares what KubeVirt's own webhook makes of VMIs under
// its presets with what it makes of them under the imported presets, and with what import says.
func TestImportedLegacyPresetsActAsInKubeVirt(t *testing.T) {
	counts := map[string]int{}
	var before, after []legacyCase
	var verdicts []fleet.Converted
	for n := range cases.Of(400) {
		c := generatedLegacy(t, n)
		made := fleet.NewImport(t.Context(), fleet.ImportSource{Legacy: c.Presets})
		vm := map[string]any{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": map[string]any{"name": "vm", "namespace": "prod"},
			"spec": map[string]any{"template": map[string]any{"metadata": c.VMI["metadata"], "spec": c.VMI["spec"]}}}
		verdict, err := made.Convert(t.Context(), vm, presets.Namespace{Name: "prod"})
		if err != nil {
			t.Fatal(err)
		}
		verdicts, before = append(verdicts, verdict), append(before, c)
		after = append(after, legacyCase{VMI: underImported(t, made, c.VMI)})
	}
	were, are := mutatedByKubeVirt(t, before), mutatedByKubeVirt(t, after)
	for n, v := range verdicts {
		same := were[n].Rejected == "" && cmp.Equal(were[n].Domain, are[n].Domain)
		says := len(v.Problems)+len(v.Changes) == 0
		counts[fmt.Sprintf("same %t, rejected %t", same, were[n].Rejected != "")]++
		if same != says || (were[n].Rejected != "") != (len(v.Problems) > 0) {
			text, _ := json.Marshal(before[n])
			t.Errorf("case %d: import says %v %v, KubeVirt %q\n%s\n%s", n, v.Problems, v.Changes, were[n].Rejected, cmp.Diff(were[n].Domain, are[n].Domain), text)
		}
	}
	if len(counts) != 3 {
		t.Errorf("not all verdicts: %v", counts)
	}
	t.Log(counts)
}

func generatedLegacy(t *testing.T, n int) legacyCase {
	t.Helper()
	random := rand.New(rand.NewPCG(18, uint64(n)))
	var c legacyCase
	for i := range 1 + random.IntN(3) {
		selector := []string{"{}", "{matchLabels: {size: s}}", "{matchExpressions: [{key: size, operator: NotIn, values: [s]}]}"}[random.IntN(3)]
		p := &kubevirtv1.VirtualMachineInstancePreset{}
		object := fmt.Sprintf("{metadata: {name: p%d, namespace: prod}, spec: {selector: %s, domain: %s}}", i, selector, legacyDomains[random.IntN(len(legacyDomains))])
		if err := yaml.UnmarshalStrict([]byte(object), p); err != nil {
			t.Fatal(err)
		}
		c.Presets = append(c.Presets, p)
	}
	exclude := []string{"{}", "{}", "{virtualmachineinstancepresets.admission.kubevirt.io/exclude: 'true'}"}[random.IntN(3)]
	object := fmt.Sprintf("{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance, metadata: {name: vm, namespace: prod, labels: %s, annotations: %s}, spec: {domain: %s}}",
		[]string{"{}", "{size: s}", "{size: m}"}[random.IntN(3)], exclude, legacyVMIs[random.IntN(len(legacyVMIs))])
	if err := yaml.Unmarshal([]byte(strings.Replace(object, "domain: {", "domain: {devices: {}, ", 1)), &c.VMI); err != nil {
		t.Fatal(err)
	}
	return c
}

// underImported is a VMI under the imported presets.
func underImported(t *testing.T, made *fleet.Import, vmi map[string]any) map[string]any {
	t.Helper()
	var all []*presets.Compiled
	for _, item := range made.Items {
		if item.Preset == nil {
			continue
		}
		raw, err := json.Marshal(item.Preset)
		object := &v1alpha1.VirtualMachinePreset{}
		if err == nil {
			err = json.Unmarshal(raw, object)
		}
		if err != nil {
			t.Fatal(err)
		}
		c, problems := presets.Compile(object)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		all = append(all, c)
	}
	raw, err := json.Marshal(vmi)
	if err != nil {
		t.Fatal(err)
	}
	result, err := (&presets.Engine{}).Resolve(t.Context(), presets.NewSnapshot(all, nil), presets.Request{
		Kind: presets.VirtualMachineInstance, Object: raw, Namespace: presets.Namespace{Name: "prod"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return result.Object()
}

// mutated is the domain of a VMI after KubeVirt's webhook.
type mutated struct {
	Domain   *kubevirtv1.DomainSpec `json:"domain"`
	Rejected string                 `json:"rejected"`
}

func mutatedByKubeVirt(t *testing.T, all []legacyCase) []mutated {
	t.Helper()
	out := make([]mutated, len(all))
	answers(t, legacy, all, func(n int, read *json.Decoder) error { return read.Decode(&out[n]) })
	for _, m := range out {
		if m.Domain != nil && m.Domain.Firmware != nil { // KubeVirt chooses them at random
			m.Domain.Firmware.UUID = ""
			if len(strings.Split(m.Domain.Firmware.Serial, "-")) > 1 {
				m.Domain.Firmware.Serial = ""
			}
		}
		if m.Domain != nil && m.Domain.Firmware != nil && reflect.ValueOf(*m.Domain.Firmware).IsZero() {
			m.Domain.Firmware = nil
		}
	}
	return out
}
