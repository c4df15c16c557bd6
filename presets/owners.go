package presets

import (
	"slices"

	"github.com/virtwright/virtwright/presets/provenance"
)

// ownership says what besides the user and presets may have a say on a field.
type ownership uint8

const (
	// ownedByInstancetype: KubeVirt refuses a VM that names an instancetype
	// and sets this field too.
	ownedByInstancetype ownership = 1 << iota
	// ownedByPreference: a preference may fill this field at launch.
	ownedByPreference
	// runState: whether the machine runs; once stored, only people change it.
	runState
	// beyondTemplate: the field is the VM's own and has no place on a VMI.
	beyondTemplate
	// templateAnnotation: KubeVirt refuses another value than an instancetype's.
	templateAnnotation
	// namesInstancetype: the field names the VM's instancetype.
	namesInstancetype
)

// instancetypeFields are the fields that KubeVirt compares with an instancetype
// (webhook rule "VM field(s) conflicts with selected instance type"). Fields that only
// some instancetypes set stand here too. The list counts where an instancetype is not known.
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

// preferenceFields are the fields that a VirtualMachinePreference may fill when
// the instance is made (instancetype.kubevirt.io/v1beta1 PreferenceSpec). A
// default that came earlier would silently win over it.
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

// paths parses paths beneath spec.template.spec; the tables above are constants.
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

func ownerOf(p provenance.Path) ownership {
	var o ownership
	if under(p, instancetypeFields) {
		o |= ownedByInstancetype
	}
	if under(p, preferenceFields) {
		o |= ownedByPreference
	}
	if under(p, runStateFields) {
		o |= runState
	}
	if p.HasPrefix(templateAnnotations) {
		o |= templateAnnotation
	}
	if p.HasPrefix(matcherPaths[0]) {
		o |= namesInstancetype
	}
	if len(p) > 1 && !(p[0].Name == "spec" && p[1].Name == "template") {
		o |= beyondTemplate
	}
	return o
}

func under(p provenance.Path, prefixes []provenance.Path) bool {
	return slices.ContainsFunc(prefixes, p.HasPrefix)
}
