package e2e

import (
	"fmt"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// eventually waits until a preset has these fields of its status.
func (s *story) eventually(p object, want ...OmegaMatcher) {
	GinkgoHelper()
	Eventually(func() object { return s.get(p.GetKind(), p.GetName()) }).Should(And(want...))
}

const (
	matched  = "status.matched"
	outdated = "status.outdated"
)

var _ = Describe("The status of a preset", func() {
	DescribeTable("counts the VMs that have it, and those that have an earlier version of it", func(ref string) {
		s := newStory()
		p := s.preset(aPreset(ref, `{match: {labels: {matchLabels: {size: small}}}, defaults: {spec: {template: {spec: {domain: {memory: {guest: 2Gi}}}}}}}`))
		s.eventually(p, haveAt(matched, int64(0)), haveAt(outdated, int64(0)), lackAt("status.lastAppliedTime"))
		for _, name := range []string{"a", "b", "c"} {
			s.create(vm(name, "spec: {template: {metadata: {labels: {size: small}}}}"))
		}
		s.create(vm("other"))
		s.eventually(p, haveAt(matched, int64(3)), haveAt(outdated, int64(0)), haveAt("status.lastAppliedTime", Not(BeNil())))

		By("editing what it does not give")
		p = s.edit(p, `{metadata: {annotations: {note: x}}, spec: {priority: 5}}`)
		s.eventually(p, haveAt("status.observedGeneration", p.GetGeneration()), haveAt(matched, int64(3)), haveAt(outdated, int64(0)))

		By("editing what it gives")
		p = s.edit(p, `{spec: {defaults: {spec: {template: {spec: {domain: {memory: {guest: 3Gi}}}}}}}}`)
		s.eventually(p, haveAt(matched, int64(3)), haveAt(outdated, int64(3)))
		s.patch("a", `{metadata: {annotations: {virtwright.dev/reapply: now}}}`)
		s.eventually(p, haveAt(matched, int64(3)), haveAt(outdated, int64(2)))

		By("changing VMs")
		s.patch("b", `{spec: {template: {metadata: {labels: {size: null}}}}}`)
		s.eventually(p, haveAt(matched, int64(2)), haveAt(outdated, int64(1)))
		Expect(s.of(virtualMachine).Delete(here.ctx, "c", metav1.DeleteOptions{})).To(Succeed())
		s.eventually(p, haveAt(matched, int64(1)), haveAt(outdated, int64(0)))

		By("reading its columns once a scan of all VMs has filled them")
		Eventually(func() string {
			table, _ := s.kubectl("", "get", p.GetKind(), p.GetName())
			return table
		}).Should(MatchRegexp(`NAME +PRIORITY +MODE +APPLY-AT +MATCHED +OUTDATED +DRIFTED +VIOLATING +COUNTED +READY +AGE\n\S+ +5 +Enforce +Definition +1 +0 +\d+ +\d+s +True`))
	},
		Entry("of the namespace", "small"),
		Entry("of the cluster", "cluster/small"),
	)

	DescribeTable("counts the VMs on which it would act, before it does", func(mode string) {
		s := newStory()
		s.create(vm("old"))
		s.create(vm("large", "spec: {template: {spec: {domain: {memory: {guest: 2Gi}}}}}"))
		s.create(vm("named", "spec: {template: {spec: {hostname: named, domain: {memory: {guest: 2Gi}}}}}"))
		p := s.preset(aPreset("trial", `{mode: `+mode+`, defaults: {spec: {template: {spec: {domain: {memory: {guest: 2Gi}}}}}}, forbid: [{path: spec.template.spec.hostname}]}`))
		s.eventually(p, haveAt(matched, int64(2)), haveAt("status.violating", int64(1)), haveAt("status.observedAt", Not(BeNil())))

		p = s.edit(p, `{spec: {forbid: null}}`)
		s.eventually(p, haveAt(matched, int64(1)), lackAt("status.violating"))
		p = s.edit(p, `{spec: {mode: Enforce}}`)
		s.eventually(p, haveAt(matched, int64(0)), haveAt("status.drifted", int64(1)))
		Expect(s.create(vm("new"))).To(haveAt(memory, "2Gi"))
		s.eventually(p, haveAt(matched, int64(1)))
	},
		Entry("in mode Warn", "Warn"),
		Entry("in mode Audit", "Audit"),
	)

	It("counts the stored VMs that have what it forbids", func() {
		s := newStory()
		for _, name := range []string{"a", "b"} {
			s.create(vm(name, "spec: {template: {spec: {hostname: "+name+"}}}"))
		}
		s.create(vm("nameless"))
		p := s.preset(aPreset("cluster/no-names", `{forbid: [{path: spec.template.spec.hostname}]}`))
		s.eventually(p, haveAt("status.violating", int64(2)), haveAt(matched, int64(0)))
	})

	It("counts although a VM is left of a namespace that is gone", func() {
		gone, s := newStory(), newStory()
		gone.create(vm("left"))
		gone.patch("left", `{metadata: {finalizers: [example.com/stays]}}`)
		gone.kubectlAnywhere("delete", "namespace", gone.ns, "--wait=false")
		_, _, err := here.kubectl(`{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "`+gone.ns+`"}, "spec": {"finalizers": []}}`,
			"replace", "--raw", "/api/v1/namespaces/"+gone.ns+"/finalize", "-f", "-")
		Expect(err).NotTo(HaveOccurred())
		s.create(vm("a", "spec: {template: {spec: {hostname: a}}}"))
		p := s.preset(aPreset("no-names", `{forbid: [{path: spec.template.spec.hostname}]}`))
		s.eventually(p, haveAt("status.violating", int64(1)))
	})

	It("says which presets conflict, are shadowed, or match nothing", func() {
		s := newStory()
		const memoryOf = `defaults: {spec: {template: {spec: {domain: {memory: {guest: %s}}}}}}}`
		a := s.preset(aPreset("a", fmt.Sprintf(`{`+memoryOf, "2Gi")))
		b := s.preset(aPreset("b", fmt.Sprintf(`{`+memoryOf, "4Gi")))
		weak := s.preset(aPreset("weak", fmt.Sprintf(`{priority: -5, match: {labels: {matchLabels: {tier: gold}}}, `+memoryOf, "8Gi")))
		nowhere := s.preset(aPreset("nowhere", fmt.Sprintf(`{match: {labels: {matchLabels: {tier: gold}, matchExpressions: [{key: tier, operator: DoesNotExist}]}}, `+memoryOf, "8Gi")))
		condition := func(p object, kind string) func() string {
			return func() string { return s.condition(p, kind) }
		}
		both := And(HavePrefix("True SamePriority "), ContainSubstring("preset"), ContainSubstring(memory), ContainSubstring(`"2Gi"`), ContainSubstring(`"4Gi"`))
		Eventually(condition(a, "Conflicting")).Should(And(both, ContainSubstring("b")))
		Eventually(condition(b, "Conflicting")).Should(And(both, ContainSubstring("a")))
		Eventually(condition(weak, "Shadowed")).Should(And(HavePrefix("True Overruled "), ContainSubstring("a"), ContainSubstring(memory)))
		Eventually(condition(nowhere, "Unreachable")).Should(HavePrefix("True MatchesNothing "))
		Eventually(func() []string { return s.events(b) }).Should(ContainElement(ContainSubstring("Conflicting")))

		By("fixing them")
		s.edit(b, `{spec: {priority: 7}}`)
		for _, p := range []object{a, b} {
			Eventually(condition(p, "Conflicting")).Should(BeEmpty())
		}
		s.edit(nowhere, `{spec: {match: {labels: {matchExpressions: null}}}}`)
		Eventually(condition(nowhere, "Unreachable")).Should(BeEmpty())
	})

	It("goes on when the replica that counts stops", func() {
		ownManager()
		s := newStory()
		second := newManager(here.programs+"/virtwright-manager", here.as(ourselves))
		second.env = []string{"POD_NAME=virtwright-1", "POD_UID=virtwright-1"}
		DeferCleanup(second.kill)
		second.start()
		second.awaitServing()
		p := s.preset(aPreset("house", `{defaults: {spec: {template: {spec: {domain: {memory: {guest: 2Gi}}}}}}}`))
		trial := s.preset(aPreset("trial", `{mode: Audit, overrides: {spec: {template: {spec: {priorityClassName: vms}}}}}`))
		s.create(vm("a"))
		s.eventually(p, haveAt(matched, int64(1)))

		here.manager.stop(syscall.SIGTERM)
		DeferCleanup(func() {
			here.manager.start()
			second.stop(syscall.SIGTERM)
			here.manager.awaitAnswering()
		})
		s.create(vm("b"))
		s.eventually(p, haveAt(matched, int64(2)), haveAt(outdated, int64(0)))
		s.eventually(trial, haveAt(matched, BeNumerically(">=", 1)))
		p = s.edit(p, `{spec: {defaults: {spec: {template: {spec: {domain: {memory: {guest: 3Gi}}}}}}}}`)
		s.eventually(p, haveAt(matched, int64(2)), haveAt(outdated, int64(2)))
	})
})

var _ = Describe("The author of a preset", func() {
	It("reads how many stored VMs break a new forbid", func() {
		s := newStory()
		for _, name := range []string{"a", "b", "c"} {
			s.create(vm(name, "spec: {template: {spec: {hostname: "+name+"}}}"))
		}
		p, warnings := s.createWarned(aPreset("no-names", `{forbid: [{path: spec.template.spec.hostname}]}`))
		Expect(warnings).To(BeEmpty(), "an answer depends on no stored VM")
		s.eventually(p, haveAt("status.violating", int64(3)))
		s.awaitReady(p)
		s.patch("a", `{metadata: {labels: {a: b}}}`)
		_, _, err := s.tryPatch("a", `{spec: {template: {spec: {hostname: other}}}}`)
		Expect(err).To(MatchError(contain("spec.template.spec.hostname")))
		s.eventually(s.preset(aPreset("no-nodes", `{forbid: [{path: spec.template.spec.nodeSelector}]}`)), haveAt("status.violating", int64(0)))
	})

	DescribeTable("reads how many VMs have a preset that is deleted", func(ref string) {
		s := newStory()
		p := s.preset(aPreset(ref, `{defaults: {spec: {template: {spec: {domain: {memory: {guest: 2Gi}}}}}}}`))
		s.create(vm("a"))
		s.create(vm("b"))
		s.eventually(p, haveAt(matched, int64(2)))
		_, stderr := s.kubectl("", "delete", p.GetKind(), p.GetName())
		Expect(stderr).To(ContainSubstring("preset " + ref + " is in use: 2 VMs keep its values, but new VMs do not get them"))

		p = s.preset(aPreset("unused", `{defaults: {spec: {template: {spec: {hostname: a}}}}}`))
		s.eventually(p, haveAt(matched, int64(0)))
		_, stderr = s.kubectl("", "delete", p.GetKind(), p.GetName())
		Expect(stderr).To(BeEmpty())
	},
		Entry("of the namespace", "house"),
		Entry("of the cluster", "cluster/house"),
	)

	It("can delete presets while no replica answers", func() {
		ownManager()
		s := newStory()
		p := s.preset(aPreset("house", `{defaults: {spec: {template: {spec: {domain: {memory: {guest: 2Gi}}}}}}}`))
		s.create(vm("a"))
		s.eventually(p, haveAt(matched, int64(1)))
		here.manager.stop(syscall.SIGTERM)
		DeferCleanup(func() {
			here.manager.start()
			here.manager.awaitAnswering()
		})
		Expect(s.of(preset).Delete(here.ctx, "house", metav1.DeleteOptions{})).To(Succeed())
	})
})

// condition is status, reason and message of a condition; empty where there is none.
func (s *story) condition(p object, kind string) string {
	GinkgoHelper()
	conditions, _ := at(s.get(p.GetKind(), p.GetName()), "status.conditions").([]any)
	for _, c := range conditions {
		if c := c.(map[string]any); c["type"] == kind {
			return fmt.Sprint(c["status"], " ", c["reason"], " ", c["message"])
		}
	}
	return ""
}

// events are the reasons and notes of the events about an object of the story's namespace.
func (s *story) events(about object) []string {
	GinkgoHelper()
	list, err := here.client.Resource(schema.GroupVersionResource{Group: "events.k8s.io", Version: "v1", Resource: "events"}).Namespace(s.ns).
		List(here.ctx, metav1.ListOptions{FieldSelector: "regarding.uid=" + string(about.GetUID())})
	Expect(err).NotTo(HaveOccurred())
	var out []string
	for _, e := range list.Items {
		out = append(out, fmt.Sprint(e.Object["reason"], " ", e.Object["note"]))
	}
	return out
}
