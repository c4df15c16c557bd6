package e2e

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

		table, _ := s.kubectl("", "get", p.GetKind(), p.GetName())
		Expect(table).To(MatchRegexp(`NAME +PRIORITY +MODE +APPLY-AT +MATCHED +OUTDATED +READY +AGE\n\S+ +5 +Enforce +Definition +1 +0 +True`))
	},
		Entry("of the namespace", "small"),
		Entry("of the cluster", "cluster/small"),
	)
})
