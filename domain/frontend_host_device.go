package domain

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// hostDevices notes the devices of the host that the guest gets: which they
// are, and of which kind, only the host knows. Those of sriov interfaces are
// noted with the interfaces.
func (g *guest) hostDevices() {
	seen := map[string]bool{}
	note := func(at *field.Path, name string) {
		switch {
		case name == "":
			g.refuse(field.Required(at, "must be the name of the device"))
		case seen[name]:
			g.refuse(field.Duplicate(at, name))
		}
		seen[name] = true
		g.bind(Late{Kind: LateHostDevice, Field: at.String(), Device: name})
	}
	for i := range g.spec.Domain.Devices.GPUs {
		note(devicesAt.Child("gpus").Index(i).Child("name"), g.spec.Domain.Devices.GPUs[i].Name)
	}
	for i := range g.spec.Domain.Devices.HostDevices {
		note(devicesAt.Child("hostDevices").Index(i).Child("name"), g.spec.Domain.Devices.HostDevices[i].Name)
	}
}
