package e2e

import (
	"fmt"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var _ = Describe("A PresetRollout over many VMs", func() {
	It("ends with every VM right, although the fleet and the preset change midway", func() {
		ownManager()
		s := newStory()
		size := s.fleet(map[string]int{"first": 40, "second": 60, "rest": 100},
			"{name: first, vms: {matchLabels: {wave: first}}}, {name: second, vms: {matchLabels: {wave: second}}}, "+
				`{name: rest, approval: Required, steps: ["50%", "100%"]}`)
		is := func(name string) string { return fmt.Sprint(at(s.get(virtualMachine, name), memory)) }
		s.edit(size, memoryOf("2Gi"))
		Eventually(s.rolloutState).Should(Equal("WaitingForApproval second 100%"))
		Expect(s.sizes()).To(Equal(map[string]int{"2Gi": 100, "1Gi": 100}))

		By("while it waits for an approval")
		s.create(inWave("new-first", "first"))
		s.create(inWave("new-rest", "rest"))
		Expect(is("new-first")).To(Equal("2Gi"))
		Expect(is("new-rest")).To(Equal("1Gi"))
		s.patch("first-010", `{spec: {template: {spec: {domain: {memory: {guest: 8Gi}}}}}}`)
		s.patch("rest-060", `{spec: {template: {spec: {hostname: mine}}}}`)
		Expect(is("rest-060")).To(Equal("1Gi"))
		s.patch("first-000", `{metadata: {labels: {wave: rest}}}`)
		s.patch("rest-050", `{metadata: {labels: {wave: first}}}`)
		s.remove("first-020", "second-020", "rest-070", "rest-071")
		Eventually(func() string { return is("rest-050") }).Should(Equal("2Gi"), "it came into a wave that was reached")
		Expect(is("first-000")).To(Equal("2Gi"), "it had the change before it left its wave")
		Eventually(s.rolloutState).Should(Equal("WaitingForApproval second 100%"))
		Eventually(s.rolloutCounts).Should(And(HaveKeyWithValue("selected", int64(100)), HaveKeyWithValue("updated", int64(100))))

		By("while the next change of the preset is paused")
		s.annotateRollout("rollout-paused", "true")
		s.edit(size, memoryOf("3Gi"))
		Eventually(s.rolloutState).Should(And(HavePrefix("Paused"), Not(ContainSubstring("100%"))))
		s.create(inWave("paused-first", "first"))
		Expect(is("paused-first")).To(Equal("1Gi"), "no wave is reached")
		s.patch("first-001", `{spec: {template: {spec: {hostname: mine}}}}`)
		Expect(is("first-001")).To(Equal("2Gi"), "it keeps the earlier change")
		s.patch("first-002", `{metadata: {annotations: {virtwright.dev/reapply: mine}}}`)
		Expect(is("first-002")).To(Equal("1Gi"), "a reapply brings the stable revision")
		s.annotateRollout("rollout-paused", "")
		Eventually(s.rolloutState).Should(Equal("WaitingForApproval second 100%"))
		Expect(s.sizes()).To(Equal(map[string]int{"8Gi": 1, "3Gi": 99, "2Gi": 1, "1Gi": 98}))
		Expect(is("first-000")).To(Equal("2Gi"), "its new wave is not reached")

		By("while VMs are created and deleted in the last wave")
		s.annotateRollout("rollout-approved", fmt.Sprint(at(s.get(presetRollout, s.ns), "status.target"), "/rest"))
		s.remove("rest-000", "rest-001", "rest-002", "rest-098", "rest-099")
		creating := startLoad(s)
		Eventually(s.rolloutState).Should(HavePrefix("Complete"))
		creating.end()
		n := 200 - 4 + 3 - 5 + int(creating.created.Load())
		Expect(s.sizes()).To(Equal(map[string]int{"8Gi": 1, "3Gi": n - 1}))
		for _, name := range []string{"rest-003", "rest-030", "rest-097"} {
			Expect(s.get(virtualMachine, name).GetGeneration()).To(BeEquivalentTo(2), name)
		}
		Expect(at(s.get(virtualMachine, "rest-060"), "spec.template.spec.hostname")).To(Equal("mine"))
		counts := s.rolloutCounts()
		Expect(counts).To(And(HaveKeyWithValue("failed", int64(0)), HaveKeyWithValue("held", int64(0))))
		Expect(counts["updated"]).To(Equal(counts["selected"]))
		Expect(counts["selected"]).To(BeNumerically(">=", 194), "those created after the last count are not in it")
	})
})

// memoryOf is the patch of a preset that gives VMs this memory.
func memoryOf(size string) string {
	return "{spec: {defaults: {spec: {template: {spec: {domain: {memory: {guest: " + size + "}}}}}}}}"
}

// inWave is the manifest of a VM that is stopped and has a label for a wave.
func inWave(name, wave string) string {
	return strings.Replace(sparse(name, "spec: {runStrategy: Halted, template: {spec: {domain: {devices: {}}}}}"),
		"name: "+name, "name: "+name+", labels: {wave: "+wave+"}", 1)
}

// fleet creates a preset with 1Gi, VMs in waves, and a PresetRollout with these waves that is
// complete. A VM has the name of its wave, with a number.
func (s *story) fleet(waves map[string]int, spec string) (size object) {
	GinkgoHelper()
	size = s.preset(aPreset("cluster/"+s.ns, `{match: {namespaces: {matchLabels: {kubernetes.io/metadata.name: `+s.ns+`}}}, `+
		`defaults: {spec: {template: {spec: {domain: {memory: {guest: 1Gi}}}}}}}`))
	var creating sync.WaitGroup
	for wave, n := range waves {
		creating.Go(func() {
			defer GinkgoRecover()
			for i := range n {
				s.create(inWave(fmt.Sprintf("%s-%03d", wave, i), wave))
			}
		})
	}
	creating.Wait()
	s.create("apiVersion: virtwright.dev/v1alpha1\nkind: PresetRollout\nmetadata: {name: " + s.ns + "}\n" +
		"spec: {presets: [cluster/" + s.ns + "], waves: [" + spec + "]}\n")
	DeferCleanup(func() error {
		return ignoreNotFound(s.of(presetRollout).Delete(here.ctx, s.ns, metav1.DeleteOptions{}))
	})
	Eventually(s.rolloutState).Should(HavePrefix("Complete"))
	return size
}

// sizes counts the story's VMs by their memory.
func (s *story) sizes() map[string]int {
	GinkgoHelper()
	list, err := s.of(virtualMachine).List(here.ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	out := map[string]int{}
	for i := range list.Items {
		out[fmt.Sprint(at(&list.Items[i], memory))]++
	}
	return out
}

// remove deletes VMs.
func (s *story) remove(names ...string) {
	GinkgoHelper()
	for _, name := range names {
		Expect(s.of(virtualMachine).Delete(here.ctx, name, metav1.DeleteOptions{})).To(Succeed())
	}
}

// rolloutCounts are the numbers of VMs in the status of the story's PresetRollout.
func (s *story) rolloutCounts() map[string]int64 {
	GinkgoHelper()
	out := map[string]int64{}
	status, _ := s.get(presetRollout, s.ns).Object["status"].(map[string]any)
	for name, value := range status {
		if n, is := value.(int64); is {
			out[name] = n
		}
	}
	return out
}
