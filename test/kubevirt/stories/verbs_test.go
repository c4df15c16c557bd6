package stories

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtwright/virtwright/test/kubevirt/node"
)

var _ = Describe("A running VM with presets", func() {
	var s *story
	BeforeEach(func() {
		s = newStory()
		s.preset("small", `{match: {labels: {matchLabels: {size: small}}}, defaults: {spec: {template: {spec: {domain: {memory: {guest: 1Gi}}}}}}}`)
		s.create(`
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: web, labels: {size: small}}
spec:
  runStrategy: Always
  dataVolumeTemplates:
  - metadata: {name: root}
    spec: {source: {blank: {}}, storage: {resources: {requests: {storage: 1Gi}}}}
  template:
    spec:
      domain: {devices: {disks: [{name: root, disk: {bus: virtio}}], interfaces: [{name: default, masquerade: {}}]}}
      networks: [{name: default, pod: {}}]
      volumes: [{name: root, dataVolume: {name: root}}]`)
		s.awaitStatus("web", kubevirtv1.VirtualMachineStatusRunning)
	})

	It("pauses, and goes on", func() {
		s.virtctl("pause", "vm", "web")
		s.awaitStatus("web", kubevirtv1.VirtualMachineStatusPaused)
		s.virtctl("unpause", "vm", "web")
		s.awaitStatus("web", kubevirtv1.VirtualMachineStatusRunning)
	})

	It("migrates twice", func() {
		for range 2 {
			before := s.vmi("web").Status.NodeName
			s.virtctl("migrate", "web")
			Eventually(func() string { return s.vmi("web").Status.NodeName }).ShouldNot(Equal(before))
			Eventually(s.migrations).Should(HaveEach(string(kubevirtv1.MigrationSucceeded)))
		}
	})

	It("takes a volume, and gives it back", func() {
		s.create(`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: extra}, spec: {accessModes: [ReadWriteMany], volumeMode: Block, resources: {requests: {storage: 1Gi}}}}`)
		s.virtctl("addvolume", "web", "--volume-name=extra", "--persist")
		Eventually(func() []kubevirtv1.VolumeStatus { return s.vmi("web").Status.VolumeStatus }).Should(ContainElement(And(
			HaveField("Name", "extra"), HaveField("Phase", kubevirtv1.VolumeReady))))
		s.virtctl("removevolume", "web", "--volume-name=extra", "--persist")
		Eventually(func() []kubevirtv1.VolumeStatus { return s.vmi("web").Status.VolumeStatus }).ShouldNot(ContainElement(HaveField("Name", "extra")))
		Expect(s.vm("web").Spec.Template.Spec.Volumes).To(HaveLen(1))
	})

	It("is saved and restored", func() {
		s.create(`{apiVersion: snapshot.kubevirt.io/v1beta1, kind: VirtualMachineSnapshot, metadata: {name: saved}, spec: {source: {apiGroup: kubevirt.io, kind: VirtualMachine, name: web}}}`)
		Eventually(func() (string, error) { return s.field("virtualmachinesnapshot/saved", "{.status.readyToUse}") }).Should(Equal("true"))
		s.virtctl("stop", "web")
		s.awaitStatus("web", kubevirtv1.VirtualMachineStatusStopped)
		saved := s.vm("web")
		changed := saved.DeepCopy()
		changed.Spec.Template.Spec.Hostname = "changed"
		Expect(here.Objects.Patch(here.Context(), changed, client.MergeFrom(saved))).To(Succeed())
		s.create(`{apiVersion: snapshot.kubevirt.io/v1beta1, kind: VirtualMachineRestore, metadata: {name: back}, spec: {target: {apiGroup: kubevirt.io, kind: VirtualMachine, name: web}, virtualMachineSnapshotName: saved}}`)
		Eventually(func() (string, error) { return s.field("virtualmachinerestore/back", "{.status.complete}") }).Should(Equal("true"))
		Expect(s.vm("web").Spec.Template.Spec.Hostname).To(BeEmpty())
		Expect(s.vm("web").Spec.Template.Spec.Domain.Memory.Guest.String()).To(Equal("1Gi"))
	})

	It("stays where it is when its migration is cancelled", func() {
		before := s.vmi("web").Status.NodeName
		s.guest("web", node.Hang)
		s.virtctl("migrate", "web")
		Eventually(s.migrations).Should(HaveEach(string(kubevirtv1.MigrationRunning)))
		s.virtctl("migrate-cancel", "web")
		// KubeVirt deletes the migration when it has ended.
		Eventually(s.migrations).Should(Or(BeEmpty(), HaveEach(string(kubevirtv1.MigrationFailed))))
		Expect(s.vmi("web").Status).To(And(HaveField("Phase", kubevirtv1.Running), HaveField("NodeName", before)))
	})

	DescribeTable("starts again when its guest", func(end string) {
		before := s.vmi("web").UID
		s.guest("web", end)
		s.awaitNewVMI("web", before)
	}, Entry("shuts down", node.Shutdown), Entry("crashes", node.Crash))
})

// guest makes the guest of a VMI behave.
func (s *story) guest(name, behaviour string) {
	GinkgoHelper()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, node.Guest, behaviour)
	Expect(here.Objects.Patch(here.Context(), s.vmi(name), client.RawPatch(client.Merge.Type(), patch))).To(Succeed())
}

// migrations are the phases of the story's migrations.
func (s *story) migrations() ([]string, error) {
	var list kubevirtv1.VirtualMachineInstanceMigrationList
	err := here.Objects.List(here.Context(), &list, client.InNamespace(s.ns))
	var out []string
	for i := range list.Items {
		out = append(out, string(list.Items[i].Status.Phase))
	}
	return out, err
}
