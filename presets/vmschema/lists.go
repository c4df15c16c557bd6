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

// atomicLists are the lists without a key, each with the reason. A test fails if KubeVirt has a
// list that is in neither table.
var atomicLists = map[string]string{
	"core/v1.DHCPOptions.ntpServers":                                          "addresses in order of preference",
	"core/v1.Devices.panicDevices":                                            "no field names a panic device",
	"core/v1.ExecAction.command":                                              "a command line",
	"core/v1.HTTPGetAction.httpHeaders":                                       "a header may repeat",
	"core/v1.Interface.portRanges":                                            "ranges may not overlap, so they are chosen together",
	"core/v1.NodeAffinity.preferredDuringSchedulingIgnoredDuringExecution":    "no field names a term",
	"core/v1.NodeSelector.nodeSelectorTerms":                                  "terms are alternatives: adding one loosens the rest",
	"core/v1.NodeSelectorRequirement.values":                                  "one set of values",
	"core/v1.NodeSelectorTerm.matchExpressions":                               "one expression",
	"core/v1.NodeSelectorTerm.matchFields":                                    "one expression",
	"core/v1.PersistentVolumeClaimSpec.accessModes":                           "modes are chosen together",
	"core/v1.PodAffinity.preferredDuringSchedulingIgnoredDuringExecution":     "no field names a term",
	"core/v1.PodAffinity.requiredDuringSchedulingIgnoredDuringExecution":      "no field names a term",
	"core/v1.PodAffinityTerm.matchLabelKeys":                                  "one set of keys",
	"core/v1.PodAffinityTerm.mismatchLabelKeys":                               "one set of keys",
	"core/v1.PodAffinityTerm.namespaces":                                      "one set of names",
	"core/v1.PodAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution": "no field names a term",
	"core/v1.PodAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution":  "no field names a term",
	"core/v1.PodDNSConfig.nameservers":                                        "addresses in order of preference",
	"core/v1.PodDNSConfig.searches":                                           "domains in order of preference",
	"core/v1.QemuGuestAgentSSHPublicKeyAccessCredentialPropagation.users":     "users are chosen together",
	"core/v1.TopologySpreadConstraint.matchLabelKeys":                         "one set of keys",
	"core/v1.VirtualMachineInstanceSpec.accessCredentials":                    "no field names a credential",
	"core/v1beta1.DataVolumeSourceHTTP.extraHeaders":                          "a header may repeat",
	"core/v1beta1.DataVolumeSourceHTTP.secretExtraHeaders":                    "a header may repeat",
	"core/v1beta1.DataVolumeSpec.checkpoints":                                 "stages of one import, in order",
	"core/v1beta1.StorageSpec.accessModes":                                    "modes are chosen together",
	"meta/v1.LabelSelector.matchExpressions":                                  "one selector",
	"meta/v1.LabelSelectorRequirement.values":                                 "one set of values",
}
