package presets

import (
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/presets/provenance"
)

// TestPlatformFields: platform rules set no other fields. Each rule acts in one of the objects.
func TestPlatformFields(t *testing.T) {
	const spec = `
livenessProbe: {tcpSocket: {port: 80}}
volumes: [{name: a, containerDisk: {image: a}}, {name: b, containerDisk: {image: b}}, {name: c, containerDisk: {image: c}}]
domain:
  clock: {utc: {}, timer: {hpet: {}}}
  cpu: {}
  features: {apic: {}, hyperv: {spinlocks: {}, evmcs: {}, synictimer: {direct: {}}, tlbflush: {direct: {}}}}
  launchSecurity: {tdx: {}}
  resources: {limits: {cpu: 2, memory: 1Gi}}
  devices:
    autoattachInputDevice: true
    disks: [{name: a, blockSize: {matchVolume: {}}}, {name: b, cdrom: {}}, {name: l, lun: {}}]
    gpus: [{name: g, deviceName: example.com/g, virtualGPUOptions: {display: {ramFB: {}}}}]
    watchdog: {name: w}
`
	acted := map[string]bool{}
	for _, arch := range []string{amd64, arm64, s390x} {
		for _, kind := range []Kind{VirtualMachine, VirtualMachineInstance} {
			for _, confidential := range []bool{true, false} {
				var template map[string]any
				if err := yaml.Unmarshal([]byte(spec), &template); err != nil {
					t.Fatal(err)
				}
				if arch != amd64 {
					template["architecture"] = arch
				}
				if !confidential {
					delete(template["domain"].(map[string]any), "launchSecurity")
				}
				object := map[string]any{"apiVersion": "kubevirt.io/v1", "kind": string(kind), "metadata": map[string]any{"name": "a"}, "spec": template}
				if kind == VirtualMachine {
					object["spec"] = map[string]any{"template": map[string]any{"spec": template}}
				}
				engine := Engine{Platform: &Platform{}}
				out, err := engine.Resolve(t.Context(), NewSnapshot(nil, nil), Request{Kind: kind, Object: encode(object)})
				if err != nil {
					t.Fatal(err)
				}
				for p := range out.Record.Decided() {
					by, _ := out.Record.SourceOf(p)
					if acted[by.Preset] = true; by.Role == provenance.Platform && !platformFields().meets(p) {
						t.Errorf("%s sets %s", by.Preset, p)
					}
				}
			}
		}
	}
	for _, rule := range platformRules {
		if !acted[rule.name] {
			t.Errorf("%s sets nothing", rule.name)
		}
	}
}
