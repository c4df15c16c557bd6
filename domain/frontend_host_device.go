package domain

import (
	"regexp"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// hostAliasForm is what libvirt's schema takes for the name of a device. It
// takes a dot, but gives such a device a name of its own then.
var hostAliasForm = regexp.MustCompile(`^[a-zA-Z0-9._-]+$`)

// hostDevices notes the devices of the host that the guest gets: which they
// are, and of which kind, only the host knows. Those of sriov interfaces are
// noted with the interfaces. As KubeVirt has it, libvirt knows each by its kind
// and its name, which no other device may have.
func (g *guest) hostDevices() {
	devices, seen := &g.spec.Domain.Devices, map[string]bool{}
	for i := range devices.Interfaces {
		if nic := &devices.Interfaces[i]; nic.SRIOV != nil && nic.State != kubevirtv1.InterfaceStateAbsent {
			g.hostAlias(devicesAt.Child("interfaces").Index(i).Child("name"), "sriov-", nic.Name)
		}
	}
	note := func(at *field.Path, prefix, name string) {
		if seen[name] {
			g.refuse(field.Duplicate(at, name))
		} else {
			g.hostAlias(at, prefix, name)
		}
		seen[name] = name != ""
		g.bind(Late{Kind: LateHostDevice, Field: at.String(), Device: name})
	}
	for i := range devices.GPUs {
		note(devicesAt.Child("gpus").Index(i).Child("name"), "gpu-", devices.GPUs[i].Name)
	}
	for i := range devices.HostDevices {
		note(devicesAt.Child("hostDevices").Index(i).Child("name"), "hostdevice-", devices.HostDevices[i].Name)
	}
}

// hostAlias checks the name of a device of the host, and notes the alias that
// it gets.
func (g *guest) hostAlias(at *field.Path, prefix, name string) {
	free := g.take("ua-" + prefix + name)
	switch {
	case name == "":
		g.refuse(field.Required(at, "must be the name of the device"))
	case !hostAliasForm.MatchString(name):
		g.refuse(field.Invalid(at, name, "must be letters, digits, -, _ and dots: libvirt names the device after it"))
	case !free:
		err := field.Duplicate(at, name)
		err.Detail = "must differ from the names of all other devices: libvirt knows this one as " + prefix + name
		g.refuse(err)
	}
}
