package e2e

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// theSeed is the example of the founding document, word for word: its disk names a volume that is
// not there.
const theSeed = `apiVersion: kubevirt.io/v1alpha2
kind: VirtualMachine
metadata:
  name: myvm
spec:
  running: false
  template:
    metadata:
      labels:
        my: label
    spec:
      domain:
        resources:
          requests:
            memory: 8Mi
        devices:
          disks:
          - name: disk0
            volumeName: mypcv
      volumes:
        - name: mypvc
          persistentVolumeClaim:
            claimName: myclaim
`

var _ = Describe("A VirtualMachine of version v1alpha2", func() {
	const disks = "spec.template.spec.domain.devices.disks"
	seedVersion := schema.GroupVersionResource{Group: "kubevirt.io", Version: "v1alpha2", Resource: "virtualmachines"}
	corrected := strings.Replace(theSeed, "mypcv", "mypvc", 1)
	var s *story
	BeforeEach(func() {
		s = newStory()
		// It is served once the manager can convert it, and discovery follows.
		Eventually(func() error {
			_, err := here.client.Resource(seedVersion).Namespace(s.ns).List(here.ctx, metav1.ListOptions{})
			return err
		}).Should(Succeed())
	})

	It("that misspells a volume gets an error with the path as the user wrote it", func() {
		Eventually(func() string {
			_, stderr, err := s.tryKubectl(theSeed, "create", "-f", "-")
			Expect(err).To(HaveOccurred())
			return stderr
		}).Should(And(
			ContainSubstring(disks+`[0].volumeName: Not found: "mypcv"`), ContainSubstring(`did you mean "mypvc"?`),
			Not(ContainSubstring("disks[0].name:")), Not(ContainSubstring("disks[1]"))))
	})

	It("is the same VM in every version, and keeps both names", func() {
		s.kubectl(corrected, "create", "-f", "-")
		stored := s.machineIs("myvm", "Stopped") // so that no controller writes it in between
		Expect(stored).To(And(
			haveAt(disks+"[mypvc].disk.bus", "sata"), // the platform's default for the one disk
			haveAt("spec.template.spec.domain.memory.guest", "8Mi"),
			haveAt("spec.running", false)))
		Expect(at(stored, disks)).To(HaveLen(1))
		seed, err := here.client.Resource(seedVersion).Namespace(s.ns).Get(here.ctx, "myvm", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(seed).To(And(haveAt(disks+"[disk0].volumeName", "mypvc"), lackAt(`metadata.annotations["virtwright.dev/v1alpha2-names"]`)))

		By("being changed in either version")
		seed.SetLabels(map[string]string{"changed": "here"})
		_, err = here.client.Resource(seedVersion).Namespace(s.ns).Update(here.ctx, seed, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		now, _ := s.patch("myvm", "{spec: {template: {spec: {hostname: there}}}}")
		Expect(now).To(And(haveAt("metadata.labels.changed", "here"), haveAt(disks+"[mypvc].disk.bus", "sata")))
		seed, err = here.client.Resource(seedVersion).Namespace(s.ns).Get(here.ctx, "myvm", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(seed).To(And(haveAt(disks+"[disk0].volumeName", "mypvc"), haveAt("spec.template.spec.hostname", "there")))

		By("being applied again, which changes nothing")
		stdout, _ := s.kubectl(corrected, "apply", "--server-side", "--force-conflicts", "-f", "-")
		Expect(stdout).To(ContainSubstring("serverside-applied"))
		again := s.get(virtualMachine, "myvm")
		Expect(at(again, "spec")).To(Equal(at(now, "spec")))
	})

	It("names its instance once that is created", func() {
		s.kubectl(claims, "create", "-f", "-")
		s.kubectl(corrected, "create", "-f", "-")
		s.patch("myvm", `{spec: {running: true}}`)
		s.machineIs("myvm", "Starting")
		seed, err := here.client.Resource(seedVersion).Namespace(s.ns).Get(here.ctx, "myvm", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(seed).To(haveAt("status.virtualMachine", "myvm"))
	})

	It("is guarded as any other", func() {
		owned := strings.Replace(corrected, "name: myvm", "name: myvm\n  ownerReferences: [{apiVersion: v1, kind: Pod, name: p, uid: u}]", 1)
		_, stderr, err := s.tryKubectl(owned, "create", "-f", "-")
		Expect(err).To(HaveOccurred())
		Expect(stderr).To(ContainSubstring("virtualmachines.protection.virtwright.dev"))
	})
})
