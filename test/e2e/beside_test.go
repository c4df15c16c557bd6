package e2e

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// listing makes a manager list objects before it watches them, as with API servers that cannot
// stream lists.
var listing = []string{"KUBE_FEATURE_WatchListClient=false"}

var _ = Describe("Alongside KubeVirt", Ordered, func() {
	var s *story
	BeforeAll(func() {
		ownManager()
		installRoles()
		here.manager.restartIn(listing, "--mode=addon")
	})
	BeforeEach(func() { s = newStory() })

	It("presets act, and built-in defaults do not", func() {
		s.preset(aPreset("sized", defaultMemory))
		s.preset(aPreset("cluster/house", overrideClass))
		Expect(s.create(sparse("web", "spec: {runStrategy: Halted, template: {spec: {domain: {devices: {}}}}}"))).To(And(
			haveAt(memory, "2Gi"), haveAt(class, "vms"), lackAt("spec.template.spec.domain.machine.type")))
	})

	It("naming a preset needs permission", func() {
		s.bind("editor", "edit")
		s.preset(aPreset("named", `{match: {explicit: true}, defaults: {spec: {template: {spec: {hostname: named}}}}}`))
		in := s.parse("{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: web, annotations: {virtwright.dev/presets: named}}, spec: {runStrategy: Halted, template: {spec: {" + tiny + "}}}}")
		_, err := s.as(as("editor"), virtualMachine).Create(here.ctx, in, metav1.CreateOptions{})
		Expect(err).To(MatchError(contain("may not use preset named")))
		s.bind("editor", "virtwright-preset-use")
		got, err := s.as(as("editor"), virtualMachine).Create(here.ctx, in, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(got).To(haveAt("spec.template.spec.hostname", "named"))
	})

	It("duplicate names are reported, and statuses left to KubeVirt", func() {
		spared := &story{ns: home} // where no webhook sees it coming
		spared.create(tinyVM("clash", ""))
		spared.create(tinyInstance("clash", ""))
		DeferCleanup(func() {
			for _, kind := range both {
				Expect(spared.of(kind).Delete(here.ctx, "clash", metav1.DeleteOptions{})).To(Succeed())
			}
		})
		Eventually(spared.told).Should(And(HaveKey("VirtualMachine clash"), HaveKey("VirtualMachineInstance clash")))
		Expect(spared.get(virtualMachine, "clash")).To(lackAt("status.conditions"))
	})
})
