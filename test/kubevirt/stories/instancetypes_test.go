package stories

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

var _ = Describe("An instancetype", func() {
	const running, stopped = kubevirtv1.VirtualMachineStatusRunning, kubevirtv1.VirtualMachineStatusStopped
	var s *story
	BeforeEach(func() {
		s = newStory()
		s.preset("small", small)
	})
	// memory is what the guest of a running VM has.
	memory := func(name string) string {
		GinkgoHelper()
		s.awaitStatus(name, running)
		return s.vmi(name).Spec.Domain.Memory.Guest.String()
	}
	// hasNoSizes expects that the instancetype alone sizes a VM.
	hasNoSizes := func(name string) {
		GinkgoHelper()
		Expect(s.vm(name).Spec.Template.Spec.Domain).To(And(HaveField("Memory", BeNil()), HaveField("CPU", BeNil())))
	}
	// revisions are the names of the ControllerRevisions that a VM uses.
	revisions := func(name string) (instancetype, preference string) {
		GinkgoHelper()
		status := s.vm(name).Status
		if ref := status.InstancetypeRef; ref != nil && ref.ControllerRevisionRef != nil {
			instancetype = ref.ControllerRevisionRef.Name
		}
		if ref := status.PreferenceRef; ref != nil && ref.ControllerRevisionRef != nil {
			preference = ref.ControllerRevisionRef.Name
		}
		return instancetype, preference
	}

	It("replaces the sizes of presets, changes, and gives them back", func() {
		s.create(sparse("web", "runStrategy: Always, instancetype: {name: u1.small}, preference: {name: fedora}"))
		hasNoSizes("web")
		Expect(memory("web")).To(Equal("2Gi"))
		first, preference := revisions("web")
		for _, name := range []string{first, preference} {
			Expect(here.Must("", "get", "controllerrevision", name, "-n", s.ns, "-o", "jsonpath={.metadata.ownerReferences[0].name}")).To(Equal("web"))
		}
		s.virtctl("stop", "web")
		s.awaitStatus("web", stopped)

		Expect(s.patch(s.as("alice"), vmNamed("web"), "{spec: {instancetype: {name: u1.medium, revisionName: null}}}")).To(Succeed())
		s.virtctl("start", "web")
		Expect(memory("web")).To(Equal("4Gi"))
		second, _ := revisions("web")
		Expect(second).To(And(ContainSubstring("u1.medium"), Not(Equal(first))))
		hasNoSizes("web")
		s.virtctl("stop", "web")
		s.awaitStatus("web", stopped)

		Expect(s.patch(here.Objects, vmNamed("web"), "{spec: {instancetype: null, preference: null}}")).To(Succeed())
		Expect(s.vm("web").Spec.Template.Spec.Domain.Memory.Guest.String()).To(Equal("64Mi"))
		Expect(s.vm("web").Spec.Template.Spec.Domain.CPU.Cores).To(BeEquivalentTo(1))
		s.virtctl("start", "web")
		Expect(memory("web")).To(Equal("64Mi"))
	})

	It("that a preset names sizes the VM, until its author sizes it", func() {
		s.preset("typed", `
match: {labels: {matchLabels: {size: small}}}
priority: 10
defaults: {spec: {instancetype: {kind: VirtualMachineClusterInstancetype, name: u1.small}, preference: {kind: VirtualMachineClusterPreference, name: fedora}}}`)
		s.create(sparse("web", "runStrategy: Always"))
		Expect(s.vm("web").Spec.Instancetype).To(HaveField("Name", "u1.small"))
		hasNoSizes("web")
		Expect(memory("web")).To(Equal("2Gi"))
		instancetype, preference := revisions("web")
		Expect(instancetype).NotTo(BeEmpty())
		Expect(preference).NotTo(BeEmpty())
		generation := s.vm("web").Generation
		Consistently(func() int64 { return s.vm("web").Generation }, "1s").Should(Equal(generation), "KubeVirt and virtwright agree")
	})

	It("is inferred from a volume", func() {
		s.create(`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: root, labels: {instancetype.kubevirt.io/default-instancetype: u1.medium, instancetype.kubevirt.io/default-preference: fedora}},
spec: {accessModes: [ReadWriteMany], volumeMode: Block, storageClassName: simulated, resources: {requests: {storage: 1Gi}}}}`)
		s.preset("root", `
match: {labels: {matchLabels: {size: small}}}
defaults: {spec: {template: {spec: {domain: {devices: {disks: [{name: root, disk: {bus: virtio}}]}}, volumes: [{name: root, persistentVolumeClaim: {claimName: root}}]}}}}`)
		s.create(sparse("web", "runStrategy: Always, instancetype: {inferFromVolume: root}, preference: {inferFromVolume: root}"))
		Expect(s.vm("web").Spec.Instancetype).To(HaveField("Name", "u1.medium"))
		Expect(s.vm("web").Spec.Preference).To(HaveField("Name", "fedora"))
		hasNoSizes("web")
		Expect(memory("web")).To(Equal("4Gi"))
	})

	It("must not bring what presets override or forbid", func() {
		s.create(`{apiVersion: instancetype.kubevirt.io/v1beta1, kind: VirtualMachineInstancetype, metadata: {name: threads}, spec: {cpu: {guest: 1}, memory: {guest: 64Mi}, ioThreadsPolicy: auto}}`)
		s.create(`{apiVersion: instancetype.kubevirt.io/v1beta1, kind: VirtualMachineInstancetype, metadata: {name: model}, spec: {cpu: {guest: 1, model: Skylake-Server}, memory: {guest: 64Mi}}}`)
		s.create(`{apiVersion: instancetype.kubevirt.io/v1beta1, kind: VirtualMachineInstancetype, metadata: {name: plain}, spec: {cpu: {guest: 1}, memory: {guest: 64Mi}}}`)
		s.clusterPreset("house", `
overrides: {spec: {template: {spec: {domain: {cpu: {model: Haswell}}}}}}
forbid: [{path: spec.template.spec.domain.ioThreadsPolicy, message: no threads for disks}]`)
		alice := s.as("alice")
		typed := func(name string) string {
			return sparse("web", fmt.Sprintf("runStrategy: Always, instancetype: {kind: VirtualMachineInstancetype, name: %s}", name))
		}
		Expect(alice.Create(here.Context(), s.parse(typed("threads")))).To(MatchError(And(
			ContainSubstring("ioThreadsPolicy"), ContainSubstring("no threads for disks"), ContainSubstring(s.ns+"-house"), ContainSubstring("VirtualMachineInstancetype threads"))))
		Expect(alice.Create(here.Context(), s.parse(typed("model")))).To(MatchError(And(
			ContainSubstring("cpu.model"), ContainSubstring("Haswell"), ContainSubstring("Skylake-Server"), ContainSubstring(s.ns+"-house"), ContainSubstring("VirtualMachineInstancetype model"))))
		Expect(alice.Create(here.Context(), s.parse(typed("plain")))).To(Succeed())
		s.awaitStatus("web", running)
		Expect(s.vmi("web").Spec.Domain.CPU.Model).To(Equal("Haswell"))
		Expect(s.patch(alice, vmNamed("web"), "{spec: {instancetype: {name: threads, revisionName: null}}}")).To(MatchError(ContainSubstring("no threads for disks")))
	})
})
