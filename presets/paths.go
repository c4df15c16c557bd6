package presets

import "github.com/virtwright/virtwright/presets/provenance"

// Places in a VirtualMachine.
var (
	template            = provenance.Of("spec", "template")
	templateMetadata    = template.Field("metadata")
	templateLabels      = templateMetadata.Field("labels")
	templateAnnotations = templateMetadata.Field("annotations")
	templateSpec        = template.Field("spec")
	volumesPath         = templateSpec.Field("volumes")
	templatesPath       = provenance.Of("spec", "dataVolumeTemplates")
	// volumeDevices are the lists of devices that expose a volume to the guest.
	volumeDevices = []provenance.Path{
		templateSpec.Field("domain").Field("devices").Field("disks"), templateSpec.Field("domain").Field("devices").Field("filesystems"),
	}
)
