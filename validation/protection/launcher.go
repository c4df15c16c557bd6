package protection

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// Names of the policies that limit what the manager may do with pods, and of their bindings.
const (
	podPolicyName  = "pods" + policySuffix
	execPolicyName = "exec" + policySuffix
)

// A managerRule limits the manager, which could otherwise run any program in any namespace, with
// any service account.
type managerRule struct{ cel, reason string }

// containersCEL returns all containers of a pod. Ephemeral ones cannot exist in a new pod.
const containersCEL = `(object.spec.containers + object.spec.?initContainers.orValue([]))`

// launcherNameCEL holds for the name of a launcher's pod.
func launcherNameCEL(of string) string { return of + ".startsWith(" + quote(v1alpha1.PodPrefix) + ")" }

// podRules describe the pod that package launcher/podspec builds. The policy cannot see the VMI, so
// it admits everything that a VMI may request: volumes, service account tokens, devices,
// scheduling.
var podRules = []managerRule{
	{launcherNameCEL("object.metadata.name"), "the name must begin with " + v1alpha1.PodPrefix},
	{`object.metadata.?ownerReferences.orValue([]).exists_one(o, o.?controller.orValue(false)) && object.metadata.ownerReferences.all(o, ` +
		`o.kind == "VirtualMachineInstance" && o.apiVersion.startsWith("kubevirt.io/"))`, "a VMI must control it, and nothing else own it"},
	{fmt.Sprintf(`object.metadata.?labels[?%s].orValue("") == %s`, quote(v1alpha1.LabelPod), quote(v1alpha1.LabelPodValue)), "it must have the label of launchers"},
	{`object.spec.?automountServiceAccountToken.orValue(true) == false`, "it must have no token"},
	{`!object.spec.?hostNetwork.orValue(false) && !object.spec.?hostPID.orValue(false) && !object.spec.?hostIPC.orValue(false) && ` +
		`!object.spec.?shareProcessNamespace.orValue(false) && object.spec.?nodeName.orValue("") == ""`, "it must not share the host's namespaces or choose a node itself"},
	{`object.spec.?securityContext.?runAsNonRoot.orValue(false) && object.spec.?securityContext.?seccompProfile.?type.orValue("") == "RuntimeDefault" && ` +
		fmt.Sprintf(`[object.spec.?securityContext.?runAsUser, object.spec.?securityContext.?runAsGroup, object.spec.?securityContext.?fsGroup].all(id, id.orValue(0) == %d) && `, v1alpha1.LauncherUser) +
		`object.spec.?securityContext.?supplementalGroups.orValue([]).size() == 0`,
		"it must run as the launcher's user, with seccomp's RuntimeDefault"},
	{`([object.spec.?securityContext] + ` + containersCEL + `.map(c, c.?securityContext)).all(s, !s.?seLinuxOptions.hasValue() && ` +
		`s.?appArmorProfile.?type.orValue("RuntimeDefault") == "RuntimeDefault") && ` + containersCEL + `.all(c, c.?securityContext.?procMount.orValue("Default") == "Default")`,
		"it must not choose another SELinux context, AppArmor profile or view of /proc"},
	{`object.spec.?securityContext.?sysctls.orValue([]).all(s, s.name == "net.ipv4.ip_unprivileged_port_start")`, "it must set no other sysctl"},
	{containersCEL + `.all(c, !c.?securityContext.?allowPrivilegeEscalation.orValue(true) && !c.?securityContext.?privileged.orValue(false) && ` +
		`c.?securityContext.?capabilities.?drop.orValue([]) == ["ALL"] && c.?securityContext.?capabilities.?add.orValue([]).size() == 0 && ` +
		`!has(c.securityContext.runAsUser) && c.?securityContext.?runAsNonRoot.orValue(true) && c.?securityContext.?seccompProfile.?type.orValue("RuntimeDefault") == "RuntimeDefault" && c.?securityContext.?readOnlyRootFilesystem.orValue(false))`,
		"its containers must have no privileges and a read-only root"},
	{`object.spec.containers.size() == 1 && object.spec.containers[0].name == ` + quote(v1alpha1.ContainerLauncher) +
		fmt.Sprintf(` && object.spec.containers[0].?command.orValue([]) in [%s, %s]`, quote([]string{v1alpha1.LauncherProgram, "run"}), quote(v1alpha1.LauncherBind)) +
		` && object.spec.containers[0].?args.orValue([]).size() == 0`,
		"it must run the launcher alone"},
	{fmt.Sprintf(`object.spec.?initContainers.orValue([]).all(c, c.?command.orValue([]) in [%s, %s])`,
		quote([]string{v1alpha1.LauncherProgram, "copy"}), quote([]string{v1alpha1.ToolsFolder + "/" + path.Base(v1alpha1.LauncherProgram), "copy"})),
		"its init containers must copy files with the launcher"},
	{`object.spec.?volumes.orValue([]).all(v, has(v.emptyDir) || has(v.persistentVolumeClaim) || has(v.secret) || has(v.configMap) || has(v.downwardAPI) || has(v.image) || has(v.hostPath) || ` +
		`v.?projected.?sources.orValue([]).exists(s, true) && v.projected.sources.all(s, s.?serviceAccountToken.?audience.orValue("") == ""))`,
		"its volumes must be of the kinds that VMIs have"},
	{`object.spec.?volumes.orValue([]).all(v, !has(v.hostPath)) || ` + quote(hostDiskOn) + ` == "true"`, "it must mount no folder of its node unless the feature gate HostDisk is on"},
	{containersCEL + `.all(c, c.?ports.orValue([]).all(p, p.?hostPort.orValue(0) == 0) && !has(c.lifecycle))`, "its containers must have no host ports and no hooks"},
	{`!request.namespace.startsWith("kube-") && !request.userInfo.username.startsWith("system:serviceaccount:" + request.namespace + ":")`,
		"the namespace must not be of Kubernetes or the manager's own"},
}

// hostDiskOn stands for Guard.HostDisk in a rule.
const hostDiskOn = "@HOSTDISK@"

// podPolicy limits the pods that the manager creates.
func (g Guard) podPolicy() *admissionregistrationv1.ValidatingAdmissionPolicy {
	rules := slices.Clone(podRules)
	for i := range rules {
		rules[i].cel = strings.ReplaceAll(rules[i].cel, hostDiskOn, cmp.Or(g.HostDisk, "false"))
	}
	return g.managerPolicy(podPolicyName, admissionregistrationv1.Create, "pods", rules)
}

// execRules describe the one command that the manager executes.
var execRules = []managerRule{
	{launcherNameCEL("request.name"), "the pod's name must begin with " + v1alpha1.PodPrefix},
	{fmt.Sprintf(`object.?container.orValue("") == %s && object.?command.orValue([]) == %s`, quote(v1alpha1.ContainerLauncher), quote(v1alpha1.LauncherControl)),
		"the command must be the launcher's control"},
}

// execPolicy limits what the manager executes in pods.
func (g Guard) execPolicy() *admissionregistrationv1.ValidatingAdmissionPolicy {
	return g.managerPolicy(execPolicyName, admissionregistrationv1.Connect, "pods/exec", execRules)
}

func (g Guard) managerPolicy(name string, operation admissionregistrationv1.OperationType, resource string, rules []managerRule) *admissionregistrationv1.ValidatingAdmissionPolicy {
	out := newPolicy(name)
	out.Spec.MatchConstraints = constraints([]admissionregistrationv1.OperationType{operation}, resource)
	rule := &out.Spec.MatchConstraints.ResourceRules[0].Rule
	rule.APIGroups, rule.APIVersions = []string{""}, []string{"*"}
	out.Spec.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "the-manager", Expression: "request.userInfo.username == " + quote(g.Manager)}}
	for _, rule := range rules {
		out.Spec.Validations = append(out.Spec.Validations, admissionregistrationv1.Validation{
			Expression: rule.cel, Message: "the manager may not do this: " + rule.reason, Reason: new(metav1.StatusReasonForbidden),
		})
	}
	return out
}
