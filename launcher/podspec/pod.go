// Package podspec builds the pod of a VMI: the launcher, which runs the guest, and the volumes and
// devices that it needs. New is a function of its arguments alone.
//
// The pod is admitted in a namespace with Pod Security level restricted, unless the VMI has a
// hostDisk: it runs as a user of its own without capabilities, with seccomp's RuntimeDefault, a
// read-only root, and no token of a service account.
package podspec

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/domain"
)

// Settings are the settings of all launcher pods of a cluster.
type Settings struct {
	// Image of the launcher.
	Image string
	// PullPolicy of that image.
	PullPolicy corev1.PullPolicy
	// PullSecrets for that image, in the VMI's namespace.
	PullSecrets []string
	// KVMResource is the resource of a device plugin that gives a container /dev/kvm.
	KVMResource corev1.ResourceName
	// ContainerDiskLimit is the largest disk that is copied from an image.
	ContainerDiskLimit resource.Quantity
	// ImageVolumes says that nodes can mount images as volumes, so that nothing is copied.
	ImageVolumes bool
}

// A Claim describes a PersistentVolumeClaim.
type Claim struct {
	// Block says that its volume is a block device.
	Block bool
	// Capacity of the claim, or else its request.
	Capacity resource.Quantity
}

// A Request is a VMI with everything that its pod depends on.
type Request struct {
	// VMI as API servers store it.
	VMI *kubevirtv1.VirtualMachineInstance
	// Frontend and Backend are the settings of the profiles that match the VMI.
	Frontend                          *v1alpha1.FrontendSettings
	Backend                           *v1alpha1.BackendSettings
	FrontendProfiles, BackendProfiles []string
	// Claims by the name of the claim.
	Claims map[string]Claim
}

// longestInput is the longest value of an environment variable in Linux, in bytes.
const longestInput = 128<<10 - 64

// defaultContainer is the annotation by which kubectl chooses a container.
const defaultContainer = "kubectl.kubernetes.io/default-container"

// graceMargin is the time of the launcher to end after its guest, in seconds.
const graceMargin = 15

// defaultGrace is KubeVirt's default for terminationGracePeriodSeconds.
const defaultGrace = 30

// longestName is the longest name of a pod. A longer one ends with nameDigest bytes of a hash.
const longestName, nameDigest = 253, 10

// Name returns the name of the pod of a VMI. It is unique; a long one ends with a hash.
func Name(vmi string) string {
	return shortened(v1alpha1.PodPrefix+vmi, vmi, longestName, nameDigest)
}

// shortened replaces the end of a long name by some bytes of the hash of a key.
func shortened(name, key string, longest, digest int) string {
	if len(name) <= longest {
		return name
	}
	sum := sha256.Sum256([]byte(key))
	tail := "-" + hex.EncodeToString(sum[:digest])
	return strings.TrimRight(name[:longest-len(tail)], "-.") + tail
}

// A builder builds one pod.
type builder struct {
	*Request
	settings *Settings
	spec     *kubevirtv1.VirtualMachineInstanceSpec
	pod      *corev1.Pod
	launcher *corev1.Container // the container that runs the guest, with its input
	input    domain.Input
}

// steps build a pod, in order.
var steps = []func(*builder){
	(*builder).scheduling, (*builder).network, (*builder).folders, (*builder).volumes, (*builder).kernel,
	(*builder).devices, (*builder).resources, (*builder).ports, (*builder).probes, (*builder).metrics,
}

// New returns the pod of a VMI.
func New(r *Request, settings *Settings) (*corev1.Pod, error) {
	vmi := r.VMI
	b := &builder{Request: r, settings: settings, spec: &vmi.Spec, pod: &corev1.Pod{ObjectMeta: metadata(vmi)}}
	b.frame()
	for _, secret := range settings.PullSecrets {
		b.pullSecret(secret)
	}
	for _, step := range steps {
		step(b)
	}
	text, err := json.Marshal(b.input)
	if err != nil {
		return nil, fmt.Errorf("cannot encode the VMI: %w", err)
	}
	if len(text) > longestInput {
		return nil, fmt.Errorf("the VMI has %d bytes as JSON, and a launcher accepts at most %d: move data into Secrets or ConfigMaps", len(text), longestInput)
	}
	b.launcher.Env = []corev1.EnvVar{
		{Name: v1alpha1.EnvLauncherInput, Value: escaped(string(text))},
		{Name: v1alpha1.EnvNode, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "spec.nodeName"}}},
	}
	b.pod.Spec.Containers = []corev1.Container{*b.launcher}
	return b.pod, nil
}

// frame sets what all pods have in common.
func (b *builder) frame() {
	b.launcher = &corev1.Container{
		Name: v1alpha1.ContainerLauncher, Image: b.settings.Image, ImagePullPolicy: b.settings.PullPolicy,
		Command:         []string{v1alpha1.LauncherProgram, "run"},
		SecurityContext: confined(),
		// If the launcher is killed before it writes a message, its log says why.
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
	b.input = domain.Input{
		VMI: described(b.VMI), Frontend: b.Frontend, Backend: b.Backend,
		FrontendProfiles: b.FrontendProfiles, BackendProfiles: b.BackendProfiles,
	}
	b.pod.Spec = corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: new(false), EnableServiceLinks: new(false),
		TerminationGracePeriodSeconds: new(Grace(b.spec.TerminationGracePeriodSeconds)),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: new(true), RunAsUser: new(int64(v1alpha1.LauncherUser)), RunAsGroup: new(int64(v1alpha1.LauncherUser)),
			FSGroup: new(int64(v1alpha1.LauncherUser)), FSGroupChangePolicy: new(corev1.FSGroupChangeOnRootMismatch),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			// QEMU opens the ports of guests, which may be low.
			Sysctls: []corev1.Sysctl{{Name: "net.ipv4.ip_unprivileged_port_start", Value: "0"}},
		},
	}
}

// escaped prevents the kubelet from expanding $(NAME) in the value of a variable.
func escaped(text string) string { return strings.ReplaceAll(text, "$", "$$") }

// confined returns what Pod Security level restricted requires of a container, and a read-only
// root.
func confined() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

// metadata returns the metadata of the pod. As in KubeVirt, it has the VMI's labels and
// annotations, except for virtwright's and kubectl's own annotations.
func metadata(vmi *kubevirtv1.VirtualMachineInstance) metav1.ObjectMeta {
	out := metav1.ObjectMeta{
		Namespace: vmi.Namespace, Name: Name(vmi.Name), Labels: map[string]string{}, Annotations: map[string]string{},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(vmi, kubevirtv1.VirtualMachineInstanceGroupVersionKind)},
	}
	maps.Copy(out.Labels, vmi.Labels)
	out.Labels[v1alpha1.LabelPod] = v1alpha1.LabelPodValue
	out.Labels[kubevirtv1.CreatedByLabel] = string(vmi.UID)
	out.Labels[kubevirtv1.VirtualMachineInstanceIDLabel] = short(vmi.Name)
	maps.Copy(out.Annotations, userAnnotations(vmi))
	out.Annotations[defaultContainer] = v1alpha1.ContainerLauncher
	return out
}

// short returns a name as a label value or as the name of a volume or container.
func short(name string) string {
	const longest, digest = 63, 5
	return shortened(name, name, longest, digest)
}

// userAnnotations returns the annotations that are neither virtwright's nor kubectl's own.
func userAnnotations(vmi *kubevirtv1.VirtualMachineInstance) map[string]string {
	out := maps.Clone(vmi.Annotations)
	maps.DeleteFunc(out, func(key, _ string) bool {
		return strings.HasPrefix(key, v1alpha1.AnnotationPrefix) || key == corev1.LastAppliedConfigAnnotation
	})
	return out
}

// described returns the parts of a VMI that a launcher reads.
func described(vmi *kubevirtv1.VirtualMachineInstance) *kubevirtv1.VirtualMachineInstance {
	out := &kubevirtv1.VirtualMachineInstance{Spec: *vmi.Spec.DeepCopy()}
	out.Namespace, out.Name, out.UID, out.Labels = vmi.Namespace, vmi.Name, vmi.UID, vmi.Labels
	out.Annotations = userAnnotations(vmi)
	return out
}

// longestGrace is the longest grace period in seconds, 68 years. Sums with a longer one overflow.
const longestGrace = math.MaxInt32

// Grace returns the grace period of the pod of a VMI with a terminationGracePeriodSeconds, in
// seconds.
func Grace(vmi *int64) int64 {
	return min(max(ptr.Deref(vmi, defaultGrace), 0), longestGrace) + graceMargin
}

func (b *builder) scheduling() {
	spec, pod := b.spec, &b.pod.Spec
	pod.NodeSelector = map[string]string{corev1.LabelArchStable: cmp.Or(spec.Architecture, string(v1alpha1.ArchitectureAMD64))}
	maps.Copy(pod.NodeSelector, spec.NodeSelector)
	pod.Affinity, pod.Tolerations, pod.TopologySpreadConstraints = spec.Affinity, spec.Tolerations, spec.TopologySpreadConstraints
	pod.PriorityClassName, pod.SchedulerName = spec.PriorityClassName, spec.SchedulerName
	pod.ServiceAccountName = spec.ServiceAccountName
}

func (b *builder) network() {
	spec, pod := b.spec, &b.pod.Spec
	pod.Hostname, pod.Subdomain = hostname(b.VMI), spec.Subdomain
	pod.DNSPolicy, pod.DNSConfig = spec.DNSPolicy, spec.DNSConfig
}

// hostname returns KubeVirt's host name of a guest: the VMI's hostname, or else its name, up to the
// first dot.
func hostname(vmi *kubevirtv1.VirtualMachineInstance) string {
	const longest = 63
	name, _, _ := strings.Cut(cmp.Or(vmi.Spec.Hostname, vmi.Name), ".")
	return strings.TrimRight(name[:min(len(name), longest)], "-")
}

func (b *builder) pullSecret(name string) {
	secret := corev1.LocalObjectReference{Name: name}
	if name != "" && !slices.Contains(b.pod.Spec.ImagePullSecrets, secret) {
		b.pod.Spec.ImagePullSecrets = append(b.pod.Spec.ImagePullSecrets, secret)
	}
}

// Times of probes, in seconds.
const (
	startPeriod, startFailures = 1, 600
	readyPeriod                = 5
	guestDelay                 = 1 // the time that a probe has in addition to its command in the guest
)

// probes sets the probes of the launcher. As in KubeVirt, a VMI's own probes begin after the start
// of its guest.
func (b *builder) probes() {
	b.launcher.StartupProbe = &corev1.Probe{ProbeHandler: launcherProbe("started"), PeriodSeconds: startPeriod, FailureThreshold: startFailures, TimeoutSeconds: 5}
	b.launcher.ReadinessProbe = probe(b.spec.ReadinessProbe)
	if b.launcher.ReadinessProbe == nil {
		b.launcher.ReadinessProbe = &corev1.Probe{ProbeHandler: launcherProbe("ready"), PeriodSeconds: readyPeriod, TimeoutSeconds: 5}
	}
	b.launcher.LivenessProbe = probe(b.spec.LivenessProbe)
}

// ports sets the ports that the VMI's interfaces declare, so that probes and Services can name
// them.
func (b *builder) ports() {
	for i := range b.spec.Domain.Devices.Interfaces {
		for _, p := range b.spec.Domain.Devices.Interfaces[i].Ports {
			b.launcher.Ports = append(b.launcher.Ports, corev1.ContainerPort{
				Name: p.Name, ContainerPort: p.Port, Protocol: corev1.Protocol(strings.ToUpper(cmp.Or(p.Protocol, string(corev1.ProtocolTCP)))),
			})
		}
	}
}

// metrics sets the port of the launcher's metrics, unless the guest uses it.
func (b *builder) metrics() {
	taken := asks(b.launcher.ReadinessProbe, v1alpha1.MetricsPort) || asks(b.launcher.LivenessProbe, v1alpha1.MetricsPort) ||
		slices.ContainsFunc(b.launcher.Ports, func(p corev1.ContainerPort) bool {
			return p.Name == v1alpha1.MetricsPortName || p.ContainerPort == v1alpha1.MetricsPort
		})
	for i := range b.spec.Domain.Devices.Interfaces {
		for _, r := range b.spec.Domain.Devices.Interfaces[i].PortRanges {
			taken = taken || r.Start <= v1alpha1.MetricsPort && v1alpha1.MetricsPort <= r.End
		}
	}
	if !taken {
		b.launcher.Ports = append(b.launcher.Ports, corev1.ContainerPort{
			Name: v1alpha1.MetricsPortName, ContainerPort: v1alpha1.MetricsPort, Protocol: corev1.ProtocolTCP,
		})
	}
}

// asks reports whether a probe connects to a port by its number.
func asks(p *corev1.Probe, port int32) bool {
	return p != nil && (p.HTTPGet != nil && p.HTTPGet.Port.IntVal == port || p.TCPSocket != nil && p.TCPSocket.Port.IntVal == port)
}

// launcherProbe returns a probe that runs the launcher's command.
func launcherProbe(args ...string) corev1.ProbeHandler {
	return corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: append([]string{v1alpha1.LauncherProgram, "probe"}, args...)}}
}

// probe translates a VMI's probe: the guest answers at the pod's address, or by its agent.
func probe(p *kubevirtv1.Probe) *corev1.Probe {
	if p == nil {
		return nil
	}
	out := &corev1.Probe{
		InitialDelaySeconds: p.InitialDelaySeconds, TimeoutSeconds: p.TimeoutSeconds, PeriodSeconds: p.PeriodSeconds,
		SuccessThreshold: p.SuccessThreshold, FailureThreshold: p.FailureThreshold,
	}
	switch {
	case p.HTTPGet != nil:
		out.HTTPGet = p.HTTPGet
	case p.TCPSocket != nil:
		out.TCPSocket = p.TCPSocket
	case p.GuestAgentPing != nil:
		out.ProbeHandler = launcherProbe("guest-agent")
		out.TimeoutSeconds = max(p.TimeoutSeconds, 1) + guestDelay
	case p.Exec != nil:
		seconds := max(p.TimeoutSeconds, 1)
		out.ProbeHandler = launcherProbe(append([]string{"exec", fmt.Sprintf("--timeout=%d", seconds), "--"}, p.Exec.Command...)...)
		out.TimeoutSeconds = seconds + guestDelay
	default:
		return nil
	}
	return out
}
