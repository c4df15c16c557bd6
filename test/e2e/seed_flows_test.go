package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/virtwright/virtwright/test/standin"
)

// documentedVersion is where the developer documentation of VirtualMachines has them.
var documentedVersion = schema.GroupVersionResource{Group: "kubevirt.io", Version: "v1alpha2", Resource: "virtualmachines"}

// documented is its example, the name of the volume corrected.
var documented = strings.Replace(theSeed, "mypcv", "mypvc", 1)

// documentedRunning is the same for a VM with running: true.
var documentedRunning = strings.Replace(documented, "running: false", "running: true", 1)

const (
	patchOn  = `{"spec":{"running": true}}`
	patchOff = `{"spec":{"running": false}}`
)

// awaitDocumentedVersion waits until that version is served, which is once the manager can convert
// it.
func (s *story) awaitDocumentedVersion() {
	GinkgoHelper()
	Eventually(func() error {
		_, err := here.client.Resource(documentedVersion).Namespace(s.ns).List(here.ctx, metav1.ListOptions{})
		return err
	}).Should(Succeed())
}

// inDocumentedVersion is the example machine as that version has it.
func (s *story) inDocumentedVersion() object {
	GinkgoHelper()
	out, err := here.client.Resource(documentedVersion).Namespace(s.ns).Get(here.ctx, "myvm", metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	return out
}

// file is one with a manifest.
func file(name, manifest string) string {
	GinkgoHelper()
	path := filepath.Join(GinkgoT().TempDir(), name)
	Expect(os.WriteFile(path, []byte(manifest), 0o600)).To(Succeed())
	return path
}

// run runs kubectl with a user's command line, and returns the output.
func (s *story) run(command string, more ...string) string {
	GinkgoHelper()
	out, _ := s.kubectl("", append(strings.Fields(command), more...)...)
	return out
}

// condition is the condition of a type, without its message; nil where there is none.
func condition(of object, kind string) map[string]any {
	list, _ := at(of, "status.conditions").([]any)
	for _, c := range list {
		if c := c.(map[string]any); c["type"] == kind {
			return c
		}
	}
	return nil
}

var _ = Describe("The developer documentation of VirtualMachines, by kubectl", func() {
	const disks = "spec.template.spec.domain.devices.disks"
	var s *story
	BeforeEach(func() {
		s = newStory()
		s.awaitDocumentedVersion()
	})

	It("defines a machine, starts it, looks at it, and stops it", func() {
		shutDown := s.lingering("myvm")
		myvm := file("myvm.yaml", documented)
		Expect(s.run("create -f", myvm)).To(Equal("virtualmachine.kubevirt.io/myvm created\n"))
		vm := s.machineIs("myvm", "Stopped")
		Expect(vm).To(And(haveAt("spec.running", false), lackAt("status.created"), lackAt("status.ready")))
		Expect(condition(vm, "Ready")).To(BeNil())
		s.noInstance("myvm")
		_, _, err := s.tryKubectl("", "create", "-f", myvm)
		Expect(err).To(MatchError(ContainSubstring("AlreadyExists")), "a name is a machine's alone")

		Expect(s.run("patch virtualmachine myvm --type=merge -p", patchOn)).To(Equal("virtualmachine.kubevirt.io/myvm patched\n"))
		vm = s.machineIs("myvm", "Running")
		Eventually(func() string { return s.run("describe virtualmachine myvm") }).Should(And(
			MatchRegexp(`(?m)^  Running: +true$`), MatchRegexp(`(?m)^  Created: +true$`), MatchRegexp(`(?m)^  Ready: +true$`),
			MatchRegexp(`(?m)^  Printable Status: +Running$`),
			MatchRegexp(`(?m)^  Normal +SuccessfulCreate .* Started the virtual machine by creating the new virtual machine instance myvm$`)))
		Expect(s.run("describe virtualmachineinstance myvm")).To(And(
			MatchRegexp(`(?m)^  Phase: +Running$`), MatchRegexp(`(?m)^ +UID: +`+string(vm.GetUID())+`$`)))

		Expect(s.run("patch virtualmachine myvm --type=merge -p", patchOff)).To(Equal("virtualmachine.kubevirt.io/myvm patched\n"))
		s.machineIs("myvm", "Stopping")
		shutDown()
		vm = s.machineIs("myvm", "Stopped")
		s.noInstance("myvm")
		Expect(vm).To(And(haveAt("spec.running", false), lackAt("status.created"), lackAt("status.ready")))
		Expect(condition(vm, "InstanceStopped")).To(And(HaveKeyWithValue("reason", "Requested"), HaveKey("lastTransitionTime")))
		Eventually(func() string { return s.run("describe virtualmachine myvm") }).Should(And(
			MatchRegexp(`(?m)^  Printable Status: +Stopped$`),
			MatchRegexp(`(?m)^  Normal +SuccessfulDelete .* Stopped the virtual machine by deleting the virtual machine instance `)))
		for _, name := range []string{"vm", "vms", "virtualmachine", "virtualmachines.v1alpha2.kubevirt.io"} {
			Expect(s.run("get " + name + " -o name")).To(Equal("virtualmachine.kubevirt.io/myvm\n"))
		}
		Expect(s.run("delete virtualmachine myvm")).To(ContainSubstring(`virtualmachine.kubevirt.io "myvm" deleted`))
		Eventually(s.gone(virtualMachine, "myvm")).Should(BeTrue())
	})

	It("makes an instance of the machine's name from its template, and links them", func() {
		s.runtime(standin.Delays{})
		s.kubectl(strings.Replace(documentedRunning, "labels:", "name: other\n      labels:", 1), "create", "-f", "-")
		vm := s.machineIs("myvm", "Running")
		vmi := s.get(instance, "myvm")
		yes := true
		Expect(vmi.GetOwnerReferences()).To(Equal([]metav1.OwnerReference{{
			APIVersion: "kubevirt.io/v1", Kind: virtualMachine, Name: "myvm", UID: vm.GetUID(), Controller: &yes, BlockOwnerDeletion: &yes,
		}}))
		Expect(vmi.GetLabels()).To(Equal(map[string]string{"my": "label"}))
		Expect(vmi).To(And(
			haveAt("spec.domain.resources.requests.memory", "8Mi"), haveAt("spec.volumes[mypvc].persistentVolumeClaim.claimName", "myclaim"),
			haveAt("spec.domain.devices.disks[mypvc].disk.bus", "sata")))
		list := s.run("get vmi -o name")
		Expect(list).To(Equal("virtualmachineinstance.kubevirt.io/myvm\n"))
		_, _, err := s.tryKubectl("", "patch", "vmi", "myvm", "--type=merge", "-p", `{"metadata":{"ownerReferences":null}}`)
		Expect(err).To(MatchError(ContainSubstring("(owner-references)")), "the link is the controller's")
	})

	It("reflects the instance in the status of its machine", func() {
		s.runtime(standin.Delays{})
		s.kubectl(documentedRunning, "create", "-f", "-")
		s.machineIs("myvm", "Running")
		seen := s.inDocumentedVersion()
		Expect(seen).To(And(
			haveAt("status.observedGeneration", seen.GetGeneration()), haveAt("status.virtualMachine", "myvm"),
			haveAt("status.created", true), haveAt("status.ready", true)))
		report := func(ready string) {
			GinkgoHelper()
			s.kubectl("", "patch", "pod", "virt-launcher-myvm", "--subresource=status", "-p",
				`{"status":{"conditions":[{"type":"Ready","status":"`+ready+`","reason":"Probe","message":"said so"}]}}`)
		}
		report("False")
		Eventually(func() map[string]any { return condition(s.get(virtualMachine, "myvm"), "Ready") }).Should(
			And(HaveKeyWithValue("status", "False"), HaveKeyWithValue("reason", "Probe"), HaveKeyWithValue("message", "said so")))
		Expect(s.inDocumentedVersion()).To(And(lackAt("status.ready"), haveAt("status.created", true), haveAt("status.virtualMachine", "myvm")))
		report("True")
		Eventually(s.inDocumentedVersion).Should(haveAt("status.ready", true))
		s.run("patch virtualmachine myvm --type=merge -p", patchOff)
		s.machineIs("myvm", "Stopped")
		Expect(s.inDocumentedVersion()).To(And(lackAt("status.ready"), lackAt("status.created"), lackAt("status.virtualMachine")))
	})

	DescribeTable("deletes a machine with its instance, whose guest shuts down first", func(cascade ...string) {
		s.runtime(standin.Delays{Shutdown: 500 * time.Millisecond})
		s.awaitCollector()
		s.kubectl(documentedRunning, "create", "-f", "-")
		s.machineIs("myvm", "Running")
		Expect(s.run("delete virtualmachine myvm", cascade...)).To(ContainSubstring(`virtualmachine.kubevirt.io "myvm" deleted`))
		Eventually(s.gone(virtualMachine, "myvm")).Should(BeTrue())
		s.noInstance("myvm")
		Consistently(func() string { return s.run("get vm,vmi -o name") }, "500ms", "100ms").Should(BeEmpty(), "and no other is created")
	},
		Entry("implicitly"),
		Entry("explicitly", "--cascade=true"),
		Entry("explicitly, in today's words", "--cascade=background"),
	)

	It("deletes the instance before the machine, in the foreground", func() {
		shutDown := s.lingering("myvm")
		s.awaitCollector()
		s.kubectl(documentedRunning, "create", "-f", "-")
		s.machineIs("myvm", "Running")
		s.run("delete virtualmachine myvm --cascade=foreground --wait=false")
		s.machineIs("myvm", "Terminating")
		Eventually(func() any { return s.get(instance, "myvm").GetDeletionTimestamp() }).ShouldNot(BeNil())
		shutDown()
		s.run("wait --for=delete virtualmachine/myvm --timeout=5m")
		Expect(s.gone(instance, "myvm")()).To(BeTrue())
	})

	It("waits with the next machine of a name until the guest of the last has ended", func() {
		shutDown := s.lingering("myvm")
		s.awaitCollector()
		s.kubectl(documentedRunning, "create", "-f", "-")
		s.machineIs("myvm", "Running")
		before := s.get(instance, "myvm")
		s.kubectl(documentedRunning, "replace", "--force", "-f", "-")
		Eventually(func() map[string]any { return condition(s.get(virtualMachine, "myvm"), "Ready") }).Should(
			HaveKeyWithValue("message", ContainSubstring("another VMI has its name, or is still being deleted")))
		Expect(s.get(instance, "myvm").GetUID()).To(Equal(before.GetUID()))
		shutDown()
		vm := s.machineIs("myvm", "Running")
		after := s.get(instance, "myvm")
		Expect(after.GetUID()).NotTo(Equal(before.GetUID()))
		Expect(metav1.IsControlledBy(after, vm)).To(BeTrue())
	})

	It("leaves an orphan running, which the next machine of its name adopts", func() {
		s.runtime(standin.Delays{})
		s.awaitCollector()
		s.kubectl(documentedRunning, "create", "-f", "-")
		s.machineIs("myvm", "Running")
		before := s.get(instance, "myvm")
		s.run("delete virtualmachine myvm --cascade=false")
		Eventually(s.gone(virtualMachine, "myvm")).Should(BeTrue())
		Eventually(func() []metav1.OwnerReference { return s.get(instance, "myvm").GetOwnerReferences() }).Should(BeEmpty())
		Consistently(func() object { return s.get(instance, "myvm") }, "500ms", "100ms").Should(
			And(haveAt("status.phase", "Running"), haveAt("metadata.deletionTimestamp", nil)))

		By("recreating it as something else, which the orphan is not yet")
		s.kubectl(strings.Replace(documentedRunning, "memory: 8Mi", "memory: 16Mi", 1), "create", "-f", "-")
		vm := s.machineIs("myvm", "Running")
		after := s.get(instance, "myvm")
		Expect(after.GetUID()).To(Equal(before.GetUID()))
		Expect(after.Object["status"]).To(Equal(before.Object["status"]))
		Expect(metav1.IsControlledBy(after, vm)).To(BeTrue())
		Expect(after.GetOwnerReferences()).To(HaveLen(1))
		Expect(condition(vm, "RestartRequired")).NotTo(BeNil())
		Eventually(func() string { return s.run("describe virtualmachine myvm") }).Should(
			MatchRegexp(`(?m)^  Normal +SuccessfulAdoption .* Adopted the virtual machine instance ` + string(before.GetUID())))

		By("stopping it, as one's own")
		s.run("patch virtualmachine myvm --type=merge -p", patchOff)
		s.machineIs("myvm", "Stopped")
		s.noInstance("myvm")
	})

	It("stops the orphan of a machine that is recreated to be off", func() {
		s.runtime(standin.Delays{})
		s.awaitCollector()
		s.kubectl(documentedRunning, "create", "-f", "-")
		s.machineIs("myvm", "Running")
		s.run("delete virtualmachine myvm --cascade=orphan")
		s.kubectl(documented, "create", "-f", "-")
		s.noInstance("myvm")
		Expect(condition(s.machineIs("myvm", "Stopped"), "InstanceStopped")).To(HaveKeyWithValue("reason", "Requested"))
	})

	DescribeTable("starts a VM with running: true again, from its present spec", func(reason string, end func(node *standin.Runtime)) {
		node := s.runtime(standin.Delays{})
		s.kubectl(documentedRunning, "create", "-f", "-")
		s.machineIs("myvm", "Running")
		before := s.get(instance, "myvm")
		s.run("patch virtualmachine myvm --type=merge -p", `{"spec":{"template":{"spec":{"domain":{"resources":{"requests":{"memory":"24Mi"}},"memory":{"guest":"24Mi"}}}}}}`)
		Eventually(func() map[string]any { return condition(s.get(virtualMachine, "myvm"), "RestartRequired") }).ShouldNot(BeNil())
		Expect(s.get(instance, "myvm").Object).To(Equal(before.Object), "a change reaches no instance that runs")
		vm := s.get(virtualMachine, "myvm")
		Expect(vm).To(And(haveAt("status.observedGeneration", vm.GetGeneration()), haveAt("status.desiredGeneration", vm.GetGeneration())))
		Expect(before.GetAnnotations()).To(HaveKeyWithValue("kubevirt.io/vm-generation", fmt.Sprint(vm.GetGeneration()-1)))

		end(node)
		var after object
		Eventually(func() types.UID {
			var err error
			if after, err = s.of(instance).Get(here.ctx, "myvm", metav1.GetOptions{}); err != nil {
				return before.GetUID()
			}
			return after.GetUID()
		}).ShouldNot(Equal(before.GetUID()))
		node.Tell(s.ns, "myvm", standin.Run)
		Expect(after).To(And(haveAt("spec.domain.resources.requests.memory", "24Mi"), haveAt("spec.domain.memory.guest", "24Mi")))
		vm = s.machineIs("myvm", "Running")
		Expect(vm).To(haveAt("status.observedGeneration", vm.GetGeneration()))
		Expect(condition(vm, "RestartRequired")).To(BeNil())
		Expect(condition(vm, "InstanceStopped")).To(And(HaveKeyWithValue("reason", reason), HaveKey("lastTransitionTime")))
		Expect(at(vm, disks)).To(HaveLen(1))
	},
		Entry("after a user deleted the VMI", "Deleted", func(*standin.Runtime) { s.run("delete virtualmachineinstance myvm") }),
		Entry("after its guest shut down", "GuestShutdown", func(node *standin.Runtime) { node.Tell(s.ns, "myvm", standin.Shutdown) }),
		Entry("after it crashed", "Crashed", func(node *standin.Runtime) { node.Tell(s.ns, "myvm", standin.Crash) }),
	)

	It("has a controller that is a service of its own", func() {
		ownManager()
		here.manager.restartWith("--roles=serving")
		s.runtime(standin.Delays{})
		s.kubectl(documentedRunning, "create", "-f", "-")
		Consistently(func() string { return s.run("get vmi -o name") }, "500ms", "100ms").Should(BeEmpty())

		controllers := newManager(here.programs+"/virtwright-manager", here.manager.kubeconfig())
		controllers.args = append(controllers.args, "--roles=controllers")
		DeferCleanup(controllers.kill)
		controllers.start()
		s.machineIs("myvm", "Running")

		By("changing machines while it is away")
		controllers.stop(syscall.SIGKILL)
		s.run("patch virtualmachine myvm --type=merge -p", patchOff)
		Consistently(func() string { return s.run("get vmi -o name") }, "500ms", "100ms").ShouldNot(BeEmpty())
		controllers.start()
		s.machineIs("myvm", "Stopped")
	})
})

// kubeconfig is whom the manager runs as.
func (m *manager) kubeconfig() string {
	GinkgoHelper()
	for _, arg := range m.args {
		if path, is := strings.CutPrefix(arg, "--kubeconfig="); is {
			return path
		}
	}
	Fail("the manager has no kubeconfig")
	return ""
}
