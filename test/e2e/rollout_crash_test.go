package e2e

import (
	"fmt"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var _ = Describe("A PresetRollout over many VMs", func() {
	const machines = 150

	It("continues after crashes and pauses, and updates each VM once", func() {
		ownManager()
		s := newStory()
		size := s.preset(aPreset("cluster/"+s.ns, `{match: {namespaces: {matchLabels: {kubernetes.io/metadata.name: `+s.ns+`}}}, `+
			`defaults: {spec: {template: {spec: {domain: {memory: {guest: 1Gi}}}}}}}`))
		for i := range machines {
			s.create(vm(fmt.Sprintf("web-%03d", i), "spec: {runStrategy: Halted, template: {spec: {domain: {devices: {}}}}}"))
		}
		s.create("apiVersion: virtwright.dev/v1alpha1\nkind: PresetRollout\nmetadata: {name: " + s.ns + "}\n" +
			"spec: {presets: [cluster/" + s.ns + "], waves: [{name: all, steps: [\"20%\", \"40%\", \"70%\", \"100%\"]}]}\n")
		DeferCleanup(func() error {
			return ignoreNotFound(s.of(presetRollout).Delete(here.ctx, s.ns, metav1.DeleteOptions{}))
		})
		changed := func(g Gomega) int {
			list, err := s.of(virtualMachine).List(here.ctx, metav1.ListOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			n := 0
			for i := range list.Items {
				if at(&list.Items[i], memory) == "2Gi" {
					n++
				}
			}
			return n
		}

		Eventually(s.rolloutState).Should(HavePrefix("Complete"))
		s.edit(size, `{spec: {defaults: {spec: {template: {spec: {domain: {memory: {guest: 2Gi}}}}}}}}`)
		for _, n := range []int{1, machines / 4} {
			Eventually(changed).Should(BeNumerically(">=", n))
			here.manager.stop(syscall.SIGKILL)
			here.manager.start()
			here.manager.awaitAnswering()
		}
		Eventually(s.rolloutState).Should(HaveSuffix("70%"))
		s.annotateRollout("rollout-paused", "true")
		time.Sleep(2 * time.Second)
		paused := changed(Default)
		Expect(paused).To(BeNumerically("<", machines))
		Consistently(changed, "2s").Should(Equal(paused))
		restartAPIServer()
		s.annotateRollout("rollout-paused", "")
		Eventually(s.rolloutState).Should(HavePrefix("Complete"))

		list, err := s.of(virtualMachine).List(here.ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(list.Items).To(HaveLen(machines))
		for i := range list.Items {
			updated := &list.Items[i]
			Expect(updated).To(haveAt(memory, "2Gi"))
			Expect(updated.GetGeneration()).To(BeEquivalentTo(2), "its spec was written twice")
		}
		Expect(at(s.get(presetRollout, s.ns), "status")).To(And(
			HaveKeyWithValue("updated", BeEquivalentTo(machines)), HaveKeyWithValue("selected", BeEquivalentTo(machines)), HaveKeyWithValue("failed", BeEquivalentTo(0)),
		))
	})
})
