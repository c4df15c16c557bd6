package e2e

import (
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("A PresetRollout over many VMs", func() {
	const machines = 150

	It("continues after crashes and pauses, and updates each VM once", func() {
		ownManager()
		s := newStory()
		size := s.fleet(map[string]int{"all": machines}, `{name: all, steps: ["20%", "40%", "70%", "100%"]}`)
		changed := func() int { return s.sizes()["2Gi"] }
		s.edit(size, memoryOf("2Gi"))
		for _, n := range []int{1, machines / 4} {
			Eventually(changed).Should(BeNumerically(">=", n))
			here.manager.stop(syscall.SIGKILL)
			here.manager.start()
			here.manager.awaitAnswering()
		}
		Eventually(s.rolloutState).Should(HaveSuffix("70%"))
		s.annotateRollout("rollout-paused", "true")
		time.Sleep(2 * time.Second)
		paused := changed()
		Expect(paused).To(BeNumerically("<", machines))
		Consistently(changed, "2s").Should(Equal(paused))
		restartAPIServer()
		s.annotateRollout("rollout-paused", "")
		Eventually(s.rolloutState).Should(HavePrefix("Complete"))
		s.allWrittenOnce(machines)
	})
})
