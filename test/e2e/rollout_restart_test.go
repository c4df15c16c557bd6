package e2e

import (
	"fmt"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/test/standin"
)

var _ = Describe("A PresetRollout that restarts VMs", Ordered, func() {
	BeforeAll(func() { serveSubresources("--roles=serving,controllers") })

	It("restarts one after the other, and leaves stopped VMs stopped", func() {
		s := newStory()
		s.runtime(standin.Delays{})
		size := s.preset(aPreset("cluster/"+s.ns, `{match: {namespaces: {matchLabels: {kubernetes.io/metadata.name: `+s.ns+`}}}, `+
			`defaults: {spec: {template: {spec: {domain: {memory: {guest: 1Gi}}}}}}}`))
		const running = 4
		before := map[string]any{}
		for i := range running {
			name := fmt.Sprint("web-", i)
			s.create(machineOf(name, "Always"))
			s.machineIs(name, "Running")
			before[name] = s.get(instance, name).GetUID()
		}
		s.create(machineOf("halted", "Halted"))
		s.create("apiVersion: virtwright.dev/v1alpha1\nkind: PresetRollout\nmetadata: {name: " + s.ns + "}\nspec:\n  presets: [cluster/" + s.ns + "]\n" +
			"  waves: [{name: all}]\n  restart: Rolling\n  budgets: [{maxUnavailable: 1, per: Namespace}, {maxUnavailable: 0, schedule: '* * * * *', duration: 2m}]\n")
		DeferCleanup(func() error {
			return ignoreNotFound(s.of(presetRollout).Delete(here.ctx, s.ns, metav1.DeleteOptions{}))
		})
		Eventually(s.rolloutState).Should(HavePrefix("Complete"))
		By("also a VM that waited already for a restart, to its owner")
		s.patch("web-0", `{spec: {template: {spec: {hostname: mine}}}}`)
		Eventually(func() any { return condition(s.get(virtualMachine, "web-0"), "RestartRequired") }).ShouldNot(BeNil())
		most := s.mostUnavailable()

		s.edit(size, `{spec: {defaults: {spec: {template: {spec: {domain: {memory: {guest: 2Gi}}}}}}}}`)
		Eventually(s.rolloutState, "3m").Should(HavePrefix("Updating"))
		By("none while a budget with a schedule forbids it")
		Eventually(func() any { return condition(s.get(virtualMachine, "web-1"), "RestartRequired") }).ShouldNot(BeNil())
		Consistently(func() any { return s.get(instance, "web-1").GetUID() }, "5s").Should(Equal(before["web-1"]))
		Eventually(func() string { return s.condition(s.get(presetRollout, s.ns), "Progressing") }).Should(HaveSuffix("; a budget permits no restart now"))
		_, err := s.of(presetRollout).Patch(here.ctx, s.ns, types.MergePatchType,
			[]byte(`{"spec":{"budgets":[{"maxUnavailable":1,"per":"Namespace"},{"maxUnavailable":0,"schedule":"0 0 1 1 *","duration":"1m"}]}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(s.rolloutState, "3m").Should(HavePrefix("Complete"))
		for name, uid := range before {
			after := s.get(instance, name)
			if name == "web-0" {
				Expect(after.GetUID()).To(Equal(uid))
				Expect(at(s.get(virtualMachine, name), memory)).To(Equal("2Gi"))
				continue
			}
			Expect(after.GetUID()).NotTo(Equal(uid), name)
			Expect(at(after, "spec.domain.memory.guest")).To(Equal("2Gi"), name)
			Expect(at(s.get(virtualMachine, name), "status.ready")).To(BeTrue(), name)
			Eventually(func() []string { return s.events(s.get(virtualMachine, name)) }).Should(ContainElement(ContainSubstring("PresetRollout " + s.ns + " restarts the VM")))
		}
		Expect(most()).To(Equal(1), "VMs that were not ready at once")
		Expect(at(s.get(virtualMachine, "halted"), memory)).To(Equal("2Gi"))
		s.noInstance("halted")
		Expect(at(s.get(presetRollout, s.ns), "status")).To(And(HaveKeyWithValue("updated", BeEquivalentTo(running+1)), HaveKeyWithValue("waiting", BeEquivalentTo(1))))
	})

	It("restarts VMs that wait for the restarts of another rollout", func() {
		s := newStory()
		s.runtime(standin.Delays{})
		const preset = `{match: {namespaces: {matchLabels: {kubernetes.io/metadata.name: %s}}}, defaults: {spec: {template: {spec: {domain: {%s}}}}}}`
		changed := map[string]object{}
		for name, field := range map[string]string{s.ns: "memory: {guest: 1Gi}", s.ns + "-2": "cpu: {cores: 1}"} {
			changed[name] = s.preset(aPreset("cluster/"+name, fmt.Sprintf(preset, s.ns, field)))
		}
		s.create(machineOf("web", "Always"))
		s.machineIs("web", "Running")
		for name, budgets := range map[string]string{s.ns: "[{maxUnavailable: 0}]", s.ns + "-2": "[]"} {
			s.create("apiVersion: virtwright.dev/v1alpha1\nkind: PresetRollout\nmetadata: {name: " + name + "}\n" +
				"spec: {presets: [cluster/" + name + "], waves: [{name: all}], restart: Rolling, budgets: " + budgets + "}\n")
			DeferCleanup(func() error {
				return ignoreNotFound(s.of(presetRollout).Delete(here.ctx, name, metav1.DeleteOptions{}))
			})
			Eventually(func() string { return s.stateOfRollout(name) }).Should(HavePrefix("Complete"))
		}
		s.edit(changed[s.ns], `{spec: {defaults: {spec: {template: {spec: {domain: {memory: {guest: 2Gi}}}}}}}}`)
		Eventually(func() any { return condition(s.get(virtualMachine, "web"), "RestartRequired") }, "3m").ShouldNot(BeNil())
		s.annotateRollout("rollout-paused", "true")
		s.edit(changed[s.ns+"-2"], `{spec: {defaults: {spec: {template: {spec: {domain: {cpu: {cores: 2}}}}}}}}`)
		By("but not while that is paused")
		Eventually(func() string { return s.condition(s.get(presetRollout, s.ns+"-2"), "Progressing") }, "3m").Should(
			HaveSuffix("; VMs wait for PresetRollout " + s.ns + ", too, which is paused or has failed"))
		Expect(at(s.get(instance, "web"), "spec.domain.cpu.cores")).To(BeEquivalentTo(1))
		s.annotateRollout("rollout-paused", "")
		Eventually(func() string { return s.stateOfRollout(s.ns + "-2") }, "3m").Should(HavePrefix("Complete"))
		Expect(at(s.get(instance, "web"), "spec.domain.cpu.cores")).To(BeEquivalentTo(2))
		Expect(s.get(virtualMachine, "web").GetAnnotations()).NotTo(HaveKey(v1alpha1.AnnotationRolloutWaited))
		By("with an event for each rollout")
		_, err := s.of(presetRollout).Patch(here.ctx, s.ns, types.MergePatchType, []byte(`{"spec": {"budgets": []}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		s.edit(changed[s.ns], `{spec: {defaults: {spec: {template: {spec: {domain: {memory: {guest: 3Gi}}}}}}}}`)
		for _, name := range []string{s.ns, s.ns + "-2"} {
			Eventually(func() []string { return s.events(s.get(virtualMachine, "web")) }, "3m").Should(ContainElement(ContainSubstring("PresetRollout " + name + " restarts the VM")))
		}
	})
})

// mostUnavailable watches the story's VMs. The function that it returns tells how many of them that
// run were not ready at once, at most.
func (s *story) mostUnavailable() func() int {
	GinkgoHelper()
	events, err := s.of(virtualMachine).Watch(here.ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(events.Stop)
	var mu sync.Mutex
	down, most := map[string]bool{}, 0
	go func() {
		for event := range events.ResultChan() {
			vm, ok := event.Object.(*unstructured.Unstructured)
			if !ok || event.Type == watch.Bookmark || at(vm, "spec.runStrategy") != "Always" {
				continue
			}
			mu.Lock()
			delete(down, vm.GetName())
			if at(vm, "status.ready") != true {
				down[vm.GetName()] = true
			}
			most = max(most, len(down))
			mu.Unlock()
		}
	}()
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return most
	}
}
