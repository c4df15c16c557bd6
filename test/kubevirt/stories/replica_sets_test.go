package stories

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// replicaSet is the manifest of one with sparse VMIs, with more of their spec.
func replicaSet(spec string) string {
	return fmt.Sprintf(`
apiVersion: kubevirt.io/v1
kind: VirtualMachineInstanceReplicaSet
metadata: {name: herd}
spec:
  replicas: 2
  selector: {matchLabels: {set: herd}}
  template: {metadata: {labels: {set: herd, size: small}}, spec: {domain: {devices: {}}%s}}`, spec)
}

var _ = Describe("A replica set", func() {
	It("has sparse VMIs, and scales", func() {
		s := newStory()
		s.preset("small", small)
		s.create(replicaSet(""))
		for _, count := range []int{2, 3, 1} {
			here.Must("", "scale", "vmirs", "herd", "-n", s.ns, fmt.Sprintf("--replicas=%d", count))
			Eventually(func() ([]kubevirtv1.VirtualMachineInstance, error) {
				var list kubevirtv1.VirtualMachineInstanceList
				err := here.Objects.List(here.Context(), &list, s.in())
				return list.Items, err
			}).Should(And(HaveLen(count), HaveEach(And(
				HaveField("Status.Phase", kubevirtv1.Running),
				HaveField("Spec.Domain.Memory.Guest.String()", "64Mi"),
				HaveField("Annotations", HaveKey("virtwright.dev/provenance"))))))
			Eventually(func() (string, error) { return s.field("vmirs/herd", "{.status.readyReplicas}") }).Should(Equal(fmt.Sprint(count)))
		}
	})
})

var _ = Describe("A running VM whose preset sets how it is evicted", func() {
	var s *story
	var before *kubevirtv1.VirtualMachineInstance
	BeforeEach(func() {
		s = newStory()
		s.preset("small", small)
		s.preset("evicted", `
match: {labels: {matchLabels: {size: small}}}
overrides: {spec: {template: {spec: {evictionStrategy: LiveMigrate, nodeSelector: {kubernetes.io/os: linux}}}}}`)
		s.create(sparse("web", "runStrategy: Always"))
		s.awaitStatus("web", kubevirtv1.VirtualMachineStatusRunning)
		before = s.vmi("web")
	})
	// pod is that in which the guest runs.
	pod := func() *corev1.Pod {
		GinkgoHelper()
		var pods corev1.PodList
		Expect(here.Objects.List(here.Context(), &pods, s.in(), client.MatchingFields{"status.phase": "Running"})).To(Succeed())
		Expect(pods.Items).To(HaveLen(1))
		return &pods.Items[0]
	}
	// awaitMigrated expects the same VMI on another node, with its presets.
	awaitMigrated := func() {
		GinkgoHelper()
		Eventually(func() string { return s.vmi("web").Status.NodeName }).ShouldNot(Equal(before.Status.NodeName))
		Eventually(s.migrations).Should(HaveExactElements(string(kubevirtv1.MigrationSucceeded)))
		Eventually(func() (string, error) { return s.field("vmi/web", "{.status.evacuationNodeName}") }).Should(BeEmpty())
		after := s.vmi("web")
		Expect(after.UID).To(Equal(before.UID))
		Expect(after.Spec).To(Equal(before.Spec))
		Expect(after.Annotations["virtwright.dev/provenance"]).To(Equal(before.Annotations["virtwright.dev/provenance"]))
	}

	It("is migrated by an eviction", func() {
		evicted := pod()
		err := here.Objects.SubResource("eviction").Create(here.Context(), evicted, &policyv1.Eviction{})
		Expect(err).To(MatchError(ContainSubstring("Eviction triggered evacuation of VMI")))
		awaitMigrated()
		Eventually(pod).Should(HaveField("Spec.NodeSelector", HaveKeyWithValue("kubernetes.io/os", "linux")))
	})

	It("is migrated by an update of KubeVirt", func() {
		outdated := pod()
		here.Must("", "set", "image", "pod/"+outdated.Name, "compute=example.org/virt-launcher:old", "-n", s.ns)
		Eventually(func() map[string]string { return s.vmi("web").Labels }).Should(HaveKey(kubevirtv1.OutdatedLauncherImageLabel))
		// The controller looks at VMIs when the KubeVirt object changes, as in an update.
		here.Must("", "annotate", "kubevirt", "kubevirt", "-n", "kubevirt", "--overwrite", "story="+s.ns)
		awaitMigrated()
		Expect(s.vmi("web").Labels).NotTo(HaveKey(kubevirtv1.OutdatedLauncherImageLabel))
	})
})

var _ = Describe("A VMExport", func() {
	It("of a VM with presets waits until the VM stops", func() {
		s := newStory()
		s.preset("small", small)
		s.create("{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: web-data}, spec: {accessModes: [ReadWriteMany], volumeMode: Block, storageClassName: simulated, resources: {requests: {storage: 1Gi}}}}")
		s.preset("data", `
match: {labels: {matchLabels: {size: small}}}
defaults: {spec: {template: {spec: {domain: {devices: {disks: [{name: data, disk: {bus: virtio}}]}}, volumes: [{name: data, persistentVolumeClaim: {claimName: {$cel: "object.metadata.name + '-data'"}}}]}}}}`)
		s.create(sparse("web", "runStrategy: Always"))
		s.awaitStatus("web", kubevirtv1.VirtualMachineStatusRunning)
		s.virtctl("vmexport", "create", "web", "--vm=web")
		// The exporter's pod needs files in /etc, which virt-controller of a test lacks.
		Eventually(func() (string, error) {
			return s.field("virtualmachineexport/web", `{.status.phase} {.status.conditions[?(@.type=="Ready")].message}`)
		}).Should(And(HavePrefix("Pending "), HaveSuffix("web is running")))
	})
})
