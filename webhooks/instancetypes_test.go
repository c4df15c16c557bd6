package webhooks

import (
	"context"
	"encoding/json"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/test/presettest"
	"github.com/virtwright/virtwright/validation"
)

// anyInstancetype is what every name means.
type anyInstancetype map[string]any

func (a anyInstancetype) Spec(context.Context, string, presets.Matcher) (map[string]any, error) {
	return a, nil
}

// FuzzInstancetypes sends any bytes as a VM and as the spec of its instancetype and preference.
// Every answer must be well-formed.
func FuzzInstancetypes(f *testing.F) {
	for _, spec := range []string{
		`{cpu: {guest: 4, model: a, realtime: {}}, memory: {guest: 2Gi, overcommitPercent: 50}, gpus: [{name: g, deviceName: x/y}], annotations: {a: b}, nodeSelector: {a: b}}`,
		`{devices: {preferredDiskBus: virtio, preferredTPM: {}, preferredInterfaceMasquerade: {}, preferredInputBus: usb, preferredPanicDeviceModel: isa}, features: {preferredHyperv: {vapic: {}}, preferredAcpi: {}}, firmware: {preferredEfi: {}}, clock: {preferredClockOffset: {utc: {}}}, cpu: {preferredCPUTopology: spread, preferredCPUFeatures: [{name: a}]}}`,
		`{cpu: 5, memory: [], annotations: {a: 5}, devices: {preferredDiskBus: [x]}, firmware: x, clock: {preferredClockOffset: x}, features: {preferredHyperv: 5}}`,
	} {
		for _, vm := range []string{
			`{metadata: {name: a}, spec: {instancetype: {name: a}, preference: {name: b, kind: virtualmachinepreferences}, template: {spec: {domain: {cpu: {model: c}, devices: {disks: [{name: a}, {name: b, cdrom: {}}], interfaces: [{name: a}]}, firmware: {bootloader: {bios: {}}}}, networks: [{name: a, pod: {}}]}}}}`,
			`{spec: {instancetype: {name: a, revisionName: 5}, preference: {name: b}, template: {metadata: {annotations: []}, spec: {nodeSelector: x, domain: {cpu: 5, memory: x, devices: {disks: {}, panicDevices: [5]}, features: [], clock: x, firmware: {bootloader: []}}}}}}`,
			`{spec: {instancetype: x, preference: 5, template: {spec: {domain: 5}}}}`,
		} {
			f.Add(presettest.JSON(vm), presettest.JSON(spec))
		}
	}
	snapshot := presettest.Snapshot(f,
		presettest.Cluster("a", "overrides: {spec: {template: {spec: {nodeSelector: {a: c}, domain: {cpu: {model: c}, memory: {guest: 1Gi}, devices: {gpus: [{name: h}]}}}}}}\nremove: [spec.template.spec.domain.devices.tpm]"),
		presettest.Cluster("b", "defaults: {spec: {instancetype: {name: c}, template: {metadata: {annotations: {a: c}}, spec: {domain: {devices: {rng: {}}}}}}}\nforbid: [{path: 'spec.template.spec.domain.devices.disks[*].disk'}, {path: spec.template.spec.domain.features}]"))
	f.Fuzz(func(t *testing.T, object, spec []byte) {
		var named map[string]any
		if kjson.UnmarshalCaseSensitivePreserveInts(spec, &named) != nil {
			return // an API server stores only what it has read
		}
		handlers := (&Server{
			Engine: &presets.Engine{}, Snapshots: fixed{snapshot}, Namespaces: namespaces{"lab": {Name: "lab"}},
			Rules: &validation.Config{Addon: true}, Instancetypes: anyInstancetype(named),
		}).Handlers()
		for _, path := range []string{PathMutateVirtualMachine, PathValidateVirtualMachine} {
			for _, req := range requests(object, object) {
				body, err := json.Marshal(admissionv1.AdmissionReview{
					TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: req,
				})
				if err != nil {
					return
				}
				_, answer := send(t, handlers[path], "application/json", body)
				checkAnswer(t, path, req, answered(t, answer, "u"))
			}
		}
	})
}
