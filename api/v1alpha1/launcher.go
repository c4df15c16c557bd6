package v1alpha1

// The contract of the lifecycle controller, the subresource API and the launcher about the pod of a
// VMI.
const (
	// FinalizerPod stays on a VMI until its pod is deleted.
	FinalizerPod = GroupName + "/pod"

	// PodPrefix is the prefix of the name of each pod that runs a VMI.
	PodPrefix = "virt-launcher-"

	// LabelPod has the value LabelPodValue on each pod that runs a VMI. It is KubeVirt's.
	LabelPod = "kubevirt.io"
	// LabelPodValue is the value of LabelPod.
	LabelPodValue = "virt-launcher"

	// ContainerLauncher is the container that runs the guest.
	ContainerLauncher = "compute"

	// LauncherProgram is the path of the launcher in its image. It is linked statically.
	LauncherProgram = "/usr/bin/virtwright-launcher"

	// LauncherUser is the user and group of the launcher, libvirt and QEMU, as in KubeVirt.
	LauncherUser = 107

	// EnvLauncherInput is the environment variable of the launcher that holds a domain.Input in
	// JSON.
	EnvLauncherInput = "VIRTWRIGHT_INPUT"

	// EnvNode is the environment variable of the launcher that holds the name of its node.
	EnvNode = "VIRTWRIGHT_NODE"

	// MetricsPort is the port of a launcher's metrics, which exporters for libvirt use by
	// convention. A guest that uses the port has no metrics.
	MetricsPort = 9177
	// MetricsPortName is the name of that port in the pod.
	MetricsPortName = "vmi-metrics"

	// RunFolder is a writable directory for sockets, logs and overlays, empty at the start.
	RunFolder = "/run/virtwright"

	// VolumesFolder has a directory for each volume of the VMI that is not a block device, by name.
	VolumesFolder = "/var/lib/virtwright/volumes"

	// BlockFolder has a device for each volume of the VMI that is a block device, by name.
	BlockFolder = "/dev/virtwright"

	// CloudInitFolder holds the Secrets of cloud-init volumes: VOLUME/user and VOLUME/network.
	CloudInitFolder = "/var/lib/virtwright/cloud-init"

	// KernelFolder holds the kernel and the initial RAM disk of spec.domain.firmware.kernelBoot, by
	// the base names of their paths.
	KernelFolder = "/var/lib/virtwright/kernel"

	// ToolsFolder holds a copy of the launcher that containers of other images can run.
	ToolsFolder = "/var/lib/virtwright/tools"
)

// LauncherControl is the only command that the manager executes in a launcher's container. Its
// standard input begins with a line that holds a LauncherAction. Its standard output begins with a
// line: "ok", or "conflict MESSAGE" or "failed MESSAGE". For the console, the display and a port,
// bytes follow in both directions.
var LauncherControl = []string{LauncherProgram, "control"}

// LauncherBind is the command of a launcher that uses the volumes of a VMI before its guest does,
// and ends.
var LauncherBind = []string{LauncherProgram, "bind"}

// A LauncherAction is an action of LauncherControl on a guest.
type LauncherAction string

// The actions.
const (
	LauncherPause      LauncherAction = "pause"
	LauncherUnpause    LauncherAction = "unpause"
	LauncherReset      LauncherAction = "reset"
	LauncherSoftReboot LauncherAction = "softreboot"
	LauncherConsole    LauncherAction = "console"
	LauncherVNC        LauncherAction = "vnc"
	// LauncherPortForward is followed by a space and a TCP port of the guest.
	LauncherPortForward LauncherAction = "portforward"
)

// Values of a VMI's status.reason that the lifecycle controller sets because of the pod.
const (
	// ReasonEvicted means that the pod was evicted, preempted or lost with its node.
	ReasonEvicted = "Evicted"
	// ReasonPodDeleted means that the pod was deleted, but not with its VMI.
	ReasonPodDeleted = "PodDeleted"
)

// PodLostReasons are the reasons of VMIs that failed because they lost their pod.
var PodLostReasons = []string{ReasonEvicted, ReasonPodDeleted}

// A GuestEnd is the termination message of a launcher, in JSON. The exit code is 0 for
// GuestShutdown and GuestStopped, and 1 otherwise.
//
// +kubebuilder:object:generate=false
type GuestEnd struct {
	// Reason is why the guest ended.
	Reason GuestEndReason `json:"reason"`
	// Message has details for users.
	Message string `json:"message,omitempty"`
}

// A GuestEndReason is why a VMI ended. It becomes its status.reason.
type GuestEndReason string

// The reasons.
const (
	// GuestShutdown means that the guest shut down by itself.
	GuestShutdown GuestEndReason = "GuestShutdown"
	// GuestStopped means that the guest shut down because the launcher was asked to end.
	GuestStopped GuestEndReason = "GuestStopped"
	// GuestCrashed means that the guest or QEMU crashed.
	GuestCrashed GuestEndReason = "GuestCrashed"
	// GuestDestroyed means that the guest did not shut down in time and was destroyed.
	GuestDestroyed GuestEndReason = "GuestDestroyed"
	// GuestNotStarted means that the guest could not be started; the message says why.
	GuestNotStarted GuestEndReason = "GuestNotStarted"
)
