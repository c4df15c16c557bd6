package vmschema

// A ListKey is one field that identifies an element of a keyed list.
type ListKey struct {
	// Field is dotted if it is nested, as in metadata.name.
	Field string
	// absent is the value that an absent field stands for.
	absent string
	// NoStar says that no VM may have * in the field, so that * stands for every element.
	NoStar bool
}

// ByName is the key of most keyed lists.
var ByName = []ListKey{{Field: "name", NoStar: true}}

// keyedLists are the lists that merge element by element, by Go type and JSON name.
var keyedLists = map[string][]ListKey{
	"core/v1.VirtualMachineSpec.dataVolumeTemplates":    {{Field: "metadata.name", NoStar: true}},
	"core/v1.VirtualMachineInstanceSpec.volumes":        ByName,
	"core/v1.VirtualMachineInstanceSpec.networks":       ByName,
	"core/v1.VirtualMachineInstanceSpec.resourceClaims": ByName,
	"core/v1.VirtualMachineInstanceSpec.utilityVolumes": ByName,
	"core/v1.VirtualMachineInstanceSpec.tolerations": {
		// All that makes two tolerations differ, but for how long they hold.
		{Field: "key"}, {Field: "operator", absent: "Equal"}, {Field: "value"}, {Field: "effect"},
	},
	"core/v1.VirtualMachineInstanceSpec.topologySpreadConstraints": {{Field: "topologyKey"}, {Field: "whenUnsatisfiable"}},
	"core/v1.CPU.features":                   ByName,
	"core/v1.Devices.disks":                  ByName,
	"core/v1.Devices.filesystems":            ByName,
	"core/v1.Devices.gpus":                   ByName,
	"core/v1.Devices.hostDevices":            ByName,
	"core/v1.Devices.inputs":                 ByName,
	"core/v1.Devices.interfaces":             ByName,
	"core/v1.Interface.ports":                {{Field: "port"}, {Field: "protocol", absent: "TCP"}},
	"core/v1.DHCPOptions.privateOptions":     {{Field: "option"}},
	"core/v1.DownwardAPIVolumeSource.fields": {{Field: "path"}},
	"core/v1.PodDNSConfig.options":           {{Field: "name"}},
}
