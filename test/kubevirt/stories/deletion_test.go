package stories

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var _ = Describe("A VM that is deleted", func() {
	const disk = "runStrategy: Always, dataVolumeTemplates: [{metadata: {name: root}, spec: {source: {blank: {}}, storage: {resources: {requests: {storage: 1Gi}}}}}]"
	var s *story
	BeforeEach(func() {
		s = newStory()
		s.preset("small", small)
		s.preset("root", `
match: {labels: {matchLabels: {size: small}}}
defaults: {spec: {template: {spec: {domain: {devices: {disks: [{name: root, disk: {bus: virtio}}]}}, volumes: [{name: root, dataVolume: {name: root}}]}}}}`)
		s.create(sparse("web", disk))
		s.awaitStatus("web", kubevirtv1.VirtualMachineStatusRunning)
	})
	names := func(resource string) string {
		GinkgoHelper()
		return here.Must("", "get", resource, "-n", s.ns, "-o", "name")
	}

	DescribeTable("takes all that is its own with it", func(cascade string) {
		Expect(names("pods")).NotTo(BeEmpty())
		here.Must("", "delete", "vm", "web", "-n", s.ns, "--cascade="+cascade)
		for _, resource := range []string{"vm", "vmi", "pods", "datavolumes.cdi.kubevirt.io", "pvc"} {
			Eventually(func() string { return names(resource) }).Should(BeEmpty(), resource)
		}
	}, Entry("in the background", "background"), Entry("in the foreground", "foreground"))

	It("leaves its VMI behind if it is orphaned, and adopts it when it is created again", func() {
		before := s.vmi("web")
		here.Must("", "delete", "vm", "web", "-n", s.ns, "--cascade=orphan")
		Eventually(func() (orphan kubevirtv1.VirtualMachineInstance, err error) {
			err = here.Objects.Get(here.Context(), client.ObjectKeyFromObject(before), &orphan)
			return orphan, err
		}).Should(HaveField("OwnerReferences", BeEmpty()))
		s.create(sparse("web", disk))
		Eventually(func() *kubevirtv1.VirtualMachineInstance { return s.vmi("web") }).Should(HaveField("OwnerReferences", HaveLen(1)))
		s.awaitStatus("web", kubevirtv1.VirtualMachineStatusRunning)
		after := s.vmi("web")
		Expect(after.UID).To(Equal(before.UID))
		Expect(after.OwnerReferences).To(ConsistOf(HaveField("UID", s.vm("web").UID)))
		Expect(after.Spec).To(Equal(before.Spec))
	})
})
