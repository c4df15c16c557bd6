package domain

import (
	"encoding/json"
	"testing"
	"time"

	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// realistic is a typical Windows server, as an API server has stored it.
const realistic = `
metadata: {name: erp, namespace: shop, uid: 5a1f0b5e-3c55-4b5e-9d06-0c1a5a3f7d11, labels: {os: windows, tier: prod}}
spec:
  architecture: amd64
  evictionStrategy: LiveMigrate
  terminationGracePeriodSeconds: 3600
  domain:
    machine: {type: q35}
    cpu: {sockets: 1, cores: 4, threads: 1, model: host-model}
    memory: {guest: 16Gi}
    resources: {requests: {memory: 16Gi, cpu: "4"}}
    firmware:
      uuid: 5d307ca9-b3ef-428c-8861-06e72d69f223
      serial: e4686d2c-6e8d-4335-b8fd-81bee22f4815
      bootloader: {efi: {secureBoot: true}}
    clock:
      utc: {}
      timer: {hpet: {present: false}, hyperv: {present: true}, pit: {tickPolicy: delay}, rtc: {tickPolicy: catchup}}
    features:
      acpi: {enabled: true}
      apic: {enabled: true}
      smm: {enabled: true}
      hyperv:
        relaxed: {enabled: true}
        vapic: {enabled: true}
        vpindex: {enabled: true}
        synic: {enabled: true}
        spinlocks: {enabled: true, spinlocks: 8191}
    devices:
      tpm: {}
      rng: {}
      networkInterfaceMultiqueue: true
      blockMultiQueue: true
      inputs: [{type: tablet, bus: usb, name: tablet}]
      disks:
      - {name: root, bootOrder: 1, disk: {bus: virtio}, cache: none}
      - {name: data, disk: {bus: virtio}, serial: data-0}
      - {name: logs, disk: {bus: scsi}}
      - {name: drivers, cdrom: {bus: sata, readonly: true, tray: closed}}
      - {name: sysprep, cdrom: {bus: sata, readonly: true, tray: closed}}
      interfaces:
      - {name: default, masquerade: {}, model: virtio}
      - {name: storage, bridge: {}, model: virtio, macAddress: "02:00:00:00:00:02"}
  networks:
  - {name: default, pod: {}}
  - {name: storage, multus: {networkName: storage}}
  volumes:
  - {name: root, dataVolume: {name: erp-root}}
  - {name: data, persistentVolumeClaim: {claimName: erp-data}}
  - {name: logs, emptyDisk: {capacity: 20Gi}}
  - {name: drivers, containerDisk: {image: "example.org/drivers/windows:1.9"}}
  - {name: sysprep, sysprep: {configMap: {name: erp-sysprep}}}
`

// BenchmarkRender renders a realistic VMI as XML. The metric x-unmarshal is the time relative to
// one json.Unmarshal of the VMI, measured in the same run; the limit is 10.
func BenchmarkRender(b *testing.B) {
	raw, err := yaml.YAMLToJSON([]byte(realistic))
	if err != nil {
		b.Fatal(err)
	}
	var vmi kubevirtv1.VirtualMachineInstance
	if err := json.Unmarshal(raw, &vmi); err != nil {
		b.Fatal(err)
	}
	profiles, errs := CompileProfiles([]v1alpha1.FrontendProfile{{Spec: v1alpha1.FrontendProfileSpec{FrontendSettings: v1alpha1.FrontendSettings{
		GuestFamily: v1alpha1.GuestFamilyWindows,
	}}}}, nil)
	if len(errs) > 0 {
		b.Fatal(errs)
	}
	var rendering, control time.Duration
	for b.Loop() {
		began := time.Now()
		plan, errs := profiles.Plan(&vmi, nil, nil)
		if len(errs) > 0 {
			b.Fatal(errs)
		}
		if _, err := Render(&plan.Host.Domain); err != nil {
			b.Fatal(err)
		}
		between := time.Now()
		var again kubevirtv1.VirtualMachineInstance
		if err := json.Unmarshal(raw, &again); err != nil {
			b.Fatal(err)
		}
		rendering += between.Sub(began)
		control += time.Since(between)
	}
	b.ReportMetric(0, "ns/op") // it would include both
	b.ReportMetric(float64(rendering)/float64(b.N), "ns/render")
	b.ReportMetric(float64(rendering)/float64(control), "x-unmarshal")
}
