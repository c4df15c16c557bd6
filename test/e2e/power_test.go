package e2e

import (
	"net"
	"os"
	"os/exec"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/virtwright/virtwright/test/standin"
)

// A run of the command line.
type commandLine struct {
	cmd       *exec.Cmd
	out, errs lockedBuffer
}

// virtwright begins a run of the command line in the story's namespace.
func (s *story) virtwright(args ...string) *commandLine {
	GinkgoHelper()
	run := &commandLine{cmd: exec.CommandContext(here.ctx, here.programs+"/virtwright", append(args, "--namespace="+s.ns)...)}
	run.cmd.Env = append(os.Environ(), "KUBECONFIG="+here.kubeconfig)
	run.cmd.Stdout, run.cmd.Stderr = &run.out, &run.errs
	Expect(run.cmd.Start()).To(Succeed())
	return run
}

// ends returns the exit code and the output.
func (c *commandLine) ends() (code int, out, errs string) {
	_ = c.cmd.Wait() // the code says more
	return c.cmd.ProcessState.ExitCode(), c.out.tail(1 << 20), c.errs.tail(1 << 20)
}

// does runs what must succeed and returns what it told on the way.
func (s *story) does(args ...string) string {
	GinkgoHelper()
	code, out, errs := s.virtwright(args...).ends()
	Expect(code).To(BeZero(), errs)
	Expect(out).To(HaveSuffix("VM " + args[1] + " was scheduled to " + args[0] + "\n"))
	return errs
}

// endWith matches output by its end.
func endWith(line string) OmegaMatcher {
	return WithTransform(func(told string) string {
		all := lines(told)
		if len(all) == 0 {
			return ""
		}
		return all[len(all)-1]
	}, Equal(line))
}

// serveVerbs restarts the manager with the subresource API and its controllers, as one has them
// that is installed already, until the stories are over.
func serveVerbs() {
	GinkgoHelper()
	if here.manager == nil {
		awaitAggregated()
		return
	}
	address := freeAddress()
	_, port, err := net.SplitHostPort(address)
	Expect(err).NotTo(HaveOccurred())
	here.manager.restartWith("--subresources-bind-address="+address, "--subresources-service="+home+"/"+backend)
	aggregate(port)
	DeferCleanup(separate)
	awaitAggregated()
}

var _ = Describe("Starting and stopping VMs by the command line", Ordered, ContinueOnFailure, func() {
	var s *story
	BeforeAll(serveVerbs)
	BeforeEach(func() { s = newStory() })

	uid := func() string { return string(s.get(instance, "web").GetUID()) }

	It("starts, restarts and stops, and waits until it is so", func() {
		node := s.play(standin.Options{Delays: standin.Delays{Scheduling: 2 * time.Second}, GraceSecond: time.Hour})
		// slowly runs a command during which the guest hangs until the command has seen that.
		slowly := func(args ...string) string {
			GinkgoHelper()
			node.Tell(s.ns, "web", standin.Hang)
			run := s.virtwright(args...)
			Eventually(func() string { return run.errs.tail(1 << 20) }).Should(ContainSubstring("VM web: Stopping"))
			node.Tell(s.ns, "web", standin.Run)
			code, _, told := run.ends()
			Expect(code).To(BeZero(), told)
			return told
		}
		s.create(machineOf("web", "Halted"))
		told := s.does("start", "web", "--wait")
		Expect(told).To(And(ContainSubstring("VM web: Starting (Ready is False: GuestNotRunning"), endWith("VM web: Running")))
		Expect(s.get(virtualMachine, "web")).To(haveAt("status.ready", true))
		first := uid()

		Expect(slowly("restart", "web", "--wait")).To(And(ContainSubstring("VM web: Starting"), endWith("VM web: Running")))
		Expect(uid()).NotTo(Equal(first))

		Expect(slowly("stop", "web", "--wait")).To(endWith("VM web: Stopped"))
		Expect(s.get(virtualMachine, "web")).To(And(haveAt("spec.runStrategy", "Halted"), haveAt("status.printableStatus", "Stopped")))
		s.noInstance("web")

		Expect(s.does("start", "web")).To(BeEmpty(), "says no more unless it waits")
	})

	It("starts paused", func() {
		s.runtime(standin.Delays{})
		s.create(machineOf("web", "Halted"))
		Expect(s.does("start", "web", "--paused", "--wait")).To(endWith("VM web: Paused"))
		Expect(s.get(instance, "web")).To(haveAt("spec.startStrategy", "Paused"))
	})

	It("starts paused after the update of the VM failed", func() {
		s.runtime(standin.Delays{})
		s.create(machineOf("web", "Halted"))
		allow := s.notToday("virtualmachines", "object.spec.runStrategy != 'Always'")
		Eventually(func() error {
			_, err := s.of(virtualMachine).Patch(here.ctx, "web", types.MergePatchType, []byte(`{"spec": {"runStrategy": "Always"}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}).Should(MatchError(ContainSubstring("not today")))
		s.does("start", "web", "--paused")
		Eventually(func() any { return condition(s.get(virtualMachine, "web"), "Failure")["message"] }).Should(ContainSubstring("not today"))
		allow()
		s.machineIs("web", "Paused")
		Expect(s.get(instance, "web")).To(haveAt("spec.startStrategy", "Paused"))
	})

	It("starts VMs with run strategies Manual and RerunOnFailure", func() {
		node := s.runtime(standin.Delays{})
		s.create(machineOf("web", "Manual"))
		s.does("start", "web", "--wait")
		first := uid()
		node.Tell(s.ns, "web", standin.Shutdown)
		s.machineIs("web", "Stopped")
		node.Tell(s.ns, "web", standin.Run)
		Expect(s.does("start", "web", "--wait")).To(endWith("VM web: Running"))
		Expect(uid()).NotTo(Equal(first))
	})

	It("tells why it waits, and waits on", func() {
		node := s.runtime(standin.Delays{})
		node.Tell(s.ns, "web", standin.Unschedulable)
		s.create(machineOf("web", "Halted"))
		waiting := s.virtwright("start", "web", "--wait")
		Eventually(func() string { return waiting.errs.tail(1 << 20) }).Should(ContainSubstring("VM web: ErrorUnschedulable (PodScheduled is False: Unschedulable: "))
		node.Tell(s.ns, "web", standin.Run)
		code, _, errs := waiting.ends()
		Expect(code).To(BeZero())
		Expect(errs).To(endWith("VM web: Running"))
	})

	It("starts and stops several VMs, and counts them", func() {
		node := s.runtime(standin.Delays{})
		s.create(machineOf("a", "Halted"))
		s.create(vm("b", "spec: {runStrategy: Halted, template: {spec: {terminationGracePeriodSeconds: 360000, domain: {devices: {}}}}}"))
		s.create(machineOf("c", "Halted"))
		s.kubectl("", "label", "vm", "a", "b", "story="+s.ns)
		code, out, errs := s.virtwright("start", "-l", "story="+s.ns, "--wait").ends()
		Expect(code).To(BeZero(), errs)
		Expect(lines(out)).To(Equal([]string{"VM a was scheduled to start", "VM b was scheduled to start", "started 2 VMs"}))
		Expect(errs).To(And(ContainSubstring("VM a: Running"), ContainSubstring("VM b: Running"), Not(ContainSubstring("VM c"))))
		s.noInstance("c")

		code, out, errs = s.virtwright("start", "--all").ends()
		Expect(code).To(Equal(1))
		Expect(lines(out)).To(Equal([]string{"VM c was scheduled to start", "started 1 VM; 2 rejected"}))
		Expect(lines(errs)).To(HaveExactElements(ContainSubstring("cannot start VM "+s.ns+"/a: "), ContainSubstring("cannot start VM "+s.ns+"/b: ")))
		s.machineIs("c", "Running")

		code, out, errs = s.virtwright("reset", "a", "vm/b", "vmi/c", "--dry-run=server").ends()
		Expect(code).To(BeZero(), errs)
		Expect(out).To(HaveSuffix("VMI c was scheduled to reset (dry run)\nreset 3 VMs (dry run)\n"))

		code, out, errs = s.virtwright("restart", "-A", "-l", "story="+s.ns, "--dry-run=server").ends()
		Expect(code).To(BeZero(), errs)
		Expect(out).To(ContainSubstring("VM " + s.ns + "/b was scheduled to restart (dry run)\n"))

		node.Tell(s.ns, "b", standin.Hang)
		code, out, errs = s.virtwright("stop", "a", "vm/b", "a", "absent", "--wait", "--timeout=10s").ends()
		Expect(code).To(Equal(1), errs)
		Expect(out).To(HaveSuffix("\nstopped 1 VM; 1 rejected; 1 not finished\n"))
		Expect(errs).To(And(ContainSubstring("VM a: Stopped"), ContainSubstring("timed out after 10s waiting for VM "+s.ns+"/b to stop: Stopping")))
		s.does("stop", "b", "--force", "--grace-period=0", "--wait")
	})

	It("forces a guest that hangs", func() {
		node := s.runtime(standin.Delays{})
		node.Tell(s.ns, "web", standin.Hang)
		s.create(vm("web", "spec: {runStrategy: Manual, template: {spec: {terminationGracePeriodSeconds: 360000, domain: {devices: {}}}}}"))
		s.does("start", "web", "--wait")
		code, _, errs := s.virtwright("stop", "web", "--wait", "--timeout=10s").ends()
		Expect(code).To(Equal(3))
		Expect(errs).To(endWith("Error: timed out after 10s waiting for VM " + s.ns + "/web to stop: Stopping (Ready is False: PodTerminating: the guest is shutting down)"))
		Expect(s.does("stop", "web", "--force", "--grace-period=0", "--wait")).To(endWith("VM web: Stopped"))
	})

	It("ends waiting where the machine does not get there", func() {
		s.runtime(standin.Delays{}).Tell(s.ns, "web", standin.CrashEarly)
		s.create(machineOf("web", "Manual"))
		code, out, errs := s.virtwright("start", "web", "--wait").ends()
		Expect(code).To(Equal(3))
		Expect(out).To(Equal("VM web was scheduled to start\n"))
		Expect(errs).To(endWith("Error: cannot start VM " + s.ns + "/web: VMI failed before it ran; run strategy Manual does not restart it"))
	})

	It("reports problems of volumes, and stops VMs that wait for them", func() {
		s.create(withDisk("web"))
		code, _, errs := s.virtwright("start", "web", "--wait", "--timeout=10s").ends()
		Expect(code).To(Equal(3))
		Expect(errs).To(endWith("Error: timed out after 10s waiting for VM " + s.ns + "/web to start: DataVolumeError (Failure is True: DataVolumesNotServed: spec.dataVolumeTemplates: " +
			"the cluster does not serve DataVolumes; install CDI, or use existing volumes)"))
		Expect(s.does("stop", "web", "--wait", "--timeout=5m")).To(endWith("VM web: DataVolumeError"))

		s.create(strings.NewReplacer("Halted", "Manual", "name: root", "name: other").Replace(withDisk("hand")))
		s.does("start", "hand")
		Expect(s.does("stop", "hand", "--wait", "--timeout=5m")).To(endWith("VM hand: DataVolumeError"))
		Expect(s.requests("hand")).To(BeEmpty())
	})

	It("does not start a VM that is stopped at the same time", func() {
		s.runtime(standin.Delays{})
		s.create(machineOf("web", "Manual"))
		for range 10 {
			s.does("start", "web")
			s.does("stop", "web", "--wait", "--timeout=5m")
			Consistently(func() any { return at(s.get(virtualMachine, "web"), "status.printableStatus") }, "300ms").Should(Equal("Stopped"))
			s.noInstance("web")
		}
	})

	It("rejects grace periods that it cannot mean", func() {
		for _, args := range [][]string{{"stop", "web", "--grace-period=-5"}, {"restart", "web", "--grace-period=0"}, {"stop", "web", "--force", "--grace-period=-1"}} {
			code, out, errs := s.virtwright(args...).ends()
			Expect(code).To(Equal(2), errs)
			Expect(out).To(BeEmpty())
		}
	})

	It("says what the cluster rejects, in its words", func() {
		s.runtime(standin.Delays{})
		s.create(machineOf("web", "Always"))
		s.machineIs("web", "Running")
		for want, args := range map[string][]string{
			`Operation cannot be fulfilled on virtualmachine.kubevirt.io "web": VM is already running`: {"start", "web", "--wait"},
			`For force restart, only gracePeriod=0 is supported for now`:                               {"restart", "web", "--force", "--grace-period=1"},
			`virtualmachine.kubevirt.io "missing" not found`:                                           {"stop", "missing", "--wait"},
			`User "mallory" cannot update resource "virtualmachines/stop"`:                             {"stop", "web", "--as=mallory"},
		} {
			code, out, errs := s.virtwright(args...).ends()
			Expect(code).To(Equal(1), errs)
			Expect(out).To(BeEmpty())
			Expect(errs).To(ContainSubstring(want))
		}
		Expect(s.get(virtualMachine, "web")).To(haveAt("status.printableStatus", "Running"))
	})

	It("asks without doing it", func() {
		s.runtime(standin.Delays{})
		s.create(machineOf("web", "Always"))
		s.machineIs("web", "Running")
		before := s.get(virtualMachine, "web").GetGeneration()
		for _, verb := range []string{"restart", "stop"} {
			code, out, _ := s.virtwright(verb, "web", "--dry-run=server").ends()
			Expect(code).To(BeZero())
			Expect(out).To(Equal("VM web was scheduled to " + verb + " (dry run)\n"))
		}
		Expect(s.get(virtualMachine, "web").GetGeneration()).To(Equal(before))
		Expect(s.requests("web")).To(BeEmpty())
	})
})
