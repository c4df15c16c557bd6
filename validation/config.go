package validation

import "maps"

// A Config says how a cluster is set up. The zero Config has KubeVirt's
// defaults in standalone mode.
type Config struct {
	// Addon says that KubeVirt is in the cluster and validates too.
	Addon bool
	// Architecture is that of machines that name none; empty means amd64.
	Architecture string
	// EmulatedMachines are the patterns of allowed machine types by
	// architecture, as in q35*; those that are not given are KubeVirt's.
	EmulatedMachines map[string][]string
	// NoLiveUpdate says that running instances never change (KubeVirt's rollout
	// strategy Stage); its default is LiveUpdate.
	NoLiveUpdate bool
	// NoBridgeOnPodNetwork forbids bridge bindings on the pod network.
	NoBridgeOnPodNetwork bool
	// GraceDevices are the resource names of NVIDIA Grace GPUs that may be passed
	// through; such a GPU asks more of its machine than others do.
	GraceDevices []string
	// Gates switches feature gates; those that are not given are as KubeVirt has them.
	Gates map[Gate]bool
}

// A Gate is a feature gate of KubeVirt.
type Gate string

// Enabled reports whether a feature may be used.
func (c *Config) Enabled(g Gate) bool {
	if on, given := c.Gates[g]; given {
		return on
	}
	return gates[g]
}

// machineTypes are the patterns of machine types of an architecture.
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

// Gates that rules ask for.
const (
	GateDeclarativeHotplugVolumes Gate = "DeclarativeHotplugVolumes"
	GateDecentralizedLiveMigrate  Gate = "DecentralizedLiveMigration"
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

// gates says which gates are on unless somebody switches them: those that
// KubeVirt calls GA or beta.
var gates = map[Gate]bool{
	GateDeclarativeHotplugVolumes: true,
	GateDecentralizedLiveMigrate:  true,
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
	GateRebootPolicy:              false,
	GateReservedOverhead:          false,
	GateSEV:                       false,
	GateSidecar:                   false,
	GateTDX:                       false,
	GateVirtioFSStorage:           false,
	GateVSOCK:                     false,
}

// KnownGates are all gates that rules ask for, with what they are by default.
func KnownGates() map[Gate]bool { return maps.Clone(gates) }
