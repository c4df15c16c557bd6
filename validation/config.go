package validation

import "maps"

// A Config is the configuration of a cluster. The zero Config has KubeVirt's defaults in standalone
// mode.
type Config struct {
	// Addon is true alongside KubeVirt, which validates too.
	Addon bool
	// Architecture is the default architecture; empty means amd64.
	Architecture string
	// EmulatedMachines are patterns of allowed machine types by architecture, such as q35*. Other
	// architectures have KubeVirt's defaults.
	EmulatedMachines map[string][]string
	// NoLiveUpdate selects KubeVirt's rollout strategy Stage, with which a running VMI never
	// changes. The default is LiveUpdate.
	NoLiveUpdate bool
	// AssumedStrategy is true if NoLiveUpdate counts alongside KubeVirt, too: a command assumes
	// KubeVirt's default, or its user states the strategy. A webhook does not know KubeVirt's.
	AssumedStrategy bool
	// NoBridgeOnPodNetwork forbids bridge bindings on the pod network.
	NoBridgeOnPodNetwork bool
	// GraceDevices are the resource names of NVIDIA Grace GPUs that VMs may use.
	GraceDevices []string
	// Gates overrides KubeVirt's defaults of feature gates.
	Gates map[Gate]bool
}

// A Gate is a feature gate of KubeVirt.
type Gate string

// Enabled reports whether a feature gate is enabled.
func (c *Config) Enabled(g Gate) bool {
	if on, given := c.Gates[g]; given {
		return on
	}
	return gates[g]
}

// machineTypes returns the patterns of machine types of an architecture.
func (c *Config) machineTypes(architecture string) []string {
	if given, ok := c.EmulatedMachines[architecture]; ok {
		return given
	}
	return emulatedMachines[architecture]
}

var emulatedMachines = map[string][]string{
	"amd64": {"q35*", "pc-q35*"},
	"arm64": {"virt*"},
	"s390x": {"s390-ccw-virtio*"},
}

// Feature gates that rules depend on.
const (
	GateDeclarativeHotplugVolumes Gate = "DeclarativeHotplugVolumes"
	GateDownwardMetrics           Gate = "DownwardMetrics"
	GateGPUsWithDRA               Gate = "GPUsWithDRA"
	GateGraceIOVirtualization     Gate = "GraceIOVirtualization"
	GateHostDevices               Gate = "HostDevices"
	GateHostDevicesWithDRA        Gate = "HostDevicesWithDRA"
	GateHostDisk                  Gate = "HostDisk"
	GateIgnition                  Gate = "ExperimentalIgnitionSupport"
	GateIOMMUFD                   Gate = "IOMMUFD"
	GateNetworksWithDRA           Gate = "NetworkDevicesWithDRA"
	GateNUMA                      Gate = "NUMA"
	GatePasstBinding              Gate = "PasstBinding"
	GatePCINUMAAwareTopology      Gate = "PCINUMAAwareTopology"
	GatePersistentReservation     Gate = "PersistentReservation"
	GatePortRanges                Gate = "PortRangesSpec"
	GateRebootPolicy              Gate = "RebootPolicy"
	GateReservedOverhead          Gate = "ReservedOverheadMemlock"
	GateSEV                       Gate = "WorkloadEncryptionSEV"
	GateSidecar                   Gate = "Sidecar"
	GateTDX                       Gate = "WorkloadEncryptionTDX"
	GateVirtioFSStorage           Gate = "EnableVirtioFsStorageVolumes"
	GateVSOCK                     Gate = "VSOCK"
)

// gates holds the defaults of feature gates: those that are GA or beta in KubeVirt 1.9 are enabled.
// PersistentReservation is no longer a gate there, but a configuration field that is off by
// default.
var gates = map[Gate]bool{
	GateDeclarativeHotplugVolumes: true,
	GateDownwardMetrics:           false,
	GateGPUsWithDRA:               true,
	GateGraceIOVirtualization:     false,
	GateHostDevices:               false,
	GateHostDevicesWithDRA:        true,
	GateHostDisk:                  false,
	GateIgnition:                  false,
	GateIOMMUFD:                   false,
	GateNetworksWithDRA:           false,
	GateNUMA:                      true,
	GatePasstBinding:              true,
	GatePCINUMAAwareTopology:      false,
	GatePersistentReservation:     false,
	GatePortRanges:                false,
	GateRebootPolicy:              true,
	GateReservedOverhead:          false,
	GateSEV:                       true,
	GateSidecar:                   false,
	GateTDX:                       false,
	GateVirtioFSStorage:           false,
	GateVSOCK:                     false,
}

// KnownGates returns all feature gates that rules depend on, with their defaults.
func KnownGates() map[Gate]bool { return maps.Clone(gates) }
