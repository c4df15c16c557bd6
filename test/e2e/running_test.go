package e2e

import (
	"strings"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// machineIs waits until a VM has a printable status.
func (s *story) machineIs(name, status string) object {
	GinkgoHelper()
	var vm object
	Eventually(func() any {
		vm = s.get(virtualMachine, name)
		return at(vm, "status.printableStatus")
	}).Should(Equal(status))
	return vm
}

// observed waits until the status of a VM is about its generation. Until then, a status that is
// written between the read and the write of a client is a conflict.
func (s *story) observed(name string) {
	GinkgoHelper()
	Eventually(func() object { return s.get(virtualMachine, name) }).Should(
		WithTransform(func(vm object) bool { return at(vm, "status.observedGeneration") == vm.GetGeneration() }, BeTrue()))
}

// kstatusOf is what Helm and Flux take the status of an object for.
func kstatusOf(of object) kstatus.Status {
	GinkgoHelper()
	result, err := kstatus.Compute(of)
	Expect(err).NotTo(HaveOccurred())
	return result.Status
}

// noInstance waits until there is no instance of a name.
func (s *story) noInstance(name string) {
	GinkgoHelper()
	Eventually(func() bool {
		_, err := s.of(instance).Get(here.ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}).Should(BeTrue())
}

var _ = Describe("Running state", func() {
	var s *story
	BeforeEach(func() { s = newStory() })

	It("is kept: a VM has a VMI when its spec says running, and none otherwise", func() {
		s.create(tinyVM("web", ""))
		vm := s.machineIs("web", "Stopped")
		Expect(at(vm, "status.conditions")).To(BeNil(), "a VM that is stopped as its run strategy says waits for nothing")
		Expect(kstatusOf(vm)).To(Equal(kstatus.CurrentStatus))
		s.patch("web", `{spec: {runStrategy: Always}}`)
		vm = s.machineIs("web", "Starting")
		vmi := s.get(instance, "web")
		Expect(metav1.IsControlledBy(vmi, vm)).To(BeTrue())
		Expect(vmi.GetAnnotations()).To(HaveKeyWithValue("virtwright.dev/instance-of", string(vm.GetUID())))
		Expect(vmi).To(haveAt("spec.domain.machine.type", "q35"))
		first := at(vmi, "spec.domain.firmware.uuid")
		Expect(first).NotTo(BeEmpty())
		Expect(at(vm, "status.created")).To(BeTrue())

		s.patch("web", `{spec: {runStrategy: Halted}}`)
		s.machineIs("web", "Stopped")
		s.noInstance("web")
		s.patch("web", `{spec: {runStrategy: Always}}`)
		s.machineIs("web", "Starting")
		Expect(s.get(instance, "web")).To(haveAt("spec.domain.firmware.uuid", first))
		out, _ := s.kubectl("", "describe", "vm", "web")
		Expect(out).To(And(ContainSubstring("SuccessfulCreate"), ContainSubstring("SuccessfulDelete"), ContainSubstring("on request")))

		s.patch("web", `{spec: {runStrategy: Halted}}`)
		s.machineIs("web", "Stopped")
		Eventually(func() []string {
			out, _ := s.kubectl("", "get", "events", "--field-selector=reason=SuccessfulDelete", "-o", "name")
			return lines(out)
		}).Should(HaveLen(2), "each instance has its own")
		s.patch("web", `{spec: {template: {spec: {hostname: other}}}}`)
		Eventually(func() bool {
			vm := s.get(virtualMachine, "web")
			return at(vm, "status.observedGeneration") == vm.GetGeneration() && at(vm, "status.desiredGeneration") == vm.GetGeneration()
		}).Should(BeTrue())
	})

	It("does not depend on what other VMs have", func() {
		s.create(tinyVM("odd", ""))
		s.patch("odd", `{metadata: {finalizers: [example.com/stays]}}`)
		s.kubectl("", "delete", "vm", "odd", "--wait=false")
		s.patch("odd", `{spec: {template: {metadata: {labels: {a: 1}}}}}`) // KubeVirt's CRD admits it
		s.create(strings.Replace(tinyVM("web", ""), "Halted", "Always", 1))
		s.machineIs("web", "Starting")
		s.patch("odd", `{metadata: {finalizers: null}}`)
		Eventually(s.gone(virtualMachine, "odd")).Should(BeTrue())
	})

	It("is reported and requested by the controller of VMs only", func() {
		s.create(tinyVM("web", ""))
		s.machineIs("web", "Stopped")
		for _, status := range []string{
			`{"status":{"stateChangeRequests":[{"action":"Start","data":{"paused":"true"}}]}}`,
			`{"status":{"conditions":[{"type":"Ready","status":"False","lastTransitionTime":"2026-01-01t00:00:00z"}]}}`,
		} {
			_, stderr, err := s.tryKubectl("", "patch", "vm", "web", "--subresource=status", "--type=merge", "-p", status)
			Expect(err).To(HaveOccurred())
			Expect(stderr).To(ContainSubstring("only the controller of VMs writes their status"))
		}
	})

	It("warns of a VM that cannot boot, once", func() {
		const warning = "Warning: spec.template.spec.domain.devices: no bootable device: " +
			"add a volume with an image, an interface with bootOrder, or firmware.kernelBoot (bootable-device)"
		_, stderr := s.kubectl(tinyVM("web", ""), "create", "-f", "-")
		Expect(lines(stderr)).To(ContainElement(warning))
		_, stderr = s.kubectl("", "patch", "vm", "web", "--type=merge", "-p", `{"spec":{"template":{"spec":{"hostname":"other"}}}}`)
		Expect(stderr).NotTo(ContainSubstring("bootable-device"))
		_, stderr = s.kubectl(withDisk("disk"), "create", "-f", "-")
		Expect(stderr).NotTo(ContainSubstring("bootable-device"))
	})

	It("is lost with the VM, and with it its instance", func() {
		for _, cascade := range []string{"background", "foreground"} {
			s.create(strings.Replace(tinyVM("web", ""), "Halted", "Always", 1))
			s.machineIs("web", "Starting")
			s.kubectl("", "delete", "vm", "web", "--cascade="+cascade)
			s.noInstance("web")
		}
	})

	It("goes on without the VM, and with the next one of its name", func() {
		s.awaitCollector()
		s.create(strings.Replace(tinyVM("web", ""), "Halted", "Always", 1))
		s.machineIs("web", "Starting")
		before := s.get(instance, "web")
		s.kubectl("", "delete", "vm", "web", "--cascade=orphan")
		Eventually(func() []metav1.OwnerReference { return s.get(instance, "web").GetOwnerReferences() }).Should(BeEmpty())
		vm := s.create(strings.Replace(tinyVM("web", ""), "Halted", "Always", 1))
		Eventually(func() bool { return metav1.IsControlledBy(s.get(instance, "web"), vm) }).Should(BeTrue())
		Expect(s.get(instance, "web").GetUID()).To(Equal(before.GetUID()))
		s.machineIs("web", "Starting")
	})
})
