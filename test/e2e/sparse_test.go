package e2e

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("A sparse VM comes back whole", func() {
	var s *story
	BeforeEach(func() {
		s = newStory()
		s.preset(aPreset("sized", `{defaults: {spec: {template: {spec: {domain: {memory: {guest: 2Gi}, cpu: {cores: 2}}}}}}}`))
		s.preset(aPreset("cluster/house", `{overrides: {metadata: {labels: {house: ours}}, spec: {template: {spec: {priorityClassName: vms}}}}}`))
	})

	depths := []TableEntry{
		Entry("with metadata only", ""),
		Entry("with an empty spec", "spec: {}"),
		Entry("with an empty template", "spec: {template: {}}"),
		Entry("with an empty template spec", "spec: {template: {spec: {}}}"),
		Entry("with an empty domain", "spec: {template: {spec: {domain: {}}}}"),
		Entry("with empty devices", "spec: {template: {spec: {domain: {devices: {}}}}}"),
	}

	DescribeTable("sent by kubectl", func(body string) {
		_, stderr := s.kubectl(sparse("sparse", body), "create", "-f", "-")
		Expect(lines(stderr)).To(beQuiet())
		Expect(s.get(virtualMachine, "sparse")).To(And(beWhole(), haveAt("spec.runStrategy", "Halted"), lackAt("spec.running")))
	}, depths)

	DescribeTable("sent by a program", func(body string) {
		got, warnings := s.createWarned(sparse("sparse", body))
		Expect(warnings).To(beQuiet())
		Expect(got).To(And(beWhole(), haveAt("spec.runStrategy", "Halted")))
	}, depths)

	It("keeps the run state that its author chose", func() {
		got := s.create(sparse("running", "spec: {running: true}"))
		Expect(got).To(And(beWhole(), haveAt("spec.running", true), lackAt("spec.runStrategy")))
		got = s.create(sparse("manual", "spec: {runStrategy: Manual}"))
		Expect(got).To(And(beWhole(), haveAt("spec.runStrategy", "Manual"), lackAt("spec.running")))
	})

	It("also under a name that the API server makes up", func() {
		out, _ := s.kubectl(strings.Replace(sparse("made-up-"), "name:", "generateName:", 1), "create", "-o", "name", "-f", "-")
		_, name, _ := strings.Cut(strings.TrimSpace(out), "/")
		Expect(name).To(HavePrefix("made-up-"))
		Expect(s.get(virtualMachine, name)).To(beWhole())
	})

	It("with quantities that are written as numbers", func() {
		s.preset(aPreset("numbers", `{defaults: {spec: {template: {spec: {domain: {resources: {limits: {cpu: 2.5}}}}}}}}`))
		decimal := sparse("decimal", "spec: {template: {spec: {domain: {resources: {requests: {cpu: .5}}}}}}")
		for range 2 {
			s.kubectl(decimal, "apply", "-f", "-")
			Expect(s.get(virtualMachine, "decimal")).To(And(beWhole(),
				haveAt("spec.template.spec.domain.resources.requests.cpu", "500m"), haveAt("spec.template.spec.domain.resources.limits.cpu", "2500m")))
		}
	})

	It("without an instancetype that virtctl would infer if it could", func() {
		inferred := sparse("inferred", `spec: {instancetype: {inferFromVolume: root, inferFromVolumeFailurePolicy: Ignore},
preference: {inferFromVolume: root, inferFromVolumeFailurePolicy: Ignore}}`)
		for range 2 {
			_, stderr := s.kubectl(inferred, "apply", "-f", "-")
			Expect(lines(stderr)).To(And(say("Warning: spec.instancetype was dropped"), say("Warning: spec.preference was dropped")))
			Expect(s.get(virtualMachine, "inferred")).To(And(beWhole(), lackAt("spec.instancetype"), lackAt("spec.preference")))
		}
		_, stderr, err := s.tryKubectl(sparse("named", "spec: {instancetype: {name: u1.small}}"), "create", "-f", "-")
		Expect(err).To(HaveOccurred())
		Expect(stderr).To(ContainSubstring("spec.instancetype: Forbidden"))
	})

	It("also in an older version of the API", func() {
		s.kubectl(strings.Replace(sparse("old", "spec: {runStrategy: Always}"), "kubevirt.io/v1", "kubevirt.io/v1alpha3", 1), "create", "-f", "-")
		Expect(s.get(virtualMachine, "old")).To(And(beWhole(), haveAt("spec.runStrategy", "Always")))
	})

	It("also as an instance without a VM", func() {
		got := s.create(strings.Replace(sparse("alone"), "kind: VirtualMachine", "kind: VirtualMachineInstance", 1))
		Expect(got).To(And(
			haveAt("spec.domain.memory.guest", "2Gi"),
			haveAt("spec.priorityClassName", "vms"),
			haveAt("spec.domain.devices.interfaces[default].masquerade", map[string]any{}),
			haveAt("spec.networks[default].pod", map[string]any{}),
		))
	})

	It("keeps what its author wrote, also where that is nothing", func() {
		got := s.create(sparse("written", "spec: {template: {spec: {terminationGracePeriodSeconds: 0, domain: {cpu: {cores: 1}, devices: {autoattachMemBalloon: false}}}}}"))
		Expect(got).To(And(
			haveAt("spec.template.spec.terminationGracePeriodSeconds", int64(0)),
			haveAt("spec.template.spec.domain.cpu.cores", int64(1)),
			haveAt("spec.template.spec.domain.memory.guest", "2Gi"),
			haveAt("spec.template.spec.domain.devices.autoattachMemBalloon", false),
		))
	})
})

// beWhole matches what presets and platform make of a sparse VM.
func beWhole() OmegaMatcher {
	return And(
		haveAt("metadata.labels.house", "ours"),
		haveAt("spec.template.spec.domain.memory.guest", "2Gi"),
		haveAt("spec.template.spec.domain.cpu.cores", int64(2)),
		haveAt("spec.template.spec.priorityClassName", "vms"),
		haveAt("spec.template.spec.architecture", "amd64"),
		haveAt("spec.template.spec.domain.machine.type", "q35"),
		haveAt("spec.template.spec.domain.devices.interfaces[default].masquerade", map[string]any{}),
		haveAt("spec.template.spec.networks[default].pod", map[string]any{}),
	)
}
