package stories

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/test/kubevirt/node"
)

// The run strategies of KubeVirt, as defaults of presets. Virtctl changes the run state afterwards,
// and presets leave it alone.
var _ = Describe("A VM whose preset sets the run strategy", func() {
	var s *story
	// web is created with a run strategy from a preset, and has the status afterwards.
	web := func(strategy kubevirtv1.VirtualMachineRunStrategy, status kubevirtv1.VirtualMachinePrintableStatus) {
		GinkgoHelper()
		s = newStory()
		s.preset("small", small)
		s.preset("strategy", "defaults: {spec: {runStrategy: "+string(strategy)+"}}")
		s.create(sparse("web", "dataVolumeTemplates: []"))
		s.awaitStatus("web", status)
	}
	// is expects a run strategy and a status.
	is := func(strategy kubevirtv1.VirtualMachineRunStrategy, status kubevirtv1.VirtualMachinePrintableStatus) {
		GinkgoHelper()
		s.awaitStatus("web", status)
		Expect(s.vm("web").Spec.RunStrategy).To(HaveValue(Equal(strategy)))
	}
	fails := func(verb, because string) {
		GinkgoHelper()
		_, err := here.Virtctl(verb, "web", "-n", s.ns)
		Expect(err).To(MatchError(ContainSubstring(because)))
	}
	restarts := func() {
		GinkgoHelper()
		before := s.vmi("web").UID
		s.virtctl("restart", "web")
		s.awaitNewVMI("web", before)
	}
	const running, stopped = kubevirtv1.VirtualMachineStatusRunning, kubevirtv1.VirtualMachineStatusStopped

	It("Always is stopped by virtctl, and stays so when its author changes it", func() {
		web(kubevirtv1.RunStrategyAlways, running)
		fails("start", "VM is already running")
		restarts()
		s.virtctl("stop", "web")
		is(kubevirtv1.RunStrategyHalted, stopped)
		Expect(s.patch(s.as("alice"), vmNamed("web"), "{spec: {template: {spec: {hostname: changed}}}}")).To(Succeed())
		is(kubevirtv1.RunStrategyHalted, stopped)
		Expect(s.patch(here.Objects, vmNamed("web"), "{metadata: {annotations: {virtwright.dev/reapply: now}}}")).To(Succeed())
		is(kubevirtv1.RunStrategyHalted, stopped)
		s.virtctl("start", "web")
		is(kubevirtv1.RunStrategyAlways, running)
	})

	It("Halted is started by virtctl", func() {
		web(kubevirtv1.RunStrategyHalted, stopped)
		fails("restart", "Halted does not support manual restart requests")
		s.virtctl("start", "web")
		is(kubevirtv1.RunStrategyAlways, running)
		s.virtctl("stop", "web")
		is(kubevirtv1.RunStrategyHalted, stopped)
	})

	It("Manual is started, restarted and stopped by virtctl", func() {
		web(kubevirtv1.RunStrategyManual, stopped)
		s.virtctl("start", "web")
		is(kubevirtv1.RunStrategyManual, running)
		restarts()
		s.virtctl("stop", "web")
		is(kubevirtv1.RunStrategyManual, stopped)
	})

	It("Once runs once", func() {
		web(kubevirtv1.RunStrategyOnce, running)
		fails("restart", "Once does not support manual restart requests")
		s.guest("web", node.Crash)
		Eventually(func() kubevirtv1.VirtualMachineInstancePhase { return s.vmi("web").Status.Phase }).Should(Equal(kubevirtv1.Failed))
		is(kubevirtv1.RunStrategyOnce, stopped)
		fails("start", "Once does not support manual start requests")
		s.virtctl("stop", "web")
		is(kubevirtv1.RunStrategyHalted, stopped)
	})

	It("RerunOnFailure starts again after a crash, not after a shutdown", func() {
		web(kubevirtv1.RunStrategyRerunOnFailure, running)
		before := s.vmi("web").UID
		s.guest("web", node.Crash)
		s.awaitNewVMI("web", before)
		s.guest("web", node.Shutdown)
		is(kubevirtv1.RunStrategyRerunOnFailure, stopped)
		s.virtctl("start", "web")
		is(kubevirtv1.RunStrategyRerunOnFailure, running)
		s.virtctl("stop", "web")
		is(kubevirtv1.RunStrategyRerunOnFailure, stopped)
	})
})
