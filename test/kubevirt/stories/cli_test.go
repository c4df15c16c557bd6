package stories

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

var _ = Describe("The command line", func() {
	var s *story
	BeforeEach(func() {
		s = newStory()
		s.preset("small", small)
	})

	// does runs a verb that virt-api accepts.
	does := func(kind, verb string, args ...string) {
		GinkgoHelper()
		out, err := s.cli(append([]string{verb, "web"}, args...)...)
		Expect(err).NotTo(HaveOccurred(), out)
		Expect(out).To(ContainSubstring(kind + " web was scheduled to " + verb))
	}
	status := func() kubevirtv1.VirtualMachinePrintableStatus { return s.vm("web").Status.PrintableStatus }

	It("starts, restarts and stops a VM, and waits for it", func() {
		s.create(sparse("web", "runStrategy: Manual"))
		does("VM", "start", "--wait")
		Expect(status()).To(Equal(kubevirtv1.VirtualMachineStatusRunning))
		before := s.vmi("web").UID
		does("VM", "restart", "--wait")
		Expect(s.vmi("web").UID).NotTo(Equal(before))
		Expect(status()).To(Equal(kubevirtv1.VirtualMachineStatusRunning))
		does("VM", "stop", "--wait", "--force", "--grace-period", "0")
		Expect(status()).To(Equal(kubevirtv1.VirtualMachineStatusStopped))

		out, err := s.cli("stop", "web")
		exit, ok := errors.AsType[*exec.ExitError](err)
		Expect(ok).To(BeTrue(), "got %v", err)
		Expect(exit.ExitCode()).To(Equal(1), "a rejection: %s", out)
		Expect(out).To(ContainSubstring("VM is not running"))
	})

	It("pauses, resets and reboots a VM, and starts it paused", func() {
		s.create(sparse("web", "runStrategy: Halted"))
		does("VM", "start", "--dry-run=server")
		Expect(s.vm("web").Spec.RunStrategy).To(HaveValue(Equal(kubevirtv1.RunStrategyHalted)))
		does("VM", "start", "--wait")
		does("VMI", "pause")
		s.awaitStatus("web", kubevirtv1.VirtualMachineStatusPaused)
		does("VMI", "unpause")
		s.awaitStatus("web", kubevirtv1.VirtualMachineStatusRunning)
		for _, verb := range []string{"reset", "softreboot"} {
			does("VMI", verb)
			log, err := os.ReadFile(filepath.Join(here.Dir(), "nodes.log"))
			Expect(err).NotTo(HaveOccurred())
			Expect(string(log)).To(MatchRegexp("vmi=%s/web verb=%s", s.ns, verb), "virt-handler got it")
		}
		does("VM", "stop", "--wait")
		does("VM", "start", "--paused", "--wait")
		Expect(status()).To(Equal(kubevirtv1.VirtualMachineStatusPaused))
	})
})
