package vmschema

import "github.com/virtwright/virtwright/presets/provenance"

// Places in a VirtualMachine.
var (
	Template            = provenance.Of("spec", "template")
	TemplateMetadata    = Template.Field("metadata")
	TemplateLabels      = TemplateMetadata.Field("labels")
	TemplateAnnotations = TemplateMetadata.Field("annotations")
	TemplateSpec        = Template.Field("spec")
	Volumes             = TemplateSpec.Field("volumes")
	DataVolumeTemplates = provenance.Of("spec", "dataVolumeTemplates")
	// VolumeDevices are the lists of devices that expose a volume to the guest.
	VolumeDevices = []provenance.Path{
		TemplateSpec.Field("domain").Field("devices").Field("disks"), TemplateSpec.Field("domain").Field("devices").Field("filesystems"),
	}
)
