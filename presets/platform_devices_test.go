package presets_test

import (
	"testing"

	"github.com/virtwright/virtwright/presets"
)

func TestDeviceDefaults(t *testing.T) {
	const devices = "domain: {devices: {autoattachInputDevice: true, disks: [{name: a, disk: {}}, {name: b, cdrom: {}}, {name: c, lun: {}}]}}"
	buses := func(disk, cdrom, input string) map[string]string {
		const at = "spec.domain.devices."
		return map[string]string{
			at + "disks[a].disk.bus": disk, at + "disks[b].cdrom.bus": cdrom, at + "disks[c].lun.bus": `"scsi"`, at + "inputs[default-0].bus": input,
		}
	}
	for architecture, want := range map[string]map[string]string{
		"amd64": buses(`"sata"`, `"sata"`, `"usb"`),
		"arm64": buses(`"virtio"`, `"scsi"`, `"usb"`),
		"s390x": buses(`"virtio"`, `"scsi"`, `"virtio"`),
	} {
		t.Run(architecture, func(t *testing.T) {
			rc := resolveCase{
				reason: "rules accept them", engine: presets.Engine{Platform: &presets.Platform{}}, kind: presets.VirtualMachineInstance,
				object: vmi("{architecture: " + architecture + ", " + devices + "}"), want: want,
			}
			rc.run(t)
		})
	}
}
