package e2e

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/launcher/podspec"
)

// otherPods are pods that the manager does not create, each as a change of a launcher's pod and
// what the rejection says.
var otherPods = map[string]struct {
	change func(*corev1.Pod)
	says   string
}{
	"another name":                {func(p *corev1.Pod) { p.Name = "web" }, "the name must begin with virt-launcher-"},
	"no owner":                    {func(p *corev1.Pod) { p.OwnerReferences = nil }, "a VMI must control it, and nothing else own it"},
	"an owner that controls none": {func(p *corev1.Pod) { p.OwnerReferences[0].Controller = nil }, "a VMI must control it"},
	"a VM as owner":               {func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "VirtualMachine" }, "a VMI must control it"},
	"another owner": {func(p *corev1.Pod) {
		p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "x"})
	}, "nothing else own it"},
	"no label":              {func(p *corev1.Pod) { delete(p.Labels, "kubevirt.io") }, "it must have the label of launchers"},
	"a token":               {func(p *corev1.Pod) { p.Spec.AutomountServiceAccountToken = nil }, "it must have no token"},
	"the host's network":    {func(p *corev1.Pod) { p.Spec.HostNetwork, p.Spec.SecurityContext.Sysctls = true, nil }, "it must not share the host's namespaces"},
	"the host's processes":  {func(p *corev1.Pod) { p.Spec.HostPID = true }, "it must not share the host's namespaces"},
	"the host's IPC":        {func(p *corev1.Pod) { p.Spec.HostIPC = true }, "it must not share the host's namespaces"},
	"root":                  {func(p *corev1.Pod) { p.Spec.SecurityContext.RunAsUser = new(int64(0)) }, "it must run as the launcher's user"},
	"no security context":   {func(p *corev1.Pod) { p.Spec.SecurityContext = nil }, "it must run as the launcher's user"},
	"a group":               {func(p *corev1.Pod) { p.Spec.SecurityContext.SupplementalGroups = []int64{0} }, "it must run as the launcher's user"},
	"no seccomp":            {func(p *corev1.Pod) { p.Spec.SecurityContext.SeccompProfile.Type = "Unconfined" }, "with seccomp's RuntimeDefault"},
	"a sysctl":              {func(p *corev1.Pod) { p.Spec.SecurityContext.Sysctls[0].Name = "kernel.shm_rmid_forced" }, "it must set no other sysctl"},
	"privileges":            {func(p *corev1.Pod) { compute(p).Privileged, compute(p).AllowPrivilegeEscalation = new(true), nil }, "its containers must have no privileges"},
	"escalation":            {func(p *corev1.Pod) { compute(p).AllowPrivilegeEscalation = nil }, "its containers must have no privileges"},
	"a capability":          {func(p *corev1.Pod) { compute(p).Capabilities.Add = []corev1.Capability{"NET_ADMIN"} }, "its containers must have no privileges"},
	"capabilities":          {func(p *corev1.Pod) { compute(p).Capabilities = nil }, "its containers must have no privileges"},
	"root in a container":   {func(p *corev1.Pod) { compute(p).RunAsUser = new(int64(0)) }, "its containers must have no privileges"},
	"a container's seccomp": {func(p *corev1.Pod) { compute(p).SeccompProfile = &corev1.SeccompProfile{Type: "Unconfined"} }, "its containers must have no privileges"},
	"a writable root":       {func(p *corev1.Pod) { compute(p).ReadOnlyRootFilesystem = nil }, "and a read-only root"},
	"another command":       {func(p *corev1.Pod) { p.Spec.Containers[0].Command = []string{"/bin/sh"} }, "it must run the launcher alone"},
	"arguments":             {func(p *corev1.Pod) { p.Spec.Containers[0].Args = []string{"-c", "id"} }, "it must run the launcher alone"},
	"another container":     {func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, sidecar(p)) }, "it must run the launcher alone"},
	"a container's name":    {func(p *corev1.Pod) { p.Spec.Containers[0].Name = "sidecar" }, "it must run the launcher alone"},
	"a privileged container": {func(p *corev1.Pod) {
		init := sidecar(p)
		init.SecurityContext = nil
		p.Spec.InitContainers = []corev1.Container{init}
	}, "its containers must have no privileges"},
	"a host's port": {func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
	}, "no host ports and no hooks"},
	"a hook": {func(p *corev1.Pod) {
		p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"id"}}}}
	}, "no host ports and no hooks"},
}

func compute(p *corev1.Pod) *corev1.SecurityContext { return p.Spec.Containers[0].SecurityContext }

func sidecar(p *corev1.Pod) corev1.Container {
	out := *p.Spec.Containers[0].DeepCopy()
	out.Name, out.StartupProbe, out.ReadinessProbe = "sidecar", nil, nil
	return out
}

// launcherPod is the pod of a VMI, as the manager creates it.
func launcherPod(vmi object) *corev1.Pod {
	GinkgoHelper()
	raw, err := vmi.MarshalJSON()
	Expect(err).NotTo(HaveOccurred())
	of := &kubevirtv1.VirtualMachineInstance{}
	Expect(json.Unmarshal(raw, of)).To(Succeed())
	pod, err := podspec.New(&podspec.Request{VMI: of, Frontend: &v1alpha1.FrontendSettings{}, Backend: &v1alpha1.BackendSettings{}},
		&podspec.Settings{Image: "virtwright/virtwright-launcher:e2e", KVMResource: "e2e.virtwright.dev/kvm"})
	Expect(err).NotTo(HaveOccurred())
	pod.APIVersion, pod.Kind = "v1", "Pod"
	return pod
}

var _ = Describe("The manager", Ordered, func() {
	var s *story
	BeforeEach(func() {
		ownManager()
		s = newStory()
	})

	It("creates no pods but those of launchers", func() {
		usual := launcherPod(s.create(tinyInstance("web", "")))
		usual.Name = "virt-launcher-other" // the manager has created the VMI's
		creates := func(client dynamic.Interface, pod *corev1.Pod) error {
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
			Expect(err).NotTo(HaveOccurred())
			_, err = client.Resource(pods).Namespace(s.ns).Create(here.ctx, &unstructured.Unstructured{Object: content}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}
		Eventually(func() error { return creates(as(ourselves), usual) }).Should(Succeed(), "once the namespace has its service account")
		for name, other := range otherPods {
			pod := usual.DeepCopy()
			other.change(pod)
			Expect(creates(as(ourselves), pod)).To(MatchError(And(ContainSubstring("the manager may not do this: "), ContainSubstring(other.says))), name)
		}
		bare := usual.DeepCopy()
		bare.OwnerReferences, bare.Spec.SecurityContext = nil, nil
		Expect(creates(here.client, bare)).To(Succeed(), "others may do what Kubernetes lets them")
	})

	It("executes one command in pods of launchers alone", func() {
		executes := func(user, pod, container string, command ...string) (int, string) {
			query := url.Values{"container": {container}, "command": command, "stdin": {"true"}, "stdout": {"true"}}
			got := call(user, http.MethodPost, "/api/v1/namespaces/"+s.ns+"/pods/"+pod+"/exec?"+query.Encode(), "")
			return got.code, got.status().Message
		}
		code, _ := executes(ourselves, "virt-launcher-web", "compute", v1alpha1.LauncherControl...)
		Expect(code).To(Equal(http.StatusNotFound), "this is admitted, and there is no such pod")
		const program = v1alpha1.LauncherProgram
		for name, c := range map[string]struct {
			pod, container string
			command        []string
			says           string
		}{
			"another pod":       {"web", "compute", v1alpha1.LauncherControl, "the pod's name must begin with virt-launcher-"},
			"another container": {"virt-launcher-web", "sidecar", v1alpha1.LauncherControl, "the command must be the launcher's control"},
			"any container":     {"virt-launcher-web", "", v1alpha1.LauncherControl, "the command must be the launcher's control"},
			"a shell":           {"virt-launcher-web", "compute", []string{"/bin/sh"}, "the command must be the launcher's control"},
			"another action":    {"virt-launcher-web", "compute", []string{program, "probe", "exec", "--", "id"}, "the command must be the launcher's control"},
			"an argument":       {"virt-launcher-web", "compute", append(slices.Clone(v1alpha1.LauncherControl), "x"), "the command must be the launcher's control"},
			"no argument":       {"virt-launcher-web", "compute", []string{program}, "the command must be the launcher's control"},
		} {
			code, message := executes(ourselves, c.pod, c.container, c.command...)
			Expect(code).To(Equal(http.StatusForbidden), name)
			Expect(message).To(And(ContainSubstring("exec.protection.virtwright.dev"), ContainSubstring("the manager may not do this: "+c.says)), name)
		}
		code, _ = executes("", "web", "x", "/bin/sh")
		Expect(code).To(Equal(http.StatusNotFound), "others may do what Kubernetes lets them")
	})
})
