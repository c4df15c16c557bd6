package e2e

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/rest"

	"github.com/virtwright/virtwright/test/standin"
)

// claims are those that VMs of the stories name; no pod is made before they exist.
const claims = `
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: myclaim}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}
- {apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: root}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}
- {apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}
`

// runtime starts a runtime that plays the node for the story's namespace.
func (s *story) runtime(delays standin.Delays) *standin.Runtime {
	GinkgoHelper()
	return s.play(standin.Options{Delays: delays, GraceSecond: 10 * time.Millisecond})
}

// lingering starts a runtime where the guest of a VM does not shut down before the returned
// function is called, however long the story takes to see that it is asked to.
func (s *story) lingering(name string) (shutDown func()) {
	GinkgoHelper()
	runtime := s.play(standin.Options{GraceSecond: time.Hour})
	runtime.Tell(s.ns, name, standin.Hang)
	shutDown = func() { runtime.Tell(s.ns, name, standin.Run) }
	DeferCleanup(shutDown)
	return shutDown
}

func (s *story) play(options standin.Options) *standin.Runtime {
	GinkgoHelper()
	ctx, cancel := context.WithCancel(here.ctx)
	DeferCleanup(cancel)
	config := rest.CopyConfig(here.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: trusted, Groups: []string{"system:masters"}}
	options.Namespace = s.ns
	s.kubectl(claims, "apply", "-f", "-")
	runtime, err := standin.Start(ctx, config, options)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { // while it can still let go of what it runs
		for _, kind := range both {
			Expect(s.of(kind).DeleteCollection(here.ctx, metav1.DeleteOptions{}, metav1.ListOptions{})).To(Succeed())
		}
		Eventually(func() int {
			left, err := s.of(instance).List(here.ctx, metav1.ListOptions{})
			Expect(err).NotTo(HaveOccurred())
			return len(left.Items)
		}).Should(BeZero())
		Expect(runtime.Stop()).To(Succeed())
	})
	return runtime
}

// always is a VM with run strategy Always.
func always(name string) string {
	return strings.Replace(tinyVM(name, ""), "Halted", "Always", 1)
}

// writes are what the manager has written to VMs in the story's namespace, and the VMIs that it has
// created and deleted.
func (s *story) writes() []string {
	GinkgoHelper()
	return slices.DeleteFunc(s.allWrites(), isOfPod)
}

// podWrites are what the manager has written because each VMI has a pod.
func (s *story) podWrites() []string {
	GinkgoHelper()
	return slices.DeleteFunc(s.allWrites(), func(what string) bool { return !isOfPod(what) })
}

func isOfPod(what string) bool {
	return strings.HasSuffix(what, " pods") || what == "patch virtualmachineinstances"
}

func (s *story) allWrites() []string {
	GinkgoHelper()
	events, err := here.plane.AuditEvents(s.audited)
	Expect(err).NotTo(HaveOccurred())
	var out []string
	for i := range events {
		e := &events[i]
		if e.Stage != auditv1.StageResponseComplete || e.User.Username != ourselves || e.ObjectRef == nil || e.ObjectRef.Namespace != s.ns ||
			(e.ObjectRef.APIGroup != "kubevirt.io" && e.ObjectRef.Resource != "pods") || e.Verb == "get" || e.Verb == "list" || e.Verb == "watch" {
			continue
		}
		what := e.Verb + " " + e.ObjectRef.Resource
		if code := e.ResponseStatus.Code; isOfPod(what) && (code == http.StatusConflict || code == http.StatusNotFound) {
			continue // of a cache that lags: nothing was written
		}
		if e.ObjectRef.Subresource != "" {
			what += "/" + e.ObjectRef.Subresource
		}
		out = append(out, what)
	}
	return out
}

// watchStatus returns the printable status of a VM after each change of its status since.
func (s *story) watchStatus(name string) func() []string {
	GinkgoHelper()
	from := s.get(virtualMachine, name)
	watcher, err := s.of(virtualMachine).Watch(here.ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name, ResourceVersion: from.GetResourceVersion()})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(watcher.Stop)
	var mu sync.Mutex
	var seen []string
	go func() {
		was := from.Object["status"]
		for event := range watcher.ResultChan() {
			if vm, ok := event.Object.(object); ok && !reflect.DeepEqual(was, vm.Object["status"]) {
				was = vm.Object["status"]
				printable, _, _ := unstructured.NestedString(vm.Object, "status", "printableStatus")
				mu.Lock()
				seen = append(seen, printable)
				mu.Unlock()
			}
		}
	}()
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(seen)
	}
}

var _ = Describe("A machine that runs", func() {
	var s *story
	BeforeEach(func() { s = newStory() })
	const (
		makes   = "create virtualmachineinstances"
		deletes = "delete virtualmachineinstances"
		tells   = "patch virtualmachines/status"
	)

	It("costs two writes to start, two to stop, and one for what can be seen", func() {
		ownManager()
		s.create(tinyVM("web", ""))
		s.machineIs("web", "Stopped")
		Eventually(s.writes).Should(Equal([]string{tells}))
		s.patch("web", `{spec: {runStrategy: Always}}`)
		s.machineIs("web", "Starting")
		Eventually(s.writes).Should(Equal([]string{tells, makes, tells}))
		Eventually(s.podWrites).Should(Equal([]string{"create pods", "patch virtualmachineinstances"}))

		statuses := s.watchStatus("web")
		// remain waits for the number of writes apart from the statuses that were watched. It first
		// gives the manager time for a write too many; the watch may be behind the audit log for a
		// while.
		remain := func(want int) {
			GinkgoHelper()
			time.Sleep(1500 * time.Millisecond)
			Eventually(func() int { return len(s.writes()) - len(statuses()) }).Should(Equal(want))
		}
		remain(3)
		shutDown := s.lingering("web")
		s.machineIs("web", "Running")
		Expect(at(s.get(virtualMachine, "web"), "status.ready")).To(BeTrue())
		remain(3)

		s.patch("web", `{spec: {runStrategy: Halted}}`)
		s.machineIs("web", "Stopping")
		shutDown()
		s.machineIs("web", "Stopped")
		s.noInstance("web")
		remain(4)
		Expect(s.writes()).To(ContainElement(deletes))
		// Created, deleted; scheduling, scheduled, running, stopping, ended, released. Steps that
		// follow at once are one write.
		Expect(len(s.podWrites())).To(BeNumerically("<=", 8), "%v", s.podWrites())
	})

	It("keeps what it runs, and says that it needs a restart", func() {
		s.runtime(standin.Delays{})
		s.create(always("web"))
		Eventually(func() kstatus.Status { return kstatusOf(s.get(virtualMachine, "web")) }).Should(Equal(kstatus.CurrentStatus))
		s.machineIs("web", "Running")
		before := s.get(instance, "web")
		s.patch("web", `{spec: {template: {spec: {hostname: other}}}}`)
		Eventually(func() any { return condition(s.get(virtualMachine, "web"), "RestartRequired")["message"] }).Should(
			Equal("changed since the VMI was created: spec.template.spec.hostname (user); the changes apply from the next start"))
		vm := s.get(virtualMachine, "web")
		Expect(vm).To(haveAt("status.observedGeneration", vm.GetGeneration()))
		Expect(kstatusOf(vm)).To(Equal(kstatus.CurrentStatus))
		Expect(before.GetAnnotations()).To(HaveKeyWithValue("kubevirt.io/vm-generation", fmt.Sprint(vm.GetGeneration()-1)))
		Expect(s.get(instance, "web").GetUID()).To(Equal(before.GetUID()))
		Expect(at(s.get(instance, "web"), "spec.hostname")).To(BeNil())
		s.patch("web", `{spec: {template: {spec: {hostname: null}}}}`)
		Eventually(func() any { return at(s.get(virtualMachine, "web"), "status.conditions") }).ShouldNot(ContainElement(HaveKeyWithValue("type", "RestartRequired")))
		s.patch("web", `{spec: {template: {spec: {hostname: other}}}}`)
		s.patch("web", `{spec: {runStrategy: Halted}}`)
		s.machineIs("web", "Stopped")
		s.patch("web", `{spec: {runStrategy: Always}}`)
		s.machineIs("web", "Running")
		Expect(s.get(instance, "web")).To(haveAt("spec.hostname", "other"))
	})

	It("is started again when its guest ends, and waits longer each time when none ever ran", func() {
		runtime := s.runtime(standin.Delays{Life: 50 * time.Millisecond})
		runtime.Tell(s.ns, "web", standin.Shutdown)
		s.create(always("web"))
		s.machineIs("web", "Running")
		first := s.get(instance, "web").GetUID()
		Eventually(func() any {
			vmi, err := s.of(instance).Get(here.ctx, "web", metav1.GetOptions{})
			if err != nil {
				return first
			}
			return vmi.GetUID()
		}).ShouldNot(Equal(first))
		s.patch("web", `{spec: {runStrategy: Halted}}`) // so that no guest runs already
		s.machineIs("web", "Stopped")
		runtime.Tell(s.ns, "web", standin.CrashEarly)
		s.patch("web", `{spec: {runStrategy: Always}}`)
		vm := s.machineIs("web", "CrashLoopBackOff")
		Expect(at(vm, "status.startFailure.consecutiveFailCount")).To(BeNumerically(">=", 1))
		Eventually(func() string { out, _ := s.kubectl("", "describe", "vm", "web"); return out }).Should(
			MatchRegexp(`(?m)^  Warning +GuestStartFailed .* The guest did not start: the VMI failed before it ran`))
		s.patch("web", `{spec: {runStrategy: Halted}}`)
		vm = s.machineIs("web", "Stopped")
		Expect(at(vm, "status.startFailure")).To(BeNil())
		Expect(at(vm, "status.conditions")).To(ContainElement(And(HaveKeyWithValue("type", "InstanceStopped"), HaveKeyWithValue("reason", "StartFailed"))))
	})

	It("is started again after a crash, and not after it was shut down, if that is what its strategy says", func() {
		runtime := s.runtime(standin.Delays{Life: 50 * time.Millisecond})
		s.create(strings.Replace(tinyVM("web", ""), "Halted", "RerunOnFailure", 1))
		s.machineIs("web", "Running")
		first := s.get(instance, "web").GetUID()
		runtime.Tell(s.ns, "web", standin.Crash)
		Eventually(func() any { return at(s.get(virtualMachine, "web"), "status.conditions") }).Should(
			ContainElement(And(HaveKeyWithValue("type", "InstanceStopped"), HaveKeyWithValue("reason", "Crashed"))))
		Eventually(func() string { out, _ := s.kubectl("", "describe", "vm", "web"); return out }).Should(
			MatchRegexp(`(?m)^  Warning +GuestCrashed .* The guest crashed: the VMI failed while it ran`))
		Eventually(func() string {
			out, _ := s.kubectl("", "get", "events.events.k8s.io", "-o", `jsonpath={range .items[?(@.reason=="GuestCrashed")]}{.series.count} {end}`)
			return out
		}).Should(MatchRegexp(`^[2-9]\d* $`), "repeated crashes are one event with a count")
		runtime.Tell(s.ns, "web", standin.Run)
		s.machineIs("web", "Running")
		Expect(s.get(instance, "web").GetUID()).NotTo(Equal(first))
		runtime.Tell(s.ns, "web", standin.Shutdown)
		s.machineIs("web", "Stopped")
		s.noInstance("web")
		Expect(at(s.get(virtualMachine, "web"), "status.conditions")).To(ContainElement(And(HaveKeyWithValue("type", "InstanceStopped"), HaveKeyWithValue("reason", "GuestShutdown"))))
	})
})
