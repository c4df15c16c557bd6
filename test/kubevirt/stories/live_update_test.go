package stories

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

var _ = Describe("A running VM", func() {
	var s *story
	BeforeEach(func() { s = newStory() })

	web := sparse("web", "runStrategy: Always")

	// The fields that virtwright warns of are those that KubeVirt sets back.
	It("loses the live-updated fields of a Launch preset, and keeps the others", func() {
		s.preset("small", small)
		out, warnings, err := here.Kubectl(here.Context(), `
apiVersion: virtwright.dev/v1alpha1
kind: VirtualMachinePreset
metadata: {name: launch, namespace: `+s.ns+`}
spec:
  applyAt: Launch
  defaults:
    spec:
      template:
        spec:
          nodeSelector: {kubernetes.io/os: linux}
          tolerations: [{key: pool, operator: Exists}]
          affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [{key: zone, operator: Exists}]}}]}}
          priorityClassName: kubevirt-cluster-critical
          terminationGracePeriodSeconds: 7
          hostname: launched
`, "apply", "-f", "-")
		Expect(err).NotTo(HaveOccurred(), out)
		for _, field := range []string{"nodeSelector", "tolerations", "affinity"} {
			Expect(warnings).To(ContainSubstring("spec.template.spec." + field))
		}
		Expect(warnings).NotTo(ContainSubstring("priorityClassName"))
		s.awaitReady("vmpreset", "launch")
		s.create(web)
		s.awaitStatus("web", kubevirtv1.VirtualMachineStatusRunning)
		Eventually(func() kubevirtv1.VirtualMachineInstanceSpec { return s.vmi("web").Spec }).Should(And(
			HaveField("NodeSelector", BeEmpty()), HaveField("Tolerations", BeEmpty()), HaveField("Affinity", BeNil())))
		Expect(s.vmi("web").Spec).To(And(
			HaveField("PriorityClassName", "kubevirt-cluster-critical"), HaveField("TerminationGracePeriodSeconds", HaveValue(BeEquivalentTo(7))), HaveField("Hostname", "launched")))
	})

	It("keeps the placement of a Definition preset through a migration", func() {
		s.preset("small", small)
		s.preset("placement", "defaults: {spec: {template: {spec: {nodeSelector: {kubernetes.io/os: linux}, tolerations: [{key: pool, operator: Exists}]}}}}")
		s.create(web)
		s.awaitStatus("web", kubevirtv1.VirtualMachineStatusRunning)
		source := s.vmi("web").Status.NodeName
		s.virtctl("migrate", "web")
		Eventually(func() string { return s.vmi("web").Status.NodeName }).ShouldNot(Equal(source))
		pods := &corev1.PodList{}
		Expect(here.Objects.List(here.Context(), pods, s.in())).To(Succeed())
		Expect(len(pods.Items)).To(BeNumerically(">=", 2), "the pods of source and target")
		for _, pod := range pods.Items {
			Expect(pod.Spec.NodeSelector).To(HaveKeyWithValue("kubernetes.io/os", "linux"), pod.Name)
			Expect(pod.Spec.Tolerations).To(ContainElement(HaveField("Key", "pool")), pod.Name)
		}
	})

	It("gets no volume that a preset forbids", func() {
		s.clusterPreset("house", `forbid: [{path: "spec.template.spec.volumes[*].persistentVolumeClaim", message: no claims here}]`)
		s.preset("small", small)
		s.create("{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: more}, spec: {accessModes: [ReadWriteMany], volumeMode: Block, storageClassName: simulated, resources: {requests: {storage: 1Gi}}}}")
		s.create(web)
		s.awaitStatus("web", kubevirtv1.VirtualMachineStatusRunning)
		s.rejects("no claims here")
		for _, more := range [][]string{{"--persist"}, nil} {
			out, err := here.Virtctl(append([]string{"addvolume", "web", "--volume-name=more", "-n", s.ns}, more...)...)
			Expect(err).To(HaveOccurred(), out)
			Expect(out).To(ContainSubstring("no claims here"))
		}
		Consistently(func() []kubevirtv1.Volume {
			return append(s.vm("web").Spec.Template.Spec.Volumes, s.vmi("web").Spec.Volumes...)
		}, "1s").Should(BeEmpty())
	})

	It("gets no network that a launch preset forbids", func() {
		s.clusterPreset("house", "applyAt: Launch\nforbid: [{path: 'spec.template.spec.networks[*].multus', message: no more networks here}]")
		s.preset("small", small)
		s.create(web)
		s.awaitStatus("web", kubevirtv1.VirtualMachineStatusRunning)
		s.rejects("no more networks here")
		here.Must("", "patch", "vm", "web", "-n", s.ns, "--type=merge", "-p", `{"spec": {"template": {"spec": {
			"networks": [{"name": "default", "pod": {}}, {"name": "more", "multus": {"networkName": "other/net"}}],
			"domain": {"devices": {"interfaces": [{"name": "default", "masquerade": {}}, {"name": "more", "bridge": {}}]}}}}}}`)
		Eventually(func() []kubevirtv1.VirtualMachineCondition { return s.vm("web").Status.Conditions }).Should(ContainElement(
			HaveField("Message", ContainSubstring("no more networks here"))))
		Expect(s.vmi("web").Spec.Networks).NotTo(ContainElement(HaveField("Name", "more")))
		here.Must("", "delete", "vm", "web", "-n", s.ns) // else KubeVirt repeats the request
	})

	It("starts with nothing forbidden that a VirtualMachineInstancePreset adds", func() {
		s.clusterPreset("house", `forbid: [{path: "spec.template.spec.domain.ioThreadsPolicy", message: no I/O threads here}]`)
		s.preset("small", small)
		s.create("{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstancePreset, metadata: {name: threads}, spec: {selector: {matchLabels: {io: fast}}, domain: {devices: {}, ioThreadsPolicy: auto}}}")
		s.rejects("no I/O threads here")
		s.create(strings.Replace(web, "template: {", "template: {metadata: {labels: {io: fast}}, ", 1))
		Eventually(func() []kubevirtv1.VirtualMachineCondition { return s.vm("web").Status.Conditions }).Should(ContainElement(
			HaveField("Message", ContainSubstring("no I/O threads here"))))
		here.Must("", "delete", "vm", "web", "-n", s.ns) // else KubeVirt repeats the request
	})

	// With KubeVirt's older feature gate, volumes are plugged into the VMI before the VM has them.
	It("gets no volume that a preset forbids, also with the feature gate HotplugVolumes", func() {
		gates := func(hotplug string) {
			GinkgoHelper()
			here.Must("", "patch", "kubevirt", "kubevirt", "-n", "kubevirt", "--type=json", "-p",
				`[{"op": "replace", "path": "/spec/configuration/developerConfiguration/featureGates/4", "value": "`+hotplug+`"}]`)
		}
		s.clusterPreset("house", `forbid: [{path: "spec.template.spec.volumes[*].persistentVolumeClaim", message: no claims here}]`)
		s.preset("small", small)
		s.create("{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: more}, spec: {accessModes: [ReadWriteMany], volumeMode: Block, storageClassName: simulated, resources: {requests: {storage: 1Gi}}}}")
		s.create(web)
		s.create("{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance, metadata: {name: alone, labels: {size: small}}, spec: {domain: {devices: {}}}}")
		s.awaitStatus("web", kubevirtv1.VirtualMachineStatusRunning)
		Eventually(func() kubevirtv1.VirtualMachineInstancePhase { return s.vmi("alone").Status.Phase }).Should(Equal(kubevirtv1.Running))
		gates("HotplugVolumes")
		DeferCleanup(gates, "DeclarativeHotplugVolumes")
		s.rejects("no claims here")
		Eventually(func() string {
			out, _ := here.Virtctl("addvolume", "alone", "--volume-name=more", "-n", s.ns)
			return out
		}).Should(And(ContainSubstring("no claims here"), ContainSubstring("spec.volumes[more]")))

		s.rejects("virtualmachineinstances/addvolume") // virt-api passes the message on without text
		s.virtctl("addvolume", "web", "--volume-name=more")
		Eventually(func() []kubevirtv1.VirtualMachineCondition { return s.vm("web").Status.Conditions }).Should(ContainElement(And(
			HaveField("Type", kubevirtv1.VirtualMachineFailure), HaveField("Message", ContainSubstring("no claims here")))))
		for _, name := range []string{"web", "alone"} {
			Expect(s.vmi(name).Spec.Volumes).To(BeEmpty())
		}
		Expect(s.vm("web").Spec.Template.Spec.Volumes).To(BeEmpty())
		here.Must("", "delete", "vm", "web", "-n", s.ns) // else KubeVirt repeats the request
	})
})
