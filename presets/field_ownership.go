package presets

import (
	"slices"

	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/vmschema"
)

// ownership says what, besides the user and presets, may set a field.
type ownership uint8

const (
	// ownedByInstancetype: KubeVirt rejects a VM that names an instancetype and sets this field.
	ownedByInstancetype ownership = 1 << iota
	// ownedByPreference: a preference may fill this field at launch.
	ownedByPreference
	// runState: the field starts or stops the VM; once the VM is stored, only users change it.
	runState
	// beyondTemplate: the field exists on a VM only, not on a VMI.
	beyondTemplate
	// templateAnnotation: KubeVirt rejects a value that differs from the instancetype's.
	templateAnnotation
	namesInstancetype
)

// instancetypeFields are the fields that KubeVirt compares with an instancetype (webhook rule "VM
// field(s) conflicts with selected instance type"). They count if an instancetype is unknown.
var instancetypeFields = paths(
	"domain.cpu.sockets", "domain.cpu.cores", "domain.cpu.threads",
	"domain.cpu.maxSockets", "domain.cpu.model", "domain.cpu.dedicatedCpuPlacement", "domain.cpu.isolateEmulatorThread",
	"domain.cpu.numa", "domain.cpu.realtime",
	"domain.resources.requests.cpu", "domain.resources.requests.memory",
	"domain.resources.limits.cpu", "domain.resources.limits.memory",
	"domain.memory.guest", "domain.memory.maxGuest", "domain.memory.hugepages",
	"domain.ioThreadsPolicy", "domain.ioThreads", "domain.launchSecurity",
	"domain.devices.gpus", "domain.devices.hostDevices",
	"nodeSelector", "schedulerName",
)

// preferenceFields are the fields that a VirtualMachinePreference may fill when the VMI is created.
// An earlier default would silently win over it.
var preferenceFields = paths(
	"domain.clock", "domain.cpu.sockets", "domain.cpu.cores", "domain.cpu.threads", "domain.cpu.features",
	"domain.features", "domain.firmware", "domain.machine", "domain.launchSecurity",
	"domain.devices.autoattachGraphicsDevice", "domain.devices.autoattachMemBalloon", "domain.devices.autoattachPodInterface",
	"domain.devices.autoattachSerialConsole", "domain.devices.autoattachInputDevice", "domain.devices.disableHotplug",
	"domain.devices.blockMultiQueue", "domain.devices.networkInterfaceMultiqueue", "domain.devices.useVirtioTransitional",
	"domain.devices.rng", "domain.devices.tpm", "domain.devices.sound", "domain.devices.panicDevices",
	"domain.devices.inputs", "domain.devices.gpus[*].virtualGPUOptions",
	"domain.devices.disks[*].disk.bus", "domain.devices.disks[*].lun.bus", "domain.devices.disks[*].cdrom.bus",
	"domain.devices.disks[*].dedicatedIOThread", "domain.devices.disks[*].cache", "domain.devices.disks[*].io",
	"domain.devices.disks[*].blockSize", "domain.devices.interfaces[*].model", "domain.devices.interfaces[*].masquerade",
	"subdomain", "terminationGracePeriodSeconds", "architecture",
)

var runStateFields = []provenance.Path{provenance.Of("spec", "running"), provenance.Of("spec", "runStrategy")}

// paths parses constant paths beneath spec.template.spec.
func paths(texts ...string) []provenance.Path {
	out := make([]provenance.Path, len(texts))
	for i, t := range texts {
		p, err := provenance.ParsePath("spec.template.spec." + t)
		if err != nil {
			panic(err)
		}
		out[i] = p
	}
	return out
}

var ownedFields = []struct {
	owner  ownership
	fields []provenance.Path
}{
	{ownedByInstancetype, instancetypeFields}, {ownedByPreference, preferenceFields}, {runState, runStateFields},
	{templateAnnotation, []provenance.Path{vmschema.TemplateAnnotations}}, {namesInstancetype, matcherPaths[:1]},
}

// OwnedByInstancetype reports whether the instancetype of a VM owns a field of the VM.
func OwnedByInstancetype(p provenance.Path) bool { return ownerOf(p)&ownedByInstancetype != 0 }

func ownerOf(p provenance.Path) ownership {
	var o ownership
	for _, owned := range ownedFields {
		if under(p, owned.fields) {
			o |= owned.owner
		}
	}
	if len(p) > 1 && !(p[0].Name == "spec" && p[1].Name == "template") {
		o |= beyondTemplate
	}
	return o
}

func under(p provenance.Path, prefixes []provenance.Path) bool {
	return slices.ContainsFunc(prefixes, p.HasPrefix)
}
