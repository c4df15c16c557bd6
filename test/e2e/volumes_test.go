package e2e

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

var dataVolumes = schema.GroupVersionResource{Group: "cdi.kubevirt.io", Version: "v1beta1", Resource: "datavolumes"}

// dataVolumeCRD is CDI's API, as far as controllers of VMs see it. What fills volumes is this
// story.
const dataVolumeCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: datavolumes.cdi.kubevirt.io, annotations: {api-approved.kubernetes.io: "unapproved, for a test"}}
spec:
  group: cdi.kubevirt.io
  names: {kind: DataVolume, plural: datavolumes, singular: datavolume, shortNames: [dv]}
  scope: Namespaced
  versions:
  - name: v1beta1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// filledClaim is a claim that a DataVolume fills.
const filledClaim = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: root, ownerReferences: [{apiVersion: cdi.kubevirt.io/v1beta1, kind: DataVolume, name: root, uid: %s, controller: true}]}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`

var _ = Describe("A VM with dataVolumeTemplates", Ordered, func() {
	var s *story
	BeforeEach(func() { s = newStory() })

	It("reports that no API serves them, and starts once one does and has filled them", func() {
		s.create(strings.Replace(withDisk("web"), "Halted", "Always", 1))
		Eventually(func() any { return at(s.get(virtualMachine, "web"), "status.conditions") }).Should(
			ContainElement(And(HaveKeyWithValue("type", "Failure"), HaveKeyWithValue("reason", "DataVolumesNotServed"), HaveKeyWithValue("message", ContainSubstring("install CDI")))))
		s.machineIs("web", "DataVolumeError")

		s.kubectl(dataVolumeCRD, "apply", "-f", "-")
		DeferCleanup(func() { s.kubectl("", "delete", "crd", "datavolumes.cdi.kubevirt.io") })
		volumes := here.client.Resource(dataVolumes).Namespace(s.ns)
		Eventually(func() error { _, err := volumes.Get(here.ctx, "root", metav1.GetOptions{}); return err }).Should(Succeed())
		vm := s.machineIs("web", "Provisioning")
		volume, err := volumes.Get(here.ctx, "root", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(metav1.IsControlledBy(volume, vm)).To(BeTrue())
		Expect(volume.GetLabels()).To(HaveKeyWithValue("kubevirt.io/created-by", string(vm.GetUID())))
		s.noInstance("web")

		fill := func(phase string) {
			GinkgoHelper()
			_, err := volumes.Patch(here.ctx, "root", types.MergePatchType, []byte(`{"status":{"phase":"`+phase+`"}}`), metav1.PatchOptions{}, "status")
			Expect(err).NotTo(HaveOccurred())
		}
		fill("Failed")
		s.machineIs("web", "DataVolumeError")
		fill("WaitForFirstConsumer")
		s.machineIs("web", "ErrorPvcNotFound") // who fills a DataVolume makes its claim
		s.kubectl(fmt.Sprintf(filledClaim, volume.GetUID()), "create", "-f", "-")
		podNames := func() (out []string) {
			list, err := here.client.Resource(pods).Namespace(s.ns).List(here.ctx, metav1.ListOptions{})
			Expect(err).NotTo(HaveOccurred())
			for i := range list.Items {
				out = append(out, list.Items[i].GetName())
			}
			return out
		}
		Eventually(podNames).Should(ConsistOf(HavePrefix("virt-launcher-web-bind-")))
		s.machineIs("web", "Provisioning")
		fill("ImportInProgress")
		Eventually(func() any { return at(s.get(instance, "web"), "status.conditions") }).Should(ContainElement(And(
			HaveKeyWithValue("reason", "DataVolumesNotReady"), HaveKeyWithValue("message", ContainSubstring(`volumes[0].dataVolume.name: Invalid value: "root": the DataVolume is not populated yet: its phase is "ImportInProgress"`)))))
		Expect(podNames()).NotTo(ContainElement("virt-launcher-web"))
		fill("Succeeded")
		s.machineIs("web", "Starting")
		Eventually(podNames).Should(ConsistOf("virt-launcher-web"))
		Expect(at(s.get(virtualMachine, "web"), "status.conditions")).NotTo(ContainElement(HaveKeyWithValue("type", "Failure")))
	})
})
