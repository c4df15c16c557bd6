package e2e

import (
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtwright/virtwright/test/standin"
)

// vmiOf is a VMI with more of a spec.
func vmiOf(name, spec string) string {
	return fmt.Sprintf("{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance, metadata: {name: %s}, spec: {domain: {memory: {guest: 64Mi}, devices: {}}, %s}}", name, spec)
}

// vmiIs waits for the phase and the reason of a VMI, and returns it.
func (s *story) vmiIs(name, phase, reason string) object {
	GinkgoHelper()
	var vmi object
	Eventually(func() []any {
		vmi = s.get(instance, name)
		return []any{at(vmi, "status.phase"), at(vmi, "status.reason")}
	}).Should(HaveExactElements(BeEquivalentTo(phase), WithTransform(func(r any) string { text, _ := r.(string); return text }, Equal(reason))))
	return vmi
}

// evict asks the API server to evict the pod of a VMI.
func (s *story) evict(name string, query string) error {
	pod := "virt-launcher-" + name
	_, _, err := s.tryKubectl(fmt.Sprintf(`{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": %q, "namespace": %q}}`, pod, s.ns),
		"create", "--raw", "/api/v1/namespaces/"+s.ns+"/pods/"+pod+"/eviction"+query, "-f", "-")
	return err
}

var _ = Describe("The pod of a VMI", func() {
	var s *story
	BeforeEach(func() { s = newStory() })

	It("is created once its name is free, and no pod of another is used or deleted", func() {
		const foreign = `{apiVersion: v1, kind: Pod, metadata: {name: virt-launcher-web}, spec: {containers: [{name: compute, image: none}]}}`
		Eventually(func() error { _, _, err := s.tryKubectl(foreign, "create", "-f", "-"); return err }).Should(Succeed())
		s.runtime(standin.Delays{})
		s.create(vmiOf("web", "terminationGracePeriodSeconds: 1"))
		Eventually(func() any { return condition(s.get(instance, "web"), "Synchronized")["reason"] }).Should(Equal("PodNameTaken"))
		s.kubectl("", "delete", "pod", "virt-launcher-web", "--grace-period=0", "--force")
		vmi := s.vmiIs("web", "Running", "")
		Expect(condition(vmi, "Synchronized")).To(BeNil())
		pod, _ := s.kubectl("", "get", "pod", "virt-launcher-web", "-o", `jsonpath={.metadata.uid} {.metadata.ownerReferences[*].uid}`)
		Expect(strings.Fields(pod)).To(HaveExactElements(HaveLen(36), string(vmi.GetUID())))
		Expect(at(vmi, "status.activePods")).To(HaveKeyWithValue(strings.Fields(pod)[0], "standin"))
	})

	It("goes before its VMI, also when the VMI is to leave it behind", func() {
		node := s.play(standin.Options{GraceSecond: time.Hour})
		node.Tell(s.ns, "web", standin.Hang)
		s.create(vmiOf("web", "terminationGracePeriodSeconds: 3600"))
		s.vmiIs("web", "Running", "")
		s.kubectl("", "delete", "vmi", "web", "--cascade=orphan", "--wait=false")
		Eventually(func() string {
			out, _ := s.kubectl("", "get", "pod", "virt-launcher-web", "-o", "jsonpath={.metadata.deletionTimestamp}")
			return out
		}).ShouldNot(BeEmpty())
		Consistently(func() []string { return s.get(instance, "web").GetFinalizers() }, "2s").Should(ContainElement("virtwright.dev/pod"))
		node.Tell(s.ns, "web", standin.Run)
		s.noInstance("web")
		left, _ := s.kubectl("", "get", "pods", "-o", "name")
		Expect(left).To(BeEmpty())
	})

	It("ends its VMI when a user deletes it, and the run strategy decides what follows", func() {
		s.runtime(standin.Delays{})
		s.create(strings.Replace(tinyVM("web", ""), "Halted", "RerunOnFailure", 1))
		s.machineIs("web", "Running")
		first := s.get(instance, "web").GetUID()
		s.kubectl("", "delete", "pod", "virt-launcher-web", "--wait=false")
		Eventually(func() any { return condition(s.get(virtualMachine, "web"), "InstanceStopped")["reason"] }).Should(Equal("PodLost"))
		s.machineIs("web", "Running")
		Expect(s.get(instance, "web").GetUID()).NotTo(Equal(first))
	})

	It("is not created for what runs without one", func() {
		s.runtime(standin.Delays{})
		vmi := s.parse(vmiOf("web", "terminationGracePeriodSeconds: 1"))
		vmi.Object["status"] = map[string]any{"phase": "Running", "nodeName": "elsewhere"}
		_, err := s.as(clientAs(trusted), instance).Create(here.ctx, vmi, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		s.vmiIs("web", "Failed", "NoPod")
	})

	It("costs no write while nothing happens, with a hundred of them", func() {
		ownManager()
		s.runtime(standin.Delays{})
		const count = 100
		for i := range count {
			s.create(vmiOf(fmt.Sprint("web-", i), "terminationGracePeriodSeconds: 1"))
		}
		for i := range count {
			s.vmiIs(fmt.Sprint("web-", i), "Running", "")
		}
		time.Sleep(2 * time.Second) // let pending writes finish
		before := len(s.allWrites())
		Consistently(func() int { return len(s.allWrites()) }, "20s", "5s").Should(Equal(before))
	})

	It("does not start while another budget has the name of its own", func() {
		s.runtime(standin.Delays{})
		s.kubectl(`{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: virt-launcher-taken}, spec: {minAvailable: 1, selector: {matchLabels: {a: b}}}}`, "create", "-f", "-")
		s.create(vmiOf("taken", "evictionStrategy: LiveMigrate"))
		Eventually(func() string { out, _ := s.kubectl("", "describe", "vmi", "taken"); return out }).Should(
			ContainSubstring("PodDisruptionBudget virt-launcher-taken exists and does not belong to this VMI; delete it"))
		s.kubectl("", "delete", "poddisruptionbudget", "virt-launcher-taken")
		s.vmiIs("taken", "Running", "")
	})

	It("is evicted as the eviction strategy says", func() {
		s.runtime(standin.Delays{})
		for name, strategy := range map[string]string{"none": "None", "possible": "LiveMigrateIfPossible", "migrate": "LiveMigrate", "external": "External"} {
			s.create(vmiOf(name, "evictionStrategy: "+strategy))
			s.vmiIs(name, "Running", "")
		}
		for _, name := range []string{"none", "possible"} {
			Expect(s.evict(name, "")).To(Succeed())
			Expect(condition(s.vmiIs(name, "Failed", "Evicted"), "Ready")["message"]).To(ContainSubstring("the pod was evicted"))
		}
		Expect(s.evict("migrate", "")).To(MatchError(ContainSubstring("disruption budget")))
		Expect(s.evict("external", "?dryRun=All")).To(MatchError(ContainSubstring("disruption budget")))
		Expect(at(s.get(instance, "external"), "status.evacuationNodeName")).To(BeNil())
		s.kubectl("{apiVersion: v1, kind: Node, metadata: {name: standin}}", "create", "-f", "-")
		DeferCleanup(func() { s.kubectl("", "delete", "node", "standin") })
		_, _, _ = s.tryKubectl("", "taint", "node", "standin", "node.kubernetes.io/not-ready-") // unless its controller was faster
		Eventually(func() string {
			out, _ := s.kubectl("", "get", "node", "standin", "-o", "jsonpath={.spec.taints}")
			return out
		}).Should(BeEmpty())
		Expect(s.evict("external", "")).To(MatchError(ContainSubstring("disruption budget")))
		Expect(at(s.get(instance, "external"), "status.evacuationNodeName")).To(BeNil(), "nothing must leave the node")
		s.kubectl("", "cordon", "standin")
		Expect(s.evict("external", "")).To(MatchError(ContainSubstring("disruption budget")))
		Expect(s.get(instance, "external")).To(haveAt("status.evacuationNodeName", "standin"))
		for _, name := range []string{"migrate", "external"} {
			Expect(s.get(instance, name)).To(haveAt("status.phase", "Running"))
			s.kubectl("", "delete", "vmi", name)
		}
		Eventually(func() string { out, _ := s.kubectl("", "get", "poddisruptionbudgets", "-o", "name"); return out }).Should(BeEmpty())
	})
})
